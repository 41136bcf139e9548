"""How far two groups of rows differ: deviances with the moments that small counts have."""

from __future__ import annotations

import math

import numpy as np

from driftbn._kernels.compiled import inlined, kernel
from driftbn._kernels.evidence import Floats, Ints
from driftbn._kernels.tables import Counts, Tables, n_configurations

MIN_ROWS = 5  # of each group in a configuration; below, nothing is compared there
MIN_BOTH = 8  # of the two groups together
MIN_EXPECTED = 0.5  # in the smaller group; rarer states of a configuration are put together
EXACT_MEAN = 40.0  # up to here the moments are summed, beyond the series is right to four digits
NEGLIGIBLE = 1e-12  # a probability that no sum notices

# What ``compare_groups`` writes for each test.
DEVIANCE, MEAN, VARIANCE, ROWS = 0, 1, 2, 3


@inlined
def n_log_n(n: int, table: Floats) -> float:
    if n < table.shape[0]:
        return table[n]
    return n * math.log(n)


@inlined
def _deviance(k: int, c: int, log_f: float, log_g: float, table: Floats) -> float:
    """Return the deviance of k of c in the first group, given the logs of both shares."""
    parts = n_log_n(k, table) + n_log_n(c - k, table) - n_log_n(c, table)
    return 2.0 * (parts - k * log_f - (c - k) * log_g)


@inlined
def binomial_moments(c: int, f: float, table: Floats) -> tuple[float, float]:
    """Return mean and variance of the deviance of a binomial count of c with share f."""
    q = min(f, 1.0 - f)
    if c * q > EXACT_MEAN:
        return 1.0 + (1.0 - q * (1.0 - q)) / (6.0 * c * q * (1.0 - q)), 2.0
    log_f = math.log(f)
    log_g = math.log(1.0 - f)
    mode = min(c, int((c + 1) * f))
    log_p = math.lgamma(c + 1.0) - math.lgamma(mode + 1.0) - math.lgamma(c - mode + 1.0)
    at_mode = math.exp(log_p + mode * log_f + (c - mode) * log_g)
    mean = 0.0
    square = 0.0
    p = at_mode
    odds = f / (1.0 - f)
    for k in range(mode, c + 1):
        d = _deviance(k, c, log_f, log_g, table)
        mean += p * d
        square += p * d * d
        p *= (c - k) * odds / (k + 1.0)
        if p < NEGLIGIBLE:
            break
    p = at_mode
    for k in range(mode - 1, -1, -1):
        p *= (k + 1.0) / ((c - k) * odds)
        if p < NEGLIGIBLE:
            break
        d = _deviance(k, c, log_f, log_g, table)
        mean += p * d
        square += p * d * d
    return mean, square - mean * mean


@inlined
def _add_state(a: int, b: int, n: int, f: float, out: Floats, table: Floats) -> None:
    c = a + b
    if c == 0:
        return
    mean, variance = binomial_moments(c, f, table)
    share = 1.0 - c / n
    out[DEVIANCE] += _deviance(a, c, math.log(f), math.log(1.0 - f), table)
    out[MEAN] += mean * share
    out[VARIANCE] += variance * share


@inlined
def _compare_configuration(  # noqa: PLR0913 - a strided view without a copy
    a: Counts, b: Counts, begin: int, step: int, n_states: int, out: Floats, table: Floats
) -> None:
    """Add what the states of one configuration say to ``out``."""
    n_a = 0
    n_b = 0
    for j in range(n_states):
        n_a += a[begin + j * step]
        n_b += b[begin + j * step]
    n = n_a + n_b
    if min(n_a, n_b) < MIN_ROWS or n < MIN_BOTH:
        return
    f = n_a / n
    rare = MIN_EXPECTED * n / min(n_a, n_b)
    pooled_a = 0
    pooled_b = 0
    out[ROWS] += n_b
    for j in range(n_states):
        here_a = a[begin + j * step]
        here_b = b[begin + j * step]
        if here_a + here_b < rare:
            pooled_a += here_a
            pooled_b += here_b
        else:
            _add_state(here_a, here_b, n, f, out, table)
    _add_state(pooled_a, pooled_b, n, f, out, table)


@kernel
def compare_nodes(
    tables: Tables, chosen: Ints, a: Counts, b: Counts, table: Floats, out: Floats
) -> None:
    """For each chosen table of a node, compare its states given its set between the groups."""
    out[:, :] = 0.0
    for place in range(chosen.shape[0]):
        t = chosen[place]
        n_states = tables.cards[tables.x[t]]
        for s in range(n_configurations(tables, t)):
            begin = tables.first[t] + s * n_states
            _compare_configuration(a, b, begin, 1, n_states, out[place], table)


@kernel
def compare_ends(
    tables: Tables, chosen: Ints, a: Counts, b: Counts, table: Floats, out: Floats
) -> None:
    """For each chosen table of a pair, compare x given set and y, then y given set and x."""
    out[:, :] = 0.0
    for place in range(chosen.shape[0]):
        t = chosen[place]
        n_x = tables.cards[tables.x[t]]
        n_y = tables.cards[tables.y[t]]
        for s in range(n_configurations(tables, t)):
            begin = tables.first[t] + s * n_x * n_y
            for j in range(n_y):
                _compare_configuration(a, b, begin + j, n_y, n_x, out[2 * place], table)
            for i in range(n_x):
                at = begin + i * n_y
                _compare_configuration(a, b, at, 1, n_y, out[2 * place + 1], table)


@inlined
def _stratum(  # noqa: PLR0913 - three tables in one walk
    a: Counts, b: Counts, begin: int, n_x: int, n_y: int, table: Floats
) -> tuple[float, int]:
    """Return G(a) + G(b) - G(a + b) of one stratum and the same of the degrees of freedom."""
    total = 0.0
    rows_a, rows_b, rows_c = 0, 0, 0
    columns_a, columns_b, columns_c = 0, 0, 0
    n_a, n_b = 0, 0
    for i in range(n_x):
        row_a, row_b = 0, 0
        for j in range(n_y):
            here_a = a[begin + i * n_y + j]
            here_b = b[begin + i * n_y + j]
            row_a += here_a
            row_b += here_b
            if here_a > 0 and here_b > 0:
                total += n_log_n(here_a, table) + n_log_n(here_b, table)
                total -= n_log_n(here_a + here_b, table)
        rows_a += row_a > 0
        rows_b += row_b > 0
        rows_c += row_a + row_b > 0
        if row_a > 0 and row_b > 0:
            total -= n_log_n(row_a, table) + n_log_n(row_b, table)
            total += n_log_n(row_a + row_b, table)
        n_a += row_a
        n_b += row_b
    if n_a == 0 or n_b == 0:
        return 0.0, 0
    for j in range(n_y):
        column_a, column_b = 0, 0
        for i in range(n_x):
            column_a += a[begin + i * n_y + j]
            column_b += b[begin + i * n_y + j]
        columns_a += column_a > 0
        columns_b += column_b > 0
        columns_c += column_a + column_b > 0
        if column_a > 0 and column_b > 0:
            total -= n_log_n(column_a, table) + n_log_n(column_b, table)
            total += n_log_n(column_a + column_b, table)
    total += n_log_n(n_a, table) + n_log_n(n_b, table) - n_log_n(n_a + n_b, table)
    dof = (rows_a - 1) * (columns_a - 1) + (rows_b - 1) * (columns_b - 1)
    return 2.0 * total, dof - (rows_c - 1) * (columns_c - 1)


@kernel
def compare_pairs(
    tables: Tables, begin: int, a: Counts, b: Counts, table: Floats, out: Floats
) -> None:
    """For each table of a pair from ``begin`` on, test whether x and y go together as before."""
    for t in range(begin, tables.x.shape[0]):
        n_x = tables.cards[tables.x[t]]
        n_y = tables.cards[tables.y[t]]
        total = 0.0
        dof = 0
        for s in range(n_configurations(tables, t)):
            here, n = _stratum(a, b, tables.first[t] + s * n_x * n_y, n_x, n_y, table)
            total += here
            dof += n
        out[t - begin, 0] = total
        out[t - begin, 1] = dof
