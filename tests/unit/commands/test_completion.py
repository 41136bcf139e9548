"""``driftbn completion``, by a real bash."""

from __future__ import annotations

import subprocess

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
