"""Several fields of each row as one number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from driftbn.kernels.evidence import Floats, Ints
from driftbn.learning.independence import Codes

MOST_NUMBERS = 2**62  # of configurations, so that none wraps


def n_configurations(cards: Ints, members: Sequence[int]) -> int:
    """Return how many configurations some fields have, which may be more than 64 bits hold.

    Examples
    --------
    >>> n_configurations(np.array([2, 5, 4]), (0, 1)), n_configurations(np.array([4]), [0] * 40)
    (10, 1208925819614629174706176)
    """
    return math.prod(cards[list(members)].tolist())


def joint_codes(codes: Codes, cards: Ints, members: Iterable[int]) -> Ints:
    """Return for each row the number of its configuration; the last member runs fastest.

    Where there are too many configurations to number, those of the given rows alone are numbered,
    in the same order.

    Examples
    --------
    >>> joint_codes(np.array([[0, 1], [2, 0]], np.uint8), np.array([2, 3]), (0, 1))
    array([2, 3])
    """
    code, n_numbers = np.zeros(codes.shape[1], np.int64), 1
    for v in members:
        card = int(cards[v])
        if n_numbers * card > MOST_NUMBERS:
            met, code = np.unique(code, return_inverse=True)
            n_numbers = len(met)
        n_numbers *= card
        code *= card
        code += codes[v]
    return code


def trimmed(members: Sequence[int], cards: Ints, room: int) -> tuple[int, ...]:
    """Leave out the member with the most levels until there are at most ``room`` configurations.

    Examples
    --------
    >>> trimmed([0, 1, 2], np.array([2, 5, 3]), 6)
    (0, 2)
    """
    kept = sorted(members)
    n_left = n_configurations(cards, kept)
    while kept and n_left > room:
        most = max(kept, key=lambda v: (int(cards[v]), v))
        kept.remove(most)
        n_left //= int(cards[most])
    return tuple(kept)


def divided(value: Floats | Ints, by: Floats | Ints) -> Floats:
    """Divide; 0 where the divisor is 0."""
    shape = np.broadcast_shapes(value.shape, by.shape)
    return np.divide(value, by, out=np.zeros(shape), where=by != 0)
