"""Forward sampling from a Bayesian network."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from driftbn.errors import ConfigError, DataError
from driftbn.graphs.network import BayesianNetwork, FloatArray

if TYPE_CHECKING:
    import pandas as pd

MAX_STATES = 256
"""Codes are single bytes."""


def sample(network: BayesianNetwork, n_rows: int, seed: int | np.random.Generator) -> pd.DataFrame:
    """Draw independent rows as a table of categorical columns.

    There is one column per node in the order of ``network.nodes``; the categories are the node's
    states in their order, also those that were not drawn.

    ``seed``: a number, for the same rows every time, or a generator, to go on drawing from it.

    Raises ConfigError if ``n_rows`` is negative. Raises DataError if a node has more than 256
    states.

    >>> from driftbn.datasets import asia
    >>> table = sample(asia(), 1000, seed=1)
    >>> table.shape
    (1000, 8)
    >>> list(table["smoke"].cat.categories)
    ['yes', 'no']
    """
    return labelled(network, sample_codes(network, n_rows, np.random.default_rng(seed)))


def labelled(network: BayesianNetwork, codes: npt.NDArray[np.uint8]) -> pd.DataFrame:
    """Return state numbers ``[variables, rows]`` as a table of categorical columns."""
    pandas = importlib.import_module("pandas")
    columns = {
        node: pandas.Categorical.from_codes(row.astype(np.int16), categories=list(names))
        for node, names, row in zip(network.nodes, network.states, codes, strict=True)
    }
    frame: pd.DataFrame = pandas.DataFrame(columns, index=range(codes.shape[1]))
    return frame


def sample_codes(
    network: BayesianNetwork, n_rows: int, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    """Draw independent rows as state numbers.

    Nodes are drawn parents first, ties by name, so the numbers drawn for a node do not depend on
    the order of ``network.nodes``.

    Returns ``[variables, rows]``, the variables in the order of ``network.nodes``.

    ``rng``: source of randomness; it is advanced by ``n_rows`` uniform numbers per node.

    Raises ConfigError if ``n_rows`` is negative. Raises DataError if a node has more than 256
    states.

    >>> from driftbn.datasets import asia
    >>> sample_codes(asia(), 1000, np.random.default_rng(1)).shape
    (8, 1000)
    """
    if n_rows < 0:
        raise ConfigError("n_rows", n_rows, "0 or more")
    for node, card in zip(network.nodes, network.cards, strict=True):
        if card > MAX_STATES:
            raise DataError(f"{card} states; at most {MAX_STATES} can be coded", column=node)
    codes = np.zeros((len(network.nodes), n_rows), dtype=np.uint8)
    for node in network.dag.topological_order():
        i = network.index(node)
        configuration = configurations(network, codes, i)
        codes[i] = drawn(network.cpts[i], configuration, rng.random(n_rows))
    return codes


def configurations(
    network: BayesianNetwork, codes: npt.NDArray[np.uint8], child: int
) -> npt.NDArray[np.int64]:
    """Return for each row the number of the table row that applies to ``child``."""
    number = np.zeros(codes.shape[1], dtype=np.int64)
    for parent in map(network.index, network.parents[child]):
        number *= network.cards[parent]
        number += codes[parent]
    return number


def drawn(
    cpt: FloatArray, configuration: npt.NDArray[np.int64], uniform: FloatArray
) -> npt.NDArray[np.uint8]:
    """Invert the cumulative distribution of each row's configuration."""
    upper = np.cumsum(cpt, axis=1)
    # From the last possible state on the bound is exactly 1, which a uniform number never reaches:
    # a state of probability 0 is never drawn.
    upper /= upper[:, -1:]
    drawn = np.zeros(len(uniform), dtype=np.uint8)
    for state in range(cpt.shape[1] - 1):
        drawn += uniform >= upper[configuration, state]
    return drawn
