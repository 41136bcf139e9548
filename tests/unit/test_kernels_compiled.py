from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driftbn._kernels import compiled

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
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "a.py"))
    before = compiled._source_stamp()
    (tmp_path / "b.py").write_text("x = 22")
    assert compiled._source_stamp() != before


def test_kernels_carry_the_stamp_of_all_files() -> None:
    kernel = compiled.kernel(lambda x: x)
    assert kernel._cache._cache_file._source_stamp == compiled._STAMP  # type: ignore[attr-defined]
