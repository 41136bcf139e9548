"""Compare driftbn's learners with public libraries: time, accuracy and tests, on one core.

Run ``python -m tests.benchmarks.learners``. The first run installs the peers into an environment of
their own. The table goes to standard output, progress to standard error.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from driftbn import Pdag, compare
from driftbn.graphs.network import BayesianNetwork
from tests.benchmarks.environment import (
    DEFAULT_CACHE,
    ensure_environment,
    ensure_jars,
    pin_to_one_core,
)
from tests.benchmarks.truth import NETWORKS, Codes, Truth, graph_of, load_network

COLUMNS = (
    "network",
    "rows",
    "learner",
    "time",
    "from DataFrame",
    "SHD",
    "skeleton HD",
    "weighted tests",
    "fastest peer / time",
)


@dataclass(frozen=True)
class Run:
    """One learner on one sample; ``note`` says why there is no result."""

    seconds: float | None = None
    frame_seconds: float | None = None
    structural_distance: int | None = None
    skeleton_distance: int | None = None
    weighted_tests: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """One learner on one network and number of rows, over all seeds."""

    learner: str
    is_peer: bool
    runs: tuple[Run, ...]

    @property
    def note(self) -> str:
        """The first reason for which a run has no result, else nothing."""
        return next((run.note for run in self.runs if run.note), "")

    @property
    def seconds(self) -> float | None:
        """Mean time, or None if a run has no result."""
        return None if self.note else _mean(run.seconds for run in self.runs)


@dataclass(frozen=True)
class Result:
    """All learners on one network and number of rows."""

    network: str
    n_rows: int
    entries: tuple[Entry, ...]

    @property
    def cells(self) -> list[tuple[str, ...]]:
        times = [e.seconds for e in self.entries if e.is_peer and e.seconds is not None]
        fastest = min(times, default=None)
        return [(self.network, str(self.n_rows), *_cells(e, fastest)) for e in self.entries]


def _cells(entry: Entry, fastest: float | None) -> tuple[str, ...]:
    seconds = entry.seconds
    if seconds is None:
        return (entry.learner, entry.note, "", "", "", "", "")
    return (
        entry.learner,
        _duration(seconds),
        _duration(_mean(run.frame_seconds for run in entry.runs) or seconds),
        _number(_mean(run.structural_distance for run in entry.runs), 1),
        _number(_mean(run.skeleton_distance for run in entry.runs), 1),
        _number(_mean(run.weighted_tests for run in entry.runs), 0),
        "" if fastest is None else f"{fastest / seconds:.3g}",
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def tables(results: Sequence[Result]) -> Iterator[tuple[Any, ...]]:
    """Yield title, header, rows and number of words of each table."""
    rows = tuple(row for result in results for row in result.cells)
    yield "Learners", COLUMNS, rows, 3
    learners = (entry.learner for entry in results[0].entries)
    rows = tuple(
        (result.network, str(result.n_rows), *map(_distance, result.entries)) for result in results
    )
    yield "SHD and time", ("network", "rows", *learners), rows, 1


def _distance(entry: Entry) -> str:
    if entry.seconds is None:
        return entry.note
    shd = _number(_mean(run.structural_distance for run in entry.runs), 1)
    return f"{shd} ({_duration(entry.seconds)})"


PEER_NAMES = ("pybnesian", "pyagrum", "pgmpy", "causal-learn")
EXTRA_PEER_NAMES = ("tetrad-boss", "pyagrum-tabu", "pyagrum-miic")
EARLIER_SEED = 1000  # added to a seed: the independent sample that a warm start has seen
START_SECONDS = 60.0  # for imports, beside the limit of the learning itself

_PEERS_SCRIPT = Path(__file__).with_name("peers.py")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What to run, as asked for on the command line."""

    networks: tuple[str, ...]
    rows: tuple[int, ...]
    seeds: tuple[int, ...]
    peers: tuple[str, ...]
    limit_seconds: float
    alpha: float
    repeats: int


@dataclass(frozen=True)
class Case:
    """One network and one sample per seed."""

    truth: Truth
    n_rows: int
    samples: tuple[Codes, ...]
    earlier: tuple[Codes, ...]

    @property
    def network(self) -> BayesianNetwork:
        return self.truth.network


@dataclass
class PeerRunner:
    """Calls peers in their environment; leaves out a network that took too long with fewer rows."""

    python: Path
    options: Options
    _exceeded: set[tuple[str, str]] = field(default_factory=set)

    def run(self, peer: str, case: Case) -> Entry:
        """Run one peer on every sample of a case, up to the first without a result."""
        runs: list[Run] = []
        for codes in case.samples:
            runs.append(self._run_one(peer, case, codes))
            if runs[-1].note:
                break
        return Entry(peer, is_peer=True, runs=tuple(runs))

    def _run_one(self, peer: str, case: Case, codes: Codes) -> Run:
        if (peer, case.truth.name) in self._exceeded:
            return Run(note="skipped")
        answer = self._ask(peer, case, codes)
        if answer["timed_out"]:
            self._exceeded.add((peer, case.truth.name))
            return Run(note=f">{self.options.limit_seconds:.0f} s")
        if answer["error"]:
            _log.warning("%s on %s: %s", peer, case.truth.name, answer["error"])
            return Run(note="failed")
        graph = graph_of(case.network.nodes, answer["directed"], answer["undirected"])
        return scored(case, (answer["seconds"], answer["frame_seconds"]), graph)

    def _ask(self, peer: str, case: Case, codes: Codes) -> dict[str, Any]:
        options = self.options
        with tempfile.TemporaryDirectory() as directory:
            samples = Path(directory) / "samples.npz"
            np.savez(samples, codes=codes, names=np.array(case.network.nodes))
            command = [
                *(str(self.python), "-I", str(_PEERS_SCRIPT), peer, str(samples)),
                *("--alpha", str(options.alpha), "--repeats", str(options.repeats)),
                *("--limit", str(options.limit_seconds)),
            ]
            # A stuck start is a defect of the environment: let it end the benchmark.
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                check=True,
                text=True,
                timeout=options.limit_seconds + START_SECONDS,
            )
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


def scored(
    case: Case,
    seconds: tuple[float, float],
    graph: Pdag,
    weighted_tests: float | None = None,
) -> Run:
    """Compare a learned graph with the truth; the seconds are without and with reading a frame."""
    diff = compare(case.network.cpdag(), graph)
    return Run(*seconds, diff.hamming, diff.skeleton, weighted_tests)


def run_own_learners(case: Case, options: Options) -> list[Entry]:
    """Run every learner of ours on every sample of a case."""
    # Loaded here, after the process was pinned: numba reads the number of threads when imported.
    own = importlib.import_module("tests.benchmarks.own")
    entries = []
    for learner in own.OWN_LEARNERS:
        runs = []
        for codes, earlier in zip(case.samples, case.earlier, strict=True):
            nodes = case.network.nodes
            run = own.run_own(learner, nodes, codes, earlier, options.alpha, options.repeats)
            seconds = (run.seconds, run.frame_seconds)
            runs.append(scored(case, seconds, run.graph, run.weighted_tests))
        entries.append(Entry(learner.name, is_peer=False, runs=tuple(runs)))
    return entries


def run_chains(names: Sequence[str], n_windows: int, n_rows: int, first_seed: int) -> str:
    """Return a table of cold and warm learning of a stationary stream, window after window."""
    own = importlib.import_module("tests.benchmarks.own")
    lines = [
        "| network | SHD, cold | warm | Hamming to the window before, cold | warm "
        "| weighted tests, cold | warm | CPU, cold | warm |\n",
        "|---" + 8 * "|--:" + "|\n",
    ]
    for name in names:
        _log.info("%s, %d windows", name, n_windows)
        truth = load_network(name).with_shuffled_names(first_seed)
        windows = [truth.sample(n_rows, first_seed + i) for i in range(n_windows)]
        cold, warm = (own.run_chain(truth.network, windows, warm=warm) for warm in (False, True))
        lines.append(
            f"| {name} | {cold.structural_distance:.2f} | {warm.structural_distance:.2f} "
            f"| {cold.hamming:.2f} | {warm.hamming:.2f} "
            f"| {cold.weighted_tests:,.0f} | {warm.weighted_tests:,.0f} "
            f"| {1000 * cold.seconds:.1f} ms | {1000 * warm.seconds:.1f} ms |\n"
        )
    return "".join(lines)


def make_case(name: str, n_rows: int, seeds: Sequence[int]) -> Case:
    """Load a network and draw its samples; names are shuffled, as a learner may go by them."""
    truth = load_network(name).with_shuffled_names(seeds[0])
    return Case(
        truth=truth,
        n_rows=n_rows,
        samples=tuple(truth.sample(n_rows, seed) for seed in seeds),
        earlier=tuple(truth.sample(n_rows, seed + EARLIER_SEED) for seed in seeds),
    )


def run_all(options: Options, python: Path | None, *, with_own: bool) -> list[Result]:
    """Run every case, few rows first, and return what was found, network by network."""
    runner = None if python is None else PeerRunner(python, options)
    found: dict[tuple[str, int], Result] = {}
    for n_rows in sorted(options.rows):
        for name in options.networks:
            _log.info("%s, %d rows", name, n_rows)
            case = make_case(name, n_rows, options.seeds)
            entries = run_own_learners(case, options) if with_own else []
            if runner is not None:
                entries += [runner.run(peer, case) for peer in options.peers]
            found[name, n_rows] = Result(case.truth.name, n_rows, tuple(entries))
    return [found[name, n_rows] for name in options.networks for n_rows in sorted(options.rows)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.learners")
    add = parser.add_argument
    add(
        "--networks", nargs="+", default=NETWORKS, help="names, BIF files, or random_<nodes>_<arcs>"
    )
    add("--rows", nargs="+", type=int, default=(1000, 5000))
    add("--seeds", nargs="+", type=int, default=(0, 1, 2), help="the table shows their mean")
    choices = PEER_NAMES + EXTRA_PEER_NAMES
    add(
        "--peers",
        nargs="*",
        default=PEER_NAMES,
        choices=choices,
        metavar="PEER",
        help=f"any of {', '.join(choices)}; none: our own learners only",
    )
    add("--limit", type=float, default=120.0, help="seconds a peer may take for one sample")
    add("--alpha", type=float, default=0.01)
    add("--repeats", type=int, default=9, help="of a quick run; the best is taken")
    add("--cache", type=Path, default=DEFAULT_CACHE, help="where the peers are installed")
    add("--core", type=int, help="the core to run on; default: the last one allowed")
    add("--peers-only", action="store_true", help="leave our own learners out")
    add("--markdown", action="store_true", help="print the table as Markdown")
    add("--chain", type=int, help="windows of a stream that is learned cold and warm instead")
    return parser


def main() -> None:
    """Parse the command line, run, print the table."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = Options(
        networks=tuple(arguments.networks),
        rows=tuple(arguments.rows),
        seeds=tuple(arguments.seeds),
        peers=tuple(arguments.peers),
        limit_seconds=arguments.limit,
        alpha=arguments.alpha,
        repeats=arguments.repeats,
    )
    if arguments.chain:
        chains = (options.networks, arguments.chain, max(options.rows), options.seeds[0])
        sys.stdout.write(run_chains(*chains))
        return
    python = ensure_environment(arguments.cache) if options.peers else None
    if python is not None and "tetrad-boss" in options.peers:
        ensure_jars(python)
    _log.info("on core %d", pin_to_one_core(arguments.core))
    results = run_all(options, python, with_own=not arguments.peers_only)
    text = importlib.import_module("tests.benchmarks.drift_text")  # after the process was pinned
    for table in tables(results):
        sys.stdout.write(text.Table(*table).render(markdown=arguments.markdown))


if __name__ == "__main__":
    main()
