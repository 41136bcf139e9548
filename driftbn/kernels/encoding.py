"""Tables of bytes: turned over, and told apart as partitions of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import kernel

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

WORD = 8  # bytes
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


@kernel
def turn_bytes(table: Bytes, words: Words) -> None:
    """Write the columns of a table ``[rows, columns]``, eight rows to a word, the first lowest.

    Words of several columns are made at a time: 0.3 ns a byte, where moving bytes takes 0.7.
    """
    n_whole = table.shape[0] // WORD
    for word in range(n_whole):
        _pack(table, words, word, WORD)  # a number known here, which lets the loop be vectorised
    if n_whole < words.shape[1]:
        _pack(table, words, n_whole, table.shape[0] - n_whole * WORD)


@kernel
def _pack(table: Bytes, words: Words, word: int, n_bytes: int) -> None:
    for column in range(words.shape[0]):
        packed = np.uint64(0)
        for i in range(n_bytes):
            packed |= np.uint64(table[word * WORD + i, column]) << np.uint64(8 * i)
        words[column, word] = packed
