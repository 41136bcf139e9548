"""Changed tables and changed root marginals: the same edges with another effect."""

from __future__ import annotations

import numpy as np

from driftbn.datasets.changes import Change, ChangeKind
from driftbn.datasets.couplings import drawn_coupling
from driftbn.datasets.families import rebuilt
from driftbn.datasets.inference import joint
from driftbn.datasets.information import averaged, divergence
from driftbn.datasets.paths import N_DRAWS, check_positive, mixture, reach
from driftbn.errors import GraphError
from driftbn.network import BayesianNetwork, FloatArray

_SHARP = 0.5  # Dirichlet concentration of drawn tables: below 1, so that large changes are in reach


def change_table(
    network: BayesianNetwork,
    node: str,
    amount: float,
    rng: np.random.Generator,
    *,
    keep_marginal: bool = False,
) -> Change:
    """Change what the same parents do.

    The size of the change is I(node; regime | parents), where the regime is the old or the new
    network with probability one half: the Jensen-Shannon divergence of the table's rows, averaged
    over the parents' configurations. It is at most log 2.

    Parameters
    ----------
    network
        What to start from.
    node
        Whose table changes; it must have parents.
    amount
        The wanted size in nats, above 0.
    rng
        Draws the table towards which the old one is moved.
    keep_marginal
        Whether the marginal distribution of ``node`` stays.

    Raises
    ------
    ConfigError
        If the amount is not positive or cannot be reached.
    GraphError
        If the node has no parents; see `change_root_marginal`.

    Examples
    --------
    >>> from driftbn.datasets import asia, table_difference
    >>> change = change_table(asia(), "dysp", 0.05, np.random.default_rng(1))
    >>> round(table_difference(asia(), change.network, "dysp"), 4)
    0.05
    """
    parents = network.parents[network.index(node)]
    if not parents:
        raise GraphError(f"node {node!r} has no parents; only its marginal can be changed")
    check_positive("amount", amount)
    weights = joint(network, parents).reshape(1, -1)
    base = network.cpt(node)[np.newaxis]
    mean = averaged(weights, base)
    ends = (
        drawn_coupling(weights, mean, rng) if keep_marginal else _drawn_rows(base, rng)
        for _ in range(N_DRAWS)
    )
    paths = (mixture(base, end) for end in ends)
    table = reach(paths, lambda t: divergence(weights, base, t), "amount", amount)
    return Change(rebuilt(network, node, parents, table), ChangeKind.TABLE, nodes=(node,))


def change_root_marginal(
    network: BayesianNetwork, node: str, amount: float, rng: np.random.Generator
) -> Change:
    """Change the distribution of a node without parents, by an amount as in `change_table`.

    Raises
    ------
    ConfigError
        If the amount is not positive or cannot be reached.
    GraphError
        If the node has parents.

    Examples
    --------
    >>> from driftbn.datasets import asia, table_difference
    >>> change = change_root_marginal(asia(), "smoke", 0.02, np.random.default_rng(1))
    >>> round(table_difference(asia(), change.network, "smoke"), 4)
    0.02
    """
    if network.parents[network.index(node)]:
        raise GraphError(f"node {node!r} has parents; it is no root")
    check_positive("amount", amount)
    base, weights = network.cpt(node)[np.newaxis], np.ones((1, 1))
    paths = (mixture(base, _drawn_rows(base, rng)) for _ in range(N_DRAWS))
    table = reach(paths, lambda t: divergence(weights, base, t), "amount", amount)
    return Change(rebuilt(network, node, (), table), ChangeKind.ROOT_MARGINAL, nodes=(node,))


def _drawn_rows(table: FloatArray, rng: np.random.Generator) -> FloatArray:
    drawn: FloatArray = rng.dirichlet([_SHARP] * table.shape[-1], size=table.shape[:-1])
    return drawn
