"""Count tables of a window: every source against each child and set, also by blocks of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import inlined, kernel
from driftbn.kernels.counting import count_two, intersect
from driftbn.kernels.evidence import Evidence, Floats, Ints

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
        if n_masks <= splits.masks.shape[0] and n_counts <= MASK_COUNTS_MAX:
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
            counts[np.uint64(begin + splits.row_code[r])] += 1
        return
    card = tables.cards[source]
    for r in range(coded.codes.shape[1]):
        counts[np.uint64(begin + splits.row_code[r] * card + coded.codes[source, r])] += 1


# Sums over blocks of neighbouring rows of how many have each state.

# What ``sum_states`` sums up of a cell with k rows of the block, whose configuration has n.
K, BLOCKS, KK, KN = 0, 1, 2, 3
N_SUMS = 4


class Cells(NamedTuple):
    """How the cells of rows are numbered; those of one configuration stand together."""

    number: Counts  # of each cell as it was; -1 where it is left out
    configuration: Counts  # of each number


class StateRoom(NamedTuple):
    """Room to work in; counts are 0 before and after."""

    cell: Counts  # rows of the block, [cells]
    configuration: Counts  # [configurations]
    met: Counts  # cells that the block has, [cells]


def make_state_room(cells: Cells) -> StateRoom:
    """Return room for these cells."""
    n_cells, last = len(cells.configuration), int(cells.configuration.max(initial=-1))
    return StateRoom(*(np.zeros(size, np.int32) for size in (n_cells, last + 1, n_cells)))


@kernel
def write_cells(
    codes: npt.NDArray[np.uint8], members: Ints, cards: Ints, begin: int, out: Counts
) -> None:
    """Write for each row the number of its configuration, from ``begin`` on."""
    n_rows = codes.shape[1]
    for row in range(n_rows):
        out[begin + row] = 0
    for m in range(members.shape[0]):
        card = np.int32(cards[members[m]])
        for row in range(n_rows):
            out[begin + row] = out[begin + row] * card + np.int32(codes[members[m], row])


@kernel
def sum_states(
    rows: Counts, begins: Ints, length: int, cells: Cells, room: StateRoom, out: Ints
) -> None:
    """Add the sums of all blocks of ``length`` rows to ``out``, ``[cells, N_SUMS]``.

    Windows begin at ``begins``, the last of which is the end.
    """
    for window in range(begins.shape[0] - 1):
        for begin in range(begins[window], begins[window + 1], length):
            n_met = 0
            for row in range(begin, min(begin + length, begins[window + 1])):
                cell = cells.number[np.uint32(rows[row])]
                if cell >= 0:
                    place = np.uint32(cell)
                    if room.cell[place] == 0:
                        room.met[n_met] = cell
                        n_met += 1
                    room.cell[place] += 1
            for m in range(n_met):
                cell = room.met[m]
                room.configuration[cells.configuration[cell]] += room.cell[cell]
            for m in range(n_met):
                cell = room.met[m]
                k = np.int64(room.cell[cell])
                out[cell, K] += k
                out[cell, BLOCKS] += 1
                out[cell, KK] += k * k
                out[cell, KN] += k * room.configuration[cells.configuration[cell]]
                room.cell[cell] = 0
            for m in range(n_met):
                room.configuration[cells.configuration[room.met[m]]] = 0


@kernel
def count_states(
    rows: Counts, begins: Ints, length: int, cells: Cells, out: npt.NDArray[np.float64]
) -> None:
    """Count the cells of each block of ``length`` rows in ``out``, ``[blocks, cells]``."""
    block = 0
    for window in range(begins.shape[0] - 1):
        for begin in range(begins[window], begins[window + 1], length):
            for row in range(begin, min(begin + length, begins[window + 1])):
                cell = cells.number[rows[row]]
                if cell >= 0:
                    out[block, cell] += 1.0
            block += 1


# What blocks of neighbouring rows add to a test.


class PairShares(NamedTuple):
    """How two fields are spread in each stratum, and what a row weighs there."""

    first: Floats  # share of each level of the first field, [strata, x]
    second: Floats  # the same of the second one, [strata, y]
    constant: Floats  # what each row of the stratum adds, [strata, x, y]
    weight: Floats  # [strata, x, y]


class BlockRoom(NamedTuple):
    """Room to work in; counts are 0 before and after."""

    count: Counts  # rows of the block, [strata, x * y]
    n_rows: Counts  # the same of each stratum, [strata]
    met: Counts  # strata that the block has, [strata]
    margins: Floats  # [2, x or y, whichever is more]
    scores: Floats  # of one stratum, [x * y]


def make_room(n_strata: int, n_x: int, n_y: int) -> BlockRoom:
    """Return room for tables of this shape."""
    return BlockRoom(
        np.zeros((n_strata, n_x * n_y), np.int32),
        np.zeros(n_strata, np.int32),
        np.zeros(n_strata, np.int32),
        np.zeros((2, max(n_x, n_y))),
        np.zeros(n_x * n_y),
    )


@kernel
def pair_scores(
    cells: Counts, begins: Ints, length: int, shares: PairShares, room: BlockRoom, out: Floats
) -> None:
    """Write the scores of blocks of ``length`` rows to ``out``, ``[blocks, cells]``, full of 0.

    ``cells`` holds stratum, x and y of each row as one number; windows begin at ``begins``, the
    last of which is the end.
    """
    size = room.scores.shape[0]
    block = 0
    for window in range(begins.shape[0] - 1):
        for begin in range(begins[window], begins[window + 1], length):
            n_met = _count_block(cells, begin, min(begin + length, begins[window + 1]), room)
            for m in range(n_met):
                _score_stratum(room.met[m], shares, room)
                for k in range(size):
                    out[block, room.met[m] * size + k] = room.scores[k]
            block += 1


@inlined
def _count_block(cells: Counts, begin: int, end: int, room: BlockRoom) -> int:
    """Count the rows of a block; return how many strata it has."""
    size = room.count.shape[1]
    n_met = 0
    for row in range(begin, end):
        stratum = cells[row] // size
        if room.n_rows[stratum] == 0:
            room.met[n_met] = stratum
            n_met += 1
        room.n_rows[stratum] += 1
        room.count[stratum, cells[row] - stratum * size] += 1
    return n_met


@inlined
def _score_stratum(stratum: int, shares: PairShares, room: BlockRoom) -> None:
    """Work out the scores of one stratum of a block, and clear its counts."""
    n_x, n_y = shares.first.shape[1], shares.second.shape[1]
    margins = room.margins
    margins[:] = 0.0
    for i in range(n_x):
        for j in range(n_y):
            here = room.count[stratum, i * n_y + j]
            margins[0, i] += here
            margins[1, j] += here
    for i in range(n_x):
        for j in range(n_y):
            score = room.count[stratum, i * n_y + j]
            score += room.n_rows[stratum] * shares.constant[stratum, i, j]
            score -= shares.first[stratum, i] * margins[1, j]
            score -= shares.second[stratum, j] * margins[0, i]
            room.scores[i * n_y + j] = score * shares.weight[stratum, i, j]
            room.count[stratum, i * n_y + j] = 0
    room.n_rows[stratum] = 0
