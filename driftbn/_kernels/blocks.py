"""What blocks of neighbouring rows add to a test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftbn._kernels.evidence import Floats, Ints
from driftbn._kernels.tables import Counts
from driftbn.compiled import inlined, kernel


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
