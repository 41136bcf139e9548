"""The decision on each window: compare it with the reference, then name, settle, remember."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from driftbn.config import check_number
from driftbn.decision.settings import DecisionConfig
from driftbn.drift.comparison import Comparison, Group
from driftbn.drift.episodes import Episodes
from driftbn.drift.naming import Naming, name_changes
from driftbn.drift.outcome import (
    TOO_FEW_ROWS,
    DriftDecision,
    DriftLevel,
    Family,
    FamilyResult,
    UndecidedPair,
)
from driftbn.drift.reference import Regime, WindowEvidence
from driftbn.drift.trust import (
    CalibrationReport,
    Shadow,
    VisibleChange,
    undecided_pairs,
    visible_pairs,
)
from driftbn.kernels.evidence import Floats
from driftbn.learning import StructureLearner

ARCHIVED_WINDOWS = 4  # of a regime's reference that are kept when it is left
GROWN_REFERENCE = 4  # windows from which on the tests of nodes are corrected for nodes only
RETURN_LEVEL = 0.05
# Of the false alarms allowed. The tests of nodes keep their level, those of ties stay far below
# theirs; a changed mechanism is seen with a margin that no share takes away.
MECHANISM_SHARE = 0.25
CORRECTED_P = 0.1  # above, a p-value corrected for all tests is no sign of anything as it is
MAX_CORRECTED = 32  # tests of one family and scale whose dependence between rows is measured


@dataclass(frozen=True)
class Verdict:
    """What the tests say of a window.

    Parameters
    ----------
    p_value
        Corrected for all tests of all families and scales.
    scale
        How many windows were put together.
    families
        The strongest sign in each family.
    comparison
        The tests.
    """

    p_value: float
    scale: int
    families: tuple[FamilyResult, ...]
    comparison: Comparison


class Judged(NamedTuple):
    """A window judged by a regime."""

    regime: Regime
    group: Group
    verdict: Verdict


class CountDecider:
    """Judges windows by their counts, and names what changed.

    Parameters
    ----------
    config
        How windows are judged.
    learner
        Learns the graph of the reference.
    """

    def __init__(self, config: DecisionConfig, learner: StructureLearner) -> None:
        self.config = config
        self._learner = learner
        self._reset()

    def _reset(self) -> None:
        self.regime: Regime | None = None
        self.archive: list[Regime] = []
        self.left: Regime | None = None
        self.n_regimes = 0
        self.episodes = Episodes()
        self.shadow = Shadow(self.config.shadow_share)
        self.effects: Floats = np.ones(0)

    def branch(self) -> CountDecider:
        """Return a decider that goes on from here and leaves this one as it is."""
        branch = copy(self)
        branch.regime = self.regime and self.regime.branch()
        branch.left = self.left and branch.regime  # while it settles, the regime is the one left
        branch.archive = [regime.branch() for regime in self.archive]
        branch.episodes = replace(self.episodes)
        branch.shadow = replace(self.shadow)
        return branch

    def undecided(self, reason: str) -> DriftDecision:
        """Return the decision on a window that cannot be judged, of which nothing is taken in."""
        decision = DriftDecision(
            DriftLevel.UNDECIDED,
            self.config.level,
            min_effect=self.config.min_effect,
            regime=0 if self.regime is None else self.regime.number,
            reference_windows=0 if self.regime is None else len(self.regime.windows),
            reason=reason,
        )
        return self.episodes.go_on(decision)

    def decide(self, index: int, window: WindowEvidence, *, fresh: bool = True) -> DriftDecision:
        """Judge one window, and take it in.

        A window that is not ``fresh`` shares rows with one taken in before, as sliding windows do:
        it is judged by itself, and its rows are not counted again.
        """
        decision = self._decide(index, window, fresh=fresh)
        self.effects = window.effects
        return replace(decision, design_effect=float(window.effects.max(initial=1.0)))

    def accept(self) -> None:
        """Take the present as the new normal: the next window starts a new reference."""
        if self.regime is not None:
            self._archive(self.regime)
        self.regime = self.left = None
        self.episodes.close()

    def calibration(self, names: Sequence[str], wanted: float) -> CalibrationReport:
        """Say how far the decider can be trusted on what it has seen.

        Parameters
        ----------
        names
            Of the fields, in their order.
        wanted
            The change that should be seen, in nats.

        Raises
        ------
        ConfigError
            If ``wanted`` is not above 0.
        """
        check_number("wanted", wanted, "a number of nats above 0", 0.0, math.inf, open_ends=True)
        windows = [] if self.regime is None else self.regime.windows
        return CalibrationReport(
            window_rows=windows[-1].shape[1] if windows else 0,
            reference_windows=len(windows),
            alpha=self.config.level,
            design_effects=tuple(zip(names, self.effects.tolist(), strict=False)),
            shadow_windows=self.shadow.n_windows,
            shadow_alarms=self.shadow.n_alarms,
            visible=tuple(
                VisibleChange(pair.source, pair.target, pair.visible_change)
                for pair in self.visible()
            ),
            wanted=wanted,
        )

    def visible(self) -> list[UndecidedPair]:
        """Return for every pair the smallest change that one window shows, the worst first."""
        if self.regime is None or not self.regime.recent:
            return []
        recent = self.regime.recent[-1]
        newest = Group(self.regime.plan, recent.counts, [recent.codes])
        comparison = self.regime.compare(newest)
        return visible_pairs(comparison, self._single_level(comparison))[0]

    def _single_level(self, comparison: Comparison) -> float:
        n_tests = len(self.config.scales) * max(comparison.plan.n_ties, 1)
        return self.config.level * (1.0 - MECHANISM_SHARE) / n_tests

    def judge(self, regime: Regime, group: Group, *, fresh: bool = True) -> Verdict:
        """Compare a window, and the newest ones with it if it is fresh, with the reference."""
        best = None
        for scale in self.config.scales if fresh else (1,):
            comparison = regime.compare_at(scale, group)
            if comparison is None:
                continue
            families = self._families(regime, comparison, scale)
            p = smallest_of(families)
            verdict = Verdict(p, scale, families, comparison)
            if p <= self.config.level:
                return verdict
            if best is None or p < best.p_value:
                best = verdict
        return best or Verdict(1.0, 1, (), regime.compare(group))

    def _decide(self, index: int, window: WindowEvidence, *, fresh: bool) -> DriftDecision:
        regime = self.regime
        if regime is None:
            self.regime = self._new_regime(window)
            return self._decision(DriftLevel.LEARNING, self.regime)
        if self.left is not None and not fresh:
            return self.episodes.go_on(self._decision(DriftLevel.SETTLING, regime))
        if self.left is not None:
            return self._settle(self.left, window)
        group = regime.read(window)
        judged = Judged(regime, group, self.judge(regime, group, fresh=fresh))
        if judged.verdict.p_value <= self.config.level:
            return self._reject(index, judged, window, fresh=fresh)
        if not judged.verdict.comparison.has_tests:
            decision = self._decision(DriftLevel.UNDECIDED, regime, judged.verdict)
            return self.episodes.go_on(replace(decision, reason=TOO_FEW_ROWS))
        self._look_at_shadow(index, regime, group)
        decision = self._decision(DriftLevel.STABLE, regime, judged.verdict)
        return self._stay(decision, judged, fresh=fresh)

    def _reject(
        self, index: int, judged: Judged, window: WindowEvidence, *, fresh: bool
    ) -> DriftDecision:
        """Name what changed, unless it is smaller than wanted or a known regime come back."""
        if self.config.quiet_returns and judged.verdict.scale == 1:
            judged = self._nearest(judged, window)
        regime, verdict = judged.regime, judged.verdict
        if verdict.p_value > self.config.level:
            decision = self._decision(DriftLevel.STABLE, regime, verdict)
            return self._stay(replace(decision, recurring=True), judged, fresh=fresh)
        naming = self._name(regime, verdict.comparison, window)
        is_large = naming.effect >= self.config.min_effect
        level = DriftLevel.DRIFT if is_large else DriftLevel.NEGLIGIBLE
        decision = _named(self._decision(level, regime, verdict), naming)
        if is_large:
            return self._alarm(index, window, replace(decision, scale=verdict.scale))
        return self._stay(decision, judged, fresh=fresh)

    def _look_at_shadow(self, index: int, regime: Regime, group: Group) -> None:
        if not self.shadow.is_due(index, regime):
            return

        def is_drift(comparison: Comparison, scale: int) -> bool:
            families = self._families(regime, comparison, scale)
            return smallest_of(families) <= self.config.level

        self.shadow.look(index, regime, group, is_drift)

    def _new_regime(self, window: WindowEvidence) -> Regime:
        regime = Regime(self.n_regimes, self.config, self._learner, window)
        self.n_regimes += 1
        return regime

    def _name(self, regime: Regime, comparison: Comparison, window: WindowEvidence) -> Naming:
        return name_changes(
            comparison, regime.learned.graph, regime.parents, window.learned, window.effects
        )

    def _families(
        self, regime: Regime, comparison: Comparison, scale: int
    ) -> tuple[FamilyResult, ...]:
        plan = comparison.plan
        n_nodes, n_ties = plan.n_nodes, plan.n_ties
        if not n_nodes:
            return ()
        n_scales = len(self.config.scales)
        grown = len(regime.windows) >= GROWN_REFERENCE
        n_mechanisms = n_nodes if grown else max(n_nodes * (n_nodes - 1) // 2, n_nodes)
        n_all = n_mechanisms * n_scales / MECHANISM_SHARE
        most = max(CORRECTED_P, self.config.level)
        v, p, effect = smallest(comparison.node_p_values, comparison.node_p_value, most / n_all)
        p = min(1.0, p * n_all)
        names = (plan.names[v],)
        found = [FamilyResult(Family.MECHANISM, p, names, scale, n_mechanisms, effect)]
        if n_ties:
            n_all = n_ties * n_scales / (1.0 - MECHANISM_SHARE)
            tie, p, effect = smallest(comparison.tie_p_values, comparison.tie_p_value, most / n_all)
            p = min(1.0, p * n_all)
            fields = tuple(plan.names[i] for i in plan.tie(tie))
            found.append(FamilyResult(Family.ASSOCIATION, p, fields, scale, n_ties, effect))
        return tuple(found)

    def _stay(self, decision: DriftDecision, judged: Judged, *, fresh: bool) -> DriftDecision:
        if not fresh:
            return self.episodes.go_on(decision)
        judged.regime.join(judged.group)
        return self.episodes.quiet(decision)

    def _alarm(self, index: int, window: WindowEvidence, decision: DriftDecision) -> DriftDecision:
        self.left = self.regime
        back = self.episodes.in_doubt and self._returned(window) is not None
        return self.episodes.alarm(index, decision, back=back)

    def _settle(self, left: Regime, window: WindowEvidence) -> DriftDecision:
        """Name the change again by a window that is all after it, and start anew from there."""
        verdict = self._judge_alone(left, window).verdict
        decision = self._decision(DriftLevel.SETTLING, left, verdict)
        if verdict.p_value <= self.config.level:
            decision = _named(decision, self._name(left, verdict.comparison, window))
        self.left = None
        self._archive(left)
        returned = self._returned(window)
        if returned is None:
            self.regime = self._new_regime(window)
        else:
            self.regime, group = returned
            self.archive.remove(self.regime)
            self.regime.join(group)
        decision = replace(decision, regime=self.regime.number, recurring=returned is not None)
        return self.episodes.settle(decision)

    def _archive(self, regime: Regime) -> None:
        regime.trim(ARCHIVED_WINDOWS)
        self.archive.append(regime)
        del self.archive[: -self.config.archived_regimes or None]

    def _nearest(self, judged: Judged, window: WindowEvidence) -> Judged:
        """Go on from the regime that a window differs from least: the present, or an archived one.

        That is one whose tests do not reject, or else the one from which fewest changes lead here.
        """
        earlier = (self._judge_alone(regime, window) for regime in reversed(self.archive))
        known = [judged, *(one for one in earlier if one.verdict.comparison.has_tests)]
        nearest = max(known, key=lambda one: one.verdict.p_value)
        if nearest.verdict.p_value <= self.config.level:
            named = [self._name(one.regime, one.verdict.comparison, window) for one in known]
            sizes = [len(naming.edges) + len(naming.nodes) or len(window.names) for naming in named]
            nearest = known[sizes.index(min(sizes))]
        if nearest is not judged:
            self.archive.remove(nearest.regime)
            self._archive(judged.regime)
            self.regime = nearest.regime
        return nearest

    def _judge_alone(self, regime: Regime, window: WindowEvidence) -> Judged:
        """Compare a window by itself with the whole reference of a regime."""
        group = regime.read(window)
        comparison = regime.compare(group)
        families = self._families(regime, comparison, 1)
        return Judged(regime, group, Verdict(smallest_of(families), 1, families, comparison))

    def _returned(self, window: WindowEvidence) -> tuple[Regime, Group] | None:
        """Return the archived regime that explains a window best, if one does."""
        best: tuple[float, Regime, Group] | None = None
        for regime in self.archive:
            group = regime.read(window)
            comparison = regime.compare(group)
            _, p_node, _ = smallest(comparison.node_p_values, comparison.node_p_value)
            _, p_tie, _ = smallest(comparison.tie_p_values, comparison.tie_p_value)
            plan = comparison.plan
            p = min(p_node * max(plan.n_nodes, 1), p_tie * max(plan.n_ties, 1))
            if p > RETURN_LEVEL and (best is None or p > best[0]):
                best = p, regime, group
        return None if best is None else best[1:]

    def _decision(
        self, level: DriftLevel, regime: Regime, verdict: Verdict | None = None
    ) -> DriftDecision:
        if verdict is None:
            return DriftDecision(level, self.config.level, min_effect=self.config.min_effect)
        comparison = verdict.comparison
        pairs, n_pairs = undecided_pairs(comparison, self._single_level(comparison))
        return DriftDecision(
            level=level,
            alpha=self.config.level,
            p_value=verdict.p_value,
            families=verdict.families,
            min_effect=self.config.min_effect,
            undecided=pairs,
            n_undecided=n_pairs,
            regime=regime.number,
            reference_windows=len(regime.windows),
        )


def smallest(
    p_values: Floats, corrected: Callable[[int, float], tuple[float, float]], most: float = 1.0
) -> tuple[int, float, float]:
    """Return index, p-value and design effect of the test that rejects most when corrected.

    A correction only raises a p-value, so tests are corrected in rising order until the next one
    is larger already. Where bursty rows make very many tests reject, only the first are corrected.
    One above ``most`` is far from rejecting: it is corrected no further than to there.
    """
    order = np.flatnonzero(p_values < 1.0)
    best, best_p, best_effect = 0, 1.0, 1.0
    for index in order[np.lexsort((order, p_values[order]))][:MAX_CORRECTED].tolist():
        if p_values[index] >= best_p:
            break
        p, effect = float(p_values[index]), 1.0
        if p <= most:
            p, effect = corrected(index, min(most, best_p))
        if p < best_p:
            best, best_p, best_effect = index, p, effect
    return best, best_p, best_effect


def smallest_of(families: tuple[FamilyResult, ...]) -> float:
    """Return the smallest p-value of all families; 1 if there are no fields to test."""
    return min((result.p_value for result in families), default=1.0)


def _named(decision: DriftDecision, naming: Naming) -> DriftDecision:
    return replace(
        decision,
        kind=naming.kind,
        edges=naming.edges,
        node_changes=naming.nodes,
        effect=naming.effect,
    )
