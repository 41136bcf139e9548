"""Measure the monitor on streams that wander by themselves: false alarms, power, naming.

Run ``python -m tests.benchmarks.wander``. Constants of the method may be chosen on seeds below
``FIRST_REPORTED``; from there on, seeds are for reporting only. `child` and `hepar2` are reported
networks whatever the seed. The same seed gives the same rows.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from driftbn import DriftMonitor
from driftbn.datasets import MEDIUM, STRONG, WEAK, Change, random_network, sample_codes
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.network import BayesianNetwork
from tests import networks
from tests.benchmarks import drift_changes as changes
from tests.benchmarks.drift_text import Table
from tests.benchmarks.faults import hash_of
from tests.benchmarks.real import Verdict, alarms_text, run_all, usual_parser, verdict_on, write
from tests.drift_streams import Abrupt, DriftStream, Gradual, Recurring, Schedule, Sessions

Rng = np.random.Generator
Tilts = Mapping[str, npt.NDArray[np.float64]]  # by node, log weights of its states
Moves = Iterator[tuple[npt.NDArray[np.int64], list[Tilts]]]  # a window: modes of rows, their tilts
Wander = Callable[[BayesianNetwork, Sequence[str], Rng], Moves]
Batch = Mapping[str, npt.NDArray[np.uint8]] | pd.DataFrame

WINDOW = 5000
N_WINDOWS = 60
FIRST_REPORTED = 100
REPORTED = ("child", "hepar2")
DWELLS = (20, 100, 500, 2000, 20_000)
MODE_SIZE = 0.5  # standard deviation of the log weights of a mode, a weekend, a slow mix
ROOT_SIZE = 0.1
N_AFTER = 4
AWAY = 10  # windows of a slow change, and between recurring ones
STRENGTHS = {"strong": STRONG, "medium": MEDIUM, "weak": WEAK}
RETAIL = ("walk", "weekend", "inflation", "products")


@cache
def load(name: str) -> BayesianNetwork:
    """Return a network by name; `six` is a random one."""
    if name == "six":
        return random_network(6, 8, cardinality=(2, 3), max_parents=3, strength=1.0, seed=6)
    path = Path(__file__).parent / "networks" / f"{name}.json"
    if name not in REPORTED:
        return networks.load(name)
    data = json.loads(path.read_text("utf-8"))
    parents = [[data["nodes"][i] for i in indices] for indices in data["parents"]]
    return BayesianNetwork(data["nodes"], data["states"], parents, data["cpts"])


def tilted(network: BayesianNetwork, tilts: Tilts) -> BayesianNetwork:
    """Return the network with some nodes' states more or less likely, whatever their parents."""
    cpts = list(network.cpts)
    for node, tilt in tilts.items():
        weights = network.cpt(node) * np.exp(tilt)
        cpts[network.index(node)] = weights / weights.sum(axis=1, keepdims=True)
    return BayesianNetwork(network.nodes, network.states, network.parents, cpts)


def drawn_tilts(network: BayesianNetwork, nodes: Sequence[str], size: float, rng: Rng) -> Tilts:
    return {node: rng.normal(0, size, network.cards[network.index(node)]) for node in nodes}


# --- What wanders ---


def still(network: BayesianNetwork, nodes: Sequence[str], rng: Rng) -> Moves:
    while True:
        yield np.zeros(WINDOW, dtype=np.int64), [{}]


def hidden_mode(dwell: float, network: BayesianNetwork, nodes: Sequence[str], rng: Rng) -> Moves:
    """Switch between two modes after a geometric number of rows."""
    tilts, mode = drawn_tilts(network, nodes, MODE_SIZE, rng), 0
    while True:
        modes = (mode + np.cumsum(rng.random(WINDOW) < 1 / dwell)) % 2
        mode = int(modes[-1])
        yield modes, [{}, tilts]


def redrawn(rho: float, network: BayesianNetwork, nodes: Sequence[str], rng: Rng) -> Moves:
    """Draw the log weights for each window, as an AR(1) process."""
    tilts = drawn_tilts(network, nodes, ROOT_SIZE, rng)
    while True:
        yield np.zeros(WINDOW, dtype=np.int64), [tilts]
        news = drawn_tilts(network, nodes, ROOT_SIZE, rng)
        tilts = {node: rho * tilts[node] + (1 - rho**2) ** 0.5 * news[node] for node in nodes}


def weekly(network: BayesianNetwork, nodes: Sequence[str], rng: Rng) -> Moves:
    """Take windows for days: two of seven follow another mode."""
    tilts = drawn_tilts(network, nodes, MODE_SIZE, rng)
    for day in count():
        yield np.zeros(WINDOW, dtype=np.int64), [tilts if day % 7 in (5, 6) else {}]


def slow_mix(network: BayesianNetwork, nodes: Sequence[str], rng: Rng) -> Moves:
    """Draw each row from one of two modes; the share of the second goes up and down, slowly."""
    tilts = drawn_tilts(network, nodes, MODE_SIZE, rng)
    for day in count():
        share = 0.5 - 0.5 * np.cos(2 * np.pi * day / 40)
        yield (rng.random(WINDOW) < share).astype(np.int64), [{}, tilts]


def wandering(
    network: BayesianNetwork,
    moves: Moves,
    rng: Rng,
    after: BayesianNetwork | None = None,
    schedule: Schedule | None = None,
) -> Iterator[Batch]:
    """Yield windows of a network that wanders, and changes to another one by a schedule."""
    for index, (modes, tilts) in enumerate(moves):
        records = np.arange(index * WINDOW, (index + 1) * WINDOW)
        share = np.zeros(WINDOW) if schedule is None else schedule.share_changed(records)
        changed = rng.random(WINDOW) < share
        codes = np.empty((len(network.nodes), WINDOW), dtype=np.uint8)
        for mode, is_changed in product(range(len(tilts)), (False, True)):
            rows = (modes == mode) & (changed == is_changed)
            if rows.any():
                now = after if is_changed and after is not None else network
                codes[:, rows] = sample_codes(tilted(now, tilts[mode]), int(rows.sum()), rng)
        yield dict(zip(network.nodes, codes, strict=True))


def retail(parts: Sequence[str], rng: Rng) -> Iterator[Batch]:
    """Yield days of a shop: what is bought, where, how it is paid, and for how much."""
    popularity, base = rng.normal(0, 1, 12), rng.uniform(5, 60, 40)
    to_web, web = rng.normal(0, 0.7, 40), 0.0
    for day in count():
        if "walk" in parts:
            popularity = popularity + rng.normal(0, 0.05, len(popularity))
            web += rng.normal(0, 0.05)
        if "products" in parts and day % 10 == 9:
            popularity = np.append(popularity, rng.normal(-1, 0.5))
        weekend = "weekend" in parts and day % 7 in (5, 6)
        shares = np.exp(popularity) / np.exp(popularity).sum()
        bought = rng.choice(len(shares), WINDOW, p=shares)
        online = rng.random(WINDOW) < 1 / (1 + np.exp(-web - to_web[bought] - 0.5 * weekend))
        card = rng.random(WINDOW) < np.where(online, 0.9, 0.5 + 0.1 * weekend)
        rise = 1.003**day if "inflation" in parts else 1.0
        yield pd.DataFrame(
            {
                "product": np.array([f"p{i}" for i in range(40)])[bought],
                "channel": np.where(online, "web", "shop"),
                "payment": np.where(card, "card", "cash"),
                "price": np.round(base[bought] * rise * rng.lognormal(0, 0.1, WINDOW), 2),
                "items": 1 + rng.poisson(0.5 + 0.5 * weekend + 0.4 * online, WINDOW),
                "region": rng.choice(["north", "south", "west"], WINDOW, p=[0.5, 0.3, 0.2]),
            }
        )


# --- Level: nothing changes ---


@dataclass(frozen=True)
class Level:
    """A stream in which nothing changes; ``n_fields`` of it wander, ``None``: the roots."""

    row: str
    network: str
    wander: Wander | None = None
    n_fields: float | None = None  # a share if below 1; infinite for all
    session: int | None = None
    retail: tuple[str, ...] = ()

    def batches(self, seed: int) -> Iterator[Batch]:
        number = hash_of(seed, self.row, self.network, self.n_fields)
        rng = np.random.default_rng(number)
        if self.network == "retail":
            return retail(self.retail, rng)
        network = load(self.network)
        if self.session is not None:
            stream = DriftStream(network, bursts=Sessions(self.session), seed=number % 2**31)
            return (
                dict(zip(network.nodes, codes, strict=True)) for codes in stream.batches(WINDOW)
            )
        moves = (self.wander or still)(network, self._nodes(network, rng), rng)
        return wandering(network, moves, rng)

    def _nodes(self, network: BayesianNetwork, rng: Rng) -> list[str]:
        if self.n_fields is None:
            pairs = zip(network.nodes, network.parents, strict=True)
            return [node for node, parents in pairs if not parents]
        n_nodes = len(network.nodes)
        wanted = self.n_fields if self.n_fields >= 1 else max(1, round(self.n_fields * n_nodes))
        return [network.nodes[i] for i in rng.permutation(n_nodes)[: int(min(wanted, n_nodes))]]


def level_streams() -> Iterator[Level]:
    every = ("six", "asia", "alarm", "insurance", "child", "hepar2", "100_130")
    yield from (Level("independent rows", name) for name in every)
    for mean, name in product((5, 20), ("asia", "alarm", "insurance")):
        yield Level(f"sessions of {mean}", name, session=mean)
    for dwell, name, n_fields in product(DWELLS, ("asia", "child"), (1, 3, float("inf"))):
        mode = partial(hidden_mode, dwell)
        yield Level(f"hidden mode, dwell {dwell:,}", name, mode, n_fields)
    for rho, name in product((0.0, 0.5, 0.9), ("asia", "alarm", "hepar2")):
        row = f"root marginals as AR(1), rho {rho}" if rho else "root marginals redrawn"
        yield Level(row, name, partial(redrawn, rho))
    for name in ("six", "insurance", "child"):
        yield Level("weekly cycle", name, weekly, 1 / 3)
        yield Level("slow mix", name, slow_mix, 1 / 3)
    yield Level("retail: all", "retail", retail=RETAIL)
    yield from (Level(f"retail: {part}", "retail", retail=(part,)) for part in ("walk", "weekend"))
    yield Level("retail: nothing", "retail")


@dataclass(frozen=True)
class LevelTask:
    stream: Level
    seed: int
    n_windows: int

    def run(self) -> LevelResult:
        monitor = new_monitor()
        batches = islice(self.stream.batches(self.seed), self.n_windows)
        told = [verdict_on(report) for batch in batches for report in monitor.update(batch)]
        return LevelResult(self.stream.row, self.stream.network, told)


@dataclass(frozen=True)
class LevelResult:
    row: str
    network: str
    verdicts: list[Verdict]


def new_monitor() -> DriftMonitor:
    return DriftMonitor(window=WINDOW, clock=time.process_time)


def level_table(results: Sequence[LevelResult]) -> Table:
    groups = {
        row: [r for r in results if r.row == row] for row in dict.fromkeys(r.row for r in results)
    }
    groups["all"] = list(results)
    groups["reported networks"] = [r for r in results if r.network in REPORTED]
    rows = []
    for name, found in groups.items():
        judged = [v for result in found for v in result.verdicts if v.judged]
        parts = (judged, [v for v in judged if v.full], [v for v in judged if not v.full])
        calm = [v for v in judged if not v.alarm]
        cost = [
            statistics.median([1000 * t for t in part] or [0])
            for part in ([v.learn for v in calm], [v.decide for v in calm])
        ]
        rows.append((name, str(len(found)), *map(alarms_text, parts), *(f"{c:.1f}" for c in cost)))
    header = ("stream", "streams", "alarms", "full", "young", "learn, ms", "decide, ms")
    return Table("False alarms, nothing changes", header, tuple(rows))


# --- Power: one edge changes ---


@dataclass(frozen=True)
class Condition:
    """When an edge changes, and what wanders: nothing, or a mode on some other or on all fields."""

    row: str
    n_before: int = 8
    n_other: float = 0
    schedule: Callable[[int], Schedule] = Abrupt
    n_after: int = N_AFTER
    n_draws: int = 2
    strengths: tuple[str, ...] = ("strong", "medium")


CONDITIONS = (
    Condition("8 reference windows", n_draws=4, strengths=tuple(STRENGTHS)),
    *(Condition(f"{n} reference windows", n) for n in (1, 2, 3)),
    Condition("mode, dwell 2000, on 3 other fields", 20, 3),
    Condition("mode, dwell 2000, on all fields", 20, float("inf")),
    Condition(
        "slow, over 10 windows",
        schedule=partial(Gradual, n_records=AWAY * WINDOW),
        n_after=AWAY + N_AFTER,
        strengths=("strong",),
    ),
    Condition(
        "goes and comes every 10 windows",
        schedule=partial(Recurring, n_records=AWAY * WINDOW),
        n_after=4 * AWAY,
        strengths=("strong",),
    ),
)
CHANGES: dict[str, Callable[..., Change]] = {
    "added": partial(changes.added, 1),
    "removed": partial(changes.removed, 1),
    "kept": partial(changes.either, keep_marginals=True),
}


@dataclass(frozen=True)
class PowerTask:
    condition: Condition
    network: str
    change: str
    strength: str
    draw: int
    seed: int

    def run(self) -> PowerResult | None:
        """Return what was found; ``None`` if the network has no such change."""
        condition, network = self.condition, load(self.network)
        rng = np.random.default_rng(
            hash_of(self.seed, condition.row, self.network, self.change, self.strength, self.draw)
        )
        try:
            change = CHANGES[self.change](STRENGTHS[self.strength], network, rng)
        except (ConfigError, GraphError):
            return None
        batches = self._batches(network, change, rng)
        monitor, told = new_monitor(), []
        for batch in islice(batches, condition.n_before + condition.n_after):
            told += map(verdict_on, monitor.update(batch))
        return self._result(change, told)

    def _batches(self, network: BayesianNetwork, change: Change, rng: Rng) -> Iterator[Batch]:
        condition = self.condition
        ends = {name for edge in _edges(change) for name in edge}
        nodes = list(network.nodes)
        if condition.n_other < len(nodes):
            others = [node for node in nodes if node not in ends]
            nodes = [others[i] for i in rng.permutation(len(others))[: int(condition.n_other)]]
        moves = hidden_mode(2000, network, nodes, rng) if nodes else still(network, nodes, rng)
        schedule = condition.schedule(condition.n_before * WINDOW)
        return wandering(network, moves, rng, change.network, schedule)

    def _result(self, change: Change, told: Sequence[Verdict]) -> PowerResult:
        n_before = self.condition.n_before
        alarms = [i for i, verdict in enumerate(told[n_before:]) if verdict.alarm]
        found = {frozenset(edge) for i in alarms[:1] for edge in told[n_before + i].edges}
        true = {frozenset(edge) for edge in _edges(change)}
        return PowerResult(
            self.condition.row,
            self.strength,
            self.network,
            [v for v in told[:n_before] if v.judged],
            alarms,
            (len(found & true), len(found - true), len(true - found)),
        )


def _edges(change: Change) -> list[tuple[str, str]]:
    return [*change.edges_added, *change.edges_removed, *change.edges_reversed]


@dataclass(frozen=True)
class PowerResult:
    """``alarms``: windows from the change on that have one; ``edges``: tp, fp, fn of the first."""

    row: str
    strength: str
    network: str
    before: list[Verdict]
    alarms: list[int]
    edges: tuple[int, int, int]


def power_table(results: Sequence[PowerResult]) -> Table:
    rows = []
    for row, strength in dict.fromkeys((r.row, r.strength) for r in results):
        found = [r for r in results if (r.row, r.strength) == (row, strength)]
        first = sum(0 in r.alarms for r in found)
        soon = sum(any(i < N_AFTER for i in r.alarms) for r in found)
        later = [
            str(sum(any(i in r.alarms for i in (k, k + 1)) for r in found))
            for k in range(0, 4 * AWAY, AWAY)
        ]
        delays = [r.alarms[0] for r in found if r.alarms]
        delay = f"{statistics.mean(delays):.1f}" if delays else "-"
        edges = ", ".join(str(sum(r.edges[i] for r in found)) for i in range(3))
        before = alarms_text([v for r in found for v in r.before])
        comes = " ".join(later) if "comes" in row else ""
        rows.append(
            (row, strength, str(len(found)), str(first), str(soon), edges, delay, before, comes)
        )
    header = (
        "condition",
        "edge",
        "n",
        "first window",
        "within four",
        "tp, fp, fn",
        "delay",
        "alarms before",
        "changes 1-4",
    )
    return Table(
        "One edge added, removed, or either with all marginals kept", header, tuple(rows), 2
    )


# --- Command line ---


def run_task(task: LevelTask | PowerTask) -> LevelResult | PowerResult | None:
    return task.run()


def power_tasks(seed: int, quick: bool) -> Iterator[PowerTask]:
    for condition in CONDITIONS[:5:4] if quick else CONDITIONS:
        draws = range(1 if quick else condition.n_draws)
        names = ("asia",) if quick else ("asia", "child", "insurance")
        for parts in product(condition.strengths, names, CHANGES, draws):
            strength, name, change, draw = parts
            yield PowerTask(condition, name, change, strength, draw, seed)


def level_tasks(seed: int, n_windows: int, quick: bool) -> Iterator[LevelTask]:
    quick_networks = ("six", "asia", "retail")
    for stream in level_streams():
        if not quick or stream.network in quick_networks:
            yield LevelTask(stream, seed, n_windows)


def main() -> None:
    """Parse the command line, run, print the tables."""
    parser = usual_parser("python -m tests.benchmarks.wander")
    parser.add_argument("--only", choices=("level", "power"), help="one of the tables")
    arguments = parser.parse_args()
    n_windows = min(arguments.windows or N_WINDOWS, 25 if arguments.quick else N_WINDOWS)
    tasks: list[LevelTask | PowerTask] = []
    if arguments.only != "power":
        tasks += level_tasks(arguments.seed, n_windows, arguments.quick)
    if arguments.only != "level":
        tasks += power_tasks(arguments.seed, arguments.quick)
    results = [result for result in run_all(run_task, tasks, arguments.jobs) if result is not None]
    levels = [result for result in results if isinstance(result, LevelResult)]
    powers = [result for result in results if isinstance(result, PowerResult)]
    tables = [level_table(levels)] if levels else []
    tables += [power_table(powers)] if powers else []
    kind = "reporting" if arguments.seed >= FIRST_REPORTED else "design"
    write(arguments, tables, results, f"seed {arguments.seed} ({kind})")


if __name__ == "__main__":
    main()
