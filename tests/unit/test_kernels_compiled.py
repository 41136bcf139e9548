from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from driftbn import compiled
from driftbn._kernels.arrows import list_apart
from service.decoding import kernels as decoding

ROOT = Path(__file__).parents[2]
CALL = """
import numpy as np
from driftbn._kernels.arrows import list_apart

empty = np.zeros((2, 2), np.bool_)
none = np.zeros(0, np.int64)
for _ in range(2):
    list_apart(empty, np.zeros(3, np.int64), none, empty.copy())
"""


def errors_of_a_run(cache: Path) -> str:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "-c", CALL]
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return ended.stderr


def test_compiling_is_told_once_and_loading_is_not(tmp_path: Path) -> None:
    assert errors_of_a_run(tmp_path).count("compiling kernels") == 1
    assert errors_of_a_run(tmp_path) == ""


def test_an_edit_of_any_kernel_file_changes_the_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("compiled.py", "_kernels/a.py", "_kernels/b.py", "elsewhere.py")
    (tmp_path / "_kernels").mkdir()
    for name in names:
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    stamp = partial(compiled._source_stamp.__wrapped__, str(tmp_path / "elsewhere.py"))
    for name in names:
        before = stamp()
        (tmp_path / name).write_text("x = 22")
        assert stamp() != before, name


@pytest.mark.parametrize("kernel", [list_apart, decoding.find_lines])
def test_kernels_carry_the_stamp_of_their_own_file_and_of_the_library(kernel: Any) -> None:
    names = [name for name, _, _ in kernel._cache._cache_file._source_stamp]
    own = Path(kernel.py_func.__code__.co_filename).name
    assert {own, "compiled.py", "arrows.py", "bits.py"} <= set(names)
