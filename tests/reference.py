"""Naive twins of what the library computes cleverly; slow, short and obviously right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

import networkx as nx
import numpy as np

from driftbn.graph import Dag, Edge, Pdag
from driftbn.network import BayesianNetwork


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


def bdeu(
    dag: Dag,
    codes: np.ndarray,
    cards: Sequence[int],
    names: Sequence[str],
    equivalent_sample_size: float,
) -> float:
    """Sum log gamma ratios over all configurations, seen or not."""
    column = dict(zip(names, codes.tolist(), strict=True))
    card = dict(zip(names, cards, strict=True))
    score = 0.0
    for node in dag.nodes:
        parents = dag.parents(node)
        rows = Counter(zip(*(column[name] for name in (*parents, node)), strict=True))
        configurations = list(product(*(range(card[name]) for name in parents)))
        prior = equivalent_sample_size / len(configurations)
        for configuration in configurations:
            counts = [rows[(*configuration, state)] for state in range(card[node])]
            score += math.lgamma(prior) - math.lgamma(prior + sum(counts))
            for count in counts:
                cell = prior / card[node]
                score += math.lgamma(cell + count) - math.lgamma(cell)
    return score


def meek_closure(
    nodes: Sequence[str], directed: Iterable[Edge], undirected: Iterable[Edge]
) -> Pdag:
    """Turn lines into arrows by Meek's rules 1 to 3 until none applies (Meek 1995, figure 1)."""
    arrows = set(directed)
    lines = {frozenset(edge) for edge in undirected}
    adjacent = {frozenset(edge) for edge in arrows} | lines

    def into(node: str) -> set[str]:
        return {u for u, v in arrows if v == node}

    def is_compelled(a: str, b: str) -> bool:
        chained = any(frozenset((c, b)) not in adjacent for c in into(a))
        cyclic = any((a, c) in arrows for c in into(b))
        sides = [c for c in into(b) if frozenset((a, c)) in lines]
        kite = any(frozenset(pair) not in adjacent for pair in combinations(sides, 2))
        return chained or cyclic or kite

    changed = True
    while changed:
        changed = False
        for line in sorted(map(sorted, lines)):
            for a, b in (line, line[::-1]):
                if frozenset(line) in lines and is_compelled(a, b):
                    lines.remove(frozenset(line))
                    arrows.add((a, b))
                    changed = True
    return Pdag(nodes, arrows, [(min(line), max(line)) for line in lines])


def pattern(dag: Dag) -> Pdag:
    """Direct the v-structures, then whatever Meek's rules add; quick enough for large graphs."""
    arrows = {(p, child) for a, child, b in v_structures(dag) for p in (a, b)}
    return meek_closure(dag.nodes, arrows, [edge for edge in dag.edges if edge not in arrows])


def joint_distribution(network: BayesianNetwork) -> dict[tuple[int, ...], float]:
    """Multiply the tables out for every combination of states."""
    joint = {}
    for states in product(*(range(card) for card in network.cards)):
        probability = 1.0
        for i, parents in enumerate(network.parents):
            row = 0
            for parent in map(network.index, parents):
                row = row * network.cards[parent] + states[parent]
            probability *= float(network.cpts[i][row, states[i]])
        joint[states] = probability
    return joint
