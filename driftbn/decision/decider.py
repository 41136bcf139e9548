"""The decision on each window: compare it with the reference, then name, settle, remember."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from driftbn.decision.comparison import Comparison, Group
from driftbn.decision.naming import Naming, name_changes
from driftbn.decision.outcome import (
    DriftDecision,
    DriftLevel,
    EpisodeEvent,
    Family,
    FamilyResult,
)
from driftbn.decision.regime import Regime, WindowEvidence
from driftbn.decision.settings import DecisionConfig
from driftbn.learning import StructureLearner

ARCHIVED_WINDOWS = 4  # of a regime's reference that are kept when it is left
GROWN_REFERENCE = 4  # windows from which on the tests of nodes are corrected for nodes only
RETURN_LEVEL = 0.05
QUIET_WINDOWS = 2  # without drift, after which an episode has ended


@dataclass(frozen=True)
class _Verdict:
    p_value: float
    scale: int
    families: tuple[FamilyResult, ...]
    comparison: Comparison


class CountDecider:
    """Judges windows by their counts, and lets the graphs name what changed.

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
        self._left: Regime | None = None
        self._n_regimes = 0
        self._n_episodes = 0
        self._episode: int | None = None
        self._since: int | None = None
        self._n_quiet = 0

    def decide(self, index: int, window: WindowEvidence) -> DriftDecision:
        """Judge one window, and take it in."""
        if self.regime is None:
            self.regime = self._new_regime(window)
            return self._decision(DriftLevel.LEARNING)
        if self._left is not None:
            return self._settle(window)
        group = self.regime.read(window)
        verdict = self._judge(self.regime, group)
        if verdict.p_value > self.config.level:
            return self._stable(group, verdict)
        naming = self._named_changes(self.regime, verdict.comparison, window)
        if naming.effect < self.config.min_effect:
            return self._negligible(group, verdict, naming)
        return self._drift(index, verdict, naming)

    def _named_changes(
        self, regime: Regime, comparison: Comparison, window: WindowEvidence
    ) -> Naming:
        return name_changes(
            comparison, regime.learned.graph, regime.parents, window.learned, window.effects
        )

    def _new_regime(self, window: WindowEvidence) -> Regime:
        regime = Regime(self._n_regimes, self.config, self._learner, window)
        self._n_regimes += 1
        return regime

    def _judge(self, regime: Regime, group: Group) -> _Verdict:
        best: _Verdict | None = None
        for scale in self.config.scales:
            comparison = regime.compare_at(scale, group)
            if comparison is None:
                continue
            families = self._families(regime, comparison, scale)
            p = min(result.p_value for result in families)
            verdict = _Verdict(p, scale, families, comparison)
            if best is None or p < best.p_value:
                best = verdict
            if p <= self.config.level:
                return verdict
        assert best is not None
        return best

    def _families(
        self, regime: Regime, comparison: Comparison, scale: int
    ) -> tuple[FamilyResult, ...]:
        n_nodes, n_ties = comparison.plan.n_nodes, comparison.plan.n_ties
        grown = len(regime.windows) >= GROWN_REFERENCE
        share = 2 * len(self.config.scales)
        n_mechanisms = n_nodes if grown else max(n_nodes * (n_nodes - 1) // 2, n_nodes)
        names = comparison.plan.names
        v, p_node, effect = smallest(comparison.node_p_values, comparison.node_p_value)
        results = [
            FamilyResult(
                Family.MECHANISM,
                min(1.0, p_node * n_mechanisms * share),
                (names[v],),
                scale,
                n_mechanisms,
                effect,
            )
        ]
        if n_ties:
            index, p_edge, effect = smallest(comparison.tie_p_values, comparison.tie_p_value)
            pair = tuple(names[i] for i in comparison.plan.tie(index))
            results.append(
                FamilyResult(
                    Family.ASSOCIATION,
                    min(1.0, p_edge * n_ties * share),
                    pair,
                    scale,
                    n_ties,
                    effect,
                )
            )
        return tuple(results)

    def _stable(self, group: Group, verdict: _Verdict) -> DriftDecision:
        assert self.regime is not None
        n_reference = len(self.regime.windows)
        self.regime.join(group)
        event = self._go_quiet()
        decision = self._decision(DriftLevel.STABLE, verdict, event)
        decision = replace(decision, reference_windows=n_reference)
        if event is EpisodeEvent.ENDED:
            self._episode = self._since = None
        return decision

    def _go_quiet(self) -> EpisodeEvent | None:
        if self._episode is None:
            return None
        self._n_quiet += 1
        return EpisodeEvent.ENDED if self._n_quiet >= QUIET_WINDOWS else None

    def _negligible(self, group: Group, verdict: _Verdict, naming: Naming) -> DriftDecision:
        decision = replace(self._stable(group, verdict), level=DriftLevel.NEGLIGIBLE)
        return _named(decision, naming)

    def _drift(self, index: int, verdict: _Verdict, naming: Naming) -> DriftDecision:
        assert self.regime is not None
        event = EpisodeEvent.UPDATED
        self._n_quiet = 0
        if self._episode is None:
            event = EpisodeEvent.STARTED
            self._episode, self._since = self._n_episodes, index
            self._n_episodes += 1
        decision = _named(self._decision(DriftLevel.DRIFT, verdict, event), naming)
        decision = replace(decision, scale=verdict.scale)
        self._left = self.regime
        return decision

    def _settle(self, window: WindowEvidence) -> DriftDecision:
        left = self._left
        assert left is not None
        group = left.read(window)
        comparison = left.compare(group)
        naming = self._named_changes(left, comparison, window)
        families = self._families(left, comparison, 1)
        self._left = None
        left.trimmed(ARCHIVED_WINDOWS)
        self.archive.append(left)
        returned = self._returned(window)
        if returned is not None:
            regime, known = returned
            self.archive.remove(regime)
            regime.join(known)
            self.regime = regime
        else:
            self.regime = self._new_regime(window)
        del self.archive[: -self.config.archived_regimes or None]
        p = min(result.p_value for result in families)
        verdict = _Verdict(p, 1, families, comparison)
        decision = self._decision(DriftLevel.SETTLING, verdict, EpisodeEvent.UPDATED)
        decision = replace(decision, recurring=returned is not None)
        return _named(decision, naming) if p <= self.config.level else decision

    def _returned(self, window: WindowEvidence) -> tuple[Regime, Group] | None:
        """Return the archived regime that explains a window best, if one does."""
        best: tuple[float, Regime, Group] | None = None
        for regime in self.archive:
            group = regime.read(window)
            comparison = regime.compare(group)
            n_nodes, n_ties = comparison.plan.n_nodes, comparison.plan.n_ties
            _, p_node, _ = smallest(comparison.node_p_values, comparison.node_p_value)
            _, p_edge, _ = smallest(comparison.tie_p_values, comparison.tie_p_value)
            p = min(p_node * n_nodes, p_edge * n_ties)
            if p > RETURN_LEVEL and (best is None or p > best[0]):
                best = p, regime, group
        return None if best is None else best[1:]

    def _decision(
        self,
        level: DriftLevel,
        verdict: _Verdict | None = None,
        event: EpisodeEvent | None = None,
    ) -> DriftDecision:
        assert self.regime is not None
        return DriftDecision(
            level=level,
            alpha=self.config.level,
            p_value=1.0 if verdict is None else verdict.p_value,
            families=() if verdict is None else verdict.families,
            min_effect=self.config.min_effect,
            episode=self._episode,
            episode_event=event,
            since=self._since,
            regime=self.regime.number,
            reference_windows=len(self.regime.windows),
        )


def smallest(p_values, corrected):  # type: ignore[no-untyped-def]
    """Return index, p-value and design effect of the test that rejects most, when corrected.

    A correction only raises a p-value, so tests are corrected in rising order until the next one
    is larger already.
    """
    if len(p_values) == 0:
        return -1, 1.0, 1.0
    order = np.flatnonzero(p_values < 1.0)
    order = order[np.lexsort((order, p_values[order]))]
    if len(order) == 0:
        return 0, 1.0, 1.0
    best, best_p, best_effect = int(order[0]), 2.0, 1.0
    for index in order.tolist():
        if p_values[index] >= best_p:
            break
        p, effect = corrected(index)
        if p < best_p:
            best, best_p, best_effect = index, p, effect
    return best, best_p, best_effect


def _named(decision: DriftDecision, naming: Naming) -> DriftDecision:
    return replace(
        decision,
        kind=naming.kind,
        edges=naming.edges,
        node_changes=naming.nodes,
        effect=naming.effect,
    )
