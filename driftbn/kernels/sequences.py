"""Rows in their order: stretches that come again, and moves from one level to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import kernel
from driftbn.kernels.evidence import Ints

Codes = npt.NDArray[np.uint8]

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
            if moved and known == UNKNOWN:
                following[v, before] = known = now
            n_moves += moved
            n_broken += moved & (known != now)
        moves[v], broken[v] = n_moves, n_broken
