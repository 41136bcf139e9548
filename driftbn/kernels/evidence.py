"""What the independence tests read (``Evidence``) and where they work (``Workspace``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

N_ENTRIES = 512  # remembered conditioning sets of one target; a hash table twice as long holds them
ARENA_BYTES = 2**20  # of masks and of sorted rows each: about what a core's second cache keeps
# Largest splits, counted in strata times target levels. A mask of 5000 rows costs 20 ns to count
# against, a histogram pass 5 us; a table of 16384 cells stays in the first-level cache.
MASKS_PER_SET = 96
CODES_PER_SET = 4096


class Evidence(NamedTuple):
    """A table of codes, packed; read only.

    Levels are numbered through all variables, those of one variable by falling frequency, so a
    level is not a code: bit sets and counts speak of levels, passes over rows of codes.
    """

    codes: npt.NDArray[np.uint8]  # [variables, rows]; every code below the maximum occurs
    bits: npt.NDArray[np.uint64]  # [levels, words]; the rows that have this level
    first: Ints  # [variables + 1]; first level of each variable
    totals: Ints  # [levels]; how many rows have this level
    joint: npt.NDArray[np.int32]  # [levels, levels]; how many have both; [0, 0] if too large
    critical: Floats  # [degrees of freedom + 1]; above it the statistic means dependence
    excess: Floats  # [variables]; square root of (design effect - 1)
    entropy: Floats  # [rows + 1]; n ln n for the G statistic; [0] for chi-square


class Workspace(NamedTuple):
    """Buffers of one search, never shared between threads.

    Rows split by a conditioning set are remembered for the target under test, because many nodes
    are tested against the same target and set.
    """

    cells: Ints  # [largest card squared]; the table of one stratum
    rest: Ints  # [largest card squared]; what the strata so far have left of the pair's table
    column: Floats  # [largest card]
    given: Ints  # [members]
    masks: npt.NDArray[np.uint64]  # [masks, words]
    mask_stratum: Ints  # [masks]
    mask_total: Ints  # [masks]
    scratch: npt.NDArray[np.uint64]  # [words]; the rows of one stratum
    row_code: npt.NDArray[np.uint16]  # [slots, rows]; number of stratum and target level
    histogram: npt.NDArray[np.int32]  # [CODES_PER_SET * largest card]
    row_index: npt.NDArray[np.int32]  # [slots, rows]; sorted by stratum
    row_level: npt.NDArray[np.uint8]  # [slots, rows]; the target's level there
    row_strata: npt.NDArray[np.int32]  # [slots, rows + 1]; offsets of the strata
    row_levels: npt.NDArray[np.int32]  # [slots, rows]; target levels met in each stratum
    rows_a: npt.NDArray[np.int32]  # [rows]; scratch of the sorting, as is ``rows_b``
    rows_b: npt.NDArray[np.int32]  # [rows]
    place: Ints  # [largest card]; scratch
    entry_set: Ints  # [N_ENTRIES, members]
    entry_place: Ints  # [N_ENTRIES, 9]; see counting.py
    entry_hash: Ints  # [2 * N_ENTRIES]; entry or -1
    cursor: Ints  # [5]; see counting.py
    tests: Ints  # [members + 1, 2]; asked and undecided, by size of the set
