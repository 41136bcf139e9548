"""The separate virtual environments in which the peers are installed and run."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

PINNED = (
    "pybnesian==0.5.1",
    "pyagrum==3.3.1",
    "pgmpy==1.1.2",
    "causal-learn==0.1.4.8",
    "jpype1==1.7.1",
)
DRIFT_PINNED = (
    "river==0.26.1",
    "evidently==0.7.23",
    "scikit-learn==1.9.1",
    "pandas==2.3.3",
    "numpy==2.4.6",
    "scipy==1.17.1",
)
# On its own: it wants numpy below 2, and River wants 2.2 or newer.
ALIBI_PINNED = (
    "alibi-detect[tensorflow]==0.13.0",
    "tensorflow==2.18.1",
    "tensorflow-probability==0.25.0",
    "tf-keras==2.18.0",
    "numpy==1.26.4",
)
# With what driftbn itself needs, as both are run by one program.
REAL_PINNED = (
    "evidently==0.7.23",
    "nannyml==0.13.1",
    "networkx==3.6.1",
    "numba==0.68.1",
    "numpy==2.4.6",
    "orjson==3.13.0",
    "pandas==2.3.3",
    "pyarrow==26.0.1",
    "rich==15.0.0",
    "scipy==1.17.1",
)
DEFAULT_CACHE = Path(tempfile.gettempdir()) / "driftbn-benchmarks"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

_COMPLETE = "complete"
_POM = Path(__file__).with_name("pom.xml")
_log = logging.getLogger(__name__)


def pin_to_one_core(core: int | None = None) -> int:
    """Keep this process and its children on one core and one thread; return the core."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"
    chosen = max(os.sched_getaffinity(0)) if core is None else core
    os.sched_setaffinity(0, {chosen})
    return chosen


def ensure_environment(cache: Path = DEFAULT_CACHE, pinned: Sequence[str] = PINNED) -> Path:
    """Return the Python of an environment with the pinned packages, created if it is not there.

    The directory is named after the pinned versions, so a changed pin makes a new environment.
    A marker is written last: an installation that was interrupted is done again.
    """
    fingerprint = hashlib.sha256("\n".join(pinned).encode()).hexdigest()[:12]
    home = cache / f"peers-{fingerprint}"
    python = home / "bin" / "python"
    if not (home / _COMPLETE).exists():
        _log.info("installing %s into %s", ", ".join(pinned), home)
        venv.create(home, clear=True, with_pip=True)
        _install(python, pinned)
        (home / _COMPLETE).touch()
    return python


def ensure_jars(python: Path) -> None:
    """Put what ``pom.xml`` names beside an environment's Python, where the peers look for it."""
    jars = python.parent.parent / "jars"
    if jars.exists():
        return
    _log.info("fetching jars into %s", jars)
    with tempfile.TemporaryDirectory(dir=jars.parent) as fetched:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}/jars"]
        subprocess.run(["mvn", "-B", "-q", "-f", str(_POM), *goal], check=True)
        Path(fetched, "jars").rename(jars)  # only when complete


def _install(python: Path, pinned: Sequence[str]) -> None:
    """Install the pinned packages; pip's own words go to standard error."""
    command = [str(python), "-m", "pip", "install", "--quiet", *pinned]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
