"""Columns that are the same as another up to the names of their levels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from driftbn.kernels.encoding import Partitions, rank_by_appearance

MIN_SECOND_ROWS: Final = 5
"""Rows that the second most frequent level of a duplicate has at least.

Rarer columns may coincide by chance, such as two flags that are both set in the same single row,
and nothing can be said of them.
"""
_N_SIGNATURE_ROWS: Final = 256
"""Rows compared before all are; two different columns seldom agree on so many."""


def find_duplicates(codes: NDArray[np.uint8]) -> dict[int, int]:
    """Return for each row of codes that repeats an earlier one the first such row.

    Rows are the same if they part the table alike, whatever the codes of the parts. A row whose
    second most frequent code stands in fewer than ``MIN_SECOND_ROWS`` places is never a duplicate.

    Examples
    --------
    >>> flags = np.tile(np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1]], np.uint8), 5)
    >>> find_duplicates(flags)
    {1: 0}
    """
    alike = _groups(range(len(codes)), codes, _N_SIGNATURE_ROWS)
    return {
        row: original
        for candidates in alike
        for original, *copies in _groups(candidates, codes, codes.shape[1])
        if _is_telling(codes[original])
        for row in copies
    }


def _groups(rows: Iterable[int], codes: NDArray[np.uint8], n_ranked: int) -> list[list[int]]:
    """Return the groups of rows that part the first places alike; a row by itself is none."""
    picked = list(rows)
    chosen = codes if len(picked) == len(codes) else codes[picked]
    ranks = np.empty((len(picked), min(n_ranked, codes.shape[1])), np.uint8)
    rank_by_appearance(Partitions(chosen, ranks, np.empty(256, np.uint8)))
    groups: dict[bytes, list[int]] = {}
    for row, ranked in zip(picked, ranks, strict=True):
        groups.setdefault(ranked.tobytes(), []).append(row)
    return [group for group in groups.values() if len(group) > 1]


def _is_telling(row: NDArray[np.uint8]) -> bool:
    counts = np.sort(np.bincount(row))
    return len(counts) > 1 and bool(counts[-2] >= MIN_SECOND_ROWS)
