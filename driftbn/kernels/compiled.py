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
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

import numba
from llvmlite.binding import create_pass_builder, create_pipeline_tuning_options
from numba.core import caching, event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.serialize import dumps
from numba.core.types import unliteral
from numba.misc.appdirs import AppDirs

_log = logging.getLogger("driftbn")
_F = TypeVar("_F", bound=Callable[..., object])
_MODULES: set[str] = set()  # that have kernels
_READY: dict[str, bool] = {}  # kernels that are kept, and whether they are there
_CONFIG: Any = numba.config
_CHECK_BYTES = sha256().digest_size
_LINE = 79  # of a terminal


def progress() -> str:
    """Say how many kernels are there, of those in the modules that are imported."""
    return f"{sum(_READY.values())} of {len(_READY)}"


def is_compiling() -> bool:
    """Whether a kernel was not found on disk and is being compiled now."""
    return _LISTENER.depth > 0


class _Compilation(event.Listener):
    """Says that kernels are compiled, silent when they are loaded from disk.

    The log has it once in a process. Who sits before a terminal or a notebook sees a line that
    moves.
    """

    def __init__(self) -> None:
        self.is_told = False
        self.depth = 0

    def on_start(self, event: Any) -> None:
        """Tell of a kernel of ours, or of a part of one."""
        if event.data["dispatcher"].__module__ in _MODULES:
            self.depth += 1
            self.tell(_name(event.data["dispatcher"]))

    def on_end(self, event: Any) -> None:
        """Take the line away after a kernel."""
        if event.data["dispatcher"].__module__ in _MODULES:
            self.depth -= 1
            if self.depth == 0 and _is_watched():
                sys.stderr.write(f"\r{'':{_LINE}}\r")

    def tell(self, name: str) -> None:
        if not self.is_told:
            self.is_told = True
            _log.warning("compiling kernels, once after installation: about half a minute")
        if _is_watched():
            line = f"compiling kernels, {progress()}: {name}"
            sys.stderr.write(f"\r{line[:_LINE]:{_LINE}}")
            sys.stderr.flush()


def _is_watched() -> bool:
    """Whether somebody looks at standard error and waits for the very thread that compiles."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return sys.stderr.isatty() or "ipykernel" in sys.modules


_LISTENER = _Compilation()
event.register("numba:compile", _LISTENER)


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
        self._name = _name(function)
        self._stamp = _stamp(file.parent).encode()
        self._places = _places(file.parent)

    def _note(self) -> None:
        if self._name in _READY:
            _READY[self._name] = True

    def load_overload(self, sig: object, target_context: Any) -> Any:
        """Return what was compiled for these types, or ``None``."""
        target_context.refresh()
        name = self._file_name(sig, target_context.codegen())
        for place in self._places:
            with suppress(OSError):
                found = (place / name).read_bytes()
                check, data = found[:_CHECK_BYTES], found[_CHECK_BYTES:]
                if check == sha256(self._stamp + data).digest():
                    self._note()
                    return CompileResult._rebuild(target_context, *pickle.loads(data))
        return None

    def save_overload(self, sig: object, cres: Any) -> None:
        """Keep what was compiled in the first place that takes it."""
        assert not cres.library.has_dynamic_globals, "addresses do not outlive the process"
        self._note()
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


def _name(function: Callable[..., object]) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


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


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel and of all parts that are put into it.

    Loops are not unrolled: that doubles the code, and the time to compile it, and kernels are no
    faster for it. What numba does beforehand is for reference counts, of which there are none.
    """

    def _optimize_final_module(self) -> None:
        _LISTENER.tell(f"{self.name}, optimizing")
        options = create_pipeline_tuning_options(speed_level=_CONFIG.OPT)
        options.loop_vectorization = _CONFIG.LOOP_VECTORIZE
        options.slp_vectorization = _CONFIG.SLP_VECTORIZE
        options.loop_unrolling = False
        builder = create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        _LISTENER.tell(f"{self.name}, machine code")
        super()._finalize_final_module()


class _PartLibrary(JITCodeLibrary):
    """The code of a part: simplified by itself, but optimized and emitted in its callers only."""

    def _optimize_final_module(self) -> None:
        """Leave it to the kernel that the part is put into."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return none: nothing is emitted."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> _PartLibrary:
        """What keeps environments: not needed of a part."""
        return self

    def set_env(self, env_name: str, env: object) -> None:
        """Keep none: nothing is emitted that could read it."""


class _Compiler(CompilerBase):
    library: type[JITCodeLibrary] = _KernelLibrary

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(state)]


class _PartCompiler(_Compiler):
    library = _PartLibrary


def _compile(function: _F, **options: Any) -> _F:
    jit: Any = numba.njit
    options = {"pipeline_class": _Compiler} | options
    compiled: Any = jit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if not _CONFIG.DISABLE_JIT:
        _MODULES.add(function.__module__)
        if options["pipeline_class"] is not _PartCompiler:
            compiled._cache = _Cache(function)
        find = compiled.get_call_template
        compiled.get_call_template = lambda arguments, names: find(
            tuple(map(unliteral, arguments)), names
        )
    return cast(_F, compiled)


def kernel(function: _F) -> _F:
    """Compile a function that allocates nothing; the result is kept on disk.

    Reference counts are switched off: a tuple of arrays passed to a small function costs two atomic
    operations an array otherwise, which took four fifths of the time of a search.
    """
    compiled = _compile(function, _nrt=False)
    if not _CONFIG.DISABLE_JIT:
        _READY[_name(function)] = False
    return compiled


class _Open:
    """A part to other kernels; called from Python, a kernel that is compiled only then."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._part = cast(Any, inlined(function))
        self._numba_type_ = self._part._numba_type_
        self._alone = _compile(function, _nrt=False)

    def __call__(self, *arguments: object) -> object:
        return self._alone(*arguments)


def open_kernel(function: _F) -> _F:
    """Compile a kernel that is called from Python and is also put into other kernels."""
    return function if _CONFIG.DISABLE_JIT else cast(_F, _Open(function))


def inlined(function: _F) -> _F:
    """Compile a part of a kernel into its callers, so that no arguments are copied.

    Python cannot call it: its wrapper would take longer to compile than the part itself.
    """
    return _compile(
        function,
        _nrt=False,
        forceinline=True,
        no_cpython_wrapper=True,
        pipeline_class=_PartCompiler,
    )
