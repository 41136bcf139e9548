"""Bursts of a stream: sessions and repeated rows, in which variables stay fixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn.datasets.inference import ancestors
from driftbn.datasets.schedules import check_at_least
from driftbn.network import BayesianNetwork

HELD_SHARE = 1 / 3
"""Share of the variables that stay fixed within a session."""


@dataclass(frozen=True)
class Sessions:
    """Rows come in sessions, in which a third of the variables stays fixed.

    The fixed variables are the same throughout a stream; with each come all its ancestors, so that
    every single row still follows the network. Lengths are geometric.

    Parameters
    ----------
    mean_length
        Mean number of rows of a session, at least 1.

    Raises
    ------
    ConfigError
        If the mean is below 1.
    """

    mean_length: float

    def __post_init__(self) -> None:
        check_at_least("mean_length", self.mean_length, 1)


@dataclass(frozen=True)
class Repeats:
    """Whole rows are repeated; how often a row stands there is geometric.

    Parameters
    ----------
    mean_length
        Mean number of times that a row stands there, at least 1.

    Raises
    ------
    ConfigError
        If the mean is below 1.
    """

    mean_length: float

    def __post_init__(self) -> None:
        check_at_least("mean_length", self.mean_length, 1)


def first_of_burst(starts: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return for each row the last row up to it that starts a burst; 0 if there is none."""
    return np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))


def closed_share(networks: list[BayesianNetwork], rng: np.random.Generator) -> tuple[str, ...]:
    """Draw a third of the variables, closed under ancestors in all networks.

    Variables are gone through in random order, again and again, and taken with their ancestors
    where these still fit in.
    """
    nodes = networks[0].nodes
    room = max(1, round(len(nodes) * HELD_SHARE))
    order = [nodes[i] for i in rng.permutation(len(nodes))]
    held: set[str] = set()
    grown = True
    while grown and len(held) < room:
        grown = False
        for node in order:
            closure = _common_ancestors(networks, node) | held
            if node not in held and len(closure) <= room:
                held, grown = closure, True
    return tuple(node for node in nodes if node in held)


def _common_ancestors(networks: list[BayesianNetwork], node: str) -> set[str]:
    """Return the node and all above it, through the edges of any of the networks."""
    found = {node}
    while True:
        more = found.union(*(ancestors(network.dag, found) for network in networks))
        if more == found:
            return found
        found = more
