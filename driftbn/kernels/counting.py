"""Counting rows: bit sets in machine words, tables of counts, strata and partitions of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import config, types
from numba.extending import intrinsic

from driftbn.kernels.compiled import inlined, kernel, open_kernel
from driftbn.kernels.evidence import (
    CODES_PER_SET,
    MASKS_PER_SET,
    N_ENTRIES,
    Evidence,
    Floats,
    Ints,
    Workspace,
)

Words = npt.NDArray[np.uint64]


def _make_popcount() -> Any:
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda word: np.uint64(int(word).bit_count())

    @intrinsic
    def popcount(_context: Any, _word: Any) -> Any:
        def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), build

    return popcount


_popcount = _make_popcount()


@inlined
def count_two(a: Words, b: Words) -> np.int64:
    """Count the rows that are in both bit sets."""
    total = np.uint64(0)
    for w in range(a.shape[0]):
        total += _popcount(a[w] & b[w])
    return np.int64(total)


@inlined
def count_three(a: Words, b: Words, c: Words) -> np.int64:
    """Count the rows that are in all three bit sets."""
    total = np.uint64(0)
    for w in range(a.shape[0]):
        total += _popcount(a[w] & b[w] & c[w])
    return np.int64(total)


@inlined
def intersect(a: Words, b: Words, out: Words) -> np.int64:
    """Write the common rows of two bit sets to ``out`` and return how many they are."""
    total = np.uint64(0)
    for w in range(a.shape[0]):
        both = a[w] & b[w]
        out[w] = both
        total += _popcount(both)
    return np.int64(total)


# Tables of counts: all pairs of levels at once, and what margins leave of a table.

BLOCK_WORDS = 256  # of all level sets at once: 400 such blocks stay in a second-level cache


@kernel
def count_pairs(evidence: Evidence) -> None:
    """Fill ``evidence.joint`` with the counts of every two levels of different variables."""
    first, bits, joint = evidence.first, evidence.bits, evidence.joint
    n_variables = first.shape[0] - 1
    n_words = bits.shape[1]
    for begin in range(0, n_words, BLOCK_WORDS):
        end = min(begin + BLOCK_WORDS, n_words)
        for x in range(n_variables):
            for y in range(x + 1, n_variables):
                for a in range(first[x], first[x + 1] - 1):
                    for b in range(first[y], first[y + 1] - 1):
                        joint[a, b] += count_two(bits[a, begin:end], bits[b, begin:end])
    for x in range(n_variables):
        for y in range(x + 1, n_variables):
            _complete_pair(evidence, x, y)


@inlined
def _complete_pair(evidence: Evidence, x: int, y: int) -> None:
    """Derive the last row and column of a pair's table from the totals, and mirror it."""
    first, totals, joint = evidence.first, evidence.totals, evidence.joint
    last_x = first[x + 1] - 1
    last_y = first[y + 1] - 1
    for a in range(first[x], last_x):
        rest = totals[a]
        for b in range(first[y], last_y):
            rest -= joint[a, b]
        joint[a, last_y] = rest
    for b in range(first[y], last_y + 1):
        rest = totals[b]
        for a in range(first[x], last_x):
            rest -= joint[a, b]
            joint[b, a] = joint[a, b]
        joint[last_x, b] = rest
        joint[b, last_x] = rest


@inlined
def count_by_rows(
    x: npt.NDArray[np.uint8], y: npt.NDArray[np.uint8], n_x: int, n_y: int, cells: Ints
) -> None:
    """Count the table of two columns row by row."""
    cells[: n_x * n_y] = 0
    for r in range(x.shape[0]):
        cells[np.int64(x[r]) * n_y + y[r]] += 1


@inlined
def n_levels_met(counts: npt.NDArray[np.int32], begin: int, end: int) -> int:
    """Count the levels that occur."""
    met = 0
    for level in range(begin, end):
        met += counts[level] > 0
    return met


@inlined
def complete_stratum(
    cells: Ints, margin_x: npt.NDArray[np.int32], margin_y: npt.NDArray[np.int32]
) -> None:
    """Derive the last row and column of one stratum from its margins."""
    n_x = margin_x.shape[0]
    n_y = margin_y.shape[0]
    for i in range(n_x - 1):
        rest = np.int64(margin_x[i])
        for j in range(n_y - 1):
            rest -= cells[i * n_y + j]
        cells[i * n_y + n_y - 1] = rest
    for j in range(n_y):
        rest = np.int64(margin_y[j])
        for i in range(n_x - 1):
            rest -= cells[i * n_y + j]
        cells[(n_x - 1) * n_y + j] = rest


# Splitting the rows by a conditioning set, remembered per target.

# Places in entry_place: number of members; whether rows are sorted; first mask, room for masks,
# masks made, next stratum to make; slot of codes or sorted rows; whether the codes are written.
MEMBERS, SORTED, BEGIN, ROOM, COUNT, NEXT, N_STRATA, SLOT, NUMBERED = range(9)
# Places in the workspace's cursor.
TARGET, ENTRIES, MASKS, CODE_SLOTS, ROW_SLOTS = range(5)


@inlined
def find_split(evidence: Evidence, work: Workspace, target: int, members: Ints) -> int:
    """Return the entry of the rows split by ``members``; begin it if it is not there."""
    if work.cursor[TARGET] != target:
        _forget(work, target)
    slot = _hash_slot(work, members)
    if work.entry_hash[slot] >= 0:
        return work.entry_hash[slot]
    first = evidence.first
    n_strata = count_strata(evidence, members)
    n_codes = n_strata * (first[target + 1] - first[target])
    is_sorted = n_codes > CODES_PER_SET
    room = 0 if is_sorted else min(n_codes, MASKS_PER_SET)
    is_coded = not is_sorted and n_codes > MASKS_PER_SET
    if (
        work.cursor[ENTRIES] == N_ENTRIES
        or work.cursor[MASKS] + room > work.masks.shape[0]
        or work.cursor[CODE_SLOTS] + is_coded > work.row_code.shape[0]
        or work.cursor[ROW_SLOTS] + is_sorted > work.row_index.shape[0]
    ):
        _forget(work, target)
        slot = _hash_slot(work, members)
    entry = work.cursor[ENTRIES]
    work.entry_hash[slot] = entry
    place = work.entry_place[entry]
    for i in range(len(members)):
        work.entry_set[entry, i] = members[i]
    place[MEMBERS], place[SORTED], place[N_STRATA] = len(members), is_sorted, n_strata
    place[BEGIN], place[ROOM], place[COUNT] = work.cursor[MASKS], room, 0
    place[NEXT], place[NUMBERED] = 0, 0
    place[SLOT] = work.cursor[ROW_SLOTS] if is_sorted else work.cursor[CODE_SLOTS]
    work.cursor[ENTRIES] += 1
    work.cursor[MASKS] += room
    work.cursor[CODE_SLOTS] += is_coded
    work.cursor[ROW_SLOTS] += is_sorted
    if is_sorted:
        _sort_rows(evidence, work, entry)
    return entry


@inlined
def count_strata(evidence: Evidence, members: Ints) -> int:
    """Count the combinations of the members' levels, as far as 2**32."""
    n_strata = 1
    for z in members:
        n_strata = min(n_strata * (evidence.first[z + 1] - evidence.first[z]), 2**32)
    return n_strata


@inlined
def _forget(work: Workspace, target: int) -> None:
    """Drop all remembered splits and start with ``target``."""
    work.cursor[TARGET] = target
    for i in range(ENTRIES, ROW_SLOTS + 1):
        work.cursor[i] = 0
    for i in range(work.entry_hash.shape[0]):
        work.entry_hash[i] = -1


@inlined
def _hash_slot(work: Workspace, members: Ints) -> int:
    """Return the slot where this set is, or the free one where it belongs."""
    size = work.entry_hash.shape[0]
    key = 0
    for z in members:
        key = ((key * 1000003) ^ z) & 0xFFFFFFFF
    slot = (key ^ (key >> 15)) & (size - 1)
    while work.entry_hash[slot] >= 0:
        entry = work.entry_hash[slot]
        same = work.entry_place[entry, MEMBERS] == len(members)
        for i in range(len(members)):
            same = same and work.entry_set[entry, i] == members[i]
        if same:
            return slot
        slot = (slot + 1) & (size - 1)
    return slot


@inlined
def make_next_stratum(evidence: Evidence, work: Workspace, entry: int) -> bool:
    """Make the masks of the next stratum in which the target varies; false if none or no room.

    Strata come in the order of the members' levels, which go by falling frequency.
    """
    first, bits = evidence.first, evidence.bits
    place = work.entry_place[entry]
    target = work.cursor[TARGET]
    rows = work.scratch
    n_levels = first[target + 1] - first[target]
    while place[NEXT] < place[N_STRATA] and place[COUNT] + n_levels <= place[ROOM]:
        stratum = place[NEXT]
        place[NEXT] += 1
        rest = stratum
        n_rows = 0
        for i in range(place[MEMBERS] - 1, -1, -1):
            z = work.entry_set[entry, i]
            card = first[z + 1] - first[z]
            level = first[z] + rest % card
            rest //= card
            if i == place[MEMBERS] - 1:
                previous = level
                n_rows = evidence.totals[level]
            elif i == place[MEMBERS] - 2:
                n_rows = intersect(bits[previous], bits[level], rows)
            else:
                n_rows = intersect(rows, bits[level], rows)
            if n_rows < 2:
                break
        if n_rows < 2:
            continue
        begin = place[BEGIN] + place[COUNT]
        end = begin
        if place[MEMBERS] == 1:
            rows = bits[previous]
        for level in range(first[target], first[target + 1]):
            total = intersect(rows, bits[level], work.masks[end])
            if total > 0:
                work.mask_stratum[end] = stratum
                work.mask_total[end] = total
                end += 1
        if end - begin > 1:  # with one level of the target a stratum can tell nothing
            place[COUNT] += end - begin
            return True
    return False


@inlined
def number_rows(evidence: Evidence, work: Workspace, entry: int) -> None:
    """Write the number of stratum and target level of each row; the target is fastest."""
    work.entry_place[entry, NUMBERED] = 1
    code = work.row_code[work.entry_place[entry, SLOT]]
    for r in range(code.shape[0]):
        code[r] = 0
    for i in range(work.entry_place[entry, MEMBERS]):
        _append_digit(evidence, code, work.entry_set[entry, i])
    _append_digit(evidence, code, work.cursor[TARGET])


@inlined
def _append_digit(evidence: Evidence, code: Ints, z: int) -> None:
    card = np.uint16(evidence.first[z + 1] - evidence.first[z])
    digit = evidence.codes[z]
    for r in range(code.shape[0]):
        code[r] = code[r] * card + digit[r]


@inlined
def _sort_rows(evidence: Evidence, work: Workspace, entry: int) -> None:
    """Sort the rows by stratum and drop the strata in which the target does not vary."""
    slot = work.entry_place[entry, SLOT]
    members = work.entry_set[entry, : work.entry_place[entry, MEMBERS]]
    sort_rows_by(evidence, work, members)
    row = work.rows_a if len(members) % 2 == 0 else work.rows_b
    level_of = evidence.codes[work.cursor[TARGET]]
    n_rows = level_of.shape[0]
    kept = 0
    end = 0
    begin = 0
    work.row_strata[slot, 0] = 0
    while begin < n_rows:
        after = begin + 1
        varies = False
        while after < n_rows and same_stratum(evidence, members, row[begin], row[after]):
            varies = varies or level_of[row[after]] != level_of[row[begin]]
            after += 1
        if varies:
            for p in range(begin, after):
                work.row_index[slot, end] = row[p]
                work.row_level[slot, end] = level_of[row[p]]
                end += 1
            work.row_levels[slot, kept] = _n_levels(work, slot, work.row_strata[slot, kept], end)
            kept += 1
            work.row_strata[slot, kept] = end
        begin = after
    work.entry_place[entry, N_STRATA] = kept


@inlined
def sort_rows_by(evidence: Evidence, work: Workspace, members: Ints) -> None:
    """Sort the rows by the members' codes: a radix sort, last member first.

    The result is in ``rows_a`` after an even number of members, else in ``rows_b``.
    """
    source, sink = work.rows_a, work.rows_b
    for r in range(source.shape[0]):
        source[r] = r
    for i in range(len(members) - 1, -1, -1):
        z = members[i]
        code = evidence.codes[z]
        for level in range(work.place.shape[0]):
            work.place[level] = 0
        for p in range(source.shape[0]):
            work.place[code[p]] += 1
        begin = 0
        for level in range(work.place.shape[0]):
            begin, work.place[level] = begin + work.place[level], begin
        for p in range(source.shape[0]):
            r = source[p]
            sink[work.place[code[r]]] = r
            work.place[code[r]] += 1
        source, sink = sink, source


@inlined
def same_stratum(evidence: Evidence, members: Ints, r: int, q: int) -> bool:
    """Whether two rows agree in all members of a conditioning set."""
    for z in members:
        if evidence.codes[z, r] != evidence.codes[z, q]:
            return False
    return True


@inlined
def _n_levels(work: Workspace, slot: int, begin: int, end: int) -> int:
    """Count the different target levels among sorted rows."""
    seen = work.place
    for level in range(seen.shape[0]):
        seen[level] = 0
    count = 0
    for p in range(begin, end):
        level = work.row_level[slot, p]
        count += 1 - seen[level]
        seen[level] = 1
    return count


# Columns told apart as partitions of the rows.

Bytes = npt.NDArray[np.uint8]

UNSEEN = 255  # no code is 255: there are at most 250 levels and two reserved ones


class Partitions(NamedTuple):
    """Rows of codes, and room for the same rows with codes by first appearance."""

    codes: Bytes  # [columns, rows]
    ranks: Bytes  # [columns, ranked rows]; written
    rank_of: Bytes  # [256]; scratch


@kernel
def rank_by_appearance(partitions: Partitions) -> None:
    """Write the rank of each code: 0 for the first of its column, 1 for the next new one.

    Two columns have equal ranks if and only if they part the ranked rows alike.
    """
    codes, ranks, rank_of = partitions
    for column in range(ranks.shape[0]):
        rank_of[:] = UNSEEN
        n_seen = 0
        for row in range(ranks.shape[1]):
            code = codes[column, row]
            if rank_of[code] == UNSEEN:
                rank_of[code] = n_seen
                n_seen += 1
            ranks[column, row] = rank_of[code]


@inlined
def place_among(edges: Floats, first: int, end: int, value: float) -> int:
    """Return the first place from ``first`` up to ``end`` whose edge is not below a value."""
    while first < end:
        middle = (first + end) >> 1
        if edges[middle] < value:
            first = middle + 1
        else:
            end = middle
    return first


NEAR_WHOLE = 0.05  # by rounding; of values that are no multiples a tenth are so near to one
MOST_SCALED = 2.0**52
N_PARTS = 4  # levels of a bin: two by a hash of the number, and both again for what is no multiple
_HASH_FACTOR, _HASH_BITS, _HASHED = 2_995_931, 22, 2**40 - 1  # far from all usual steps' multiples


@open_kernel
def level_in(place: int, value: float, scale: float, whole: bool) -> int:
    """Return the level of a value in a bin, which is a single one if there is no scale."""
    if scale == 0.0:
        return place
    scaled = value * scale
    rounded = np.floor(scaled + 0.5) if abs(scaled) < MOST_SCALED else 0.0
    between = 2 if whole and abs(scaled - rounded) > NEAR_WHOLE else 0
    hashed = (int(rounded) & _HASHED) * _HASH_FACTOR >> (_HASH_BITS - 1)
    return N_PARTS * place + between + (hashed & 1)


@kernel
def find_levels(edges: Floats, scale: float, whole: bool, values: Floats, codes: Bytes) -> None:
    """Write the level of each value, by rising edges of bins."""
    for row in range(values.shape[0]):
        place = place_among(edges, 0, edges.shape[0], values[row])
        codes[row] = level_in(place, values[row], scale, whole)
