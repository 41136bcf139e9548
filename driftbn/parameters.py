"""Fitting the probability tables of a known structure to data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt

from driftbn.errors import ConfigError, DataError, VariableMismatchError
from driftbn.graph import Dag
from driftbn.network import MAX_CELLS, BayesianNetwork, FloatArray


class ParameterMethod(Enum):
    """How counts become probabilities."""

    MAXIMUM_LIKELIHOOD = "maximum_likelihood"
    """Relative frequencies; a parent configuration without rows gets the uniform distribution."""

    BDEU = "bdeu"
    """Posterior mean under the BDeu prior: each cell of a table with ``q`` configurations and
    ``r`` states starts from ``equivalent_sample_size / (q * r)`` (Heckerman, Geiger and
    Chickering 1995)."""


def fit_parameters(  # noqa: PLR0913 - the table alone takes three
    dag: Dag,
    codes: npt.NDArray[np.integer],
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    method: ParameterMethod = ParameterMethod.MAXIMUM_LIKELIHOOD,
    equivalent_sample_size: float = 1.0,
) -> BayesianNetwork:
    """Fit probability tables to a structure.

    Parameters
    ----------
    dag
        The structure.
    codes
        State numbers, ``[variables, rows]``; they are only read.
    names
        The variable of each row of ``codes``; the same set as ``dag.nodes``, in any order.
    states
        The states of each variable, in the order of ``names``; those without rows too.
    method
        How counts become probabilities.
    equivalent_sample_size
        Weight of the prior in rows; used by ``ParameterMethod.BDEU`` only.

    Returns
    -------
    BayesianNetwork
        Nodes in the order of ``names``, parents sorted by name.

    Raises
    ------
    VariableMismatchError
        If ``names`` and ``dag.nodes`` differ.
    DataError
        If ``codes`` is not an integer matrix of that many variables, a code is not a state's
        number, or a table would have more than ten million cells.
    ConfigError
        If ``equivalent_sample_size`` is not positive.

    Examples
    --------
    >>> codes = np.array([[0, 0, 1, 1], [0, 1, 1, 1]], dtype=np.uint8)
    >>> dag = Dag(["rain", "wet"], [("rain", "wet")])
    >>> network = fit_parameters(dag, codes, ["rain", "wet"], [["no", "yes"]] * 2)
    >>> network.cpt("wet").tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    check_sample_size(equivalent_sample_size)
    if len(states) != len(names):
        raise DataError(f"states of {len(states)} variables given for {len(names)} names")
    cards = [len(listed) for listed in states]
    check_codes(dag, codes, cards, names)
    position = {name: i for i, name in enumerate(names)}
    parents = [dag.parents(name) for name in names]
    tables = []
    for child in range(len(names)):
        family = [*(position[parent] for parent in parents[child]), child]
        counts = _family_counts(codes, family, cards, names[child])
        if method is ParameterMethod.BDEU:
            counts += equivalent_sample_size / counts.size
        tables.append(_normalised(counts))
    return BayesianNetwork(names, states, parents, tables)


def check_sample_size(equivalent_sample_size: float) -> None:
    """Refuse a prior weight that is not a positive number."""
    if not (equivalent_sample_size > 0 and math.isfinite(equivalent_sample_size)):
        raise ConfigError("equivalent_sample_size", equivalent_sample_size, "a positive number")


def check_codes(
    dag: Dag, codes: npt.NDArray[np.integer], cards: Sequence[int], names: Sequence[str]
) -> None:
    """Refuse codes that do not fit the variables of a graph.

    Raises
    ------
    VariableMismatchError
        If ``names`` and ``dag.nodes`` differ.
    DataError
        If ``codes`` is not an integer matrix ``[variables, rows]`` or a code is out of range.

    Examples
    --------
    >>> check_codes(Dag("a"), np.array([[0, 2]]), [2], ["a"])
    Traceback (most recent call last):
        ...
    driftbn.errors.DataError: column 'a', row 1: 2 is no state; there are 2
    """
    if tuple(sorted(names)) != dag.nodes:
        raise VariableMismatchError(dag.nodes, names)
    if codes.ndim != 2 or not np.issubdtype(codes.dtype, np.integer):
        raise DataError(f"codes must be a matrix of integers, not {codes.ndim}-D {codes.dtype}")
    if not len(codes) == len(cards) == len(names):
        raise DataError(
            f"{len(codes)} rows of codes and {len(cards)} cards given for {len(names)} names"
        )
    for column, row, card in zip(names, codes, cards, strict=True):
        outside = (row < 0) | (row >= card)
        if outside.any():
            at = int(outside.argmax())
            value = int(row[at])
            raise DataError(
                f"{value} is no state; there are {card}", column=column, row=at, value=value
            )


def _family_counts(
    codes: npt.NDArray[np.integer], family: Sequence[int], cards: Sequence[int], name: str
) -> FloatArray:
    """Count the cells ``[configurations, states]`` of a family, its child last."""
    shape = [cards[i] for i in family]
    n_cells = math.prod(shape)
    if n_cells > MAX_CELLS:
        raise DataError(
            f"{len(family) - 1} parents make a table of {n_cells} cells; at most {MAX_CELLS} fit",
            column=name,
        )
    cell = np.zeros(codes.shape[1], dtype=np.int64)
    for i in family:
        cell *= cards[i]
        cell += codes[i]
    counts = np.bincount(cell, minlength=n_cells).reshape(-1, shape[-1])
    return counts.astype(np.float64)


def _normalised(counts: FloatArray) -> FloatArray:
    """Divide each row by its sum; a row without counts becomes uniform."""
    sums = counts.sum(axis=1, keepdims=True)
    table: FloatArray = np.full_like(counts, 1 / counts.shape[1])
    np.divide(counts, sums, out=table, where=sums > 0)
    return table
