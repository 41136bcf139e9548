"""Networks with known truth, samples drawn from them, and distances to their CPDAG."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from driftbn.graphs.network import BayesianNetwork

Codes = npt.NDArray[np.uint8]
Arc = tuple[str, str]

NETWORKS = (
    "asia",
    "insurance",
    "alarm",
    "hailfinder",
    "win95pts",
    "100_130",
    "200_250",
    "random_223_338",
    "pigs",
)
_HERE = Path(__file__).parent
_DIRECTORIES = (_HERE / "networks", _HERE.parent / "networks")
_RANDOM_PREFIX = "random_"
_MAX_PARENTS = 6  # as many as Andes has


@dataclass(frozen=True)
class Network:
    """A discrete network; a CPT has a row per parent configuration, last parent fastest."""

    name: str
    nodes: tuple[str, ...]
    cards: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    cpts: tuple[npt.NDArray[np.float64], ...]

    @property
    def arcs(self) -> tuple[Arc, ...]:
        return tuple(
            (self.nodes[parent], self.nodes[child])
            for child, parents in enumerate(self.parents)
            for parent in parents
        )


@dataclass(frozen=True)
class MixedGraph:
    """Directed and undirected edges by name; two opposite directed edges are a bidirected one."""

    directed: frozenset[Arc]
    undirected: frozenset[Arc]

    @classmethod
    def of(
        cls, directed: Iterable[Iterable[str]], undirected: Iterable[Iterable[str]]
    ) -> MixedGraph:
        """Build a graph from any pairs of names."""
        return cls(frozenset(map(_pair, directed)), frozenset(map(_pair, undirected)))

    def states(self) -> dict[Arc, Arc | None]:
        """Map each sorted adjacent pair to its arc, or to None if it has no one direction."""
        found: dict[Arc, Arc | None] = {}
        for u, v in self.directed:
            found[min(u, v), max(u, v)] = None if (v, u) in self.directed else (u, v)
        for u, v in self.undirected:
            found[min(u, v), max(u, v)] = None
        return found


def _pair(edge: Iterable[str]) -> Arc:
    u, v = edge
    return u, v


def load_network(name: str) -> Network:
    """Return a stored network, one of a BIF file, or a random one: ``random_<nodes>_<arcs>``."""
    if name.endswith(".bif"):
        return _read_bif(Path(name))
    if name.startswith(_RANDOM_PREFIX):
        n_nodes, n_arcs = map(int, name.removeprefix(_RANDOM_PREFIX).split("_"))
        return random_network(name, n_nodes, n_arcs)
    path = next((p for d in _DIRECTORIES if (p := d / f"{name}.json").exists()), None)
    if path is None:
        return _as_read(name, importlib.import_module("driftbn.datasets").load(name))
    stored = json.loads(path.read_text())
    return Network(
        name=name,
        nodes=tuple(stored["nodes"]),
        cards=tuple(stored["cards"]),
        parents=tuple(tuple(p) for p in stored["parents"]),
        cpts=tuple(np.asarray(table, dtype=np.float64) for table in stored["cpts"]),
    )


def _read_bif(path: Path) -> Network:
    # Loaded here, after the process was pinned: numba reads the number of threads when imported.
    files = importlib.import_module("driftbn.graphs.files")
    return _as_read(path.stem, files.read_bif(path.read_text()))


def _as_read(name: str, read: BayesianNetwork) -> Network:
    place = {node: i for i, node in enumerate(read.nodes)}
    cards = tuple(len(states) for states in read.states)
    return Network(
        name=name,
        nodes=read.nodes,
        cards=cards,
        parents=tuple(tuple(place[p] for p in parents) for parents in read.parents),
        cpts=tuple(np.reshape(t, (-1, n)) for t, n in zip(read.cpts, cards, strict=True)),
    )


def random_network(name: str, n_nodes: int, n_arcs: int) -> Network:
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
    return Network(
        name=name,
        nodes=tuple(f"x{i}" for i in range(n_nodes)),
        cards=(2,) * n_nodes,
        parents=tuple(tuple(sorted(p)) for p in parents),
        cpts=tuple(np.column_stack([p, 1 - p]) for p in chances),
    )


def sample(network: Network, n_rows: int, seed: int) -> Codes:
    """Draw rows by forward sampling; the result has a row per variable, in node order."""
    rng = np.random.default_rng([seed, n_rows, crc32(network.name.encode())])
    codes = np.zeros((len(network.nodes), n_rows), dtype=np.uint8)
    for node in _parents_first(network):
        configuration = np.zeros(n_rows, dtype=np.int64)
        for parent in network.parents[node]:
            configuration = configuration * network.cards[parent] + codes[parent]
        cumulative = np.cumsum(network.cpts[node], axis=1)[configuration]
        drawn = (rng.random(n_rows)[:, None] >= cumulative).sum(axis=1)
        codes[node] = np.minimum(drawn, network.cards[node] - 1)
    return codes


def _parents_first(network: Network) -> list[int]:
    order: dict[int, None] = {}
    while len(order) < len(network.nodes):
        for node, parents in enumerate(network.parents):
            if node not in order and all(parent in order for parent in parents):
                order[node] = None
    return list(order)


def true_cpdag(arcs: Iterable[Arc]) -> MixedGraph:
    """Return the CPDAG of a DAG: its colliders, closed under Meek's first three rules."""
    all_arcs = frozenset(arcs)
    adjacent: dict[str, set[str]] = {}
    for u, v in all_arcs:
        adjacent.setdefault(u, set()).add(v)
        adjacent.setdefault(v, set()).add(u)
    directed = {
        (u, child)
        for u, child in all_arcs
        if any((w, child) in all_arcs and w != u and w not in adjacent[u] for w in adjacent[child])
    }
    while fresh := {a for a in all_arcs - directed if _is_compelled(a, directed, adjacent)}:
        directed |= fresh
    return MixedGraph(frozenset(directed), all_arcs - directed)


def _is_compelled(arc: Arc, directed: set[Arc], adjacent: dict[str, set[str]]) -> bool:
    """Tell whether one of Meek's rules 1 to 3 directs ``arc`` given the arcs directed so far."""
    u, v = arc
    if any((w, u) in directed and w not in adjacent[v] for w in adjacent[u]):
        return True
    shared = adjacent[u] & adjacent[v]
    if any((u, w) in directed and (w, v) in directed for w in shared):
        return True
    spouses = {w for w in shared if (w, v) in directed and not {(u, w), (w, u)} & directed}
    return any(spouses - adjacent[w] - {w} for w in spouses)


def skeleton_distance(truth: MixedGraph, learned: MixedGraph) -> int:
    """Count the pairs that are adjacent in one graph only."""
    return len(truth.states().keys() ^ learned.states().keys())


def structural_distance(truth: MixedGraph, learned: MixedGraph) -> int:
    """Count the pairs whose edge differs: absent, undirected, or one of two directions."""
    expected, found = truth.states(), learned.states()
    shared = expected.keys() & found.keys()
    return skeleton_distance(truth, learned) + sum(expected[p] != found[p] for p in shared)
