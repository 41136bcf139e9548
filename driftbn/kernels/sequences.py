"""Rows in their order: stretches that come again, and moves from one level to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import kernel
from driftbn.kernels.evidence import Ints

Codes = npt.NDArray[np.uint8]
Marks = npt.NDArray[np.bool_]

UNKNOWN = -1
_BASE, _HASH_BITS = 1_000_003, 31  # of a polynomial hash whose products 64 bits can hold
SLOTS_PER_ROW = 4  # fewer make searches long, more do not fit the processor's cache

Slots = npt.NDArray[np.int32]


def make_slots(n_rows: int) -> Slots:
    """Return room for the hash table of ``count_repeated``."""
    return np.empty(SLOTS_PER_ROW << n_rows.bit_length(), np.int32)


@kernel
def count_repeated(
    rows: Codes, begin: int, length: int, least_moves: int, slots: Slots, out: Ints
) -> None:
    """For each field count the rows from ``begin`` on that end a stretch which was there before.

    A stretch has ``length`` rows, and a value other than the one before in ``least_moves`` of them.
    """
    # Unsigned indices need no check. The upper bits of the hash depend on all rows of a stretch.
    one, last, shift, top = np.uint64(1), np.uint64(slots.shape[0] - 1), _HASH_BITS, 1
    while slots.shape[0] >> (_HASH_BITS - shift) > 1:
        shift -= 1
    low_bits = (1 << _HASH_BITS) - 1
    for _ in range(length):
        top = top * _BASE & low_bits
    for v in range(rows.shape[0]):
        row, code, moves, n_repeated = rows[v], 0, 0, 0
        slots[:] = UNKNOWN
        for i in range(row.shape[0]):
            at = np.uint64(i)
            code = code * _BASE + np.int64(row[at]) + 1
            if i > 0:
                moves += row[at] != row[at - one]
            if i >= length:
                gone = np.uint64(i - length)
                code -= (np.int64(row[gone]) + 1) * top
                moves -= row[gone + one] != row[gone]
            code &= low_bits
            if i < length - 1 or moves < least_moves:
                continue
            slot, found = np.uint64(code >> shift), False
            while slots[slot] != UNKNOWN and not found:
                before, k = np.uint64(slots[slot]), np.uint64(0)
                while k < length and row[before - k] == row[at - k]:
                    k += one
                found = k == length
                if not found:
                    slot = (slot + one) & last
            if not found:
                slots[slot] = i
            elif i >= begin:
                n_repeated += 1
        out[v] = n_repeated


@kernel
def follow_moves(rows: Codes, begin: int, following: Ints, moves: Ints, broken: Ints) -> None:
    """For each field count moves to another level, and those that went elsewhere than before.

    Moves to the rows from ``begin`` on are counted. ``following``: the level that came first after
    each, which is learned here where it is unknown.
    """
    for v in range(rows.shape[0]):
        row, n_moves, n_broken = rows[v], 0, 0
        for i in range(max(begin, 1), row.shape[0]):
            before, now = row[np.uint64(i - 1)], row[np.uint64(i)]
            moved = before != now
            known = following[v, before]
            if known == UNKNOWN and moved:  # in this order, as the first is seldom so
                following[v, before] = known = now
            n_moves += moved
            n_broken += moved & (known != now)
        moves[v], broken[v] = n_moves, n_broken


@kernel
def find_clocks(
    rows: Codes, least_levels: int, least_moves: int, least_share: float, room: Ints, found: Marks
) -> None:
    """Mark the fields that go on in one way: in a cycle, or with one stretch of rows a level.

    In a cycle a ``least_share`` of the moves, which are ``least_moves`` more than there are levels,
    go to the level that mostly comes after theirs. ``room``: a row for each code, a place for each
    that comes after it, and two more.
    """
    n_rows, n_codes = rows.shape[1], room.shape[0]
    for v in range(rows.shape[0]):
        row = rows[v]
        found[v] = False
        n_levels, n_moves, n_usual, last = 0, 0, 0, np.uint8(0)
        for code in row:
            last = max(last, code)
        room[: last + 1] = 0
        seen, most = n_codes, n_codes + 1
        for i in range(n_rows):
            now, before = row[np.uint64(i)], row[np.uint64(max(i - 1, 0))]
            n_levels += room[now, seen] == 0
            room[now, seen] = 1
            if now == before:
                continue
            n_moves += 1
            room[before, now] += 1
            if room[before, now] > room[before, most]:
                room[before, most] += 1
                n_usual += 1
            elif n_moves > n_codes and n_moves - n_usual > 1.0 + (1.0 - least_share) * n_rows:
                break  # whatever comes, it is none
        else:
            cycles = n_moves >= n_levels + least_moves and n_usual >= least_share * n_moves
            found[v] = n_levels >= least_levels and (cycles or n_moves + 1 == n_levels)
