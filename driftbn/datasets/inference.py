"""Exact joint distributions of a few variables, and the separations a graph implies."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from driftbn.errors import GraphError
from driftbn.graph import Dag
from driftbn.network import MAX_CELLS, BayesianNetwork, FloatArray


class _Factor(NamedTuple):
    scope: tuple[str, ...]
    values: FloatArray  # one axis per name of the scope


def joint(network: BayesianNetwork, variables: Sequence[str]) -> FloatArray:
    """Return the exact joint distribution of some variables.

    Everything that is no ancestor of them is left out; the other variables are summed out one by
    one, each time the one that leaves the smallest table (min-weight order), ties by name.

    Parameters
    ----------
    network
        Where the variables are.
    variables
        Their names, each once; none gives an array without axes that holds 1.

    Returns
    -------
    numpy.ndarray
        One axis per variable, in the order given.

    Raises
    ------
    UnknownVariableError
        If a name is not a node.
    GraphError
        If a name stands twice, or a table on the way would have more than ten million cells.

    Examples
    --------
    >>> from driftbn.datasets import asia
    >>> joint(asia(), ["lung", "smoke"]).round(3).tolist()
    [[0.05, 0.005], [0.45, 0.495]]
    """
    if len(set(variables)) != len(variables):
        raise GraphError(f"a variable stands twice among {tuple(variables)}")
    card = dict(zip(network.nodes, network.cards, strict=True))
    relevant = ancestors(network.dag, variables)
    factors = [_factor(network, node) for node in network.nodes if node in relevant]
    waiting = relevant - set(variables)
    while waiting:
        scopes = {node: _scope_around(node, factors) for node in sorted(waiting)}
        node = min(scopes, key=lambda name: math.prod(card[other] for other in scopes[name]))
        touching = [factor for factor in factors if node in factor.scope]
        product = _product(touching, scopes[node], card)
        kept = tuple(name for name in scopes[node] if name != node)
        summed = _Factor(kept, product.sum(axis=scopes[node].index(node)))
        factors = [factor for factor in factors if node not in factor.scope] + [summed]
        waiting.remove(node)
    return _product(factors, tuple(variables), card)


def ancestors(dag: Dag, nodes: Iterable[str]) -> set[str]:
    """Return the nodes and all their ancestors.

    Examples
    --------
    >>> sorted(ancestors(Dag("abcd", [("a", "b"), ("b", "c")]), "b"))
    ['a', 'b']
    """
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            waiting.extend(dag.parents(node))
            found.add(node)
    return found


def descendants(dag: Dag, node: str) -> set[str]:
    """Return all descendants of a node, without itself.

    Examples
    --------
    >>> sorted(descendants(Dag("abcd", [("a", "b"), ("b", "c")]), "a"))
    ['b', 'c']
    """
    found: set[str] = set()
    waiting = list(dag.children(node))
    while waiting:
        child = waiting.pop()
        if child not in found:
            waiting.extend(dag.children(child))
            found.add(child)
    return found


def separated(dag: Dag, node: str, others: Iterable[str], given: Collection[str]) -> bool:
    """Return whether ``node`` is d-separated from each of ``others`` by ``given``.

    Others that are among ``given`` are separated from everything; ``node`` must not be.

    Examples
    --------
    >>> collider = Dag("abc", [("a", "c"), ("b", "c")])
    >>> separated(collider, "a", ["b"], []), separated(collider, "a", ["b"], ["c"])
    (True, False)
    """
    targets = set(others) - set(given)
    relevant = ancestors(dag, {node, *targets, *given})
    neighbours: dict[str, set[str]] = {name: set() for name in relevant}
    for name in relevant:
        for a, b in combinations((name, *dag.parents(name)), 2):
            neighbours[a].add(b)
            neighbours[b].add(a)
    reached = {node}
    waiting = [node]
    while waiting:
        new = neighbours[waiting.pop()] - reached - set(given)
        reached |= new
        waiting.extend(new)
    return not targets & reached


def _factor(network: BayesianNetwork, node: str) -> _Factor:
    i = network.index(node)
    scope = (*network.parents[i], node)
    shape = [network.cards[network.index(name)] for name in scope]
    return _Factor(scope, network.cpts[i].reshape(shape))


def _scope_around(node: str, factors: list[_Factor]) -> tuple[str, ...]:
    """Return all variables that share a factor with ``node``, itself among them, sorted."""
    return tuple(sorted({name for f in factors if node in f.scope for name in f.scope}))


def _product(factors: list[_Factor], scope: tuple[str, ...], card: dict[str, int]) -> FloatArray:
    """Multiply factors into one array with the axes of ``scope``, which must hold all of theirs."""
    shape = tuple(card[name] for name in scope)
    if math.prod(shape) > MAX_CELLS:
        raise GraphError(f"exact inference needs {math.prod(shape)} cells; at most {MAX_CELLS}")
    product = np.ones(shape)
    for factor in factors:
        axes = sorted(range(len(factor.scope)), key=lambda a: scope.index(factor.scope[a]))
        lengths = [card[name] if name in factor.scope else 1 for name in scope]
        product *= factor.values.transpose(axes).reshape(lengths)
    return product
