"""Compare driftbn's learners with public libraries: time, accuracy and tests, on one core.

Run ``python -m tests.benchmarks.learners``. The first run installs the peers into an environment of
their own. The table goes to standard output, progress to standard error.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pandas as pd

from driftbn import Edge, LearnerConfig, Pdag, compare, datasets, shd
from driftbn.graphs.files import read_bif
from driftbn.graphs.network import BayesianNetwork
from driftbn.learning import ChiSquareTest, LearnedStructure, StructureLearner
from driftbn.tables.infer import infer_and_encode
from tests.benchmarks.drift_text import Table
from tests.benchmarks.environment import (
    DEFAULT_CACHE,
    ensure_environment,
    ensure_jars,
    pin_to_one_core,
)
from tests.networks import load

Codes = npt.NDArray[np.uint8]
NETWORKS = (
    *("asia", "insurance", "alarm", "hailfinder", "win95pts", "100_130", "200_250"),
    *("random_223_338", "pigs"),
)

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


def tables(results: Sequence[Result]) -> list[Table]:
    every = Table(
        "Learners", COLUMNS, tuple(row for result in results for row in result.cells), n_words=3
    )
    learners = (entry.learner for entry in results[0].entries)
    rows = tuple(
        (result.network, str(result.n_rows), *map(_distance, result.entries)) for result in results
    )
    return [every, Table("SHD and time", ("network", "rows", *learners), rows)]


def _distance(entry: Entry) -> str:
    if entry.seconds is None:
        return entry.note
    shd = _number(_mean(run.structural_distance for run in entry.runs), 1)
    return f"{shd} ({_duration(entry.seconds)})"


# Networks with known truth, and samples drawn from them.

_RANDOM_PREFIX = "random_"
_MAX_PARENTS = 6  # as many as Andes has


@dataclass(frozen=True)
class Truth:
    """A network under other names in any order, so that they tell nothing."""

    name: str
    network: BayesianNetwork

    @classmethod
    def of(cls, name: str, seed: int) -> Truth:
        known = load_network(name)
        places = np.random.default_rng(seed).permutation(len(known.nodes)).tolist()
        names = {node: f"v{place:04d}" for node, place in zip(known.nodes, places, strict=True)}
        parents = [[names[parent] for parent in listed] for listed in known.parents]
        network = BayesianNetwork(names.values(), known.states, parents, known.cpts)
        return cls(Path(name).stem if name.endswith(".bif") else name, network)

    def sample(self, n_rows: int, seed: int) -> Codes:
        """Draw a row for each variable, parents first, the others as they are listed."""
        network = self.network
        rng = np.random.default_rng([seed, n_rows, crc32(self.name.encode())])
        codes = np.zeros((len(network.nodes), n_rows), dtype=np.uint8)
        done: set[str] = set()
        while len(done) < len(network.nodes):
            for place, node in enumerate(network.nodes):
                if node not in done and done.issuperset(network.parents[place]):
                    rows = datasets.configurations(network, codes, place)
                    codes[place] = datasets.drawn(network.cpts[place], rows, rng.random(n_rows))
                    done.add(node)
        return codes


def load_network(name: str) -> BayesianNetwork:
    """Return a stored network, one of a BIF file, or a random one: ``random_<nodes>_<arcs>``."""
    if name.endswith(".bif"):
        return read_bif(Path(name).read_text())
    if name.startswith(_RANDOM_PREFIX):
        return random_network(*map(int, name.removeprefix(_RANDOM_PREFIX).split("_")))
    return load(name)


def random_network(n_nodes: int, n_arcs: int) -> BayesianNetwork:
    """Return a binary network of uniform arcs and probabilities, always the same."""
    rng = np.random.default_rng([n_nodes, n_arcs, 1])
    rank = rng.permutation(n_nodes)
    parents: list[set[int]] = [set() for _ in range(n_nodes)]
    while sum(map(len, parents)) < n_arcs:
        earlier, later = sorted(rng.integers(0, n_nodes, 2))
        parent, child = int(rank[earlier]), int(rank[later])
        if parent != child and len(parents[child]) < _MAX_PARENTS:
            parents[child].add(parent)
    chances = [rng.random(2 ** len(p)) for p in parents]
    tables = [np.column_stack([p, 1 - p]) for p in chances]
    nodes = [f"x{place}" for place in range(n_nodes)]
    named = [[nodes[place] for place in sorted(places)] for places in parents]
    return BayesianNetwork(nodes, [["s0", "s1"]] * n_nodes, named, tables)


# Peers, in their environment.

PEER_NAMES = ("pybnesian", "pyagrum", "pgmpy", "causal-learn")
EXTRA_PEER_NAMES = ("tetrad-boss", "pyagrum-tabu", "pyagrum-miic")
EARLIER_SEED = 1000  # added to a seed: the independent sample that a warm start has seen
START_SECONDS = 60.0  # for imports, beside the limit of the learning itself

_PEERS_SCRIPT = Path(__file__).with_name("peers.py")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Case:
    """One network and one sample per seed, each with an earlier one."""

    truth: Truth
    n_rows: int
    samples: tuple[tuple[Codes, Codes], ...]

    @classmethod
    def of(cls, name: str, n_rows: int, seeds: Sequence[int]) -> Case:
        truth = Truth.of(name, seeds[0])
        pairs = ((truth.sample(n_rows, s), truth.sample(n_rows, s + EARLIER_SEED)) for s in seeds)
        return cls(truth, n_rows, tuple(pairs))

    @property
    def network(self) -> BayesianNetwork:
        return self.truth.network


@dataclass
class PeerRunner:
    """Calls peers in their environment; leaves out a network that took too long with fewer rows."""

    python: Path
    options: argparse.Namespace
    _exceeded: set[tuple[str, str]] = field(default_factory=set)

    def run(self, peer: str, case: Case) -> Entry:
        """Run one peer on every sample of a case, up to the first without a result."""
        runs: list[Run] = []
        for codes, _ in case.samples:
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
            return Run(note=f">{self.options.limit:.0f} s")
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
                *("--limit", str(options.limit)),
            ]
            # A stuck start is a defect of the environment: let it end the benchmark.
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                check=True,
                text=True,
                timeout=options.limit + START_SECONDS,
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


def graph_of(names: Iterable[str], directed: list[list[str]], undirected: list[list[str]]) -> Pdag:
    """Return what a peer has learned; an edge that points both ways has no direction."""
    arcs = {(u, v) for u, v in directed}
    free = {_sorted(u, v) for u, v in undirected} | {_sorted(*a) for a in arcs if a[::-1] in arcs}
    return Pdag(names, [arc for arc in arcs if _sorted(*arc) not in free], free)


def _sorted(u: str, v: str) -> Edge:
    return min(u, v), max(u, v)


# Our own learners, in this process.

QUICK_SECONDS = 1.0  # as for the peers: a first run below this is repeated


@dataclass(frozen=True)
class OwnLearner:
    """An algorithm, and whether it starts from what it learned on an earlier sample."""

    name: str
    algorithm: str
    repair: bool = False
    warm: bool = False


OWN_LEARNERS = (
    OwnLearner("PC-stable", "pc"),
    OwnLearner("PC", "pc-original"),
    OwnLearner("FSBN", "fsbn"),
    OwnLearner("SSBN", "ssbn"),
    OwnLearner("SSBN repaired", "ssbn", repair=True),
    OwnLearner("SSBN repaired, warm", "ssbn", repair=True, warm=True),
)


def run_own(
    learner: OwnLearner, case: Case, codes: Codes, earlier: Codes, options: argparse.Namespace
) -> Run:
    """Learn from ``codes``, best of the repeats; a warm start has seen ``earlier``."""
    frame = _frame(case.network.nodes, codes)
    config = LearnerConfig(algorithm=learner.algorithm, alpha=options.alpha, repair=learner.repair)
    structures, previous = StructureLearner(config), None
    if learner.warm:
        previous = structures.learn(infer_and_encode(_frame(case.network.nodes, earlier)))
    structures.learn(infer_and_encode(frame), previous)  # compiles, or loads what was compiled
    best = best_from_frame = float("inf")
    for _ in range(options.repeats):
        begin = time.process_time()
        table = infer_and_encode(frame)
        encoded = time.process_time()
        learned = structures.learn(table, previous)
        end = time.process_time()
        best, best_from_frame = min(best, end - encoded), min(best_from_frame, end - begin)
        if best > QUICK_SECONDS:
            break
    return scored(case, (best, best_from_frame), learned.graph, learned.cost.weighted)


def _frame(names: tuple[str, ...], codes: Codes) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Categorical(row) for name, row in zip(names, codes, strict=True)})


def run_own_learners(case: Case, options: argparse.Namespace) -> list[Entry]:
    """Run every learner of ours on every sample of a case."""
    return [
        Entry(
            learner.name,
            is_peer=False,
            runs=tuple(run_own(learner, case, *pair, options) for pair in case.samples),
        )
        for learner in OWN_LEARNERS
    ]


def chain_table(names: Sequence[str], n_windows: int, n_rows: int, first_seed: int) -> Table:
    """Return means of cold and warm learning of a stationary stream, window after window."""
    rows = []
    for name in names:
        _log.info("%s, %d windows", name, n_windows)
        truth = Truth.of(name, first_seed)
        windows = [truth.sample(n_rows, first_seed + i) for i in range(n_windows)]
        chains = (run_chain(truth.network, windows, warm=warm) for warm in (False, True))
        shown = ("{:.2f}", "{:.2f}", "{:,.0f}", "{:.1f} ms")
        cells = (
            form.format(value) for form, *pair in zip(shown, *chains, strict=True) for value in pair
        )
        rows.append((name, *cells))
    header = (
        *("network", "SHD, cold", "warm", "Hamming to the window before, cold", "warm"),
        *("weighted tests, cold", "warm", "CPU, cold", "warm"),
    )
    return Table(f"{n_windows} windows of {n_rows} rows", header, tuple(rows))


def run_chain(network: BayesianNetwork, windows: list[Codes], *, warm: bool) -> list[float]:
    """Learn window after window, each from the one before if ``warm``.

    Return means over the windows after the first one: distance to the truth and to the window
    before, weighted tests, and milliseconds of CPU.
    """
    names, truth = network.nodes, network.cpdag()
    learner = StructureLearner()
    last: LearnedStructure | None = None
    before = Pdag(names)
    found = []
    for codes in windows:
        varying = [i for i, column in enumerate(codes) if column.min() < column.max()]
        begin = time.process_time()
        learned = learner.learn_window(
            codes[varying],
            [names[i] for i in varying],
            last if warm else None,
            dependent_rows=False,
        ).learned
        seconds = time.process_time() - begin
        graph = Pdag(names, learned.graph.directed_edges, learned.graph.undirected_edges)
        if last is not None:
            distances = shd(truth, graph), shd(before, graph)
            found.append((*distances, learned.cost.weighted, 1000 * seconds))
        last, before = learned, graph
    return [fmean(column) for column in zip(*found, strict=True)]


# How the cost of learning grows with rows, variables and levels.

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
VARIABLES = (10, 30, 100, 300, 1_000)
LEVELS = (2, 4, 8, 16, 32)
POINTS = (
    *(("rows", 37, n_rows, 3) for n_rows in ROWS),
    *(("variables", n_variables, 10_000, 2) for n_variables in VARIABLES),
    *(("levels", 50, 10_000, n_levels) for n_levels in LEVELS),
)


def scale_table() -> Table:
    """Learn each point in a process of its own, so that its peak of memory is its own."""
    rows = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for curve, *point in POINTS:
            _log.info("%s, %s", curve, point)
            seconds, weighted, megabytes = pool.apply(learn_point, point)
            cells = (f"{number:,}" for number in (*point, weighted))
            rows.append((curve, *cells, _duration(seconds), f"{megabytes:.0f} MB"))
    header = ("curve", "variables", "rows", "levels", "weighted tests", "time", "memory")
    return Table("Scale", header, tuple(rows))


def learn_point(n_variables: int, n_rows: int, n_levels: int) -> tuple[float, int, float]:
    """Learn a sample of a random network: seconds, weighted tests, megabytes that were added."""
    network = datasets.random_network(
        n_variables, n_variables * 5 // 4, cardinality=n_levels, max_parents=2, seed=1
    )
    codes = datasets.sample_codes(network, n_rows, np.random.default_rng(1))
    learner = StructureLearner()
    learner.learn_from(ChiSquareTest(codes[:3, :1000], network.nodes[:3]))  # loads the kernels
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    learned = learner.learn_from(ChiSquareTest(codes, network.nodes))
    seconds = time.perf_counter() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return seconds, learned.cost.weighted, grown / 1024


# The command.


def run_all(options: argparse.Namespace, python: Path | None) -> list[Result]:
    """Run every case, few rows first, and return what was found, network by network."""
    runner = None if python is None else PeerRunner(python, options)
    found: dict[tuple[str, int], Result] = {}
    for n_rows in sorted(options.rows):
        for name in options.networks:
            _log.info("%s, %d rows", name, n_rows)
            case = Case.of(name, n_rows, options.seeds)
            entries = [] if options.peers_only else run_own_learners(case, options)
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
    add("--scale", action="store_true", help="tables that grow in rows, variables, levels instead")
    return parser


def main() -> None:
    """Parse the command line, run, print the table."""
    options = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    python = None
    if options.peers and not (options.chain or options.scale):
        python = ensure_environment(options.cache)
        if "tetrad-boss" in options.peers:
            ensure_jars(python)
    _log.info("on core %d", pin_to_one_core(options.core))
    if options.chain:
        chains = (options.networks, options.chain, max(options.rows), options.seeds[0])
        printed = [chain_table(*chains)]
    elif options.scale:
        printed = [scale_table()]
    else:
        printed = tables(run_all(options, python))
    for table in printed:
        sys.stdout.write(table.render(markdown=options.markdown))


if __name__ == "__main__":
    main()
