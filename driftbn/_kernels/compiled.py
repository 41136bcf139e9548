"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile a function that allocates nothing; the result is kept on disk.

    Reference counts are switched off: a tuple of arrays passed to a small function costs two atomic
    operations an array otherwise, which took four fifths of the time of a search.
    """
    compiled: _F = njit(cache=True, nogil=True, _nrt=False)(function)
    return compiled


def allocating_kernel(function: _F) -> _F:
    """Compile a function that makes arrays of its own; the result is kept on disk."""
    compiled: _F = njit(cache=True, nogil=True)(function)
    return compiled
