"""Sums over blocks of neighbouring rows of how many have each state."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.evidence import Ints
from driftbn._kernels.tables import Counts
from driftbn.compiled import kernel

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
