"""Networks with known truth, and samples drawn from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from driftbn import Edge, Pdag, datasets
from driftbn.graphs.files import read_bif
from driftbn.graphs.network import BayesianNetwork

Codes = npt.NDArray[np.uint8]

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


class Truth(NamedTuple):
    name: str
    network: BayesianNetwork

    def with_shuffled_names(self, seed: int) -> Truth:
        """Return the network with other names in any order, so that they tell nothing."""
        places = np.random.default_rng(seed).permutation(len(self.network.nodes)).tolist()
        known = self.network
        names = {node: f"v{place:04d}" for node, place in zip(known.nodes, places, strict=True)}
        parents = [[names[parent] for parent in listed] for listed in known.parents]
        renamed = BayesianNetwork(names.values(), known.states, parents, known.cpts)
        return self._replace(network=renamed)

    def sample(self, n_rows: int, seed: int) -> Codes:
        """Draw rows by forward sampling; the result has a row per variable, in node order."""
        rng = np.random.default_rng([seed, n_rows, crc32(self.name.encode())])
        codes = np.zeros((len(self.network.nodes), n_rows), dtype=np.uint8)
        for node in self._parents_first():
            row = datasets.configurations(self.network, codes, node)
            cumulative = np.cumsum(self.network.cpts[node], axis=1)[row]
            drawn = (rng.random(n_rows)[:, None] >= cumulative).sum(axis=1)
            codes[node] = np.minimum(drawn, self.network.cards[node] - 1)
        return codes

    def _parents_first(self) -> list[int]:
        nodes, order = self.network.nodes, dict[str, int]()
        while len(order) < len(nodes):
            for place, node in enumerate(nodes):
                if node not in order and all(p in order for p in self.network.parents[place]):
                    order[node] = place
        return list(order.values())


def load_network(name: str) -> Truth:
    """Return a stored network, one of a BIF file, or a random one: ``random_<nodes>_<arcs>``."""
    if name.endswith(".bif"):
        return Truth(Path(name).stem, read_bif(Path(name).read_text()))
    if name.startswith(_RANDOM_PREFIX):
        n_nodes, n_arcs = map(int, name.removeprefix(_RANDOM_PREFIX).split("_"))
        return Truth(name, random_network(n_nodes, n_arcs))
    path = next((p for d in _DIRECTORIES if (p := d / f"{name}.json").exists()), None)
    if path is None:
        return Truth(name, datasets.load(name))
    stored = json.loads(path.read_text())
    nodes = stored["nodes"]
    parents = [[nodes[place] for place in places] for places in stored["parents"]]
    states = [[f"s{state}" for state in range(card)] for card in stored["cards"]]
    return Truth(name, BayesianNetwork(nodes, states, parents, stored["cpts"]))


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


def graph_of(
    names: Iterable[str], directed: Iterable[Iterable[str]], undirected: Iterable[Iterable[str]]
) -> Pdag:
    """Return what a peer has learned; an edge that points both ways has no direction."""
    arcs = {_edge(arc) for arc in directed}
    free = {_sorted(edge) for edge in undirected} | {_sorted(a) for a in arcs if a[::-1] in arcs}
    return Pdag(names, [arc for arc in arcs if _sorted(arc) not in free], free)


def _edge(names: Iterable[str]) -> Edge:
    u, v = names
    return u, v


def _sorted(names: Iterable[str]) -> Edge:
    return _edge(sorted(names))
