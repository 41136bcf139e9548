"""Count tables of one window: for each child and set, every source against both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.bits import count_two, intersect
from driftbn._kernels.evidence import Evidence, Ints
from driftbn.compiled import inlined, kernel

MASKS_MAX = 256  # of one child and set; they stay in the second cache
# A mask costs 27 ns to count against at 5000 rows, a pass over these rows 5 us.
MASK_COUNTS_MAX = 180

Counts = npt.NDArray[np.int32]


class Tables(NamedTuple):
    """Which tables to count; a cell is numbered by set, child, source, the last fastest."""

    members: npt.NDArray[np.int16]  # [tables, largest set]
    size: npt.NDArray[np.int8]  # [tables]; members of the set
    child: npt.NDArray[np.int16]  # [tables]
    source: npt.NDArray[np.int16]  # [tables]; -1 in the table of a child and its set alone
    strata: npt.NDArray[np.int32]  # [tables]; configurations of the set
    first: Ints  # [tables + 1]; where the cells of each table begin
    cards: Ints  # [variables]
    order: Ints  # [tables]; tables of one child and set stand together


class Splits(NamedTuple):
    """Rows of a window split by the child and set of the present table."""

    masks: npt.NDArray[np.uint64]  # [MASKS_MAX, words]
    total: Ints  # [MASKS_MAX]
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
    previous = np.int64(-1)
    masked = False
    passed = False
    for place in range(tables.order.shape[0]):
        t = tables.order[place]
        source = tables.source[t]
        if tables.size[t] == 0 and source >= 0 and evidence.joint.shape[0] > 0:
            _copy_joint(tables, coded, evidence, t, counts)
            continue
        if previous < 0 or not _same_split(tables, previous, t):
            masked = False
            passed = False
        previous = t
        n_masks = np.int64(tables.strata[t]) * tables.cards[tables.child[t]]
        n_counts = n_masks * (tables.cards[source] - 1 if source >= 0 else 1)
        if n_masks <= MASKS_MAX and n_counts <= MASK_COUNTS_MAX:
            if not masked:
                _split_masks(tables, coded, evidence, t, splits)
                masked = True
            _count_by_masks(tables, coded, evidence, t, splits, counts)
        else:
            if not passed:
                _split_codes(tables, coded, t, splits)
                passed = True
            _count_by_codes(tables, coded, t, splits, counts)


@inlined
def _same_split(tables: Tables, s: np.int64, t: np.int64) -> bool:
    if tables.child[s] != tables.child[t] or tables.size[s] != tables.size[t]:
        return False
    for m in range(tables.size[t]):
        if tables.members[s, m] != tables.members[t, m]:
            return False
    return True


@inlined
def _copy_joint(tables: Tables, coded: Coded, evidence: Evidence, t: int, counts: Counts) -> None:
    cell = tables.first[t]
    for j in range(tables.cards[tables.child[t]]):
        a = coded.level[tables.child[t], j]
        for i in range(tables.cards[tables.source[t]]):
            b = coded.level[tables.source[t], i]
            if a >= 0 and b >= 0:
                counts[cell] = evidence.joint[a, b]
            cell += 1


@inlined
def _split_masks(tables: Tables, coded: Coded, evidence: Evidence, t: int, splits: Splits) -> None:
    """Make a mask of rows for each configuration of the set and level of the child."""
    n_levels = tables.cards[tables.child[t]]
    for mask in range(tables.strata[t] * n_levels):
        level = coded.level[tables.child[t], mask % n_levels]
        rest = mask // n_levels
        total = np.int64(0)
        if level >= 0:
            total = evidence.totals[level]
            for w in range(evidence.bits.shape[1]):
                splits.masks[mask, w] = evidence.bits[level, w]
        for m in range(tables.size[t] - 1, -1, -1):
            member = tables.members[t, m]
            level = coded.level[member, rest % tables.cards[member]]
            rest //= tables.cards[member]
            if level < 0 or total == 0:
                total = np.int64(0)
                break
            total = intersect(splits.masks[mask], evidence.bits[level], splits.masks[mask])
        splits.total[mask] = total


@inlined
def _count_by_masks(
    tables: Tables, coded: Coded, evidence: Evidence, t: int, splits: Splits, counts: Counts
) -> None:
    """Count the levels of the source in each mask; its last level has what the others leave."""
    source = tables.source[t]
    n_masks = tables.strata[t] * tables.cards[tables.child[t]]
    cell = tables.first[t]
    for mask in range(n_masks):
        left = splits.total[mask]
        if source < 0:
            counts[cell] = left
            cell += 1
            continue
        last = tables.cards[source] - 1
        if left > 0:
            for i in range(last):
                level = coded.level[source, i]
                if level >= 0:
                    met = count_two(splits.masks[mask], evidence.bits[level])
                    counts[cell + i] = met
                    left -= met
            counts[cell + last] = left
        cell += last + 1


@inlined
def _split_codes(tables: Tables, coded: Coded, t: int, splits: Splits) -> None:
    """Write for each row the number of its configuration and of the child's level."""
    n_rows = coded.codes.shape[1]
    for r in range(n_rows):
        splits.row_code[r] = 0
    for m in range(tables.size[t] + 1):
        member = tables.members[t, m] if m < tables.size[t] else tables.child[t]
        card = tables.cards[member]
        for r in range(n_rows):
            splits.row_code[r] = splits.row_code[r] * card + coded.codes[member, r]


@inlined
def _count_by_codes(tables: Tables, coded: Coded, t: int, splits: Splits, counts: Counts) -> None:
    source = tables.source[t]
    begin = tables.first[t]
    if source < 0:
        for r in range(coded.codes.shape[1]):
            counts[begin + splits.row_code[r]] += 1
        return
    card = tables.cards[source]
    for r in range(coded.codes.shape[1]):
        counts[begin + splits.row_code[r] * card + coded.codes[source, r]] += 1
