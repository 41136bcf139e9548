"""``driftbn completion``, by a real bash and a real fish."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.commands import Run

COMPLETE = """
offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _driftbn; echo "${COMPREPLY[*]-}"; }
offer driftbn epi
offer driftbn history ''
offer driftbn episode sil
offer driftbn episode silence --ho
offer driftbn init ka
offer driftbn nothing --x
"""
OFFERED = ["episode", "--help -h export", "silence", "--hours", "kafka", ""]


def test_words_are_completed(run: Run) -> None:
    script = run("completion").out
    done = subprocess.run(
        ["bash", "-uc", script + COMPLETE], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == OFFERED


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes_the_same_words(run: Run, tmp_path: Path) -> None:
    asked = ["epi", "history ", "episode sil", "episode silence --ho", "init ka"]
    lines = [run("completion", "fish").out, *(f"complete -C 'driftbn {one}'" for one in asked)]
    found = subprocess.run(
        ["fish", "--no-config", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert found.stderr == ""
    offered = found.stdout.split()
    assert {"episode", "export", "silence", "--hours", "kafka"} <= {*offered}
