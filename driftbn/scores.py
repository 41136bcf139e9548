"""Scores of a structure against data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from driftbn.graph import Dag
from driftbn.parameters import check_codes, check_sample_size

_LARGEST_NUMBER = 2**62  # mixed-radix numbers above this would overflow an int64


def bdeu(
    dag: Dag,
    codes: npt.NDArray[np.integer],
    cards: Sequence[int],
    names: Sequence[str],
    equivalent_sample_size: float = 1.0,
) -> float:
    """Return the BDeu score: the log marginal likelihood of the data under a structure.

    The BD metric of Heckerman, Geiger and Chickering 1995 with Buntine's uniform prior of 1991. It
    is the same for all graphs with the same CPDAG. Only parent configurations that occur are
    enumerated, so the number of parents is not bounded by memory.

    Parameters
    ----------
    dag
        The structure.
    codes
        State numbers, ``[variables, rows]``; they are only read.
    cards
        The number of states of each variable, in the order of ``names``.
    names
        The variable of each row of ``codes``; the same set as ``dag.nodes``, in any order.
    equivalent_sample_size
        Weight of the prior in rows.

    Raises
    ------
    VariableMismatchError
        If ``names`` and ``dag.nodes`` differ.
    DataError
        If ``codes`` is not an integer matrix of that many variables or a code is out of range.
    ConfigError
        If ``equivalent_sample_size`` is not positive.

    Examples
    --------
    >>> codes = np.array([[0, 0, 1, 1] * 10, [0, 0, 1, 1] * 10], dtype=np.uint8)
    >>> joined, apart = Dag("ab", [("a", "b")]), Dag("ab")
    >>> bdeu(joined, codes, [2, 2], "ab") > bdeu(apart, codes, [2, 2], "ab")
    True
    """
    check_sample_size(equivalent_sample_size)
    check_codes(dag, codes, cards, names)
    position = {name: i for i, name in enumerate(names)}
    families = [[*(position[parent] for parent in dag.parents(n)), position[n]] for n in dag.nodes]
    return math.fsum(
        _family_score(codes, cards, family, math.log(equivalent_sample_size)) for family in families
    )


def _family_score(
    codes: npt.NDArray[np.integer], cards: Sequence[int], family: Sequence[int], log_prior: float
) -> float:
    """Score one node, the last of ``family``, given the others."""
    log_row_prior = log_prior - sum(math.log(cards[i]) for i in family[:-1])
    log_cell_prior = log_row_prior - math.log(cards[family[-1]])
    configuration = _compressed(codes, cards, family[:-1])
    cells = configuration * cards[family[-1]] + codes[family[-1]]
    n_rows = np.unique_counts(configuration).counts
    n_cells = np.unique_counts(cells).counts
    return _log_gamma_ratios(n_cells, log_cell_prior) - _log_gamma_ratios(n_rows, log_row_prior)


def _log_gamma_ratios(counts: npt.NDArray[np.int64], log_prior: float) -> float:
    """Return the sum of log(gamma(prior + n) / gamma(prior)) over positive counts n.

    With gamma(1 + a) = a gamma(a) it needs no gamma function near 0, where a prior spread over
    very many configurations may even underflow.
    """
    prior = math.exp(log_prior)
    each = gammaln(counts + prior) - gammaln(1 + prior) + log_prior
    return float(each.sum())


def _compressed(
    codes: npt.NDArray[np.integer], cards: Sequence[int], parents: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Give each row the number of its parent configuration among those that occur."""
    number = np.zeros(codes.shape[1], dtype=np.int64)
    size = 1
    for i in parents:
        if size * cards[i] > _LARGEST_NUMBER:
            number, size = _renumbered(number)
        number = number * cards[i] + codes[i]
        size *= cards[i]
    return _renumbered(number)[0]


def _renumbered(number: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    values, inverse = np.unique(number, return_inverse=True)
    return inverse.astype(np.int64), len(values)
