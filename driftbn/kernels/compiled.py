"""How kernels are compiled, and how the results kept on disk stay true to their source.

Kernels of the library call each other as they like. One of another place calls those of its own
package and of the library: an edit of any other file would not be seen.

All that stands on parts of numba which it does not promise to keep is in this file.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

import numba
from numba.core import caching, event
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

_log = logging.getLogger("driftbn")
_F = TypeVar("_F", bound=Callable[..., object])
_MODULES: set[str] = set()  # that have kernels
_CONFIG: Any = numba.config
_CHECK_BYTES = sha256().digest_size


class _FirstCompilation(event.Listener):
    """Says once in a process that kernels are compiled; silent when they are loaded from disk."""

    def on_start(self, event: Any) -> None:
        """Look whether it is one of our kernels that is compiled."""
        if event.data["dispatcher"].__module__ in _MODULES:
            stop_listening()
            _log.warning("compiling kernels, once after installation: about half a minute")

    def on_end(self, event: Any) -> None:
        """Do nothing."""


_LISTENER = _FirstCompilation()
event.register("numba:compile", _LISTENER)


def stop_listening() -> None:
    """Leave the compiler's events alone; called when the message is out."""
    event.unregister("numba:compile", _LISTENER)


@cache
def _stamp(directory: Path) -> str:
    """Return a hash of every source that a kernel of a directory holds code of."""
    paths = {*directory.glob("*.py"), *Path(__file__).parent.glob("*.py")}
    contents = [(path.name, sha256(path.read_bytes()).digest()) for path in sorted(paths)]
    return sha256(repr(contents).encode()).hexdigest()


@cache
def _places(directory: Path) -> tuple[Path, ...]:
    """Return where compiled kernels of a directory may be, in the order of looking.

    Outside of the package they are found by what they are made of, not by where it is installed.
    """
    name = f"driftbn-{_stamp(directory)[:16]}"
    chosen, user = _CONFIG.CACHE_DIR, AppDirs("numba", False).user_cache_dir
    places = [Path(chosen, name).absolute()] if chosen else []
    places.append(directory / "__pycache__")
    # Without a home it would be a directory in whatever is the current one.
    return (*places, Path(user, name)) if os.path.isabs(user) else tuple(places)


class _Cache(caching.NullCache):
    """What was compiled of one kernel: read wherever it is, written where that is possible.

    Numba's own cache refuses to compile where nothing can be written, and sees an edit only in the
    file of the kernel itself, while a kernel holds the code of all that it calls.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        assert function.__closure__ is None, "the values of a closure would not be seen"
        file = Path(function.__code__.co_filename)
        self._name = f"{file.stem}.{function.__qualname__}"
        self._stamp = _stamp(file.parent).encode()
        self._places = _places(file.parent)

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return what was compiled for these types, or ``None``."""
        target_context.refresh()
        name = self._file_name(sig, target_context.codegen())
        for place in self._places:
            with suppress(OSError):
                found = (place / name).read_bytes()
                check, data = found[:_CHECK_BYTES], found[_CHECK_BYTES:]
                if check == sha256(self._stamp + data).digest():
                    return CompileResult._rebuild(target_context, *pickle.loads(data))
        return None

    def save_overload(self, sig: object, cres: Any) -> None:
        """Keep what was compiled in the first place that takes it."""
        assert not cres.library.has_dynamic_globals, "addresses do not outlive the process"
        name = self._file_name(sig, cres.codegen)
        data = dumps(cres._reduce())
        for place in self._places:
            with suppress(OSError):
                _write(place / name, sha256(self._stamp + data).digest() + data)
                return
        _say_not_kept()

    def _file_name(self, sig: object, codegen: Any) -> str:
        made_by = numba.__version__, sys.implementation.cache_tag, codegen.magic_tuple()
        return f"{self._name}-{sha256(repr((sig, made_by)).encode()).hexdigest()[:16]}.nbc"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{uuid4().hex}")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@cache
def _say_not_kept() -> None:
    _log.warning(
        "compiled kernels cannot be kept, so that every start compiles them: set NUMBA_CACHE_DIR "
        "to a directory that can be written"
    )


def _compile(function: _F, **options: bool) -> _F:
    jit: Any = numba.njit
    compiled: Any = jit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if not _CONFIG.DISABLE_JIT:
        _MODULES.add(function.__module__)
        compiled._cache = _Cache(function)
    return cast(_F, compiled)


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
