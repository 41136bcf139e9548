"""The decision on each window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbn.config import DecisionConfig, DriftKind, Knowledge
from driftbn.datasets import asia, change_root_marginal, change_table, remove_edge, sample_codes
from driftbn.drift.decider import MAX_CORRECTED, CountDecider, strongest
from driftbn.drift.facts import Fact, FactKind
from driftbn.drift.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    EpisodeEvent,
    Family,
    NodeChange,
    Severity,
)
from driftbn.drift.reference import LearnedWindow
from driftbn.graphs.network import BayesianNetwork
from driftbn.learning import StructureLearner
from driftbn.learning.search import given_first

LEARNER = StructureLearner()
BEFORE = asia()
AFTER = remove_edge(BEFORE, "smoke", "bronc").network
NAMES = sorted(BEFORE.nodes)


@given(
    p=st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=MAX_CORRECTED),
    factors=st.lists(st.floats(1.0, 1e6), min_size=MAX_CORRECTED, max_size=MAX_CORRECTED),
)
def test_the_smallest_corrected_p_value_is_found(p: list[float], factors: list[float]) -> None:
    corrected = [min(1.0, value * factor) for value, factor in zip(p, factors, strict=False)]
    asked: list[int] = []

    def correct(index: int, _: float) -> tuple[float, float]:
        asked.append(index)
        return corrected[index], factors[index]

    index, found, effect = strongest(np.array(p), correct)
    best = min(corrected)
    assert found == best
    if best < 1.0:
        assert corrected[index] == best
        assert effect == factors[index]
    assert len(asked) == len(set(asked))


def test_only_what_may_still_be_smallest_is_corrected() -> None:
    asked: list[int] = []

    def correct(index: int, _: float) -> tuple[float, float]:
        asked.append(index)
        return (0.004, 2.0) if index == 1 else (0.9, 9.0)

    assert strongest(np.array([0.01, 0.002, 0.001, 1.0, 0.5]), correct) == (1, 0.004, 2.0)
    assert asked == [2, 1]


def test_of_very_many_tests_that_reject_only_the_first_are_corrected() -> None:
    asked: list[int] = []

    def correct(index: int, _: float) -> tuple[float, float]:
        asked.append(index)
        return 1.0, 50.0

    assert strongest(np.full(500, 1e-9), correct) == (0, 1.0, 1.0)
    assert asked == list(range(MAX_CORRECTED))


def test_no_tests_say_nothing() -> None:
    assert strongest(np.ones(3), lambda index, most: (0.0, 1.0)) == (0, 1.0, 1.0)
    assert strongest(np.zeros(0), lambda index, most: (0.0, 1.0)) == (0, 1.0, 1.0)


def window(
    network: BayesianNetwork, seed: int, n_rows: int = 1500, learner: StructureLearner = LEARNER
) -> LearnedWindow:
    order = [network.index(name) for name in NAMES]
    codes = sample_codes(network, n_rows, np.random.default_rng(seed))[order]
    return learner.learn_window(codes, NAMES)


def play(
    decider: CountDecider,
    networks: list[BayesianNetwork],
    seed: int,
    learner: StructureLearner = LEARNER,
) -> list[DriftDecision]:
    return [
        decider.decide(index, window(network, 100 * seed + index, learner=learner))
        for index, network in enumerate(networks)
    ]


def levels(decisions: list[DriftDecision]) -> str:
    return "".join(decision.level.value[0] for decision in decisions)


def test_a_change_is_learned_alarmed_settled_and_over() -> None:
    decisions = play(CountDecider(DecisionConfig(), LEARNER), [BEFORE] * 5 + [AFTER] * 6, 1)
    assert [decision.level for decision in decisions] == [
        DriftLevel.LEARNING,
        *[DriftLevel.STABLE] * 4,
        DriftLevel.DRIFT,
        DriftLevel.SETTLING,
        *[DriftLevel.STABLE] * 4,
    ]
    assert [decision.regime for decision in decisions] == [0] * 6 + [1] * 5
    sizes = [decision.reference_windows for decision in decisions]
    assert sizes == [0, 1, 2, 3, 4, 5, 5, 1, 2, 3, 4]
    assert decisions[5].scale == 1
    assert decisions[10].episode_event is EpisodeEvent.ENDED


@pytest.mark.parametrize("n_away", [4, 5])
def test_a_return_within_an_episode_is_another_one(n_away: int) -> None:
    """It names the same edge, but things are as they were before."""
    stretches = [BEFORE] * 5 + [AFTER] * n_away + [BEFORE] * 2
    decisions = play(CountDecider(DecisionConfig(), LEARNER), stretches, 6)
    begun = [i for i, d in enumerate(decisions) if d.episode_event is EpisodeEvent.STARTED]
    assert begun == [5, 5 + n_away]
    assert EpisodeEvent.ENDED not in [d.episode_event for d in decisions]


def test_a_change_elsewhere_within_an_episode_is_another_one() -> None:
    further = change_table(AFTER, "xray", 0.05, np.random.default_rng(1)).network
    stretches = [BEFORE] * 5 + [AFTER] * 4 + [further] * 2
    decisions = play(CountDecider(DecisionConfig(), LEARNER), stretches, 1)
    told = [(i, d.episode, d.since) for i, d in enumerate(decisions) if d.drift]
    assert told == [(5, 0, 5), (9, 1, 9)]


def test_a_further_step_of_the_same_change_goes_on_with_its_episode() -> None:
    step = change_table(BEFORE, "xray", 0.02, np.random.default_rng(1)).network
    further = change_table(BEFORE, "xray", 0.2, np.random.default_rng(1)).network
    stretches = [BEFORE] * 5 + [step] * 4 + [further] * 2
    decisions = play(CountDecider(DecisionConfig(), LEARNER), stretches, 1)
    told = [(i, d.episode, d.since) for i, d in enumerate(decisions) if d.drift]
    assert told == [(5, 0, 5), (9, 0, 5)]


def test_p_values_are_corrected_for_all_tests_families_and_scales() -> None:
    decider = CountDecider(DecisionConfig(alpha=0.02), LEARNER)
    play(decider, [BEFORE] * 5, 2)
    regime = decider.regime
    assert regime is not None
    judgement = decider.judge(regime, regime.counted(window(AFTER, 9)))
    mechanism, association = judgement.families
    nodes = min(judgement.comparison.node_p_value(v)[0] for v in range(8))
    assert mechanism.family is Family.MECHANISM
    assert mechanism.p_value == pytest.approx(min(1.0, nodes * 8 * 3 / 0.25), rel=1e-9, abs=0.0)
    assert mechanism.n_tests == 8
    assert association.family is Family.ASSOCIATION
    assert association.n_tests == judgement.comparison.plan.n_pair_tests
    p = [
        judgement.comparison.pair_p_value(i)[0]
        for i in range(judgement.comparison.plan.n_pair_tests)
    ]
    assert association.p_value == pytest.approx(
        min(1.0, min(p) * len(p) * 3 / 0.75), rel=1e-9, abs=0.0
    )
    assert set(association.fields) == {"bronc", "smoke"}
    assert judgement.p_value == min(mechanism.p_value, association.p_value)


def test_a_young_reference_is_corrected_for_pairs() -> None:
    decider = CountDecider(DecisionConfig(), LEARNER)
    decisions = play(decider, [BEFORE] * 6, 3)
    tests = [decision.families[0].n_tests for decision in decisions[1:]]
    assert tests == [28, 28, 28, 8, 8]


def test_small_changes_are_seen_by_pooling_windows() -> None:
    after = change_table(BEFORE, "dysp", 0.0012, np.random.default_rng(1)).network
    scales = []
    for seed in range(6):
        decisions = play(CountDecider(DecisionConfig(), LEARNER), [BEFORE] * 8 + [after] * 5, seed)
        scales += [decision.scale for decision in decisions[8:] if decision.drift][:1]
    assert len(scales) >= 5
    assert max(scales) > 1


def test_a_change_of_a_kind_that_raises_no_alarm_is_a_notice_and_the_regime_stays() -> None:
    config = DecisionConfig(alarm_on=(DriftKind.MARGINAL, DriftKind.DATA))
    decisions = play(CountDecider(config, LEARNER), [BEFORE] * 5 + [AFTER] * 3, 4)
    told = decisions[5]
    assert (told.level, told.kind) == (DriftLevel.NOTICE, DriftKind.STRUCTURAL)
    assert told.severity is Severity.NOTICE
    assert [edge.pair for edge in told.edges] == [("bronc", "smoke")]
    assert told.episode is None
    assert {decision.regime for decision in decisions} == {0}


def test_a_limit_of_the_distance_is_told_with_each_window() -> None:
    told = play(CountDecider(DecisionConfig(max_distance=3.0), LEARNER), [BEFORE] * 2, 4)
    assert [decision.max_distance for decision in told] == [3.0, 3.0]


def test_how_a_given_field_comes_is_no_drift() -> None:
    moved = change_root_marginal(BEFORE, "smoke", 0.05, np.random.default_rng(1)).network
    learner = StructureLearner(knowledge=given_first(Knowledge(), ["smoke"], NAMES))
    for fields, level in (((), DriftLevel.DRIFT), (("smoke",), DriftLevel.STABLE)):
        decider = CountDecider(DecisionConfig(given=fields), learner)
        told = play(decider, [BEFORE] * 5 + [moved], 4, learner)[5]
        assert (told.level, told.given) == (level, fields)


def test_what_goes_with_a_given_field_is() -> None:
    decider = CountDecider(DecisionConfig(given=("smoke",)), LEARNER)
    told = play(decider, [BEFORE] * 5 + [AFTER], 4)[5]
    assert told.drift
    assert [edge.pair for edge in told.edges] == [("bronc", "smoke")]


def test_the_distance_from_the_baseline_outlasts_the_regime_until_it_is_accepted() -> None:
    moved = change_root_marginal(BEFORE, "asia", 0.05, np.random.default_rng(1)).network
    decider = CountDecider(DecisionConfig(), LEARNER)
    told = play(decider, [BEFORE] * 5 + [moved] * 12, 4)
    assert max(decision.distance for decision in told[2:5]) < 0.02
    assert [decision.regime for decision in told[-3:]] == [1] * 3
    for decision in told[6:]:
        first = decision.travelled[0]
        assert first.name == "asia"
        assert first.nats == pytest.approx(told[5].travelled[0].nats, rel=0.3)
        assert decision.distance == pytest.approx(sum(one.nats for one in decision.travelled))
    again = CountDecider.from_state(decider.state(), DecisionConfig(), LEARNER)
    assert again.decide(17, window(BEFORE, 1)) == decider.branch().decide(17, window(BEFORE, 1))
    decider.accept()
    decider.decide(17, window(moved, 1))
    assert decider.decide(18, window(moved, 2)).distance < 0.02


@pytest.mark.parametrize("broken", [False, True])
def test_a_clock_is_given_as_long_as_it_goes_on(broken: bool) -> None:
    """In the last window it stands at other hours, or its hours are permuted."""
    rng = np.random.default_rng(1)
    decider, hours = CountDecider(DecisionConfig(), LEARNER), np.arange(1500) // 5 % 24
    for index in range(6):
        hour = hours if index < 5 else rng.permutation(hours) if broken else 5 + hours % 12
        load = (hour // 6 + (rng.random(1500) < 0.2)) % 4
        codes = np.stack([hour, load]).astype(np.uint8)
        told = decider.decide(index, LEARNER.learn_window(codes, ("hour", "load")))
    assert told.given == (() if broken else ("hour",))
    assert not told.drift


FACT = Fact("bronc", FactKind.MISSING, 0.4, 0.0)


@pytest.mark.parametrize("alarm_on", [tuple(DriftKind), (DriftKind.DATA,)])
def test_a_fact_is_an_alarm_where_facts_are(alarm_on: tuple[DriftKind, ...]) -> None:
    decider = CountDecider(DecisionConfig(alarm_on=alarm_on), LEARNER)
    play(decider, [BEFORE] * 4, 4)
    told = decider.decide(4, window(BEFORE, 5), facts=(FACT,))
    assert (told.level, told.kind, told.severity) == (
        DriftLevel.DRIFT,
        DriftKind.DATA,
        Severity.ALERT,
    )


def test_a_fact_is_a_notice_where_facts_raise_no_alarm() -> None:
    decider = CountDecider(DecisionConfig(alarm_on=(DriftKind.STRUCTURAL,)), LEARNER)
    play(decider, [BEFORE] * 4, 4)
    told = decider.decide(4, window(BEFORE, 5), facts=(FACT,))
    assert (told.level, told.kind, told.facts) == (DriftLevel.NOTICE, DriftKind.DATA, (FACT,))
    assert decider.decide(5, window(BEFORE, 6)).reference_windows == 5


@pytest.mark.parametrize(
    ("kind", "effect", "severity"),
    [
        (DriftKind.STRUCTURAL, 0.02, Severity.ALERT),
        (DriftKind.STRUCTURAL, 0.5, Severity.ALERT),
        (DriftKind.ASSOCIATION, 0.009, Severity.WARNING),
        (DriftKind.MECHANISM, 0.02, Severity.WARNING),
        (DriftKind.MECHANISM, 0.009, Severity.NOTICE),
        (DriftKind.MECHANISM, 0.3, Severity.ALERT),
        (DriftKind.MARGINAL, 0.02, Severity.NOTICE),
        (DriftKind.MARGINAL, 0.001, Severity.NOTICE),
        (DriftKind.MARGINAL, 0.3, Severity.WARNING),
        (None, 0.0, None),
    ],
)
def test_severity_follows_from_kind_and_size(
    kind: DriftKind | None, effect: float, severity: Severity | None
) -> None:
    told = DriftDecision(DriftLevel.DRIFT, 0.01, kind=kind, effect=effect)
    assert told.severity is severity


def test_a_regime_that_was_forgotten_is_a_new_one() -> None:
    config = DecisionConfig(archived_regimes=0)
    stretches = [BEFORE] * 5 + [AFTER] * 5 + [BEFORE] * 3
    decisions = play(CountDecider(config, LEARNER), stretches, 5)
    settled = [decision for decision in decisions if decision.settling]
    assert [(d.regime, d.recurring) for d in settled] == [(1, False), (2, False)]


def test_a_regime_known_before_may_come_back_without_an_alarm() -> None:
    """Day and night: the first night is a change, later ones and days are not."""
    config = DecisionConfig(quiet_returns=True)
    decider = CountDecider(config, LEARNER)
    decisions = play(decider, [BEFORE] * 5 + [AFTER] * 6 + [BEFORE] * 4 + [AFTER] * 4, 6)
    assert [index for index, found in enumerate(decisions) if found.drift] == [5]
    back = [index for index, found in enumerate(decisions) if found.recurring]
    assert back == [11, 15]
    assert [decisions[index].regime for index in back] == [0, 1]
    assert [decisions[index].episode for index in back] == [None, None]
    assert [regime.number for regime in decider.archive] == [0]
    assert decider.regime is not None
    assert len(decider.regime.windows) == 4 + 4  # what was kept of the first night, and the second


def test_a_change_that_comes_and_goes_is_usual_in_the_end() -> None:
    """Weekdays and weekends: what is told of the first ones is not news in the sixth week."""
    weekend = change_root_marginal(BEFORE, "smoke", 0.05, np.random.default_rng(1)).network
    decisions = play(CountDecider(DecisionConfig(), LEARNER), ([BEFORE] * 5 + [weekend] * 2) * 7, 6)
    alarms = [index for index, found in enumerate(decisions) if found.drift]
    assert alarms[0] == 5
    assert max(alarms) < 3 * 7


def test_a_change_is_named_from_the_nearest_regime_where_returns_are_quiet() -> None:
    """The second night another dependency is gone: that of every night is not told again."""
    worse = remove_edge(AFTER, "either", "dysp").network
    stretches = [BEFORE] * 5 + [AFTER] * 6 + [BEFORE] * 4 + [worse] * 2
    quiet = play(CountDecider(DecisionConfig(quiet_returns=True), LEARNER), stretches, 6)
    assert [edge.pair for edge in quiet[15].edges] == [("dysp", "either")]
    assert quiet[15].regime == 1
    loud = play(CountDecider(DecisionConfig(), LEARNER), stretches, 6)
    named = {edge.pair for edge in loud[15].edges}
    assert {("bronc", "smoke"), ("dysp", "either")} <= named


def test_a_young_regime_is_left_for_one_that_explains_what_it_would_have_to_wander_for() -> None:
    decider = CountDecider(DecisionConfig(), LEARNER)
    networks = [BEFORE] * 8 + [AFTER] * 3 + [BEFORE] * 3
    decisions = [
        decider.decide(index, window(network, 200 + index, 300))
        for index, network in enumerate(networks)
    ]
    assert levels(decisions) == "lsssssssdsssss"
    assert [decision.regime for decision in decisions[8:]] == [0, 1, 1, 0, 0, 0]
    assert [decision.recurring for decision in decisions[9:]] == [False, False, True, False, False]
    assert decider.regime is not None
    assert len(decider.regime.windows) == 8 - 4 + 3  # what an archive keeps, and the new ones


def test_a_false_alarm_is_taken_back_by_the_next_window() -> None:
    """The change lasts for one window only."""
    decisions = play(
        CountDecider(DecisionConfig(), LEARNER), [BEFORE] * 5 + [AFTER] + [BEFORE] * 3, 6
    )
    assert levels(decisions) == "lssssdsss"
    assert decisions[6].settling
    assert decisions[6].recurring
    assert decisions[6].regime == 0
    assert decisions[6].edges == ()


def test_a_single_field_comes_back_too() -> None:
    rng = np.random.default_rng(1)
    decider = CountDecider(DecisionConfig(), LEARNER)
    decisions = []
    for index, share in enumerate([0.5] * 4 + [0.2] * 4 + [0.5] * 3):
        codes = (rng.random((1, 600)) < share).astype(np.uint8)
        decisions.append(decider.decide(index, LEARNER.learn_window(codes, "a")))
    settled = [decision for decision in decisions if decision.settling]
    assert [(d.regime, d.recurring) for d in settled] == [(1, False), (0, True)]


def test_accepting_starts_a_new_reference() -> None:
    decider = CountDecider(DecisionConfig(), LEARNER)
    play(decider, [BEFORE] * 4 + [AFTER], 7)
    assert decider.settling
    decider.accept()
    (told, after) = play(decider, [AFTER] * 2, 8)
    assert told.level is DriftLevel.LEARNING
    assert (after.level, after.regime, after.reference_windows) == (DriftLevel.STABLE, 1, 1)
    assert after.episode is None
    assert [regime.number for regime in decider.archive] == [0]


def test_the_archive_is_bounded() -> None:
    decider = CountDecider(DecisionConfig(archived_regimes=2), LEARNER)
    for seed in range(6):
        play(decider, [BEFORE] * 6, seed)
        decider.accept()
    assert [regime.number for regime in decider.archive] == [4, 5]
    assert all(len(regime.windows) == 4 for regime in decider.archive)


def test_design_effects_are_those_of_the_window() -> None:
    decider = CountDecider(DecisionConfig(), LEARNER)
    codes = np.repeat(window(BEFORE, 1, 300).codes, 5, axis=1)
    told = decider.decide(0, LEARNER.learn_window(codes, NAMES))
    assert told.design_effect == decider.effects.max() > 2.0


NONE = Association(0.0, 0.0, 0.1)
CHANGE = EdgeChange("smoke", "lung", ChangeType.REVERSED, 0.001, NONE, NONE)


def test_a_decision_counts_confirmed_edges_and_names_its_fields() -> None:
    nodes = (NodeChange("xray", ("either",), 0.002, 0.1), NodeChange("dysp", (), 0.01, 0.05))
    decision = DriftDecision(DriftLevel.DRIFT, 0.01, edges=(CHANGE, CHANGE), node_changes=nodes)
    assert decision.confirmed_hamming == 2
    assert decision.nodes == ("xray", "dysp")
    assert DriftDecision(DriftLevel.STABLE, 0.01).confirmed_hamming == 0
