"""Scatter: how far the windows of a reference lie apart, and how far the next may lie from them.

A stream may wander by itself: a mode that lasts for some thousand rows, weather, a weekend. Then
every test rejects that compares a window with the pooled reference as if its windows differed by
chance only. How far a test wanders is estimated from the windows of the reference, from stable ones
after them, and from regimes before; a few windows say little about one test, so strength is
borrowed from all tests of its family by an empirical-Bayes mixture (METHOD.md, section 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.drift.plan import TestPlan
from driftbn.kernels.deviance import (
    Mixture,
    fit_weights,
    write_densities,
    write_predictive_tails,
)
from driftbn.kernels.evidence import Floats, Ints

Ends = npt.NDArray[np.int16]

# The components: a test keeps still (a factor of 1), varies as much in all its directions as these
# factors say, or has this many times the variance besides in one of them.
_MIXTURE = Mixture(
    factors=np.array([1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0, 16.0, 32.0]),
    extras=np.exp2(np.arange(-1.0, 13.0)),
)
_N_FACTORS, _N_EXTRAS = map(len, _MIXTURE)

STILL_COUNT, STILL_BONUS = 1.0, 0.5  # pseudo-counts of keeping still: this, and a share of those
BONUS_FROM = 7.0  # differences between windows, from which on it is all of that share
WIDE_COUNT, NARROW_COUNT = 0.04, 0.16  # of all components of a kind, once there are windows enough
WINDOWS_ENOUGH = 3.0  # differences between windows from which on wandering is as likely as that
LEAST_COUNT = 0.001  # of those, however few the windows
EM_STEPS, EM_CHANGE = 60, 1e-5
LEAST_SPREAD = 0.02  # of its mean: a smaller sum of squares says no more
LEAST_DOF = 0.5  # of a node; below, the field is determined and has no scatter of its own
SCATTER_P = 0.05  # a node whose p-value is larger needs no correction
LATER_WINDOWS = 15.0  # about as many stable windows are remembered
CARRIED_WINDOWS = 16.0  # of a regime that was left
CARRIED_JUMPS = 8
CLEARLY = 3.0  # standard deviations above its mean, by which a test has jumped itself
_SUMMED_MEAN = 30.0  # up to here the Poisson mean is summed


class Spread(NamedTuple):
    """What is known of how far each test varies between windows; nodes first, then pairs.

    A sum of squares has the mean ``n * dof`` where nothing but chance is at work.
    """

    excess: Floats  # the sum of squares less that mean
    n: Floats  # independent differences between windows in it
    dof: Floats  # of one difference; 0 where a test has no scatter

    def plus(self, other: Spread) -> Spread:
        """Add what else is known; degrees of freedom are these, or else the other's."""
        dof = np.where((self.n > 0.0) | (self.dof > 0.0), self.dof, other.dof)
        excess = [at_least_usual(one.excess, one.n * dof) for one in (self, other)]
        return Spread(excess[0] + excess[1], self.n + other.n, dof)

    def of(self, tests: Ints) -> Spread:
        return Spread(self.excess[tests], self.n[tests], self.dof[tests])

    def beyond(self, effects: Floats) -> Spread:
        """Return what is left of it beyond these design effects."""
        mean = self.n * self.dof
        left = at_least_usual((self.excess + mean) / effects - mean, mean)
        return self._replace(excess=np.where(effects > 1.0, left, self.excess))

    def densities(self) -> Floats:
        """Return how likely each sum of squares is under each component, up to a factor a test."""
        out = np.empty((len(self.n), _N_FACTORS + _N_EXTRAS))
        write_densities(_MIXTURE, *self, LEAST_SPREAD, out)
        return out


def at_least_usual(excess: Floats, mean: Floats) -> Floats:
    """Return sums of squares above their mean, those far below as if a standard deviation below.

    Rows that come by a timetable vary less than by chance, which is no credit for when they change.
    """
    return np.maximum(excess, -np.sqrt(2.0 * mean))


class Scatter:
    """How far tests of a reference may be off without a change, given the spread that is known.

    ``effects``: how many times too large bursts make each test, as far as its fields show; they are
    no scatter. ``jumps``: the same of the jumps from one regime to the next. ``weights``: how
    common each component is among nodes and among pairs, if that was fitted before.
    """

    def __init__(
        self,
        n_nodes: int,
        spread: Spread,
        effects: Floats | None = None,
        jumps: Scatter | None = None,
        weights: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.spread = spread
        self.effects = np.ones(len(spread.n)) if effects is None else effects
        self._jumps = jumps
        self._n_nodes = n_nodes
        self._known = (spread.n > 0.0) & (spread.dof > 0.0)
        self._any_known = bool(self._known.any())
        if weights is not None:
            self._node_weights, self._pair_weights = weights

    @property
    def weights(self) -> tuple[Floats, Floats]:
        return self._node_weights, self._pair_weights

    @cached_property
    def _node_weights(self) -> Floats:
        return fitted_weights(self._left(np.flatnonzero(self._known[: self._n_nodes])))

    @cached_property
    def _pair_weights(self) -> Floats:
        pairs = self._n_nodes + np.flatnonzero(self._known[self._n_nodes :])
        return fitted_weights(self._left(pairs))

    def _left(self, tests: Ints) -> Spread:
        return self.spread.of(tests).beyond(self.effects[tests])

    def _weights_of(self, tests: Ints) -> Floats:
        return self._node_weights if tests[0] < self._n_nodes else self._pair_weights

    def p_values(
        self,
        tests: Ints,
        value: Floats,
        dof: Floats,
        strength: float,
        effects: Floats | None = None,
    ) -> Floats:
        """Return the predictive p-values of tests of one family; 0 where nothing is known.

        Of a test without a past of its own, as that of a field which came alive, is known what its
        family does, if there is any of which more is known.

        ``value`` has the mean ``dof`` for independent rows. ``strength``: 1 for a single window;
        more for several pooled, which count as one draw of whatever wanders. ``effects``: their own
        design effects, where these are known.
        """
        effects = self.effects[tests] if effects is None else effects
        p = np.zeros(len(tests))
        if self._any_known:
            weights, room = self._weights_of(tests), np.empty(_N_FACTORS + _N_EXTRAS)
            left = self.spread.of(tests).beyond(effects)
            spread, value_left = (left.excess, left.n, left.dof), value / effects
            write_predictive_tails(
                _MIXTURE, weights, spread, LEAST_SPREAD, value_left, dof, strength, room, p
            )
        if self._jumps is not None:
            n_jumps, n = self._jumps.spread.n[tests], self.spread.n[tests]
            share = n_jumps / np.maximum(n_jumps + n, 1.0) * self._jumps.shows(tests)
            if share.any():
                p = np.maximum(p, share * self._jumps.p_values(tests, value, dof, strength))
        return p

    def shows(self, tests: Ints) -> npt.NDArray[np.bool_]:
        """Return which tests have clearly moved themselves, whatever others of the family do."""
        excess, n, dof = self.spread.of(tests)
        return np.asarray(excess > CLEARLY * np.sqrt(2.0 * n * dof))

    @cached_property
    def factors(self) -> Floats:
        """How many times as far as bursts and chance explain each test moves between windows.

        One that does not move by clearly more than that, or by less, as a clock does, has 1.
        """
        factors = np.ones(len(self.spread.n))
        left = self.spread.beyond(self.effects)
        moves = self._known & (left.excess > np.sqrt(2.0 * left.n * left.dof))
        moving = np.flatnonzero(moves)
        for tests in np.split(moving, [np.searchsorted(moving, self._n_nodes)]):
            if len(tests):
                spread = left.of(tests)
                share = self._weights_of(tests) * spread.densities()
                own = np.empty(share.shape)  # what each component makes of the mean by chance
                own[:, :_N_FACTORS] = _MIXTURE.factors
                own[:, _N_FACTORS:] = 1.0 + _MIXTURE.extras / np.maximum(spread.dof, 1.0)[:, None]
                factors[tests] = (share * own).sum(axis=1) / share.sum(axis=1)
        return factors


def fitted_weights(spread: Spread) -> Floats:
    """Return how common each component is among the tests of a family, by EM."""
    n = float(spread.n.mean()) if len(spread.n) else 0.0
    enough = max(min(1.0, (n / WINDOWS_ENOUGH) ** 4), LEAST_COUNT)
    prior = np.repeat(
        [STILL_COUNT, WIDE_COUNT * enough / (_N_FACTORS - 1), NARROW_COUNT * enough / _N_EXTRAS],
        [1, _N_FACTORS - 1, _N_EXTRAS],
    )
    bonus = np.ones(len(prior))
    bonus[0] += STILL_BONUS * min(1.0, n / BONUS_FROM)
    weights: Floats = prior / prior.sum()
    if len(spread.n):
        room = np.empty(len(prior))
        fit_weights(spread.densities(), prior, bonus, EM_STEPS, EM_CHANGE, weights, room)
    return weights


@lru_cache(maxsize=32)
def poisson_excess(share: float, n_most: int) -> Floats:
    """Return the mean of 2 X ln(X / q), X Poisson with mean q = share c, for c up to ``n_most``.

    In the place of n ln n it gives the mean of an association of independent rows, however sparse
    its table.
    """
    from scipy.special import gammaln  # noqa: PLC0415 - a fifth of a second to import

    q = share * np.arange(n_most + 1)
    found = np.zeros(len(q))
    n_summed = min(len(q), int(_SUMMED_MEAN / share) + 1)
    small, x = q[1:n_summed, None], np.arange(1.0, 4 * _SUMMED_MEAN)
    log_p = x * np.log(small) - small - gammaln(x + 1.0)
    found[1:n_summed] = np.sum(np.exp(log_p) * 2.0 * x * np.log(x / small), axis=1)
    found[n_summed:] = 1.0 + 1.0 / (6.0 * q[n_summed:])
    return found


@dataclass(frozen=True, eq=False)
class LaterWindows:
    """What stable windows say that came after the reference was full; older ones fade.

    A window is held back until no scale tests it any more: else weak changes that pooled windows
    would show are taken for scatter.

    ``weights``: of the mixture, fitted at the 1st, 2nd, 4th and each 8th window. ``held``: windows
    that are held back, the oldest first.
    """

    excess: Floats
    n: float = 0.0
    n_taken: int = 0
    weights: tuple[Floats, Floats] | None = None
    held: tuple[Floats, ...] = ()

    def with_window(self, excess: Floats, n_held: int) -> LaterWindows:
        """Take in by how much each test of a window was above its mean."""
        held = (*self.held, excess)
        if len(held) <= n_held:
            return replace(self, held=held)
        fading = min(1.0, LATER_WINDOWS / max(self.n, 1.0))
        return replace(
            self,
            excess=fading * self.excess + held[0],
            n=fading * self.n + 1.0,
            n_taken=self.n_taken + 1,
            held=held[1:],
        )

    @property
    def refit_due(self) -> bool:
        return self.n_taken in (1, 2, 4) or (self.n_taken > 0 and self.n_taken % 8 == 0)

    def state(self) -> dict[str, Any]:
        weights = [] if self.weights is None else list(self.weights)
        return {**vars(self), "weights": weights, "held": list(self.held)}

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> LaterWindows:
        first, second = values["weights"] or (None, None)
        weights = None if first is None else (first, second)
        return cls(**{**values, "weights": weights, "held": tuple(values["held"])})

    @property
    def spread(self) -> Spread:
        return Spread(self.excess, np.full(len(self.excess), self.n), np.zeros(len(self.excess)))


@dataclass(frozen=True, eq=False)
class Carried:
    """What earlier regimes knew of scatter, by field and by pair of fields.

    ``jumps``: by how much each test was above its mean when a regime was left, the newest last. The
    largest jump of a test is not counted: the first says nothing, from the second on a test is
    known to jump.
    """

    names: tuple[str, ...]
    source: Ends
    child: Ends
    spread: Spread
    jumps: tuple[Floats, ...] = field(default=())

    @classmethod
    def of(cls, plan: TestPlan, spread: Spread, jumps: tuple[Floats, ...] = ()) -> Carried:
        """Hand on what a regime knew, as if of at most ``CARRIED_WINDOWS`` windows."""
        fading = np.minimum(1.0, CARRIED_WINDOWS / np.maximum(spread.n, 1.0))
        faded = Spread(fading * spread.excess, fading * spread.n, spread.dof)
        tables = plan.tables
        return cls(plan.names, tables.source, tables.child, faded, jumps[-CARRIED_JUMPS:])

    def onto(self, plan: TestPlan) -> Carried:
        """Return the same for the tests of another plan; what it has besides is unknown."""
        tables = plan.tables
        if plan.names == self.names and np.array_equal(
            (tables.source, tables.child), (self.source, self.child)
        ):
            return self
        place = {name: i for i, name in enumerate(self.names)}
        field_of = np.array([place.get(name, -1) for name in plan.names] + [-2])
        row = np.full((len(self.names) + 2, len(self.names) + 2), -1)
        row[self.source, self.child] = np.arange(len(self.child))
        is_node = tables.source < 0
        source = np.where(is_node, -1, field_of[np.where(is_node, -1, tables.source)])
        child = field_of[tables.child]
        unknown = (child < 0) | (~is_node & (source < 0))
        found = row[source, child]
        found = np.where((found < 0) & ~is_node, row[child, source], found)
        found[unknown] = -1

        def moved(values: Floats) -> Floats:
            return np.where(found < 0, 0.0, values[np.maximum(found, 0)])

        spread = Spread(*map(moved, self.spread))
        jumps = tuple(map(moved, self.jumps))
        return Carried(plan.names, tables.source, tables.child, spread, jumps)

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "source": self.source,
            "child": self.child,
            "spread": list(self.spread),
            "jumps": list(self.jumps),
        }

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Carried:
        spread, jumps = Spread(*values["spread"]), tuple(values["jumps"])
        return cls(tuple(values["names"]), values["source"], values["child"], spread, jumps)

    @property
    def jumped(self) -> Spread:
        """How far each test jumped, except for its largest jump."""
        jumps = np.array(self.jumps)
        excess = jumps.sum(axis=0) - jumps.max(axis=0)
        return Spread(excess, np.full(len(excess), len(jumps) - 1.0), self.spread.dof)
