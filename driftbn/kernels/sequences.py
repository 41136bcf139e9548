"""Rows in their order: stretches that come again, and moves from one level to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import kernel
from driftbn.kernels.evidence import Ints

Codes = npt.NDArray[np.uint8]

UNKNOWN = -1
_BASE, _PRIME = 1_000_003, 2_147_483_647  # of a polynomial hash that 64 bits can hold


@kernel
def count_repeated(
    rows: Codes, begin: int, length: int, least_moves: int, slots: Ints, out: Ints
) -> None:
    """For each field count the rows from ``begin`` on that end a stretch which was there before.

    A stretch has ``length`` rows, and a value other than the one before in ``least_moves`` of them.
    ``slots``: room for a hash table, a power of two that is larger than the number of rows.
    """
    mask, top = slots.shape[0] - 1, 1
    for _ in range(length - 1):
        top = top * _BASE % _PRIME
    for v in range(rows.shape[0]):
        row, code, moves = rows[v], 0, 0
        out[v] = 0
        slots[:] = UNKNOWN
        for i in range(row.shape[0]):
            if i >= length:
                code = (code + (_PRIME - (np.int64(row[i - length]) + 1)) * top) % _PRIME
                moves -= row[i - length + 1] != row[i - length]
            code = (code * _BASE + np.int64(row[i]) + 1) % _PRIME
            moves += i > 0 and row[i] != row[i - 1]
            if i < length - 1 or moves < least_moves:
                continue
            slot, found = code & mask, False
            while slots[slot] != UNKNOWN and not found:
                found = True
                for k in range(length):
                    if row[slots[slot] - k] != row[i - k]:
                        found = False
                        slot = (slot + 1) & mask
                        break
            if not found:
                slots[slot] = i
            elif i >= begin:
                out[v] += 1


@kernel
def follow_moves(rows: Codes, begin: int, following: Ints, moves: Ints, broken: Ints) -> None:
    """For each field count moves to another level, and those that went elsewhere than before.

    Moves to the rows from ``begin`` on are counted. ``following``: the level that came first after
    each, which is learned here where it is unknown.
    """
    for v in range(rows.shape[0]):
        row = rows[v]
        moves[v] = broken[v] = 0
        for i in range(max(begin, 1), row.shape[0]):
            if row[i] == row[i - 1]:
                continue
            moves[v] += 1
            known = following[v, row[i - 1]]
            if known == UNKNOWN:
                following[v, row[i - 1]] = row[i]
            elif known != row[i]:
                broken[v] += 1
