"""The demonstration, as a newcomer runs it."""

from __future__ import annotations

import subprocess
import sys

from tests.services.daemon import ROOT


def test_every_drift_is_found_and_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "driftbn_service", "demo"],
        capture_output=True, text=True, timeout=300, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for headline in (
        "Drift in demo: the dependency between 'MINVOLSET' and 'VENTMACH' was removed.",
        "Drift in demo: 'MINVOLSET' and 'VENTMACH' are back to an earlier state.",
        "Drift in demo: a dependency between 'KINKEDTUBE' and 'BP' was added.",
        "Drift in demo: 'HRBP' now comes out differently",
    ):
        assert headline in done.stdout
    assert "http://127.0.0.1:" in done.stdout
    assert "Traceback" not in done.stderr
