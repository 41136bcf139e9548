"""Naive twins of what the library computes cleverly; slow, short and obviously right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, islice, permutations, product
from typing import NamedTuple, TypeVar

import networkx as nx
import numpy as np
from scipy.stats import chi2

from driftbn import Dag, Edge, Pdag

_Node = TypeVar("_Node", int, str)


def is_d_separated(dag: Dag, x: str, y: str, given: Iterable[str]) -> bool:
    """Look for a path in the moral graph of the ancestors, without the given nodes."""
    graph = dag.to_networkx()
    given = set(given)
    relevant = {x, y} | given
    for node in tuple(relevant):
        relevant |= nx.ancestors(graph, node)
    moral = nx.Graph()
    moral.add_nodes_from(relevant)
    for child in relevant:
        family = (child, *graph.predecessors(child))
        moral.add_edges_from(combinations(family, 2))
    moral.remove_nodes_from(given)
    return not nx.has_path(moral, x, y)


def v_structures(dag: Dag) -> set[tuple[str, str, str]]:
    """Return all ``(parent, child, parent)`` whose parents are not adjacent."""
    adjacent = {frozenset(edge) for edge in dag.edges}
    return {
        (a, child, b)
        for child in dag.nodes
        for a, b in combinations(dag.parents(child), 2)
        if frozenset((a, b)) not in adjacent
    }


def equivalent_dags(dag: Dag) -> Iterator[Dag]:
    """Turn the edges in all ways; keep what is acyclic and has the same v-structures."""
    wanted = v_structures(dag)
    for turned in product((False, True), repeat=len(dag.edges)):
        edges = [(v, u) if t else (u, v) for (u, v), t in zip(dag.edges, turned, strict=True)]
        if not nx.is_directed_acyclic_graph(nx.DiGraph(edges)):
            continue
        other = Dag(dag.nodes, edges)
        if v_structures(other) == wanted:
            yield other


def cpdag(dag: Dag) -> Pdag:
    """Direct the edges that all equivalent DAGs direct alike."""
    shared: set[Edge] = set(dag.edges)
    for other in equivalent_dags(dag):
        shared &= set(other.edges)
    return Pdag(dag.nodes, shared, [edge for edge in dag.edges if edge not in shared])


def pattern(dag: Dag) -> Pdag:
    """Direct the v-structures, then whatever Meek's rules add; quick enough for large graphs."""
    found = {(p, child) for a, child, b in v_structures(dag) for p in (a, b)}
    arrows = close_directions({frozenset(edge) for edge in dag.edges}, found)
    return Pdag(dag.nodes, arrows, [edge for edge in dag.edges if edge not in arrows])


class TableTest(NamedTuple):
    statistic: float
    dof: int
    separated: bool
    undecided: bool


def pair_counts(codes: np.ndarray, x: int, y: int) -> Counter[tuple[int, int]]:
    """Count the rows of every two levels."""
    return Counter(zip(codes[x].tolist(), codes[y].tolist(), strict=True))


def table_statistic(tables: np.ndarray, *, use_g: bool = False) -> tuple[float, int]:
    """Compare tables ``[strata, x, y]`` with their margins; what is empty has no freedom."""
    observed = tables.astype(float)
    in_x, in_y = observed.sum(axis=2), observed.sum(axis=1)
    total = observed.sum(axis=(1, 2))
    expected = in_x[:, :, None] * in_y[:, None, :] / total[:, None, None]
    dof = int((((in_x > 0).sum(axis=1) - 1) * ((in_y > 0).sum(axis=1) - 1)).sum())
    if use_g:
        seen = observed > 0
        return float(2 * (observed[seen] * np.log(observed[seen] / expected[seen])).sum()), dof
    met = expected > 0
    return float(((observed[met] - expected[met]) ** 2 / expected[met]).sum()), dof


def conditional_test(
    codes: np.ndarray,
    x: int,
    y: int,
    members: Sequence[int],
    *,
    alpha: float = 0.01,
    use_g: bool = False,
    divisor: float = 1.0,
) -> TableTest:
    """Sum the statistics of all strata, one table each."""
    keys, stratum = np.unique(codes[list(members)], axis=1, return_inverse=True)
    tables = np.zeros((max(keys.shape[1], 1), int(codes[x].max()) + 1, int(codes[y].max()) + 1))
    np.add.at(tables, (stratum.ravel(), codes[x], codes[y]), 1)
    statistic, dof = table_statistic(tables, use_g=use_g)
    statistic /= divisor
    n_rows = codes.shape[1]
    undecided = dof == 0 or (len(members) > 0 and n_rows < 5 * dof)
    separated = undecided or statistic <= float(chi2.isf(alpha, dof))
    return TableTest(statistic, dof, separated, undecided)


class Verdict(NamedTuple):
    """What a set says about a pair, and the sizes of the tests asked for it, in order."""

    separated: bool
    mute: bool
    undecided: bool
    sizes: tuple[int, ...]


def is_determined(codes: np.ndarray, x: int, members: Sequence[int]) -> bool:
    """Whether x has one level only wherever the members have theirs."""
    given = codes[list(members)].T.tolist()
    both = {(*key, level) for key, level in zip(map(tuple, given), codes[x].tolist(), strict=True)}
    return len(both) == len(set(map(tuple, given)))


def judge(
    codes: np.ndarray, x: int, y: int, members: Sequence[int], **options: float | bool
) -> Verdict:
    """Tell apart a set that separates from one that only determines an end of the pair.

    Two members and more are not asked at all if the rows do not suffice for all cells.
    """
    levels = [len(np.unique(codes[v])) for v in (x, y, *members)]
    dof = (levels[0] - 1) * (levels[1] - 1) * math.prod(levels[2:])
    if len(members) > 1 and codes.shape[1] < 5 * dof:
        return Verdict(False, True, False, ())
    test = conditional_test(codes, x, y, members, **options)
    sizes = [len(members)]
    if test.dof > 0 or not members:
        return Verdict(test.separated, False, test.undecided, tuple(sizes))
    mute = False
    for end, other in ((x, y), (y, x)):
        if not is_determined(codes, end, members):
            continue
        acting = True
        for z in members:
            sizes.append(1)
            if conditional_test(codes, z, other, (end,), **options).separated:
                acting = False
                break
        if acting:
            return Verdict(True, False, True, tuple(sizes))
        mute = True
    return Verdict(not mute, mute, True, tuple(sizes))


def subsets_in_order(
    candidates: Iterable[int], size: int, tallies: Mapping[int, int] | Sequence[int]
) -> list[tuple[int, ...]]:
    """List all subsets by falling sum of tallies, then in the order of their members."""
    subsets = combinations(sorted(candidates), size)
    return sorted(subsets, key=lambda members: (-sum(tallies[z] for z in members), members))


Separates = Callable[[int, int, tuple[int, ...]], bool]
Question = tuple[int, int, tuple[int, ...]]


@dataclass
class SearchTwin:
    """PC, FSBN and SSBN with sets and sorted lists, one question at a time.

    ``skips`` says whether a set is passed over that was asked from the pair's other end, which is
    taken for granted when all sets of this size around the other end were listed.
    """

    separates: Separates
    n_nodes: int
    by_node: bool
    stable: bool
    credit: Sequence[int]
    max_sets: int | None = None
    impossible: Iterable[tuple[int, int]] = ()
    fixed: Iterable[tuple[int, int]] = ()
    tallies: list[list[int]] | None = None
    strength: Sequence[Sequence[int]] | None = None
    recalled: Mapping[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    skips: bool = True

    def __post_init__(self) -> None:
        away = {frozenset(pair) for pair in self.impossible}
        nodes = range(self.n_nodes)
        self.neighbours = [
            {y for y in nodes if y != x and frozenset((x, y)) not in away} for x in nodes
        ]
        self.fixed_pairs = {frozenset(pair) for pair in self.fixed}
        self.gained = [list(row) for row in self.tallies or [[0] * self.n_nodes] * self.n_nodes]
        self.strengths = self.strength or [[0] * self.n_nodes] * self.n_nodes
        self.separators: dict[tuple[int, int], tuple[int, ...]] = {}
        self.asked: list[Question] = []
        self.completed: set[tuple[int, int, int]] = set()

    @property
    def max_size(self) -> int:
        return len(self.credit) - 1

    @property
    def edges(self) -> set[tuple[int, int]]:
        return {(x, y) for x in range(self.n_nodes) for y in self.neighbours[x] if x < y}

    def run(self) -> SearchTwin:
        for x, y in combinations(range(self.n_nodes), 2):
            self.ask(x, y, ())
        for x, y in combinations(range(self.n_nodes), 2):
            if members := self.recalled.get((x, y), ()):
                self.ask(x, y, members)
        sizes, targets = range(1, self.max_size + 1), range(self.n_nodes)
        if self.by_node:
            for x, size in product(targets, sizes):
                self.examine_all(x, size, self.neighbours)
            return self
        for size in sizes:
            pool = [set(around) for around in self.neighbours]
            for x in targets:
                self.examine_all(x, size, pool if self.stable else self.neighbours)
        return self

    def examine_all(self, x: int, size: int, pool: list[set[int]]) -> None:
        self.offered = self.max_sets
        for y in sorted(self.neighbours[x], key=lambda y: (self.strengths[x][y], y)):
            if y in self.neighbours[x] and frozenset((x, y)) not in self.fixed_pairs:
                self.examine(x, y, size, pool)

    def examine(self, x: int, y: int, size: int, pool: list[set[int]]) -> None:
        around = pool[x] - {y}
        if len(around) < size:
            return
        weaker = {z: min(self.strengths[x][z], self.strengths[y][z]) for z in around}
        worth = {z: (self.gained[x][z] << 24) + weaker[z] for z in around}
        listed = subsets_in_order(around, size, worth)
        known = self.skips and (y, x, size) in self.completed
        for members in listed[: self.offered]:
            if known and pool[y].issuperset(members):
                continue
            if self.ask(x, y, members):
                self.offer(2)
                return
        if self.offered is None or len(listed) < self.offered:
            self.completed.add((x, y, size))
        self.offer(1 / 2)

    def offer(self, factor: float) -> None:
        """Offer the target's next neighbour more sets after a find, and fewer without one."""
        if self.max_sets is None or self.offered is None:
            return
        if factor > 1:
            self.offered = min(self.max_sets, int(factor * self.offered))
        elif self.by_node:
            self.offered = max(3, int(factor * self.offered))

    def ask(self, x: int, y: int, members: tuple[int, ...]) -> bool:
        if y not in self.neighbours[x] or frozenset((x, y)) in self.fixed_pairs:
            return False
        self.asked.append((x, y, members))
        if not self.separates(x, y, members):
            return False
        self.neighbours[x].discard(y)
        self.neighbours[y].discard(x)
        self.separators[min(x, y), max(x, y)] = members
        for z in members:
            self.gained[x][z] += self.credit[len(members)]
        return True


@dataclass
class ColliderTwin:
    """The collider rules over all sets around the ends of each unshielded triple."""

    search: SearchTwin
    separates: Separates
    p_value: Callable[[int, int, tuple[int, ...]], float]
    max_size: int
    max_sets: int | None = None
    is_mute: Separates = lambda x, y, members: False

    def __post_init__(self) -> None:
        self.asked: list[Question] = []

    def triples(self) -> Iterator[tuple[int, int, list[int]]]:
        around = self.search.neighbours
        for x, y in combinations(range(self.search.n_nodes), 2):
            if y not in around[x] and around[x] & around[y]:
                yield x, y, sorted(around[x] & around[y])

    def sets_around(self, x: int, y: int) -> list[tuple[int, ...]]:
        found: dict[tuple[int, ...], None] = {}
        for size in range(1, self.max_size + 1):
            for end in (x, y):
                sets = combinations(sorted(self.search.neighbours[end]), size)
                found.update(dict.fromkeys(islice(sets, self.max_sets)))
        return list(found)

    def colliders(self, rule: str) -> dict[tuple[int, int, int], float]:
        """Return the colliders and how strong each is."""
        told = (
            (x, y, self.outside_separator(x, y, middles))
            if rule == "standard"
            else (x, y, self.by_census(rule, x, y, middles))
            for x, y, middles in self.triples()
        )
        return {(x, z, y): strength for x, y, found in told for z, strength in found.items()}

    def outside_separator(self, x: int, y: int, middles: list[int]) -> dict[int, float]:
        return {z: 0.0 for z in middles if z not in self.search.separators[x, y]}

    def census(self, x: int, y: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Return the sets that tell something, and those that separate; () is known already."""
        sets = self.sets_around(x, y)
        self.asked += [(x, y, members) for members in sets]
        found = [members for members in sets if self.separates(x, y, members)]
        if self.search.separators[x, y] == ():
            found.append(())
        telling = [members for members in sets if not self.is_mute(x, y, members)]
        return [*telling, ()], found

    def by_census(self, rule: str, x: int, y: int, middles: list[int]) -> dict[int, float]:
        asked, found = self.census(x, y)
        shares = {z: rates(z, asked, found) for z in middles}
        if not found:
            told = self.outside_clear_separator(x, y, middles)
        elif rule == "majority":
            told = [z for z in middles if sum(z in members for members in found) < len(found) / 2]
        else:
            told = [z for z in middles if shares[z][0] < shares[z][1] / 2]
        return {z: strength(*shares[z]) for z in told}

    def outside_clear_separator(self, x: int, y: int, middles: list[int]) -> list[int]:
        separator = self.search.separators[x, y]
        self.asked.append((x, y, separator))
        clear = self.p_value(x, y, separator) >= 0.5
        return [z for z in middles if clear and z not in separator]


def rates(
    z: int, asked: list[tuple[int, ...]], found: list[tuple[int, ...]]
) -> tuple[Fraction, Fraction]:
    """Return of the sets asked with and without z the shares that were found to separate."""
    n_with = sum(z in members for members in asked)
    found_with = sum(z in members for members in found)
    rate_with = Fraction(found_with, n_with) if n_with else Fraction(1)
    return rate_with, Fraction(len(found) - found_with, len(asked) - n_with)


def strength(rate_with: Fraction, rate_without: Fraction) -> float:
    """Return how much more often sets without the middle separate, rounded as the library does."""
    return float(rate_without) - float(rate_with)


def direct(
    n_nodes: int,
    edges: Iterable[tuple[int, int]],
    colliders: Mapping[tuple[int, int, int], float],
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the arrows that follow from colliders, and the pairs to be left alone.

    Those are the pairs that equally strong colliders want to point both ways, and those on a
    directed cycle. A collider that contradicts stronger ones is left out.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    conflicts: set[tuple[int, int]] = set()

    def fits(u: int, v: int) -> bool:
        return (min(u, v), max(u, v)) not in conflicts and not nx.has_path(graph, v, u)

    for level in sorted(set(colliders.values()), reverse=True):
        equal = [triple for triple, its_own in colliders.items() if its_own == level]
        fitting = [(x, z, y) for x, z, y in equal if fits(x, z) and fits(y, z)]
        wanted = {(end, z) for x, z, y in fitting for end in (x, y)}
        conflicts |= {(u, v) for u, v in wanted if u < v and (v, u) in wanted}
        graph.add_edges_from((u, v) for u, v in wanted if (v, u) not in wanted)
    arrows = {(u, v) for u, v in graph.edges if not nx.has_path(graph, v, u)}
    conflicts |= {(min(arrow), max(arrow)) for arrow in set(graph.edges) - arrows}
    adjacent = {frozenset(edge) for edge in edges}
    disputed = {frozenset(pair) for pair in conflicts}
    return close_directions(adjacent, arrows, disputed), conflicts


def close_directions(
    adjacent: Collection[frozenset[_Node]],
    arrows: Iterable[tuple[_Node, _Node]],
    disputed: Collection[frozenset[_Node]] = (),
) -> set[tuple[_Node, _Node]]:
    """Apply Meek's four rules in the order of nodes, but for disputed edges and cycles."""
    graph = nx.DiGraph()
    graph.add_nodes_from(node for pair in adjacent for node in pair)
    graph.add_edges_from(arrows)

    def free(x: _Node, y: _Node) -> bool:
        pair = frozenset((x, y))
        return pair in adjacent and not graph.has_edge(x, y) and not graph.has_edge(y, x)

    def implied(x: _Node, y: _Node) -> bool:
        into_y = set(graph.predecessors(y))
        sides = [z for z in into_y if free(x, z)]
        return (
            any(frozenset((z, y)) not in adjacent for z in graph.predecessors(x))
            or any(z in into_y for z in graph.successors(x))
            or any(frozenset(pair) not in adjacent for pair in combinations(sides, 2))
            or any(
                free(x, w) and frozenset((w, y)) not in adjacent
                for z in sides
                for w in graph.predecessors(z)
            )
        )

    changed = True
    while changed:
        changed = False
        for x, y in sorted(order for pair in adjacent for order in permutations(pair)):
            if not free(x, y) or frozenset((x, y)) in disputed or not implied(x, y):
                continue
            if not nx.has_path(graph, y, x):
                graph.add_edge(x, y)
                changed = True
    return set(graph.edges)


def shd(previous: Pdag, current: Pdag) -> int:
    """Look at every pair of nodes of either graph and count those that are not alike."""

    def mark(graph: Pdag, u: str, v: str) -> str:
        for edge, sign in (((u, v), ">"), ((v, u), "<")):
            if edge in graph.directed_edges:
                return sign
        either = ((u, v), (v, u))
        return "-" if any(edge in graph.undirected_edges for edge in either) else " "

    nodes = sorted({*previous.nodes, *current.nodes})
    return sum(mark(previous, u, v) != mark(current, u, v) for u, v in combinations(nodes, 2))
