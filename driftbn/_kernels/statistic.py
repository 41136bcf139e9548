"""Statistics of one table of counts: Pearson's chi-square and G."""

from __future__ import annotations

import numpy as np

from driftbn._kernels.evidence import Floats, Ints
from driftbn.compiled import inlined


@inlined
def table_statistic(  # type: ignore[no-untyped-def]
    cells: Ints, column: Floats, n_x: int, n_y: int, entropy: Floats
):
    """Return chi-square (or G, if ``entropy`` is given) and degrees of freedom of one table.

    ``cells[i * n_y + j]`` counts level i against level j; empty rows and columns take no degree of
    freedom. ``column`` is scratch.
    """
    if entropy.shape[0] > 0:
        return _g_statistic(cells, n_x, n_y, entropy)
    if n_x == 2 and n_y == 2:
        return _fourfold_statistic(cells[0], cells[1], cells[2], cells[3])
    total = 0
    n_columns = 0
    for j in range(n_y):
        count = 0
        for i in range(n_x):
            count += cells[i * n_y + j]
        total += count
        column[j] = 1.0 / count if count > 0 else 0.0
        n_columns += count > 0
    n_used = 0
    value = 0.0
    for i in range(n_x):
        count = 0
        part = 0.0
        for j in range(n_y):
            n = cells[i * n_y + j]
            count += n
            part += np.float64(n * n) * column[j]
        if count > 0:
            n_used += 1
            value += part / count
    dof = (n_used - 1) * (n_columns - 1)
    if dof <= 0:
        return 0.0, 0
    return total * (value - 1.0), dof


@inlined
def _fourfold_statistic(a: int, b: int, c: int, d: int):  # type: ignore[no-untyped-def]
    """Return chi-square of two by two cells, which takes one division."""
    margins = np.float64((a + b) * (c + d)) * np.float64((a + c) * (b + d))
    if margins == 0.0:
        return 0.0, 0
    cross = np.float64(a * d - b * c)
    return (a + b + c + d) * cross * cross / margins, 1


@inlined
def _g_statistic(  # type: ignore[no-untyped-def]
    cells: Ints, n_x: int, n_y: int, entropy: Floats
):
    """Return G, twice the sum of n ln n over cells less margins plus total."""
    total = 0
    n_columns = 0
    value = 0.0
    for j in range(n_y):
        count = 0
        for i in range(n_x):
            count += cells[i * n_y + j]
            value += entropy[cells[i * n_y + j]]
        total += count
        value -= entropy[count]
        n_columns += count > 0
    n_used = 0
    for i in range(n_x):
        count = 0
        for j in range(n_y):
            count += cells[i * n_y + j]
        value -= entropy[count]
        n_used += count > 0
    dof = (n_used - 1) * (n_columns - 1)
    if dof <= 0:
        return 0.0, 0
    return 2.0 * (value + entropy[total]), dof
