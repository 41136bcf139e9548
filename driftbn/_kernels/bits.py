"""Bit sets in machine words: counting the rows that several conditions share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import config, types
from numba.extending import intrinsic

from driftbn.compiled import inlined

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
