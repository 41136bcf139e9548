"""How kernels are compiled, and how the results kept on disk stay true to their source."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event

_log = logging.getLogger("driftbn")
_F = TypeVar("_F", bound=Callable[..., object])


class _FirstCompilation(event.Listener):
    """Says once in a process that kernels are compiled; silent when they are loaded from disk."""

    def on_start(self, event: Any) -> None:
        """Look whether it is one of our kernels that is compiled."""
        if event.data["dispatcher"].__module__.startswith(__package__):
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


def _source_stamp() -> tuple[tuple[str, float, int], ...]:
    """Return name, time and size of every kernel file."""
    stats = ((path.name, path.stat()) for path in sorted(Path(__file__).parent.glob("*.py")))
    return tuple((name, stat.st_mtime, stat.st_size) for name, stat in stats)


_STAMP = _source_stamp()


def _compile(function: _F, **options: bool) -> _F:
    jit: Any = numba.njit
    compiled = jit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
    # Numba looks only at the file of the function itself, but a kernel holds the code of all that
    # it calls: without this, an edit of one file leaves old code in the kernels of the others.
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = _STAMP
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
