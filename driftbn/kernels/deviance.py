"""How far groups of rows differ: deviances, their moments, sums over blocks, and scatter.

Sums over blocks are integers and know neither shares nor weights: those of several windows are
added up exactly, in any order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import inlined, kernel
from driftbn.kernels.evidence import Floats, Ints
from driftbn.kernels.tables import Counts, Tables

# What ``add_pair_moments`` sums up of a cell with k rows of the block, whose level of the first
# field has f of them, that of the second g, and its stratum n.
KK, KF, KG, KN, FG = 0, 1, 2, 3, 4
N_MOMENTS = 5

Rows = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint32]  # an unsigned index needs no check


class MomentRoom(NamedTuple):
    """Room to work in; counts are 0 before and after."""

    cell: Counts  # rows of the block, [strata * x * y]
    first: Counts  # [strata * x]
    second: Counts  # [strata * y]
    stratum: Counts  # [strata]
    place: Places  # cell of each row of the block, [length]
    met: Places  # cells that the block has, [length]


def make_moment_room(n_strata: int, n_x: int, n_y: int, length: int) -> MomentRoom:
    """Return room for tables of this shape and blocks of this length."""
    return MomentRoom(
        cell=np.zeros(n_strata * n_x * n_y, np.int32),
        first=np.zeros(n_strata * n_x, np.int32),
        second=np.zeros(n_strata * n_y, np.int32),
        stratum=np.zeros(n_strata, np.int32),
        place=np.zeros(length, np.uint32),
        met=np.zeros(length, np.uint32),
    )


def make_margins(n_x: int, n_y: int) -> Floats:
    """Return room for the margins of one stratum."""
    return np.zeros((8, max(n_x, n_y)))


@kernel
def add_pair_moments(
    codes: Rows, members: Ints, cards: Ints, length: int, room: MomentRoom, out: Ints
) -> None:
    """Add the moments of one window to ``out``, ``[cells, N_MOMENTS]``.

    The last two of the ``members`` are the pair, the others make the strata.
    """
    n_x, n_y = np.uint32(cards[members[-2]]), np.uint32(cards[members[-1]])
    for begin in range(0, codes.shape[1], length):
        n_rows = min(length, codes.shape[1] - begin)
        _place_rows(codes, members, cards, begin, n_rows, room.place)
        n_met = 0
        for row in range(n_rows):
            cell = room.place[row]
            if room.cell[cell] == 0:
                room.met[n_met] = cell
                n_met += 1
            room.cell[cell] += 1
        for m in range(n_met):
            cell = room.met[m]
            first = cell // n_y
            s = first // n_x
            room.first[first] += room.cell[cell]
            room.second[s * n_y + (cell - first * n_y)] += room.cell[cell]
            room.stratum[s] += room.cell[cell]
        for m in range(n_met):
            cell = room.met[m]
            first = cell // n_y
            s = first // n_x
            k = np.int64(room.cell[cell])
            out[cell, KK] += k * k
            out[cell, KF] += k * room.first[first]
            out[cell, KG] += k * room.second[s * n_y + (cell - first * n_y)]
            out[cell, KN] += k * room.stratum[s]
            room.cell[cell] = 0
        for m in range(n_met):
            s = room.met[m] // (n_x * n_y)
            if room.stratum[s] > 0:
                _add_margins(s, n_x, n_y, room, out)


@inlined
def _place_rows(
    codes: Rows, members: Ints, cards: Ints, begin: int, n_rows: int, place: Places
) -> None:
    """Write the cell of each row of a block."""
    for row in range(n_rows):
        place[row] = 0
    for m in range(members.shape[0]):
        card = np.uint32(cards[members[m]])
        for row in range(n_rows):
            place[row] = place[row] * card + np.uint32(codes[members[m], begin + row])


@inlined
def _add_margins(s: np.uint32, n_x: np.uint32, n_y: np.uint32, room: MomentRoom, out: Ints) -> None:
    """Add the products of the margins of one stratum, and clear them."""
    for i in range(s * n_x, s * n_x + n_x):
        f = np.int64(room.first[i])
        if f > 0:
            for j in range(n_y):
                out[i * n_y + j, FG] += f * room.second[s * n_y + j]
            room.first[i] = 0
    for j in range(s * n_y, s * n_y + n_y):
        room.second[j] = 0
    room.stratum[s] = 0


@kernel
def expected_squares(own: Counts, other: Counts, n_x: int, n_y: int, margins: Floats) -> float:
    """Return the sum of squares of the scores of blocks, for independent rows.

    Parameters
    ----------
    own, other
        The rows of the group, and of that which it is compared with, in each cell.
    n_x, n_y
        Levels of both fields.
    margins
        Room to work in.
    """
    expected = 0.0
    for begin in range(0, own.shape[0], n_x * n_y):
        n, n_other = _sum_rows(own, other, begin, n_x, n_y, margins)
        if n == 0.0 or n_other == 0.0:
            continue
        for i in range(n_x):
            for j in range(n_y):
                if margins[2, i] > 0.0 and margins[3, j] > 0.0:
                    p, p_x, p_y = own[begin + i * n_y + j] / n, margins[0, i] / n, margins[1, j] / n
                    c = 2.0 * p_x * p_y - p
                    here = p * (1.0 - p_x - p_y + c) ** 2 + (p_x - p) * (c - p_y) ** 2
                    here += (p_y - p) * (c - p_x) ** 2 + (1.0 - p_x - p_y + p) * c * c
                    expected += n * here * (n + n_other) / (margins[2, i] * margins[3, j])
    return expected


@kernel
def pair_squares(
    own: Counts, other: Counts, n_x: int, n_y: int, moments: Ints, margins: Floats
) -> float:
    """Return the sum of squares of the scores of the blocks that have these moments."""
    squares = 0.0
    for begin in range(0, own.shape[0], n_x * n_y):
        n, n_other = _sum_rows(own, other, begin, n_x, n_y, margins)
        if n == 0.0 or n_other == 0.0:
            continue
        of_n = _sum_moments(moments, begin, n_x, n_y, margins)
        for i in range(n_x):
            for j in range(n_y):
                if margins[2, i] > 0.0 and margins[3, j] > 0.0:
                    of = moments[begin + i * n_y + j]
                    p_x, p_y = margins[0, i] / n, margins[1, j] / n
                    c = 2.0 * p_x * p_y - own[begin + i * n_y + j] / n
                    here = of[KK] + c * c * of_n
                    here += p_y * p_y * margins[4, i] + p_x * p_x * margins[5, j]
                    here += 2.0 * (c * of[KN] - p_x * of[KG] - p_y * of[KF] + p_x * p_y * of[FG])
                    here -= 2.0 * c * (p_y * margins[6, i] + p_x * margins[7, j])
                    squares += here * (n + n_other) / (margins[2, i] * margins[3, j])
    return max(squares, 0.0)


@inlined
def _sum_rows(
    own: Counts, other: Counts, begin: int, n_x: int, n_y: int, margins: Floats
) -> tuple[float, float]:
    """Sum up the rows of a stratum: own ones of each field, then all; return own and others."""
    n, n_other = 0.0, 0.0
    margins[:4] = 0.0
    for i in range(n_x):
        for j in range(n_y):
            cell = begin + i * n_y + j
            n += own[cell]
            n_other += other[cell]
            margins[0, i] += own[cell]
            margins[1, j] += own[cell]
            margins[2, i] += own[cell] + other[cell]
            margins[3, j] += own[cell] + other[cell]
    return n, n_other


@inlined
def _sum_moments(moments: Ints, begin: int, n_x: int, n_y: int, margins: Floats) -> float:
    """Sum up the squares of each field, then the products with the stratum; return its square."""
    square = 0.0
    margins[4:] = 0.0
    for i in range(n_x):
        for j in range(n_y):
            cell = begin + i * n_y + j
            margins[4, i] += moments[cell, KF]
            margins[5, j] += moments[cell, KG]
            margins[6, i] += moments[cell, KN]
            margins[7, j] += moments[cell, KN]
            square += moments[cell, KN]
    return square


# How far two groups of rows differ: deviances with the moments that small counts have.

MIN_ROWS = 5  # of each group in a configuration; below, nothing is compared there
MIN_EXPECTED = 0.5  # in the smaller group; rarer states of a configuration are put together
EXACT_MEAN = 40.0  # up to here the moments are summed, beyond the series is right to four digits
NEGLIGIBLE = 1e-12  # a probability that no sum notices

# What ``compare_groups`` writes for each test.
DEVIANCE, MEAN, VARIANCE, ROWS = 0, 1, 2, 3


@inlined
def n_log_n(n: int, table: Floats) -> float:
    """Look up n ln n; an unsigned index needs no check, which makes it six times as fast."""
    return table[np.uint32(n)]


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
def _compare_configuration(
    a: Counts, b: Counts, begin: int, step: int, n_states: int, out: Floats, table: Floats
) -> None:
    """Add what the states of one configuration say to ``out``."""
    n_a = 0
    n_b = 0
    for j in range(n_states):
        n_a += a[begin + j * step]
        n_b += b[begin + j * step]
    n = n_a + n_b
    if min(n_a, n_b) < MIN_ROWS:
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
    """For each chosen table of a child, compare its levels given its set between the groups."""
    out[:, :] = 0.0
    for place in range(chosen.shape[0]):
        t = chosen[place]
        n_levels = tables.cards[tables.child[t]]
        for s in range(tables.strata[t]):
            begin = tables.first[t] + s * n_levels
            _compare_configuration(a, b, begin, 1, n_levels, out[place], table)


@kernel
def compare_ragged(
    starts: Ints, lengths: Ints, a: Counts, b: Counts, table: Floats, out: Floats
) -> None:
    """Compare configurations that lie one after the other, each with its own number of states."""
    out[:] = 0.0
    for place in range(starts.shape[0]):
        _compare_configuration(a, b, starts[place], 1, lengths[place], out, table)


@kernel
def compare_ends(
    tables: Tables, chosen: Ints, a: Counts, b: Counts, table: Floats, out: Floats
) -> None:
    """For each chosen table, compare source given set and child, then child given the rest."""
    out[:, :] = 0.0
    for place in range(chosen.shape[0]):
        t = chosen[place]
        n_sources = tables.cards[tables.source[t]]
        n_levels = tables.cards[tables.child[t]]
        for s in range(tables.strata[t]):
            begin = tables.first[t] + s * n_sources * n_levels
            for j in range(n_levels):
                at = begin + j * n_sources
                _compare_configuration(a, b, at, 1, n_sources, out[2 * place], table)
            for i in range(n_sources):
                at = begin + i
                _compare_configuration(a, b, at, n_sources, n_levels, out[2 * place + 1], table)


@kernel
def measure_association(
    tables: Tables, begin: int, counts: Counts, table: Floats, info: Floats, dof: Floats
) -> None:
    """For each table from ``begin`` on: half of G of source and child given the set, and dof."""
    for t in range(begin, tables.child.shape[0]):
        n_sources = tables.cards[tables.source[t]]
        n_levels = tables.cards[tables.child[t]]
        total = 0.0
        free = 0
        cell = tables.first[t]
        for _ in range(tables.strata[t]):
            n = 0
            levels_met = 0
            for j in range(n_levels):
                row = 0
                for i in range(n_sources):
                    here = counts[np.uint64(cell + j * n_sources + i)]
                    row += here
                    total += n_log_n(here, table)
                if row > 0:
                    levels_met += 1
                    n += row
                    total -= n_log_n(row, table)
            if n > 0:
                sources_met = 0
                for i in range(n_sources):
                    column = 0
                    for j in range(n_levels):
                        column += counts[np.uint64(cell + j * n_sources + i)]
                    if column > 0:
                        sources_met += 1
                        total -= n_log_n(column, table)
                total += n_log_n(n, table)
                free += (levels_met - 1) * (sources_met - 1)
            cell += n_sources * n_levels
        info[t - begin] = total
        dof[t - begin] = free


@kernel
def measure_change(
    tables: Tables, begin: int, a: Counts, b: Counts, table: Floats, info: Floats, dof: Floats
) -> None:
    """Take from ``info`` and ``dof`` of group a what both groups together have; add what b has."""
    for t in range(begin, tables.child.shape[0]):
        n_sources = tables.cards[tables.source[t]]
        n_levels = tables.cards[tables.child[t]]
        cell = tables.first[t]
        total = 0.0
        free = 0
        for _ in range(tables.strata[t]):
            if n_sources == 2 and n_levels == 2:
                here, more = _fourfold(a, b, cell, table)
            else:
                here, more = _stratum(a, b, cell, n_levels, n_sources, table)
            total += here
            free += more
            cell += n_sources * n_levels
        info[t - begin] += total
        dof[t - begin] += free


@inlined
def _fourfold(a: Counts, b: Counts, cell: int, table: Floats) -> tuple[float, int]:
    """Return half of G(b) - G(a + b) of a table of two by two, and the same of the dof."""
    at0, at1 = np.uint64(cell), np.uint64(cell + 1)  # as in n_log_n
    at2, at3 = np.uint64(cell + 2), np.uint64(cell + 3)
    b0, b1, b2, b3 = b[at0], b[at1], b[at2], b[at3]
    c0, c1, c2, c3 = b0 + a[at0], b1 + a[at1], b2 + a[at2], b3 + a[at3]
    total = n_log_n(b0, table) + n_log_n(b1, table) + n_log_n(b2, table) + n_log_n(b3, table)
    total -= n_log_n(c0, table) + n_log_n(c1, table) + n_log_n(c2, table) + n_log_n(c3, table)
    total -= n_log_n(b0 + b1, table) + n_log_n(b2 + b3, table)
    total += n_log_n(c0 + c1, table) + n_log_n(c2 + c3, table)
    total -= n_log_n(b0 + b2, table) + n_log_n(b1 + b3, table)
    total += n_log_n(c0 + c2, table) + n_log_n(c1 + c3, table)
    total += n_log_n(b0 + b1 + b2 + b3, table) - n_log_n(c0 + c1 + c2 + c3, table)
    free = int(b0 + b1 > 0 and b2 + b3 > 0 and b0 + b2 > 0 and b1 + b3 > 0)
    free -= int(c0 + c1 > 0 and c2 + c3 > 0 and c0 + c2 > 0 and c1 + c3 > 0)
    return total, free


@inlined
def _stratum(
    a: Counts, b: Counts, cell: int, n_levels: int, n_sources: int, table: Floats
) -> tuple[float, int]:
    """Return half of G(b) - G(a + b) of one stratum, and the same of the degrees of freedom."""
    total = 0.0
    n_b, n_c = 0, 0
    levels_b, levels_c, sources_b, sources_c = 0, 0, 0, 0
    for j in range(n_levels):
        row_b, row_c = 0, 0
        for i in range(n_sources):
            at = np.uint64(cell + j * n_sources + i)
            here_b = b[at]
            here_c = here_b + a[at]
            row_b += here_b
            row_c += here_c
            total += n_log_n(here_b, table) - n_log_n(here_c, table)
        n_b += row_b
        n_c += row_c
        levels_b += row_b > 0
        levels_c += row_c > 0
        total += n_log_n(row_c, table) - n_log_n(row_b, table)
    if n_c == 0:
        return 0.0, 0
    for i in range(n_sources):
        column_b, column_c = 0, 0
        for j in range(n_levels):
            at = np.uint64(cell + j * n_sources + i)
            column_b += b[at]
            column_c += b[at] + a[at]
        sources_b += column_b > 0
        sources_c += column_c > 0
        total += n_log_n(column_c, table) - n_log_n(column_b, table)
    total += n_log_n(n_b, table) - n_log_n(n_c, table)
    free = -(levels_c - 1) * (sources_c - 1)
    if n_b > 0:
        free += (levels_b - 1) * (sources_b - 1)
    return total, free


# How far windows lie apart: a sum of squares of each test, under each component of a mixture.

_STIRLING_FROM = 10.0  # from here on the series is right to twelve digits
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_NO_CHANGE = 1e-15  # of a sum, by its last term


class Mixture(NamedTuple):
    """The components: all directions vary ``factors`` times as much as by chance, or one does.

    That one has ``extras`` times the variance besides.
    """

    factors: Floats
    extras: Floats


@inlined
def _cumulants(
    mixture: Mixture, component: int, dof: float, strength: float
) -> tuple[float, float, float]:
    """Return mean, variance and third cumulant of a test with the mean ``dof`` by chance.

    The excess of the component is multiplied by ``strength``.
    """
    n_factors = mixture.factors.shape[0]
    if component < n_factors:
        factor = 1.0 + strength * (mixture.factors[component] - 1.0)
        return dof * factor, 2.0 * dof * factor**2, 8.0 * dof * factor**3
    factor = 1.0 + strength * mixture.extras[component - n_factors]
    one, rest = min(dof, 1.0), max(dof - 1.0, 0.0)
    return one * factor + rest, 2.0 * (one * factor**2 + rest), 8.0 * (one * factor**3 + rest)


@inlined
def _log_gamma(x: float) -> float:
    if x < _STIRLING_FROM:
        return math.lgamma(x)
    y = 1.0 / (x * x)
    series = 1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))
    return (x - 0.5) * math.log(x) - x + _HALF_LOG_TWO_PI + series / x


@inlined
def _gamma_tail(shape: float, x: float) -> float:
    """Return the probability that a gamma variable of scale 1 is above x."""
    if x <= 0.0:
        return 1.0
    factor = math.exp(shape * math.log(x) - x - _log_gamma(shape))
    if x < shape + 1.0:  # the series of the lower tail
        term = 1.0 / shape
        total = term
        while term > _NO_CHANGE * total:
            shape += 1.0
            term *= x / shape
            total += term
        return 1.0 - factor * total
    # The continued fraction of the upper tail, by the modified method of Lentz.
    last = x + 1.0 - shape
    c, d = np.inf, 1.0 / last
    total, change, k = d, 0.0, 0.0
    while abs(change - 1.0) > _NO_CHANGE:
        k += 1.0
        step = k * (shape - k)
        last += 2.0
        d = 1.0 / (last + step * d)
        c = last + step / c
        change = c * d
        total *= change
    return factor * total


@kernel
def write_gamma_tails(statistics: Floats, out: Floats) -> None:
    """Write the p-value of each deviance by the gamma with its mean and variance; 1 if untested."""
    for t in range(out.shape[0]):
        value, mean, variance = (
            statistics[t, DEVIANCE],
            statistics[t, MEAN],
            statistics[t, VARIANCE],
        )
        out[t] = 1.0
        if variance > 0.0:
            out[t] = _gamma_tail(mean * mean / variance, value * mean / variance)


@inlined
def _write_densities(
    mixture: Mixture, excess: float, n: float, dof: float, least: float, out: Floats
) -> None:
    """Write the density of a sum of n squares under each component, gamma, up to a factor.

    It is ``excess`` above n ``dof``, the mean that it has by chance. A sum below ``least`` of that
    is taken to be there.
    """
    value = max(excess + n * dof, least * n * dof)
    log_value = math.log(value)
    usual = 0.5 * n * dof
    log_gamma = _log_gamma(usual)
    largest = -np.inf
    for c in range(out.shape[0]):
        mean, variance, _ = _cumulants(mixture, c, dof, 1.0)
        scale = variance / mean
        out[c] = -value / scale
        if c < mixture.factors.shape[0] or dof <= 1.0:  # the variance is twice the mean squared
            out[c] += (usual - 1.0) * log_value - usual * math.log(scale) - log_gamma
        else:
            shape = n * mean / scale
            out[c] += (shape - 1.0) * log_value - shape * math.log(scale) - _log_gamma(shape)
        largest = max(largest, out[c])
    for c in range(out.shape[0]):
        out[c] = math.exp(out[c] - largest)


@kernel
def write_densities(
    mixture: Mixture, excess: Floats, n: Floats, dof: Floats, least: float, out: Floats
) -> None:
    """Write the densities of each test, ``[tests, components]``."""
    for t in range(out.shape[0]):
        _write_densities(mixture, excess[t], n[t], dof[t], least, out[t])


@kernel
def fit_weights(
    densities: Floats,
    prior: Floats,
    bonus: Floats,
    n_steps: int,
    least_change: float,
    weights: Floats,
    found: Floats,
) -> None:
    """Fit the weights of components to tests, by EM from those given.

    A component counts ``bonus`` times the tests it explains, and ``prior`` more. ``found``: room.
    """
    n_components = weights.shape[0]
    for _ in range(n_steps):
        found[:] = 0.0
        for t in range(densities.shape[0]):
            density = 0.0
            for c in range(n_components):
                density += weights[c] * densities[t, c]
            inverse = 1.0 / density
            for c in range(n_components):
                found[c] += densities[t, c] * inverse
        total = 0.0
        for c in range(n_components):
            found[c] = prior[c] + bonus[c] * weights[c] * found[c]
            total += found[c]
        change = 0.0
        for c in range(n_components):
            change = max(change, abs(found[c] / total - weights[c]))
            weights[c] = found[c] / total
        if change < least_change:
            break


@kernel
def write_predictive_tails(
    mixture: Mixture,
    weights: Floats,
    spread: tuple[Floats, Floats, Floats],
    least: float,
    value: Floats,
    dof: Floats,
    strength: float,
    room: Floats,
    out: Floats,
) -> None:
    """Write how likely each test is above its value, by a chi-square a component (Hall 1983).

    It is 0 without degrees of freedom. ``spread``: what ``write_densities`` reads; 0 where nothing
    is known. ``room``: for the densities of one test.
    """
    excess, n, usual = spread
    for t in range(out.shape[0]):
        out[t] = 0.0
        if dof[t] <= 0.0:
            continue
        room[:] = 1.0
        if n[t] > 0.0 and usual[t] > 0.0:
            _write_densities(mixture, excess[t], n[t], usual[t], least, room)
        density, tail = 0.0, 0.0
        for c in range(weights.shape[0]):
            mean, variance, third = _cumulants(mixture, c, dof[t], strength)
            free = 8.0 * variance**3 / third**2
            at = free + math.sqrt(2.0 * free / variance) * (value[t] - mean)
            share = weights[c] * room[c]
            density += share
            tail += share * _gamma_tail(0.5 * free, 0.5 * at)
        out[t] = tail / density
