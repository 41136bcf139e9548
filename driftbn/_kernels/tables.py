"""Count tables of one window: every table of a plan, each for a pair or a node and its set."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.bits import count_two, intersect
from driftbn._kernels.compiled import inlined, kernel
from driftbn._kernels.evidence import Evidence, Ints

# A cell by masks costs 30 ns at 5000 rows, a pass over these rows 6 us.
MASK_CELLS = 192

Counts = npt.NDArray[np.int32]


class Tables(NamedTuple):
    """Which tables to count; a cell is numbered by set, then x, then y, the last fastest."""

    members: npt.NDArray[np.int16]  # [tables, largest set]
    size: npt.NDArray[np.int8]  # [tables]; members of the set
    x: npt.NDArray[np.int16]  # [tables]
    y: npt.NDArray[np.int16]  # [tables]; -1 in the table of a node
    first: Ints  # [tables + 1]; where the cells of each table begin
    cards: Ints  # [variables]
    order: Ints  # [tables]; tables of one set stand together


class Splits(NamedTuple):
    """Rows of a window split by the set of the present table."""

    masks: npt.NDArray[np.uint64]  # [MASK_CELLS, words]
    total: Ints  # [MASK_CELLS]
    scratch: npt.NDArray[np.uint64]  # [words]
    row_code: npt.NDArray[np.int32]  # [rows]


class Coded(NamedTuple):
    """The rows of a window: codes, and the levels that they are in its bit sets."""

    codes: npt.NDArray[np.uint8]  # [variables, rows]
    level: npt.NDArray[np.int32]  # [variables, largest card]; -1 where the code does not occur


@kernel
def count_tables(
    tables: Tables, coded: Coded, evidence: Evidence, splits: Splits, counts: Counts
) -> None:
    """Fill ``counts`` with all tables of a window."""
    counts[:] = 0
    previous = -1
    masks_of = -1
    codes_of = -1
    for place in range(tables.order.shape[0]):
        t = tables.order[place]
        if tables.size[t] == 0:
            _count_unconditional(tables, coded, evidence, t, counts)
            continue
        if previous < 0 or not _same_set(tables, previous, t):
            masks_of = -1
            codes_of = -1
        previous = t
        if tables.first[t + 1] - tables.first[t] <= MASK_CELLS:
            if masks_of < 0:
                _split_masks(tables, coded, evidence, t, splits)
                masks_of = t
            _count_by_masks(tables, coded, evidence, t, splits, counts)
        else:
            if codes_of < 0:
                _split_codes(tables, coded, t, splits)
                codes_of = t
            _count_by_codes(tables, coded, t, splits, counts)


@inlined
def _same_set(tables: Tables, s: int, t: int) -> bool:
    if tables.size[s] != tables.size[t]:
        return False
    for m in range(tables.size[t]):
        if tables.members[s, m] != tables.members[t, m]:
            return False
    return True


@inlined
def n_configurations(tables: Tables, t: int) -> int:
    n = 1
    for m in range(tables.size[t]):
        n *= tables.cards[tables.members[t, m]]
    return n


@inlined
def _count_unconditional(
    tables: Tables, coded: Coded, evidence: Evidence, t: int, counts: Counts
) -> None:
    x = tables.x[t]
    y = tables.y[t]
    cell = tables.first[t]
    counted = evidence.joint.shape[0] > 0
    for i in range(tables.cards[x]):
        a = coded.level[x, i]
        if y < 0:
            counts[cell] = evidence.totals[a] if a >= 0 else 0
            cell += 1
            continue
        for j in range(tables.cards[y]):
            b = coded.level[y, j]
            if a >= 0 and b >= 0:
                counts[cell] = (
                    evidence.joint[a, b]
                    if counted
                    else count_two(evidence.bits[a], evidence.bits[b])
                )
            cell += 1


@inlined
def _split_masks(
    tables: Tables, coded: Coded, evidence: Evidence, t: int, splits: Splits
) -> None:
    n_words = evidence.bits.shape[1]
    for s in range(n_configurations(tables, t)):
        rest = s
        total = np.int64(0)
        for m in range(tables.size[t] - 1, -1, -1):
            member = tables.members[t, m]
            level = coded.level[member, rest % tables.cards[member]]
            rest //= tables.cards[member]
            if level < 0:
                total = 0
                break
            if m == tables.size[t] - 1:
                total = evidence.totals[level]
                for w in range(n_words):
                    splits.masks[s, w] = evidence.bits[level, w]
            else:
                total = intersect(splits.masks[s], evidence.bits[level], splits.masks[s])
            if total == 0:
                break
        splits.total[s] = total


@inlined
def _count_by_masks(
    tables: Tables, coded: Coded, evidence: Evidence, t: int, splits: Splits, counts: Counts
) -> None:
    x = tables.x[t]
    y = tables.y[t]
    n_y = tables.cards[y] if y >= 0 else 1
    for s in range(n_configurations(tables, t)):
        if splits.total[s] == 0:
            continue
        for i in range(tables.cards[x]):
            a = coded.level[x, i]
            if a < 0:
                continue
            cell = tables.first[t] + (s * tables.cards[x] + i) * n_y
            left = intersect(splits.masks[s], evidence.bits[a], splits.scratch)
            if y < 0:
                counts[cell] = left
                continue
            for j in range(n_y):
                b = coded.level[y, j]
                if b < 0 or left == 0:
                    continue
                met = count_two(splits.scratch, evidence.bits[b])
                counts[cell + j] = met
                left -= met


@inlined
def _split_codes(tables: Tables, coded: Coded, t: int, splits: Splits) -> None:
    n_rows = coded.codes.shape[1]
    member = tables.members[t, 0]
    for r in range(n_rows):
        splits.row_code[r] = coded.codes[member, r]
    for m in range(1, tables.size[t]):
        member = tables.members[t, m]
        card = tables.cards[member]
        for r in range(n_rows):
            splits.row_code[r] = splits.row_code[r] * card + coded.codes[member, r]


@inlined
def _count_by_codes(
    tables: Tables, coded: Coded, t: int, splits: Splits, counts: Counts
) -> None:
    x = tables.x[t]
    y = tables.y[t]
    n_x = tables.cards[x]
    begin = tables.first[t]
    if y < 0:
        for r in range(coded.codes.shape[1]):
            counts[begin + splits.row_code[r] * n_x + coded.codes[x, r]] += 1
        return
    n_y = tables.cards[y]
    for r in range(coded.codes.shape[1]):
        cell = (splits.row_code[r] * n_x + coded.codes[x, r]) * n_y + coded.codes[y, r]
        counts[begin + cell] += 1
