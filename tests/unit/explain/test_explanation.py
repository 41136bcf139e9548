from __future__ import annotations

import math
from dataclasses import replace

import pytest

from driftbn.drift.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftKind,
    DriftLevel,
    EdgeChange,
    EpisodeEvent,
    Family,
    FamilyResult,
    NodeChange,
    UndecidedPair,
)
from driftbn.explain.explanation import Explanation
from driftbn.explain.words import decimal, listed, moment, span, strength
from driftbn.graphs.diff import compare
from driftbn.graphs.graph import Dag
from driftbn.learning import Overrun, SearchCost
from driftbn.report import WindowReport
from driftbn.tables.encode import SchemaEvent, SchemaEventKind

NONE = Association(0.0002, 0.0, 0.0009)
STRONG = Association(0.112, 0.098, 0.126)
ADDED = EdgeChange("rain", "delay", ChangeType.ADDED, 1e-8, NONE, STRONG, ("day",))
REMOVED = EdgeChange("day", "delay", ChangeType.REMOVED, 1e-5, STRONG, NONE)
REVERSED = EdgeChange("day", "rain", ChangeType.REVERSED, 1e-4, STRONG, STRONG)
MECHANISM = FamilyResult(Family.MECHANISM, 0.6, ("rain",), 1, 3)
ASSOCIATION = FamilyResult(Family.ASSOCIATION, 0.31, ("day", "rain"), 1, 3)
DRIFT = DriftDecision(
    DriftLevel.DRIFT,
    alpha=0.01,
    p_value=0.0004,
    families=(replace(ASSOCIATION, p_value=0.0004),),
    kind=DriftKind.STRUCTURAL,
    scale=1,
    edges=(ADDED,),
    effect=0.112,
    reference_windows=8,
)
STABLE = DriftDecision(DriftLevel.STABLE, 0.01, 0.31, (MECHANISM, ASSOCIATION))


def make_report(decision: DriftDecision, *, n_raw: int = 1) -> WindowReport:
    nodes = ("day", "delay", "rain", "speed")
    edges = [("day", "delay"), ("day", "rain"), ("rain", "delay")]
    dag = Dag(nodes, edges)
    diff = compare(Dag(nodes, edges[n_raw:]), dag)
    return WindowReport(
        14, 5000, 70_000, 74_999, dag.cpdag(), dag, diff, diff, decision, SearchCost((3, 1))
    )


def text_of(report: WindowReport) -> str:
    """Return the whole text as one line."""
    return " ".join(str(report.explain()).split())


def said(decision: DriftDecision) -> str:
    return text_of(make_report(decision))


def node_drift(*changes: NodeChange, kind: DriftKind) -> DriftDecision:
    return replace(DRIFT, kind=kind, edges=(), node_changes=changes)


# What changed


def test_headline_names_the_window_and_both_fields() -> None:
    headline = make_report(DRIFT).explain().headline
    assert headline == "Drift in window 14: a dependency between 'rain' and 'delay' was added."


def test_several_edges_are_counted_by_what_happened_to_them() -> None:
    headline = make_report(replace(DRIFT, edges=(ADDED, REMOVED, REVERSED))).explain().headline
    assert "1 dependency was added, 1 removed and 1 reversed" in headline
    twice = replace(DRIFT, edges=(REMOVED, replace(REMOVED, source="speed")))
    assert "2 dependencies were removed" in make_report(twice).explain().headline


def test_strength_is_told_before_and_now_in_words_and_numbers() -> None:
    text = said(DRIFT)
    assert "before: none (0.0002 nats, 95 % interval 0 to 0.0009)" in text
    assert "now: strong (0.112 nats, 95 % interval 0.098 to 0.126)" in text
    assert "how much knowing one field tells about the other" in text


def test_fields_held_fixed_are_told_in_plain_words() -> None:
    assert "comparing only records that agree in 'day'" in said(DRIFT)
    assert "agree in" not in said(replace(DRIFT, edges=(REMOVED,)))


@pytest.mark.parametrize(
    ("edge", "words"),
    [
        (ADDED, "it points from 'rain' to 'delay'"),
        (REMOVED, "was removed (it pointed from 'day' to 'delay')"),
        (REVERSED, "was reversed (it points from 'day' to 'rain', before from 'rain' to 'day')"),
        (replace(ADDED, directed=False), "the data do not tell its direction"),
        (replace(REVERSED, directed=False), "was reversed (the data do not tell its direction)"),
    ],
)
def test_direction_is_told_only_if_it_is_known(edge: EdgeChange, words: str) -> None:
    assert words in said(replace(DRIFT, edges=(edge,)))


def test_only_the_strongest_changes_are_told_in_full() -> None:
    edges = tuple(replace(ADDED, source=f"x{i}") for i in range(6))
    assert "There is 1 more change of this kind." in said(replace(DRIFT, edges=edges))
    edges += (replace(ADDED, source="x6"),)
    text = said(replace(DRIFT, edges=edges))
    assert "There are 2 more changes" in text
    assert "between 'x5'" not in text


def test_mechanism_says_same_inputs_and_another_rule() -> None:
    change = NodeChange("delay", ("day", "rain"), 0.001, 0.02)
    report = make_report(node_drift(change, kind=DriftKind.MECHANISM))
    assert "'delay' follows the same fields by another rule" in report.explain().headline
    text = text_of(report)
    assert "the same inputs now lead to other outcomes" in text
    assert "'delay' follows 'day' and 'rain' as before, by another rule" in text
    assert "medium, 0.02 nats per record" in text
    assert "was added" not in text


def test_two_mechanisms_take_the_plural() -> None:
    changes = [NodeChange(name, ("day",), 0.001, 0.02) for name in ("delay", "rain")]
    headline = make_report(node_drift(*changes, kind=DriftKind.MECHANISM)).explain().headline
    assert "'delay' and 'rain' follow the same fields" in headline


def test_marginal_says_that_dependencies_are_as_before() -> None:
    text = said(node_drift(NodeChange("rain", (), 0.001, 0.02), kind=DriftKind.MARGINAL))
    assert "the values of 'rain' come in other shares than before" in text
    assert "Only how often values come has changed" in text
    assert "rule" not in text.split("How far two rules")[0]


def test_node_of_a_structural_drift_is_not_said_to_follow_the_same_fields() -> None:
    change = NodeChange("delay", ("day",), 0.001, 0.02)
    text = said(replace(DRIFT, node_changes=(change,)))
    assert "records that agree in 'day', the values of 'delay' come in other shares" in text
    assert "same fields" not in text


def test_association_without_an_edge_names_the_clearest_pair() -> None:
    text = said(replace(DRIFT, kind=DriftKind.ASSOCIATION, edges=()))
    assert "how 'day' and 'rain' go together changed" in text
    assert "no single dependency could be named" in text


def test_pair_whose_test_does_not_reject_is_not_named() -> None:
    families = (replace(MECHANISM, p_value=0.0004), ASSOCIATION)
    report = make_report(replace(DRIFT, kind=DriftKind.ASSOCIATION, edges=(), families=families))
    assert "'day'" not in text_of(report)


def test_drift_without_a_name_claims_no_field() -> None:
    text = said(DriftDecision(DriftLevel.DRIFT, 0.01))
    assert "the relations between the fields changed" in text
    assert "p-value" not in text
    assert "'" not in text


# Since when, how sure, at which scale


def test_window_records_and_times_are_told() -> None:
    report = replace(make_report(DRIFT), start=0.0, end=90_000.0)
    assert "5,000 records (numbers 70,000 to 74,999)" in text_of(report)
    assert "from 1970-01-01 00:00:00 UTC to 1970-01-02 01:00:00 UTC" in text_of(report)
    assert "UTC" not in said(DRIFT)


def test_single_record_is_singular() -> None:
    report = replace(make_report(STABLE), rows=1, first_record=7, last_record=7)
    assert "holds 1 record (number 7)" in text_of(report)


def test_certainty_is_a_p_value_and_the_rate_of_false_alarms() -> None:
    text = said(DRIFT)
    assert "p-value is 0.0004 after correction" in text
    assert "a false alarm like this is expected once in 100 windows" in text
    assert "once in 1,000 windows" in said(replace(DRIFT, alpha=0.001))
    assert "p-value is less than 0.0001" in said(replace(DRIFT, p_value=1e-12))


def test_scale_tells_whether_one_window_was_enough() -> None:
    assert "seen in this window alone" in said(DRIFT)
    text = said(replace(DRIFT, scale=4))
    assert "seen only over the last 4 windows together" in text
    assert "alone" not in text


def test_reference_is_counted() -> None:
    assert "the reference: 8 earlier windows" in said(DRIFT)
    assert "the reference: 1 earlier window put" in said(replace(DRIFT, reference_windows=1))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (EpisodeEvent.STARTED, "With this window episode 2 begins."),
        (EpisodeEvent.UPDATED, "belongs to episode 2 (begun in window 12)"),
        (EpisodeEvent.ENDED, "Episode 2 (begun in window 12) has ended"),
        (None, "belongs to episode 2 (begun in window 12)"),
    ],
)
def test_episode_is_told_with_its_beginning(event: EpisodeEvent | None, words: str) -> None:
    assert words in said(replace(DRIFT, episode=2, since=12, episode_event=event))


# The other levels


def test_stable_tells_the_strongest_sign_and_the_raw_distance() -> None:
    text = said(STABLE)
    assert "no sign of a change" in text
    assert "strongest sign of a change was between 'day' and 'rain', with a p-value of 0.31" in text
    assert "differ in 1 dependency (raw Hamming distance 1)" in text
    assert "neighbouring windows differ by chance" in text
    assert "of which there are none" in text
    assert "false alarm" not in text


def test_raw_distance_has_its_plural_and_its_zero() -> None:
    assert "differ in 2 dependencies" in text_of(make_report(STABLE, n_raw=2))
    assert "do not differ (raw Hamming distance 0)" in text_of(make_report(STABLE, n_raw=0))


def test_negligible_tells_size_and_limit() -> None:
    decision = replace(DRIFT, level=DriftLevel.NEGLIGIBLE, effect=0.004, min_effect=0.02)
    explanation = make_report(decision).explain()
    assert "too small for an alarm" in explanation.headline
    assert "is 0.004 nats (weak), below the 0.02 nats" in " ".join(explanation.sentences)
    assert not explanation.advice


def test_learning_claims_nothing() -> None:
    report = make_report(DriftDecision(DriftLevel.LEARNING, 0.01))
    assert "nothing yet to compare with" in report.explain().headline
    assert len(report.explain().sentences) == 1


def test_settling_says_that_it_follows_a_drift() -> None:
    text = said(replace(STABLE, level=DriftLevel.SETTLING))
    assert "the window after a drift" in text
    assert "starts the new reference" in text


def test_recurring_names_the_regime() -> None:
    decision = replace(STABLE, level=DriftLevel.SETTLING, recurring=True, regime=3)
    text = said(decision)
    assert "The relations are back to what they were in regime 3" in text
    assert "starts the new reference" not in text
    assert "back to regime 3" in said(replace(DRIFT, recurring=True, regime=3))
    assert "regime" not in said(DRIFT)


def test_a_quiet_return_is_no_alarm_and_names_the_regime() -> None:
    text = said(replace(STABLE, recurring=True, regime=3))
    assert "back to an earlier state, which is no alarm" in text
    assert "The relations are back to what they were in regime 3" in text


def test_undecided_window_advises_larger_ones() -> None:
    explanation = make_report(DriftDecision(DriftLevel.UNDECIDED, 0.01)).explain()
    assert "too few records for any test" in explanation.headline
    assert any("Larger windows" in line for line in explanation.advice)


# What limits the report


def test_undecided_pairs_are_told_with_what_would_show() -> None:
    pairs = (UndecidedPair("day", "rain", math.inf), UndecidedPair("day", "speed", 0.04))
    text = said(replace(STABLE, undecided=pairs, n_undecided=7))
    assert "On 7 pairs of fields this window is too small to tell" in text
    assert "'day' and 'rain' (no change at all would show)" in text
    assert "smallest change that would show is 0.04 nats (strong)" in text
    assert "and 5 more" in text
    assert "Silence is not evidence" in text
    assert "On 1 pair of fields" in said(replace(STABLE, undecided=pairs[:1], n_undecided=1))


@pytest.mark.parametrize(
    ("overrun", "words", "setting"),
    [
        (Overrun.DEADLINE, "its time was over", "deadline_seconds"),
        (Overrun.TESTS, "number of tests was used up", "max_tests"),
    ],
)
def test_degraded_says_which_limit(overrun: Overrun, words: str, setting: str) -> None:
    report = replace(make_report(STABLE), overrun=overrun)
    assert words in text_of(report)
    assert any(setting in line for line in report.explain().advice)
    assert "raw Hamming" not in text_of(report)


def test_dependent_rows_are_told_above_a_limit_and_advised_on_above_another() -> None:
    assert "design effect" not in said(replace(STABLE, design_effect=1.5))
    few = make_report(replace(STABLE, design_effect=5.0))
    assert "as much as about 1,000 independent ones (design effect 5)" in text_of(few)
    assert not few.explain().advice
    many = make_report(replace(STABLE, design_effect=20.5))
    assert any("larger windows" in line for line in many.explain().advice)


def test_discount_is_claimed_only_if_a_test_had_one() -> None:
    assert "discounted" not in said(replace(STABLE, design_effect=5.0))
    families = (replace(MECHANISM, design_effect=2.5),)
    text = said(replace(STABLE, design_effect=5.0, families=families))
    assert "discounted this by up to 2.5" in text


def test_schema_events_are_told() -> None:
    events = (
        SchemaEvent(SchemaEventKind.NEW_LEVEL, "day", ("x", "y"), 9, 31),
        SchemaEvent(SchemaEventKind.NEW_COLUMN, "wind"),
        SchemaEvent(SchemaEventKind.MISSING_COLUMN, "speed", n_rows=1),
    )
    report = replace(make_report(STABLE), events=events)
    text = text_of(report)
    assert "'day' has 9 values never seen before ('x', 'y' and 7 more) in 31 records" in text
    assert "a column 'wind' that was not there before" in text
    assert "'speed' is absent in 1 record;" in text
    assert len(report.explain().advice) == 1


# Twins and the target


def test_twin_is_told_only_if_its_field_is_named() -> None:
    report = replace(make_report(DRIFT), twins=(("wet", "rain"), ("v", "speed")))
    text = text_of(report)
    assert "'wet' always says the same as 'rain', so either may be meant" in text
    assert "'v'" not in text


def test_target_itself_is_touched() -> None:
    report = replace(make_report(DRIFT), target="delay", blanket=("rain",))
    assert "touches 'delay'" in text_of(report)
    assert any("relies on 'delay'" in line for line in report.explain().advice)


def test_field_near_the_target_is_touched() -> None:
    report = replace(make_report(DRIFT), target="speed", blanket=("day", "rain"))
    assert "not touch the target 'speed' itself, but 'rain', which tells" in text_of(report)
    both = replace(report, blanket=("delay", "rain"))
    assert "but 'delay' and 'rain', which tell something" in text_of(both)


def test_target_is_not_touched() -> None:
    report = replace(make_report(DRIFT), target="speed", blanket=("day",))
    assert "touches neither the target 'speed'" in text_of(report)
    assert not any("relies on" in line for line in report.explain().advice)


def test_target_that_a_twin_stands_for_is_touched() -> None:
    report = replace(make_report(DRIFT), target="wet", twins=(("wet", "rain"),))
    assert "touches 'wet'" in text_of(report)


def test_target_is_unknown_if_nothing_was_named() -> None:
    report = replace(make_report(DriftDecision(DriftLevel.DRIFT, 0.01)), target="speed")
    assert "is not known" in text_of(report)
    assert "target" not in text_of(replace(report, decision=STABLE))


# The form


def test_text_is_wrapped_and_names_cannot_break_lines() -> None:
    edges = (replace(ADDED, source="two\nlines", target="x" * 500),)
    lines = str(make_report(replace(DRIFT, edges=edges)).explain()).splitlines()
    assert any("'two\\nlines'" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_explanations_of_equal_reports_are_equal() -> None:
    assert make_report(DRIFT).explain() == make_report(DRIFT).explain()
    assert isinstance(hash(make_report(DRIFT).explain()), int)
    assert str(Explanation("Calm.")) == "Calm."


@pytest.mark.parametrize(
    ("nats", "word"),
    [
        (0.0009, "none"),
        (0.0099, "weak"),
        (0.0299, "medium"),
        (0.299, "strong"),
        (0.3, "very strong"),
    ],
)
def test_words_of_strength_end_at_their_limits(nats: float, word: str) -> None:
    assert strength(nats) == word


def test_numbers_and_times_out_of_range_are_still_words() -> None:
    assert strength(math.nan) == decimal(math.inf) == decimal(math.nan) == "unknown"
    assert moment(1e300) == "1e+300 seconds since the epoch"
    assert "nan" in moment(math.nan)
    assert span(None, None) is None
    assert span(0.0, None) == span(None, 0.0) == span(0.0, 0.5) == "at 1970-01-01 00:00:00 UTC"
    assert listed(()) == ""
