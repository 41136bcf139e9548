"""How kernels are compiled, and how the results kept on disk stay true to their source.

Kernels of the library call each other as they like. One of another place calls those of its own
package and of the library: an edit of any other file would not be seen.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

_log = logging.getLogger("driftbn")
_F = TypeVar("_F", bound=Callable[..., object])
_MODULES: set[str] = set()  # that have kernels


class _FirstCompilation(event.Listener):
    """Says once in a process that kernels are compiled; silent when they are loaded from disk."""

    def on_start(self, event: Any) -> None:
        """Look whether it is one of our kernels that is compiled."""
        if event.data["dispatcher"].__module__ in _MODULES:
            stop_listening()
            _log.warning("compiling kernels, once after installation: about half a minute")

    def on_end(self, event: Any) -> None:
        """Do nothing."""


_EVENTS: Any = event
_LISTENER = _FirstCompilation()
_EVENTS.register("numba:compile", _LISTENER)


def stop_listening() -> None:
    """Leave the compiler's events alone; called when the message is out."""
    _EVENTS.unregister("numba:compile", _LISTENER)


@cache
def _source_stamp(file: str) -> tuple[tuple[str, float, int], ...]:
    """Return name, time and size of every file that a kernel in ``file`` holds code of."""
    own = Path(__file__)
    paths = {own, *Path(file).parent.glob("*.py"), *(own.parent / "_kernels").glob("*.py")}
    stats = ((path.name, path.stat()) for path in sorted(paths))
    return tuple((name, stat.st_mtime, stat.st_size) for name, stat in stats)


def _compile(function: _F, **options: bool) -> _F:
    jit: Any = numba.njit
    _MODULES.add(function.__module__)
    compiled: _F = jit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
    # Numba looks only at the file of the function itself, but a kernel holds the code of all that
    # it calls: without this, an edit of one file leaves old code in the kernels of the others.
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = _source_stamp(inspect.getfile(function))
    return compiled


def kernel(function: _F) -> _F:
    """Compile a function that allocates nothing; the result is kept on disk.

    Reference counts are switched off: a tuple of arrays passed to a small function costs two atomic
    operations an array otherwise, which took four fifths of the time of a search.
    """
    return _compile(function, _nrt=False)


def open_kernel(function: _F) -> _F:
    """Compile a kernel that is called from Python and is also put into other kernels."""
    return _compile(function, _nrt=False, forceinline=True)


def inlined(function: _F) -> _F:
    """Compile a part of a kernel into its callers, so that no arguments are copied.

    Python cannot call it: its wrapper would take longer to compile than the part itself.
    """
    return _compile(function, _nrt=False, forceinline=True, no_cpython_wrapper=True)
