"""Measure the monitor on streams that wander by themselves: false alarms, power, naming.

Run ``python -m tests.benchmarks.wander``. Constants of the method may be chosen on seeds below
``FIRST_REPORTED``; from there on, seeds are for reporting only. `child` and `hepar2` are reported
networks whatever the seed. The same seed gives the same rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from driftbn import DriftMonitor
from driftbn.datasets import Change, random_network, sample_codes
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.network import BayesianNetwork
from tests import drawn_changes as changes
from tests import networks
from tests.benchmarks.drift_text import Table, in_order
from tests.benchmarks.faults import seed_of
from tests.benchmarks.real import (
    REFERENCE,
    Verdict,
    alarms_text,
    calm_ms,
    run_all,
    usual_parser,
    verdict_on,
    write,
)
from tests.drawn_changes import MEDIUM, STRONG, WEAK
from tests.drift_streams import DriftStream, Sessions

Rng = np.random.Generator
Tilts = Mapping[str, npt.NDArray[np.float64]]  # by node, log weights of its states
Moves = Iterator[tuple[npt.NDArray[np.int64], list[Tilts]]]  # a window: modes of rows, their tilts
Wander = Callable[[BayesianNetwork, Sequence[str], Rng], Moves]
Batches = Iterator[Mapping[str, npt.NDArray[np.uint8]] | pd.DataFrame]

WINDOW = 5000
N_WINDOWS = 60
FIRST_REPORTED = 100
REPORTED = ("child", "hepar2")
DWELLS = (20, 100, 500, 2000, 20_000)
MODE_SIZE = 0.5  # standard deviation of the log weights of a mode, a weekend, a slow mix
ROOT_SIZE = 0.1
N_AFTER = 4
STRENGTHS = {"strong": STRONG, "medium": MEDIUM, "weak": WEAK}
CHANGES: dict[str, Callable[..., Change]] = {
    "added": partial(changes.added, 1),
    "removed": partial(changes.removed, 1),
    "kept": partial(changes.either, keep_marginals=True),
}


@cache
def load(name: str) -> BayesianNetwork:
    """Return a network by name; `six` is a random one."""
    if name == "six":
        return random_network(6, 8, cardinality=(2, 3), max_parents=3, strength=1.0, seed=6)
    if name not in REPORTED:
        return networks.load(name)
    data = json.loads((Path(__file__).parent / f"networks/{name}.json").read_text("utf-8"))
    parents = [[data["nodes"][i] for i in indices] for indices in data["parents"]]
    return BayesianNetwork(data["nodes"], data["states"], parents, data["cpts"])


# --- What wanders ---


def tilted(network: BayesianNetwork, tilts: Tilts) -> BayesianNetwork:
    """Return the network with some nodes' states more or less likely, whatever their parents."""
    cpts = list(network.cpts)
    for node, tilt in tilts.items():
        weights = network.cpt(node) * np.exp(tilt)
        cpts[network.index(node)] = weights / weights.sum(axis=1, keepdims=True)
    return BayesianNetwork(network.nodes, network.states, network.parents, cpts)


def drawn_tilts(network: BayesianNetwork, nodes: Sequence[str], size: float, rng: Rng) -> Tilts:
    return {node: rng.normal(0, size, network.cards[network.index(node)]) for node in nodes}


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
    moves: Moves, before: BayesianNetwork, after: BayesianNetwork, n_before: int, rng: Rng
) -> Batches:
    """Yield windows of a network that wanders, and of another one from a window on."""
    for index, (modes, tilts) in enumerate(moves):
        network = before if index < n_before else after
        codes = np.empty((len(network.nodes), WINDOW), dtype=np.uint8)
        for mode in np.unique(modes):
            rows = modes == mode
            codes[:, rows] = sample_codes(tilted(network, tilts[mode]), int(rows.sum()), rng)
        yield dict(zip(network.nodes, codes, strict=True))


def retail(parts: str, rng: Rng) -> Batches:
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
        columns = {
            "product": np.array([f"p{i}" for i in range(40)])[bought],
            "channel": np.where(online, "web", "shop"),
            "payment": np.where(card, "card", "cash"),
            "price": np.round(base[bought] * rise * rng.lognormal(0, 0.1, WINDOW), 2),
            "items": 1 + rng.poisson(0.5 + 0.5 * weekend + 0.4 * online, WINDOW),
            "region": rng.choice(["north", "south", "west"], WINDOW, p=[0.5, 0.3, 0.2]),
        }
        yield pd.DataFrame(columns)


# --- Streams ---


@dataclass(frozen=True)
class Case:
    """A stream: what wanders, on how many fields, and which edge changes after ``n_before``.

    ``n_fields``: 0 for the roots, infinite for all, a share below 1; with a change they are other
    fields than its own, unless they are all. ``session``: mean length of sessions.
    """

    row: str
    network: str
    wander: Wander = still
    n_fields: float = 0
    session: int | None = None
    n_before: int = N_WINDOWS
    n_after: int = 0
    change: str | None = None
    strength: str = ""
    draw: int = 0
    seed: int = 1

    def batches(self, change: Change | None, rng: Rng) -> Batches:
        if self.network == "retail":
            return retail(self.row, rng)
        network = load(self.network)
        if self.session is not None:
            seed = int(rng.integers(2**31))
            stream = DriftStream(network, bursts=Sessions(self.session), seed=seed)
            return (
                dict(zip(network.nodes, codes, strict=True)) for codes in stream.batches(WINDOW)
            )
        moves = self.wander(network, self._wandering_nodes(network, change, rng), rng)
        after = network if change is None else change.network
        return wandering(moves, network, after, self.n_before, rng)

    def _wandering_nodes(
        self, network: BayesianNetwork, change: Change | None, rng: Rng
    ) -> list[str]:
        if not self.n_fields:
            return [node for node in network.nodes if not network.dag.parents(node)]
        n_nodes = len(network.nodes)
        wanted = self.n_fields if self.n_fields >= 1 else round(self.n_fields * n_nodes)
        if wanted >= n_nodes:
            return list(network.nodes)
        own = {name for edge in edges_of(change) for name in edge}
        others = [node for node in network.nodes if node not in own]
        return [others[i] for i in rng.permutation(len(others))[: int(wanted)]]


def edges_of(change: Change | None) -> list[tuple[str, str]]:
    return [] if change is None else [*change.edges_added, *change.edges_removed]


@dataclass(frozen=True)
class Outcome:
    """``alarms``: windows from the change on that have one; ``edges``: tp, fp, fn of the first."""

    row: str
    strength: str
    network: str
    before: list[Verdict]
    alarms: list[int]
    edges: tuple[int, int, int]


def run_case(case: Case) -> Outcome | None:
    """Return what was said; ``None`` if the network has no such change."""
    what = (case.row, case.network, case.n_fields, case.change, case.strength, case.draw)
    rng = np.random.default_rng(seed_of(case.seed, *what))
    change = None
    if case.change is not None:
        try:
            change = CHANGES[case.change](STRENGTHS[case.strength], load(case.network), rng)
        except (ConfigError, GraphError):
            return None
    monitor = DriftMonitor(window=WINDOW, clock=time.process_time)
    batches = islice(case.batches(change, rng), case.n_before + case.n_after)
    told = [verdict_on(report) for batch in batches for report in monitor.update(batch)]
    later = told[case.n_before :]
    alarms = [i for i, verdict in enumerate(later) if verdict.alarm]
    found = {frozenset(edge) for i in alarms[:1] for edge in later[i].edges}
    true = {frozenset(edge) for edge in edges_of(change)}
    edges = (len(found & true), len(found - true), len(true - found))
    before = [verdict for verdict in told[: case.n_before] if verdict.judged]
    return Outcome(case.row, case.strength, case.network, before, alarms, edges)


def level_cases() -> Iterator[Case]:
    """Yield streams in which nothing changes."""
    every = ("six", "asia", "alarm", "insurance", "child", "hepar2", "100_130")
    yield from (Case("independent rows", name) for name in every)
    for mean, name in product((5, 20), ("asia", "alarm", "insurance")):
        yield Case(f"sessions of {mean}", name, session=mean)
    for dwell, name, n_fields in product(DWELLS, ("asia", "child"), (1, 3, float("inf"))):
        yield Case(f"hidden mode, dwell {dwell:,}", name, partial(hidden_mode, dwell), n_fields)
    for rho, name in product((0.0, 0.5, 0.9), ("asia", "alarm", "hepar2")):
        yield Case(f"root marginals as AR(1), rho {rho}", name, partial(redrawn, rho))
    for wander, name in product((weekly, slow_mix), ("six", "insurance", "child")):
        yield Case("weekly cycle" if wander is weekly else "slow mix", name, wander, 1 / 3)
    for parts in ("walk, weekend, inflation, products", "walk", "weekend", "nothing"):
        yield Case(f"retail: {parts}", "retail")


def power_cases(quick: bool) -> Iterator[Case]:
    """Yield streams in which one edge is added, removed, or either with all marginals kept."""
    mode = partial(hidden_mode, 2000)
    conditions = [
        *(Case(f"{n} reference windows", "", n_before=n, n_after=N_AFTER) for n in (8, 1, 2, 3)),
        Case("mode, dwell 2000, on 3 other fields", "", mode, 3, n_before=20, n_after=N_AFTER),
        Case(
            "mode, dwell 2000, on all fields", "", mode, float("inf"), n_before=20, n_after=N_AFTER
        ),
    ]
    for case in conditions[:5:4] if quick else conditions:
        full = case.n_before == REFERENCE
        strengths = list(STRENGTHS)[: 3 if full else 2]
        draws = range(1 if quick else 4 if full else 2)
        names = ("asia",) if quick else ("asia", "child", "insurance")
        for strength, name, change, draw in product(strengths, names, CHANGES, draws):
            yield replace(case, network=name, strength=strength, change=change, draw=draw)


# --- Tables ---


def level_table(outcomes: Sequence[Outcome]) -> Table:
    goal = ("hidden mode", "root marginals", "weekly")
    groups = {
        row: [o for o in outcomes if o.row == row] for row in in_order(o.row for o in outcomes)
    }
    groups |= {
        "hidden modes, AR(1), weekly cycle": [o for o in outcomes if o.row.startswith(goal)],
        "all": list(outcomes),
        "all of child, hepar2": [o for o in outcomes if o.network in REPORTED],
    }
    rows = []
    for name, some in groups.items():
        judged = [verdict for outcome in some for verdict in outcome.before]
        full, young = ([v for v in judged if v.full is wanted] for wanted in (True, False))
        costs = [f"{calm_ms(judged, part):.1f}" for part in ("learn", "decide")]
        rows.append((name, str(len(some)), *map(alarms_text, (judged, full, young)), *costs))
    header = ("stream", "streams", "alarms", "full", "young", "learn, ms", "decide, ms")
    return Table("False alarms, nothing changes", header, tuple(rows))


def power_table(outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for row, strength in in_order((o.row, o.strength) for o in outcomes):
        some = [o for o in outcomes if (o.row, o.strength) == (row, strength)]
        within = [sum(any(i < n for i in o.alarms) for o in some) for n in (1, 3, 4)]
        edges = ", ".join(str(sum(o.edges[i] for o in some)) for i in range(3))
        before = alarms_text([verdict for o in some for verdict in o.before])
        rows.append((row, strength, str(len(some)), *map(str, within), edges, before))
    seen = ("first window", "within three", "within four")
    header = ("condition", "edge", "n", *seen, "tp, fp, fn", "alarms before")
    title = "One edge added, removed, or either with all marginals kept"
    return Table(title, header, tuple(rows), n_words=2)


def main() -> None:
    """Parse the command line, run, print the tables."""
    parser = usual_parser("python -m tests.benchmarks.wander")
    parser.add_argument("--only", choices=("level", "power"), help="one of the tables")
    chosen = parser.parse_args()
    n_windows = min(chosen.windows or N_WINDOWS, 25 if chosen.quick else N_WINDOWS)
    levels = [replace(case, n_before=n_windows) for case in level_cases()]
    if chosen.quick:
        levels = [case for case in levels if case.network in ("six", "asia", "retail")]
    cases = [] if chosen.only == "power" else levels
    cases += [] if chosen.only == "level" else power_cases(chosen.quick)
    cases = [replace(case, seed=chosen.seed) for case in cases]
    found = [o for o in run_all(run_case, cases, chosen.jobs) if o is not None]
    parts = ([o for o in found if not o.strength], [o for o in found if o.strength])
    tables = [of(part) for of, part in zip((level_table, power_table), parts, strict=True) if part]
    kind = "reporting" if chosen.seed >= FIRST_REPORTED else "design"
    write(chosen, tables, found, f"seed {chosen.seed} ({kind})")


if __name__ == "__main__":
    main()
