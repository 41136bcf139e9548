"""How the kernels of decoding are compiled: as those of the library, which allocate nothing.

Numba looks for changes in the file of a kernel only, so a kernel calls none of another file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_F = TypeVar("_F", bound=Callable[..., object])
_jit: Any = numba.njit


def kernel(function: _F) -> _F:
    """Compile a function that lets other threads run; the result is kept on disk."""
    compiled: _F = _jit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=False)(function)
    return compiled


def inlined(function: _F) -> _F:
    """Compile a part of a kernel into its callers; Python cannot call it."""
    options = {"forceinline": True, "no_cpython_wrapper": True}
    compiled: _F = _jit(cache=True, nogil=True, no_cfunc_wrapper=True, _nrt=False, **options)(
        function
    )
    return compiled
