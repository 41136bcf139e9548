"""What a newcomer waits for: a copy of the sources without compiled code, run at a terminal.

Run ``python -m tests.benchmarks.first_minutes``. Prints for library, demonstration and daemon the
seconds of CPU and of wall, when the first word came, and the longest silence. Beside other work the
wall says little: then what counts is the CPU that the process has used up to a word, and between.
"""

from __future__ import annotations

import argparse
import os
import pty
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from signal import SIGTERM

ROOT = Path(__file__).parents[2]
LIBRARY = """
from driftbn import DriftMonitor, datasets
rows = datasets.sample(datasets.asia(), 10_000, seed=1)
for report in DriftMonitor(2000).update(rows):
    print(report)
"""
FIRST_REPORT = LIBRARY.replace("10_000", "2_000")
DAEMON = """
[service]
state_dir = "state"
[endpoint]
port = 0
[[streams]]
name = "orders"
window = 2000
[streams.source]
kind = "http"
"""
RUNS = {
    "import driftbn": ("-c", "import driftbn"),
    "driftbn --help": ("-m", "driftbn_service", "--help"),
    "library, first report": ("-c", FIRST_REPORT),
    "library, five windows": ("-c", LIBRARY),
    "demo": ("-m", "driftbn_service", "demo"),
    "daemon, until started": ("-m", "driftbn_service", "run", "--config", "driftbn.toml"),
    "warm-up": ("-m", "driftbn_service", "warm-up"),
}


@dataclass
class Watched:
    """What was seen of a process."""

    began: float = field(default_factory=time.monotonic)
    heard: list[tuple[float, float]] = field(default_factory=list)
    """Seconds of CPU and of wall until each word."""
    text: bytes = b""
    cpu: float = 0.0
    wall: float = 0.0
    code: int = 0

    @property
    def silences(self) -> tuple[float, float]:
        """The longest silence, by CPU and by wall."""
        cpu, wall = zip((0.0, 0.0), *self.heard, (self.cpu, self.wall), strict=True)
        return _longest(cpu), _longest(wall)


def _longest(times: tuple[float, ...]) -> float:
    return max(after - before for before, after in pairwise(times))


def watch(arguments: tuple[str, ...], directory: Path, stop_at: bytes | None) -> Watched:
    """Run Python at a terminal of its own until it ends, or has said ``stop_at``."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "TERM": "xterm"}
    environment |= {"PYTHONPATH": f"{directory}:{directory / 'service'}"}
    seen = Watched()
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(directory)
        os.execve(sys.executable, [sys.executable, *arguments], environment)
    clock = (~process << 3) | 2  # of another process's CPU, as clock_getcpuclockid has it
    with suppress(OSError):  # how a terminal says that the other side has gone
        while data := os.read(terminal, 4096):
            seen.heard.append((time.clock_gettime(clock), time.monotonic() - seen.began))
            seen.text += data
            if stop_at is not None and stop_at in seen.text:
                seen.cpu, seen.wall = seen.heard[-1]
                os.kill(process, SIGTERM)
                stop_at = None
    _, status, used = os.wait4(process, 0)
    os.close(terminal)
    seen.cpu = seen.cpu or used.ru_utime + used.ru_stime
    seen.wall = seen.wall or time.monotonic() - seen.began
    seen.heard = [at for at in seen.heard if at[1] <= seen.wall]
    seen.code = os.waitstatus_to_exitcode(status)
    return seen


def fresh_copy(directory: Path) -> Path:
    """Copy the sources without what was compiled of them."""
    ignored = shutil.ignore_patterns("__pycache__", "configs")
    for name in ("driftbn", "service"):
        shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    (directory / "driftbn.toml").write_text(DAEMON)
    return directory


def main(tell: Callable[[str], object] = sys.stdout.write) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", help=f"of {', '.join(RUNS)}; all")
    tell("| | CPU s | wall s | first word, CPU s | wall s | longest silence, CPU s | wall s |\n")
    tell("|---|--:|--:|--:|--:|--:|--:|\n")
    for name in parser.parse_args().runs or RUNS:
        with tempfile.TemporaryDirectory() as directory:
            stop_at = b" started " if name.startswith("daemon") else None
            seen = watch(RUNS[name], fresh_copy(Path(directory)), stop_at)
        if seen.code != 0:
            sys.stderr.buffer.write(seen.text)
            raise SystemExit(f"{name} has ended with {seen.code}")
        first = (f"{at:.1f}" for at in seen.heard[0]) if seen.heard else ("", "")
        silences = (f"{seconds:.1f}" for seconds in seen.silences)
        cells = (name, f"{seen.cpu:.1f}", f"{seen.wall:.1f}", *first, *silences)
        tell(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
