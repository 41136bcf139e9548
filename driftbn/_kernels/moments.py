"""Sums over blocks of neighbouring rows from which squares of their scores follow.

They are integers and know neither shares nor weights: those of several windows are added up
exactly, in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.evidence import Floats, Ints
from driftbn._kernels.tables import Counts
from driftbn.compiled import inlined, kernel

# What ``add_pair_moments`` sums up of a cell with k rows of the block, whose level of the first
# field has f of them, that of the second g, and its stratum n.
KK, KF, KG, KN, FG = 0, 1, 2, 3, 4
N_MOMENTS = 5

Rows = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint32]  # an unsigned index needs no check


class MomentRoom(NamedTuple):
    """Room to work in; counts are 0 before and after."""

    cell: Counts  # rows of the block, [strata * x * y]
    first: Counts  # [strata * x]
    second: Counts  # [strata * y]
    stratum: Counts  # [strata]
    place: Places  # cell of each row of the block, [length]
    met: Places  # cells that the block has, [length]


def make_moment_room(n_strata: int, n_x: int, n_y: int, length: int) -> MomentRoom:
    """Return room for tables of this shape and blocks of this length."""
    return MomentRoom(
        cell=np.zeros(n_strata * n_x * n_y, np.int32),
        first=np.zeros(n_strata * n_x, np.int32),
        second=np.zeros(n_strata * n_y, np.int32),
        stratum=np.zeros(n_strata, np.int32),
        place=np.zeros(length, np.uint32),
        met=np.zeros(length, np.uint32),
    )


def make_margins(n_x: int, n_y: int) -> Floats:
    """Return room for the margins of one stratum."""
    return np.zeros((8, max(n_x, n_y)))


@kernel
def add_pair_moments(
    codes: Rows, members: Ints, cards: Ints, length: int, room: MomentRoom, out: Ints
) -> None:
    """Add the moments of one window to ``out``, ``[cells, N_MOMENTS]``.

    The last two of the ``members`` are the pair, the others make the strata.
    """
    n_x, n_y = np.uint32(cards[members[-2]]), np.uint32(cards[members[-1]])
    for begin in range(0, codes.shape[1], length):
        n_rows = min(length, codes.shape[1] - begin)
        _place_rows(codes, members, cards, begin, n_rows, room.place)
        n_met = 0
        for row in range(n_rows):
            cell = room.place[row]
            if room.cell[cell] == 0:
                room.met[n_met] = cell
                n_met += 1
            room.cell[cell] += 1
        for m in range(n_met):
            cell = room.met[m]
            first = cell // n_y
            s = first // n_x
            room.first[first] += room.cell[cell]
            room.second[s * n_y + (cell - first * n_y)] += room.cell[cell]
            room.stratum[s] += room.cell[cell]
        for m in range(n_met):
            cell = room.met[m]
            first = cell // n_y
            s = first // n_x
            k = np.int64(room.cell[cell])
            out[cell, KK] += k * k
            out[cell, KF] += k * room.first[first]
            out[cell, KG] += k * room.second[s * n_y + (cell - first * n_y)]
            out[cell, KN] += k * room.stratum[s]
            room.cell[cell] = 0
        for m in range(n_met):
            s = room.met[m] // (n_x * n_y)
            if room.stratum[s] > 0:
                _add_margins(s, n_x, n_y, room, out)


@inlined
def _place_rows(
    codes: Rows, members: Ints, cards: Ints, begin: int, n_rows: int, place: Places
) -> None:
    """Write the cell of each row of a block."""
    for row in range(n_rows):
        place[row] = 0
    for m in range(members.shape[0]):
        card = np.uint32(cards[members[m]])
        for row in range(n_rows):
            place[row] = place[row] * card + np.uint32(codes[members[m], begin + row])


@inlined
def _add_margins(s: np.uint32, n_x: np.uint32, n_y: np.uint32, room: MomentRoom, out: Ints) -> None:
    """Add the products of the margins of one stratum, and clear them."""
    for i in range(s * n_x, s * n_x + n_x):
        f = np.int64(room.first[i])
        if f > 0:
            for j in range(n_y):
                out[i * n_y + j, FG] += f * room.second[s * n_y + j]
            room.first[i] = 0
    for j in range(s * n_y, s * n_y + n_y):
        room.second[j] = 0
    room.stratum[s] = 0


@kernel
def expected_squares(own: Counts, other: Counts, n_x: int, n_y: int, margins: Floats) -> float:
    """Return the sum of squares of the scores of blocks, for independent rows.

    Parameters
    ----------
    own, other
        The rows of the group, and of that which it is compared with, in each cell.
    n_x, n_y
        Levels of both fields.
    margins
        Room to work in.
    """
    expected = 0.0
    for begin in range(0, own.shape[0], n_x * n_y):
        n, n_other = _sum_rows(own, other, begin, n_x, n_y, margins)
        if n == 0.0 or n_other == 0.0:
            continue
        for i in range(n_x):
            for j in range(n_y):
                if margins[2, i] > 0.0 and margins[3, j] > 0.0:
                    p, p_x, p_y = own[begin + i * n_y + j] / n, margins[0, i] / n, margins[1, j] / n
                    c = 2.0 * p_x * p_y - p
                    here = p * (1.0 - p_x - p_y + c) ** 2 + (p_x - p) * (c - p_y) ** 2
                    here += (p_y - p) * (c - p_x) ** 2 + (1.0 - p_x - p_y + p) * c * c
                    expected += n * here * (n + n_other) / (margins[2, i] * margins[3, j])
    return expected


@kernel
def pair_squares(
    own: Counts, other: Counts, n_x: int, n_y: int, moments: Ints, margins: Floats
) -> float:
    """Return the sum of squares of the scores of the blocks that have these moments."""
    squares = 0.0
    for begin in range(0, own.shape[0], n_x * n_y):
        n, n_other = _sum_rows(own, other, begin, n_x, n_y, margins)
        if n == 0.0 or n_other == 0.0:
            continue
        of_n = _sum_moments(moments, begin, n_x, n_y, margins)
        for i in range(n_x):
            for j in range(n_y):
                if margins[2, i] > 0.0 and margins[3, j] > 0.0:
                    of = moments[begin + i * n_y + j]
                    p_x, p_y = margins[0, i] / n, margins[1, j] / n
                    c = 2.0 * p_x * p_y - own[begin + i * n_y + j] / n
                    here = of[KK] + c * c * of_n
                    here += p_y * p_y * margins[4, i] + p_x * p_x * margins[5, j]
                    here += 2.0 * (c * of[KN] - p_x * of[KG] - p_y * of[KF] + p_x * p_y * of[FG])
                    here -= 2.0 * c * (p_y * margins[6, i] + p_x * margins[7, j])
                    squares += here * (n + n_other) / (margins[2, i] * margins[3, j])
    return max(squares, 0.0)


@inlined
def _sum_rows(
    own: Counts, other: Counts, begin: int, n_x: int, n_y: int, margins: Floats
) -> tuple[float, float]:
    """Sum up the rows of a stratum: own ones of each field, then all; return own and others."""
    n, n_other = 0.0, 0.0
    margins[:4] = 0.0
    for i in range(n_x):
        for j in range(n_y):
            cell = begin + i * n_y + j
            n += own[cell]
            n_other += other[cell]
            margins[0, i] += own[cell]
            margins[1, j] += own[cell]
            margins[2, i] += own[cell] + other[cell]
            margins[3, j] += own[cell] + other[cell]
    return n, n_other


@inlined
def _sum_moments(moments: Ints, begin: int, n_x: int, n_y: int, margins: Floats) -> float:
    """Sum up the squares of each field, then the products with the stratum; return its square."""
    square = 0.0
    margins[4:] = 0.0
    for i in range(n_x):
        for j in range(n_y):
            cell = begin + i * n_y + j
            margins[4, i] += moments[cell, KF]
            margins[5, j] += moments[cell, KG]
            margins[6, i] += moments[cell, KN]
            margins[7, j] += moments[cell, KN]
            square += moments[cell, KN]
    return square
