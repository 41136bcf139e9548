"""Numbers as JSON writes them, and the bins that they are in."""

# A compiled loop cannot be cut where a branch ends, and numba sets the types inside it.
# ruff: noqa: C901
# mypy: disable-error-code="no-any-return, return-value, assignment"

from __future__ import annotations

import numpy as np

from driftbn.kernels.compiled import inlined
from driftbn_service.decoding.scan_forms import (
    MINUS,
    NINE,
    PLUS,
    POINT,
    UNFIT,
    ZERO,
    Bytes,
    Variables,
)

MAX_DIGITS = 18  # of a number; more do not fit 63 bits
MAX_EXACT = 2**53
MAX_EXACT_POWER = 22  # of ten, that a float holds exactly
MAX_POWER = 250  # of ten, so that the product is neither too large nor too small
NEAR = 2e-15  # a product of rounded parts is nearer to the truth than this share of it


@inlined
def number_at(data: Bytes, i: int) -> tuple[int, int, int]:
    """Return the place after a number, its digits without the sign, and the power of ten."""
    size = data.size
    digits, n_digits, power = np.int64(0), 0, 0
    if data[i] == MINUS:
        i += 1
    if i >= size or data[i] < ZERO or data[i] > NINE:
        return UNFIT, 0, 0
    leading_zero = data[i] == ZERO
    start = i
    while i < size and data[i] >= ZERO and data[i] <= NINE:
        if n_digits < MAX_DIGITS:
            digits = digits * 10 + (np.int64(data[i]) - ZERO)
        n_digits += digits > 0
        i += 1
    if leading_zero and i - start > 1:
        return UNFIT, 0, 0
    if i < size and data[i] == POINT:
        i += 1
        start = i
        while i < size and data[i] >= ZERO and data[i] <= NINE:
            if n_digits < MAX_DIGITS:
                digits = digits * 10 + (np.int64(data[i]) - ZERO)
            n_digits += digits > 0
            power -= 1
            i += 1
        if i == start:
            return UNFIT, 0, 0
    if i < size and (data[i] == 69 or data[i] == 101):  # E, e
        i += 1
        negative = i < size and data[i] == MINUS
        if i < size and (data[i] == MINUS or data[i] == PLUS):
            i += 1
        start, exponent = i, 0
        while i < size and data[i] >= ZERO and data[i] <= NINE:
            exponent = min(exponent * 10 + (np.int64(data[i]) - ZERO), 100_000)
            i += 1
        if i == start:
            return UNFIT, 0, 0
        power += -exponent if negative else exponent
    if n_digits > MAX_DIGITS:
        return UNFIT, 0, 0
    return i, digits, power


@inlined
def bin_at(data: Bytes, i: int, variable: int, variables: Variables) -> tuple[int, int]:
    """Return the place after a number and its bin; -1 if that is not sure.

    Up to 2**53 and 10**22 one operation on exact floats rounds as a parser does (Clinger 1990).
    Beyond, the result is off by a few units in the last place, which matters near an edge only.
    """
    negative = data[i] == MINUS
    i, digits, power = number_at(data, i)
    if i < 0 or abs(power) > MAX_POWER:
        return i, -1
    scale = variables.powers[abs(power)]
    value = digits * scale if power > 0 else digits / scale
    exact = digits <= MAX_EXACT and abs(power) <= MAX_EXACT_POWER
    value = -value if negative else value
    place = 0
    for k in range(variables.first_edges[variable], variables.first_edges[variable + 1]):
        edge = variables.edges[k]
        if not exact and abs(value - edge) <= NEAR * abs(value):
            return i, -1
        place += value > edge
    return i, place
