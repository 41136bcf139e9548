"""The decision on each window: compare it with the reference, then name, settle, remember.

The families of tests, their shares of alpha and their correction are in METHOD.md, sections 4 and
5; what happens after an alarm, episodes, and regimes that recur, in section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from driftbn.config import DecisionConfig, DriftKind, Range
from driftbn.drift.comparison import Comparison, PooledWindows
from driftbn.drift.facts import ELSEWHERE, Fact, FactKind
from driftbn.drift.naming import Naming, name_changes
from driftbn.drift.outcome import (
    TOO_FEW_ROWS,
    DriftDecision,
    DriftLevel,
    EpisodeEvent,
    Family,
    FamilyResult,
    Travelled,
    Wander,
)
from driftbn.drift.plan import TestPlan
from driftbn.drift.reference import Regime
from driftbn.drift.scatter import Carried
from driftbn.drift.trust import (
    SEEN_PAIRS,
    CalibrationReport,
    Shadow,
    VisibleChange,
    undecided_pairs,
    visible_pairs,
    visible_to,
)
from driftbn.kernels.evidence import Floats
from driftbn.learning import LearnedWindow, StructureLearner

QUIET_WINDOWS = 4  # without drift, after which an episode has ended
SURELY_THE_SAME = 2  # with fewer quiet windows before it, an alarm is due to the same change

Changed = tuple[tuple[str, ...], ...]  # fields, and pairs of them


@dataclass
class Episodes:
    """Numbers episodes and says what each window means for the present one.

    A slow change raises several alarms, with quiet windows between. An alarm after some of them
    continues the episode if it names the same; otherwise it starts another, and the one before it
    is over.

    ``number``, ``since``: the present episode and the window in which it began; ``None`` outside of
    any. ``n_quiet``: windows without drift since its last one.
    """

    count: int = 0
    number: int | None = None
    since: int | None = None
    n_quiet: int = 0
    changed: Changed = ()

    def __post_init__(self) -> None:
        self.changed = tuple(tuple(fields) for fields in self.changed)  # JSON has lists only

    @property
    def in_doubt(self) -> bool:
        """Whether an alarm now may be due to another change than that of the present episode."""
        return self.number is not None and self.n_quiet >= SURELY_THE_SAME

    def alarm(self, index: int, decision: DriftDecision, *, back: bool = False) -> DriftDecision:
        """Start an episode, or continue the present one unless things are ``back`` as before."""
        changed = _changed_fields(decision)
        if self.in_doubt and (back or not _overlap(changed, self.changed)):
            self.close()
        # The window after an alarm may be one too, by what it names besides.
        self.changed = (*self.changed, *changed) if self.n_quiet == 0 else changed
        self.n_quiet = 0
        if self.number is not None:
            return self._stamped(decision, EpisodeEvent.UPDATED)
        self.number, self.since = self.count, index
        self.count += 1
        return self._stamped(decision, EpisodeEvent.STARTED)

    def has_news(self, decision: DriftDecision) -> bool:
        """Whether a decision names a field or a pair that the episode has not named yet."""
        return any(not _overlap((fields,), self.changed) for fields in _named_fields(decision))

    def settle(self, decision: DriftDecision) -> DriftDecision:
        """Continue the present episode with the window after an alarm."""
        self.changed += _changed_fields(decision)
        return self._stamped(decision, EpisodeEvent.UPDATED)

    def quiet(self, decision: DriftDecision) -> DriftDecision:
        """Count a window without drift; the last of several in a row ends the episode."""
        if self.number is None:
            return decision
        self.n_quiet += 1
        if self.n_quiet < QUIET_WINDOWS:
            return self.carry_on(decision)
        decision = self._stamped(decision, EpisodeEvent.ENDED)
        self.close()
        return decision

    def carry_on(self, decision: DriftDecision) -> DriftDecision:
        """Leave the present episode as it is, by a window that says nothing of it."""
        return self._stamped(decision, None)

    def close(self) -> None:
        self.number = self.since = None
        self.n_quiet = 0
        self.changed = ()

    def _stamped(self, decision: DriftDecision, event: EpisodeEvent | None) -> DriftDecision:
        return replace(decision, episode=self.number, episode_event=event, since=self.since)


def _changed_fields(decision: DriftDecision) -> Changed:
    """Return the fields and pairs that a decision names, or if none those whose tests reject."""
    rejecting = (r.fields for r in decision.families if r.p_value <= decision.alpha)
    return _named_fields(decision) or tuple(rejecting)


def _named_fields(decision: DriftDecision) -> Changed:
    fields = ((one.name,) for one in decision.node_changes)
    facts = ((fact.field,) for fact in decision.facts)
    return (*facts, *fields, *(edge.pair for edge in decision.edges))


def _overlap(some: Changed, others: Changed) -> bool:
    sets = [set(fields) for fields in others]
    return any(here >= there or here <= there for here in map(set, some) for there in sets)


ARCHIVED_WINDOWS = 4  # of a regime's reference that are kept when it is left
GROWN_REFERENCE = 4  # windows from which on the tests of nodes are corrected for nodes only
RETURN_LEVEL = 0.05
# Of alpha. The tests of nodes keep their level, those of pairs stay far below theirs; a changed
# mechanism is seen with a margin that no share takes away.
MECHANISM_SHARE = 0.25
WANDERS = 2.0  # times as far as by chance: from here on a field is said to move by itself
LEAST_TRAVELLED = 0.002  # nats: what a field must be from its baseline to be counted
MAX_TRAVELLED = 10
CORRECTED_P = 0.1  # above, a p-value corrected for all tests is far from rejecting
MAX_CORRECTED = 32  # tests of one family and scale that are corrected for dispersion


@dataclass(frozen=True, eq=False)
class Judgement:
    """A window judged by a regime.

    ``window``: the window by itself. ``comparison``: the tests, on the window or on several pooled.
    ``scale``: how many windows were pooled.
    """

    regime: Regime
    window: PooledWindows
    comparison: Comparison
    families: tuple[FamilyResult, ...] = ()
    scale: int = 1

    @property
    def p_value(self) -> float:
        """Corrected for all tests of all families and scales; 1 if there are no tests."""
        return min((result.p_value for result in self.families), default=1.0)


@dataclass(frozen=True, eq=False)
class _Incoming:
    """A window to be judged; ``facts``: those that make it an alarm."""

    index: int
    window: LearnedWindow
    fresh: bool
    facts: tuple[Fact, ...]


class CountDecider:
    """Judges windows by their counts, and names what changed."""

    def __init__(self, config: DecisionConfig, learner: StructureLearner) -> None:
        self.config = config
        self._learner = learner
        self._reset()

    def _reset(self) -> None:
        self.regime: Regime | None = None
        self.settling = False  # the last window was an alarm: the next one leaves the regime
        self.archive: list[Regime] = []
        self.baseline: Regime | None = None  # the first regime, once it has been left
        self.carried: Carried | None = None  # from the regime that was left last
        self.jump: Floats | None = None  # of each test above its mean, in the alarms of a change
        self.n_regimes = 0
        self.episodes = Episodes()
        self.shadow = Shadow(self.config.shadow_share)
        self.effects: Floats = np.ones(0)
        self.told: set[tuple[str, str]] = set()  # fields of the last window, and their facts
        self.visible: float | None = None  # the smallest change that it shows, if it is a sample
        self._sampled = False

    def branch(self) -> CountDecider:
        branch = copy(self)
        branch.regime = self.regime and self.regime.branch()
        branch.archive = [regime.branch() for regime in self.archive]
        branch.baseline = self.baseline and self.baseline.branch()
        branch.episodes = replace(self.episodes)
        branch.shadow = replace(self.shadow)
        return branch

    def decide(
        self,
        index: int,
        window: LearnedWindow,
        *,
        fresh: bool = True,
        facts: tuple[Fact, ...] = (),
        sampled: bool = False,
    ) -> DriftDecision:
        """Judge one window, and take it in.

        A window that is not ``fresh`` shares rows with one taken in before, as sliding windows do:
        it is judged by itself, and its rows are not counted again. One with ``facts`` is an alarm
        whatever the tests say, and no part of a reference. Of one that is ``sampled``, ``visible``
        is the change that it shows in nine of ten pairs.
        """
        self.visible, self._sampled = None, sampled
        alarming = facts if DriftKind.DATA in self.config.alarm_on else ()
        decision = self._decide(_Incoming(index, window, fresh, alarming))
        if facts and not alarming:
            level = DriftLevel.NOTICE if decision.kind is None else decision.level
            kind = decision.kind or DriftKind.DATA
            decision = replace(decision, level=level, kind=kind, facts=facts)
        self.effects = window.effects
        self.told = _labels(facts)
        if self.baseline is not None:
            now = self.baseline.counted(window)
            comparison = Comparison(self.baseline.pool, now, dependent_rows=False)
            decision = replace(decision, **_distance(comparison, decision.given))
        effect = float(window.effects.max(initial=1.0))
        return replace(decision, design_effect=effect, max_distance=self.config.max_distance)

    def undecided(self, reason: str) -> DriftDecision:
        """Return the decision on a window that cannot be judged and is not taken in."""
        decision = DriftDecision(
            DriftLevel.UNDECIDED,
            self.config.level,
            min_effect=self.config.min_effect,
            regime=0 if self.regime is None else self.regime.number,
            reference_windows=0 if self.regime is None else len(self.regime.windows),
            reason=reason,
        )
        return self.episodes.carry_on(decision)

    def accept(self) -> None:
        """Take the present as the new normal: the next window starts a new reference."""
        if self.regime is not None:
            self.carried = self.regime.hand_on()
            self._archive(self.regime)
        self.regime, self.baseline, self.settling, self.jump = None, None, False, None
        self.episodes.close()

    def _decide(self, new: _Incoming) -> DriftDecision:
        regime = self.regime
        if regime is None:
            self.regime = self._new_regime(new.window)
            decision = self._decision(DriftLevel.LEARNING)
            return self._told(new, decision) if new.facts else decision
        if self.settling and not new.fresh:
            return self.episodes.carry_on(self._decision(DriftLevel.SETTLING))
        # Facts that the alarm had too are there to stay.
        if self.settling or (new.facts and _labels(new.facts) <= self.told):
            return self._settle(new, regime)
        judgement = self.judge(regime, regime.counted(new.window), fresh=new.fresh)
        if judgement.p_value <= self.config.level:
            return self._reject(new, judgement)
        if judgement.comparison.has_tests:
            self._judge_shadow(new.index, judgement)
            return self._stay(new, self._decision(DriftLevel.STABLE, judgement), judgement)
        decision = self._decision(DriftLevel.UNDECIDED, judgement)
        if new.facts:
            return self._told(new, decision)
        return self.episodes.carry_on(replace(decision, reason=TOO_FEW_ROWS))

    def _told(self, new: _Incoming, decision: DriftDecision) -> DriftDecision:
        """Make a window an alarm by its facts alone; the regime goes on without it."""
        alarm = replace(decision, level=DriftLevel.DRIFT, scale=1)
        return self.episodes.alarm(new.index, _led_by(new.facts, alarm))

    def judge(self, regime: Regime, window: PooledWindows, *, fresh: bool = True) -> Judgement:
        """Compare a window, and the newest ones pooled with it if it is fresh, with the reference.

        The smallest scale that rejects decides; if none does, the one with the smallest p-value.
        """
        best = None
        for scale in self.config.scales if fresh else (1,):
            comparison = regime.compare_at(scale, window)
            if comparison is None:
                continue
            families = self._families(regime, comparison, scale)
            judgement = Judgement(regime, window, comparison, families, scale)
            if judgement.p_value <= self.config.level:
                return judgement
            if best is None or judgement.p_value < best.p_value:
                best = judgement
        return best or Judgement(regime, window, regime.compare(window))

    def _judge_alone(self, regime: Regime, window: LearnedWindow) -> Judgement:
        counted = regime.counted(window)
        comparison = regime.compare(counted)
        return Judgement(regime, counted, comparison, self._families(regime, comparison, 1))

    def _families(
        self,
        regime: Regime,
        comparison: Comparison,
        scale: int,
        exact_to: float = CORRECTED_P,
    ) -> tuple[FamilyResult, ...]:
        """Return the strongest sign of each family, by Bonferroni over all its tests and scales.

        Above ``exact_to``, or the level if that is larger, a p-value is a lower limit.
        """
        plan = comparison.plan
        n_pairs = plan.n_pair_tests
        if not plan.n_nodes:
            return ()
        node_factor, pair_factor = self._factors(regime, plan)
        exact_to = max(exact_to, self.config.level)
        given = comparison.given
        nodes = np.where(given, 1.0, comparison.node_p_values)
        v, p, effect = strongest(nodes, comparison.node_p_value, exact_to / node_factor)
        fields: tuple[str, ...] = (plan.names[v],)
        p, n_nodes = min(1.0, p * node_factor), _n_mechanisms(regime)
        found = [FamilyResult(Family.MECHANISM, p, fields, scale, n_nodes, effect)]
        if n_pairs:
            ends = plan.tables.source[plan.n_nodes :], plan.tables.child[plan.n_nodes :]
            pairs = np.where(given[ends[0]] & given[ends[1]], 1.0, comparison.pair_p_values)
            test, p, effect = strongest(pairs, comparison.pair_p_value, exact_to / pair_factor)
            fields = tuple(plan.names[i] for i in plan.pair_of(test))
            p = min(1.0, p * pair_factor)
            found.append(FamilyResult(Family.ASSOCIATION, p, fields, scale, n_pairs, effect))
        return tuple(found)

    def _factors(self, regime: Regime, plan: TestPlan) -> tuple[float, float]:
        """Return by how much the p-values of nodes, and of pairs, are corrected for all tests."""
        n_scales = len(self.config.scales)
        n_nodes, n_pairs = _n_mechanisms(regime), max(plan.n_pair_tests, 1)
        return n_nodes * n_scales / MECHANISM_SHARE, n_pairs * n_scales / (1.0 - MECHANISM_SHARE)

    def _single_level(self, judgement: Judgement) -> float:
        """Return the level of the test of one pair."""
        return self.config.level / self._factors(judgement.regime, judgement.comparison.plan)[1]

    def _judge_shadow(self, index: int, judgement: Judgement) -> None:
        regime = judgement.regime
        if not self.shadow.is_due(index, regime):
            return

        def is_drift(comparison: Comparison, scale: int) -> bool:
            families = self._families(regime, comparison, scale, exact_to=self.config.level)
            return any(result.p_value <= self.config.level for result in families)

        self.shadow.judge(index, regime, judgement.window, is_drift)

    def _reject(self, new: _Incoming, judgement: Judgement) -> DriftDecision:
        """Name what changed, unless the change is no alarm or a known regime returns."""
        if self.config.quiet_returns and judgement.scale == 1:
            judgement = self._nearest(judgement, new.window)
        if judgement.p_value > self.config.level:
            decision = replace(self._decision(DriftLevel.STABLE, judgement), recurring=True)
            return self._stay(new, decision, judgement)
        naming = name_changes(judgement.comparison, judgement.regime, new.window)
        decision = _named(self._decision(self._level_of(naming), judgement), naming)
        if not decision.drift:
            return self._stay(new, decision, judgement)
        self.settling = True
        self._note_jump(judgement.regime.compare(judgement.window))
        decision, back = replace(decision, scale=judgement.scale), self._returned(new)
        if back is not None:
            decision = replace(decision, recurring=True, regime=back.regime.number)
        decision = _led_by(new.facts, decision)
        return self.episodes.alarm(new.index, decision, back=back is not None)

    def _level_of(self, naming: Naming) -> DriftLevel:
        """Say what a change comes to: by its size, and whether its kind raises an alarm."""
        if naming.effect < self.config.min_effect:
            return DriftLevel.NEGLIGIBLE
        alarms = naming.kind in self.config.alarm_on and not naming.given_only
        return DriftLevel.DRIFT if alarms else DriftLevel.NOTICE

    def _stay(self, new: _Incoming, decision: DriftDecision, judgement: Judgement) -> DriftDecision:
        if new.facts:
            return self._told(new, decision)
        if not new.fresh:
            return self.episodes.carry_on(decision)
        regime, window = judgement.regime, judgement.window
        alone = regime.compare(window)
        levels = (self.config.level / factor for factor in self._factors(regime, alone.plan))
        suspicious = alone.is_suspicious(*levels)
        # A young regime would have to wander for what an earlier one explains as it is.
        young = suspicious and len(regime.windows) < GROWN_REFERENCE
        back = self._returned(new, GROWN_REFERENCE) if young else None
        if back is None:
            regime.absorb(window, suspicious=suspicious)
            return self.episodes.quiet(decision)
        self._go_back(regime, back.regime)
        back.regime.absorb(back.window)
        return self.episodes.quiet(replace(decision, recurring=True, regime=back.regime.number))

    def _settle(self, new: _Incoming, left: Regime) -> DriftDecision:
        """Name the change again by a window that is all after it, and start anew from there.

        A window that names what the alarm before it did not is an alarm too, and not the start.
        """
        window, judgement = new.window, self._judge_alone(left, new.window)
        decision = self._decision(DriftLevel.SETTLING, judgement)
        news = not _labels(new.facts) <= self.told
        if judgement.p_value <= self.config.level:
            naming = name_changes(judgement.comparison, left, window)
            decision = _named(decision, naming)
            # One window says nothing of how far the stream wanders: what else is news?
            alarms = self._level_of(naming) is DriftLevel.DRIFT and len(left.windows) > 1
            news |= alarms and self.episodes.has_news(decision) and self._returned(new) is None
        decision = _led_by(new.facts, decision)
        self._note_jump(judgement.comparison)
        if news:
            return self._told(new, decision)
        self.settling = False
        self.carried, self.jump = left.hand_on(self.jump), None
        self._archive(left)
        returned = self._returned(new)
        if returned is None:
            self.regime = self._new_regime(window)
        else:
            self.regime = returned.regime
            self.archive.remove(self.regime)
            self.regime.take_over(self.carried)
            self.regime.absorb(returned.window)
        decision = replace(decision, regime=self.regime.number, recurring=returned is not None)
        return self.episodes.settle(decision)

    def _note_jump(self, comparison: Comparison) -> None:
        """Keep how far each test is off in the windows of a change, where it is farthest."""
        excess = comparison.excess
        self.jump = excess if self.jump is None else np.maximum(self.jump, excess)

    def _new_regime(self, window: LearnedWindow) -> Regime:
        bins = window.bins.renewed(window.cells)
        if bins is not window.bins:
            window = self._learner.learn_window(
                window.cells, window.names, bins=bins, dependent_rows=self.config.dependent_rows
            )
        regime = Regime(self.n_regimes, self.config, self._learner, window, self.carried)
        self.n_regimes += 1
        return regime

    def _archive(self, regime: Regime) -> None:
        if self.baseline is None:
            self.baseline = regime.baseline(ARCHIVED_WINDOWS)
        regime.trim(ARCHIVED_WINDOWS)
        self.archive.append(regime)
        del self.archive[: -self.config.archived_regimes or None]

    def _nearest(self, judgement: Judgement, window: LearnedWindow) -> Judgement:
        """Continue from the known regime that a window differs from least.

        That is one whose tests do not reject, or else the one from which fewest changes lead here.
        """
        earlier = (self._judge_alone(regime, window) for regime in reversed(self.archive))
        known = [judgement, *(one for one in earlier if one.comparison.has_tests)]
        nearest = max(known, key=lambda one: one.p_value)
        if nearest.p_value <= self.config.level:
            named = [name_changes(one.comparison, one.regime, window) for one in known]
            sizes = [len(naming.edges) + len(naming.nodes) or len(window.names) for naming in named]
            nearest = known[sizes.index(min(sizes))]
        if nearest is not judgement:
            self._go_back(judgement.regime, nearest.regime)
        return nearest

    def _go_back(self, left: Regime, regime: Regime) -> None:
        """Continue from an archived regime, and archive the one that is left."""
        self.archive.remove(regime)
        self._archive(left)
        self.regime = regime

    def _returned(self, new: _Incoming, n_least: int = 1) -> Judgement | None:
        """Return the archived regime that explains a window best, if one does.

        What was never so before is no regime that returns, whatever the tests can compare.
        ``n_least``: windows of its reference, at least.
        """
        best: tuple[float, Judgement] | None = None
        known = [regime for regime in self.archive if len(regime.windows) >= n_least]
        for regime in known if not new.facts else ():
            counted = regime.counted(new.window)
            comparison = regime.compare(counted)
            least = RETURN_LEVEL if best is None else best[0]
            _, p, _ = strongest(comparison.node_p_values, comparison.node_p_value)
            p *= max(comparison.plan.n_nodes, 1)
            if p > least:
                _, p_pair, _ = strongest(comparison.pair_p_values, comparison.pair_p_value)
                p = min(p, p_pair * max(comparison.plan.n_pair_tests, 1))
            if p > least:
                best = p, Judgement(regime, counted, comparison)
        return None if best is None else best[1]

    def _decision(self, level: DriftLevel, judgement: Judgement | None = None) -> DriftDecision:
        if judgement is None:
            return DriftDecision(level, self.config.level, min_effect=self.config.min_effect)
        comparison, level_of_one = judgement.comparison, self._single_level(judgement)
        pairs, n_pairs = undecided_pairs(comparison, level_of_one)
        if self._sampled:
            alone = judgement.regime.compare(judgement.window)
            shown = [one.visible_change for one in visible_pairs(alone, level_of_one)[0]]
            visible = visible_to(shown, SEEN_PAIRS)
            self.visible = visible if math.isfinite(visible) else None
        names = judgement.regime.plan.names
        given = tuple(names[v] for v in np.flatnonzero(comparison.given).tolist())
        # Once a regime was left, it is the distance from that one.
        distance = _distance(comparison, given) if self.baseline is None else {}
        return DriftDecision(
            level=level,
            alpha=self.config.level,
            p_value=judgement.p_value,
            families=judgement.families,
            min_effect=self.config.min_effect,
            undecided=pairs,
            n_undecided=n_pairs,
            regime=judgement.regime.number,
            wander=self._wander(judgement.regime),
            given=given,
            **distance,
            reference_windows=len(judgement.regime.windows),
        )

    def _wander(self, regime: Regime) -> tuple[Wander, ...]:
        factors = regime.scatter(regime.pool).factors[: regime.plan.n_nodes]
        found = np.flatnonzero(factors >= WANDERS)
        order = found[np.lexsort((found, -factors[found]))].tolist()
        return tuple(Wander(regime.plan.names[v], round(float(factors[v]), 2)) for v in order)

    def calibration(self, names: Sequence[str], wanted: float) -> CalibrationReport:
        """Say how far the decider can be trusted on what it has seen.

        ``wanted``: the change that should be seen, in nats.

        Raises ConfigError if ``wanted`` is not above 0.
        """
        Range("a number of nats above 0", above=0).check("wanted", wanted)
        windows = [] if self.regime is None else self.regime.windows
        return CalibrationReport(
            window_rows=windows[-1].shape[1] if windows else 0,
            reference_windows=len(windows),
            alpha=self.config.level,
            design_effects=tuple(zip(names, self.effects.tolist(), strict=False)),
            shadow_windows=self.shadow.n_windows,
            shadow_alarms=self.shadow.n_alarms,
            visible=self._visible(),
            wanted=wanted,
        )

    def _visible(self) -> tuple[VisibleChange, ...]:
        """Return for every pair the smallest change that one window shows, the worst first."""
        if self.regime is None or not self.regime.recent:
            return ()
        window = self.regime.recent[-1].window
        judgement = Judgement(self.regime, window, self.regime.compare(window))
        pairs, _ = visible_pairs(judgement.comparison, self._single_level(judgement))
        return tuple(VisibleChange(one.source, one.target, one.visible_change) for one in pairs)

    def state(self) -> dict[str, Any]:
        return {
            "regime": None if self.regime is None else self.regime.state(),
            "settling": self.settling,
            "jump": self.jump,
            "carried": None if self.carried is None else self.carried.state(),
            "archive": [regime.state() for regime in self.archive],
            "baseline": None if self.baseline is None else self.baseline.state(),
            "n_regimes": self.n_regimes,
            "episodes": asdict(self.episodes),
            "effects": self.effects,
            "told": sorted(self.told),
            "shadow": [self.shadow.n_windows, self.shadow.n_alarms],
        }

    @classmethod
    def from_state(
        cls, values: Mapping[str, Any], config: DecisionConfig, learner: StructureLearner
    ) -> CountDecider:
        decider = cls(config, learner)
        if values["regime"] is not None:
            decider.regime = Regime.from_state(values["regime"], config, learner)
        decider.settling, decider.jump = values["settling"], values["jump"]
        decider.carried = values["carried"] and Carried.from_state(values["carried"])
        decider.archive = [Regime.from_state(item, config, learner) for item in values["archive"]]
        if values["baseline"] is not None:
            decider.baseline = Regime.from_state(values["baseline"], config, learner)
        decider.n_regimes = values["n_regimes"]
        decider.episodes = Episodes(**values["episodes"])
        decider.effects = values["effects"]
        decider.told = {(name, kind) for name, kind in values["told"]}
        decider.shadow.n_windows, decider.shadow.n_alarms = values["shadow"]
        return decider


def _n_mechanisms(regime: Regime) -> int:
    n_nodes = regime.plan.n_nodes
    grown = len(regime.windows) >= GROWN_REFERENCE
    return n_nodes if grown else max(n_nodes * (n_nodes - 1) // 2, n_nodes)


def _labels(facts: Sequence[Fact]) -> set[tuple[str, str]]:
    """Return fields and facts; values that lie elsewhere than ever may be told in several ways.

    Values never seen are news after such a fact, which is none after them.
    """
    own = {(fact.field, fact.kind.value) for fact in facts if fact.kind not in ELSEWHERE}
    shared = (*ELSEWHERE, FactKind.NEW_LEVEL)
    return own | {(fact.field, "values") for fact in facts if fact.kind in shared}


def strongest(
    p_values: Floats, corrected: Callable[[int, float], tuple[float, float]], exact_to: float = 1.0
) -> tuple[int, float, float]:
    """Return index, p-value and design effect of the test that rejects most once corrected.

    The correction for dispersion only raises a p-value, so tests are corrected in rising order of
    their screening p-values until the next of these is larger than the best corrected one. Where
    overdispersed rows make very many tests reject, only the first are corrected. A p-value above
    ``exact_to`` is far from rejecting and need not be exact.
    """
    order = np.flatnonzero(p_values < 1.0)
    best, best_p, best_effect = 0, 1.0, 1.0
    for index in order[np.argsort(p_values[order], kind="stable")][:MAX_CORRECTED].tolist():
        if p_values[index] >= best_p:
            break
        p, effect = float(p_values[index]), 1.0
        if p <= exact_to:
            p, effect = corrected(index, min(exact_to, best_p))
        if p < best_p:
            best, best_p, best_effect = index, p, effect
    return best, best_p, best_effect


def _distance(comparison: Comparison, given: Sequence[str]) -> dict[str, Any]:
    """Return how far newer windows are from the baseline, and the fields that carry it.

    The Kullback-Leibler divergence of two networks with the same graph is the sum of those of
    their tables.
    """
    effects, names = comparison.node_effects, comparison.plan.names
    found = ((names[v], float(effects[v])) for v in np.flatnonzero(effects >= LEAST_TRAVELLED))
    far = [Travelled(name, nats) for name, nats in found if name not in given]
    far.sort(key=lambda one: (-one.nats, one.name))
    distance = sum(one.nats for one in far)
    return {"distance": distance, "travelled": tuple(far[:MAX_TRAVELLED])}


def _led_by(facts: tuple[Fact, ...], decision: DriftDecision) -> DriftDecision:
    """Return the decision with facts, which say more than what tests make of them."""
    return replace(decision, kind=DriftKind.DATA, facts=facts) if facts else decision


def _named(decision: DriftDecision, naming: Naming) -> DriftDecision:
    return replace(
        decision,
        kind=naming.kind,
        edges=naming.edges,
        node_changes=naming.nodes,
        effect=naming.effect,
    )
