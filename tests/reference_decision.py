"""Naive twins of what the decision computes cleverly; slow, short and obviously right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, chi2, f, gamma


def cell_counts(codes: np.ndarray, cards: Sequence[int], members: Sequence[int]) -> list[int]:
    """Count the rows of every combination of levels, the last member's levels fastest."""
    rows = Counter(zip(*(codes[v].tolist() for v in members), strict=True))
    return [rows[levels] for levels in product(*(range(cards[v]) for v in members))]


class Difference(NamedTuple):
    """How far two groups are apart, what is expected by chance, and the rows compared."""

    deviance: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    rows: int = 0

    @property
    def p_value(self) -> float:
        """The tail of the gamma with this mean and variance."""
        if self.variance <= 0.0:
            return 1.0
        scale = self.variance / self.mean
        return float(gamma.sf(self.deviance, self.mean / scale, scale=scale))


def binomial_deviance(k: int, c: int, share: float) -> float:
    """Compare k of c with a share, both outcomes."""
    pairs = ((k, c * share), (c - k, c * (1.0 - share)))
    return sum(2.0 * seen * math.log(seen / expected) for seen, expected in pairs if seen)


def deviance_moments(c: int, share: float) -> tuple[float, float]:
    """Sum over all outcomes, or take the series where 40 are expected in both groups."""
    q = min(share, 1.0 - share)
    if c * q > 40.0:
        return 1.0 + (1.0 - q * (1.0 - q)) / (6.0 * c * q * (1.0 - q)), 2.0
    weights = binom.pmf(np.arange(c + 1), c, share)
    values = np.array([binomial_deviance(k, c, share) for k in range(c + 1)])
    mean = float(weights @ values)
    return mean, float(weights @ (values - mean) ** 2)


def pooled_states(a: Sequence[int], b: Sequence[int]) -> list[list[int]] | None:
    """List which states of a configuration count as one; ``None`` if it is not compared."""
    n_a, n_b = sum(a), sum(b)
    if min(n_a, n_b) < 5 or n_a + n_b < 8:
        return None
    smaller = min(n_a, n_b) / (n_a + n_b)
    rare = [j for j in range(len(a)) if (a[j] + b[j]) * smaller < 0.5]
    return [*([j] for j in range(len(a)) if j not in rare), rare]


def difference(a: np.ndarray, b: np.ndarray) -> Difference:
    """Compare the states in each configuration, both ``[configurations, states]``."""
    total = Difference()
    for in_a, in_b in zip(a.tolist(), b.tolist(), strict=True):
        states = pooled_states(in_a, in_b)
        if states is None:
            continue
        n_a, n_b = sum(in_a), sum(in_b)
        deviance = mean = variance = 0.0
        for members in states:
            k = sum(in_a[j] for j in members)
            c = k + sum(in_b[j] for j in members)
            if c == 0:
                continue
            expected, spread = deviance_moments(c, n_a / (n_a + n_b))
            deviance += binomial_deviance(k, c, n_a / (n_a + n_b))
            mean += expected * (1.0 - c / (n_a + n_b))
            variance += spread * (1.0 - c / (n_a + n_b))
        found = (deviance, mean, variance, n_b)
        total = Difference(*(old + new for old, new in zip(total, found, strict=True)))
    return total


def g_and_dof(tables: np.ndarray) -> tuple[float, int]:
    """Return G and the degrees of freedom of tables ``[strata, x, y]``."""
    g, dof = 0.0, 0
    for table in tables.tolist():
        rows = [sum(row) for row in table]
        columns = [sum(column) for column in zip(*table, strict=True)]
        n = sum(rows)
        for i, j in product(range(len(rows)), range(len(columns))):
            if table[i][j]:
                g += 2.0 * table[i][j] * math.log(table[i][j] * n / (rows[i] * columns[j]))
        if n:
            dof += (sum(r > 0 for r in rows) - 1) * (sum(c > 0 for c in columns) - 1)
    return g, dof


def interaction(a: np.ndarray, b: np.ndarray) -> tuple[float, int]:
    """Return how much stronger the associations are in each group than in both pooled."""
    parts = [g_and_dof(a), g_and_dof(b), g_and_dof(a + b)]
    return parts[0][0] + parts[1][0] - parts[2][0], parts[0][1] + parts[1][1] - parts[2][1]


def pair_p_value(a: np.ndarray, b: np.ndarray) -> float:
    """Return the p-value of a pair in tables ``[strata, child, source]``."""
    g, dof = interaction(a, b)
    if dof < 1:
        return 1.0
    ends = []
    for turned in (lambda t: t, lambda t: t.swapaxes(1, 2)):
        rows = [turned(t).reshape(-1, turned(t).shape[2]) for t in (a, b)]
        ends.append(difference(*rows).p_value)
    return max(float(chi2.sf(g, dof)), min(1.0, 2.0 * min(ends)))


class Effect(NamedTuple):
    """Design effect, concentration, degrees of freedom of the blocks, and directions."""

    effect: float
    concentration: float
    blocks_dof: float
    directions: float

    def p_value(self, statistic: float, mean: float, variance: float) -> float:
        most = 2.0 * mean**2 / variance
        dof = max(most / self.concentration, min(most, self.directions))
        return float(f.sf(statistic / (mean * self.effect), dof, self.blocks_dof))


def effect_of_blocks(windows: Sequence[np.ndarray], *, longer: bool) -> Effect:
    """Add up what the rows of each window ``[rows, cells]`` give, in blocks that grow.

    For independent rows the squares of blocks are as large as those of their rows one by one.
    Blocks that are still ``longer`` count if they show clearly more.
    """
    expected = sum(float((rows * rows).sum()) for rows in windows)

    def cut(length: int) -> tuple[list[np.ndarray], float, float]:
        blocks = [w[i : i + length].sum(axis=0) for w in windows for i in range(0, len(w), length)]
        total = sum(float(u @ u) for u in blocks)
        return blocks, total, total / expected * len(blocks) / max(len(blocks) - 2, 1)

    length = 64
    while length < 4 * cut(length)[2] and length < 512:
        length *= 2
    blocks, total, effect = cut(length)
    effect = max(1.0, effect * (1.0 + (effect - 1.0) / (2 * length)))
    while longer and 2 * length <= min(map(len, windows)):
        length *= 2
        more = cut(length)
        if len(more[0]) < 6:
            break
        if more[2] > effect * (1.0 + 2.0 * math.sqrt(2.0 / (len(more[0]) * expected))):
            blocks, total, effect = more
    crossed = sum(float(u @ w) ** 2 for u in blocks for w in blocks if u is not w)
    concentration = min(max(1.0, expected * crossed / total**2), max(expected, 1.0))
    directions = max(1.0, expected / concentration)
    dof = max(len(blocks) - 2, 1) * directions
    return Effect(effect, concentration, dof, directions)


Windows = Sequence[np.ndarray]


def effect_of_groups(older: Windows, newer: Windows, n_older: int, n_newer: int) -> Effect:
    """Pool both groups, or weight them crosswise if newer rows are clearly more overdispersed.

    The groups have these numbers of rows that are compared; others have scores of 0.
    """
    longer = len(older) < 4
    together = effect_of_blocks([*older, *newer], longer=longer)
    if any(sum(float((rows * rows).sum()) for rows in group) < 1e-9 for group in (older, newer)):
        return together
    before, after = (effect_of_blocks(rows, longer=longer) for rows in (older, newer))
    if after.effect <= before.effect * (1.0 + 3.0 * math.sqrt(2.0 / after.blocks_dof)):
        return together
    crosswise = before.effect * n_newer + after.effect * n_older
    return Effect(
        max(together.effect, crosswise / (n_older + n_newer)),
        max(together.concentration, after.concentration),
        min(together.blocks_dof, after.blocks_dof),
        min(together.directions, after.directions),
    )


def _told_apart(
    codes: np.ndarray, cards: Sequence[int], members: Sequence[int], n_last: int
) -> np.ndarray:
    """Return for each row a 1 at its combination, ``[rows, strata, *the last members]``."""
    told = np.zeros((codes.shape[1], *(cards[v] for v in members)))
    for r, levels in enumerate(codes[list(members)].T.tolist()):
        told[(r, *levels)] = 1.0
    return told.reshape(codes.shape[1], -1, *told.shape[-n_last:])


def effect_on_pair(
    groups: tuple[Windows, Windows], cards: Sequence[int], members: Sequence[int]
) -> Effect:
    """Measure the dependence in how the last two members go together, given the others."""
    told = [[_told_apart(codes, cards, members, 2) for codes in group] for group in groups]
    tables = [sum(w.sum(axis=0) for w in group) for group in told]
    both = tables[0] + tables[1]
    scores: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for group, table, scored in zip(told, tables, scores, strict=True):
        for rows in group:
            columns = []
            for s, i, j in product(*map(range, table.shape)):
                margins = both[s, i].sum() * both[s, :, j].sum()
                if margins == 0.0 or min(t[s].sum() for t in tables) == 0.0:
                    continue
                p = table[s] / table[s].sum()
                p_i, p_j = p[i].sum(), p[:, j].sum()
                here = rows[:, s, i, j] - p_i * rows[:, s, :, j].sum(axis=1)
                here -= p_j * rows[:, s, i].sum(axis=1)
                here += (2.0 * p_i * p_j - p[i, j]) * rows[:, s].sum(axis=(1, 2))
                columns.append(here * math.sqrt(both[s].sum() / margins))
            scored.append(np.column_stack(columns))
    return effect_of_groups(*scores, *(int(table.sum()) for table in tables))


FACTORS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0, 16.0, 32.0)
EXTRAS = tuple(2.0**k for k in range(-1, 13))


def scatter_cumulants(dof: float, strength: float = 1.0) -> list[tuple[float, float, float]]:
    """List mean, variance and third cumulant of a test under each component of the mixture."""
    one, rest = min(dof, 1.0), max(dof - 1.0, 0.0)
    wide = [(dof, 0.0, 1.0 + strength * (factor - 1.0)) for factor in FACTORS]
    narrow = [(one, rest, 1.0 + strength * extra) for extra in EXTRAS]
    return [
        (part * f + left, 2.0 * (part * f**2 + left), 8.0 * (part * f**3 + left))
        for part, left, f in wide + narrow
    ]


def scatter_densities(excess: float, n: float, dof: float) -> np.ndarray:
    """Return the density of a sum of n squares under each component."""
    value = max(excess + n * dof, 0.02 * n * dof)
    moments = [(n * mean, n * variance) for mean, variance, _ in scatter_cumulants(dof)]
    return np.array([gamma.pdf(value, m * m / v, scale=v / m) for m, v in moments])


def scatter_weights(densities: np.ndarray, n: float) -> np.ndarray:
    """Fit the weights of the components by EM, one step after the other."""
    enough = max(min(1.0, (n / 3.0) ** 4), 0.001)
    wide, narrow = len(FACTORS) - 1, len(EXTRAS)
    prior = np.array([1.0] + [0.04 * enough / wide] * wide + [0.16 * enough / narrow] * narrow)
    weights = prior / prior.sum()
    for _ in range(60):
        shares = weights * densities
        found = (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0)
        found[0] *= 1.0 + 0.5 * min(1.0, n / 7.0)
        before, weights = weights, (prior + found) / (prior + found).sum()
        if np.abs(weights - before).max() < 1e-5:
            break
    return weights


def scatter_p_value(shares: np.ndarray, value: float, dof: float, strength: float) -> float:
    """Return how likely a test is above its value; ``shares``: of the components."""
    tails = []
    for mean, variance, third in scatter_cumulants(dof, strength):
        nu = 8.0 * variance**3 / third**2
        tails.append(chi2.sf(nu + math.sqrt(2.0 * nu / variance) * (value - mean), nu))
    return float(shares @ tails / shares.sum())
