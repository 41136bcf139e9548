"""Several fields of each row as one number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from driftbn._kernels.evidence import Floats, Ints
from driftbn.learning.independence import Codes


def joint_codes(codes: Codes, cards: Ints, members: Iterable[int]) -> Ints:
    """Return for each row the number of its configuration; the last member runs fastest.

    Examples
    --------
    >>> joint_codes(np.array([[0, 1], [2, 0]], np.uint8), np.array([2, 3]), (0, 1))
    array([2, 3])
    """
    code = np.zeros(codes.shape[1], np.int64)
    for v in members:
        code *= int(cards[v])
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
    while kept and int(np.prod(cards[kept])) > room:
        kept.remove(max(kept, key=lambda v: (int(cards[v]), v)))
    return tuple(kept)


def divided(value: Floats | Ints, by: Floats | Ints) -> Floats:
    """Divide; 0 where the divisor is 0."""
    shape = np.broadcast_shapes(value.shape, by.shape)
    return np.divide(value, by, out=np.zeros(shape), where=by != 0)
