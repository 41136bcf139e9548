from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from driftbn import ChangeType, Dag, DriftDecision, DriftLevel, EdgeChange, NodeChange
from driftbn.config import DriftKind
from driftbn.drift.outcome import Wander
from driftbn.explain.sentences import decimal, listed, moment, span, strength
from driftbn.learning import Overrun
from driftbn.report import HammingBand, WindowReport
from tests.encoded import SchemaEvent, SchemaEventKind
from tests.reports import (
    NONE,
    STRONG,
    EpisodeEvent,
    Family,
    FamilyResult,
    UndecidedPair,
    window_report,
)

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
SETTLING = replace(STABLE, level=DriftLevel.SETTLING)
UNNAMED = DriftDecision(DriftLevel.DRIFT, 0.01)
RULE = NodeChange("delay", ("day", "rain"), 0.001, 0.02)


def make_report(decision: DriftDecision, *, n_raw: int = 1, **values: Any) -> WindowReport:
    nodes, edges = ("day", "delay", "rain", "speed"), [("day", "delay"), ("day", "rain")]
    edges.append(("rain", "delay"))
    before, now = Dag(nodes, edges[n_raw:]), Dag(nodes, edges)
    return window_report(decision, now, before, index=14, rows=5000, **values)


def drift(**changes: Any) -> DriftDecision:
    return replace(DRIFT, **changes)


def rules(
    *changes: NodeChange, kind: DriftKind = DriftKind.MECHANISM, **more: Any
) -> DriftDecision:
    return drift(kind=kind, edges=(), node_changes=changes, **more)


def text_of(told: DriftDecision | WindowReport) -> str:
    """Return the whole text as one line."""
    report = told if isinstance(told, WindowReport) else make_report(told)
    return " ".join(report.explain().in_full().split())


class Case(NamedTuple):
    told: DriftDecision | WindowReport
    said: tuple[str, ...]
    unsaid: tuple[str, ...] = ()


CASES = {
    # What changed
    "the headline names the window and both fields": Case(
        DRIFT, ("Drift in window 14: a dependency between 'rain' and 'delay' was added.",)
    ),
    "of several edges the first leads and the others are told by their fields": Case(
        drift(edges=(ADDED, REMOVED, REVERSED)),
        ("between 'rain' and 'delay' was added; 2 more dependencies changed, with 'day'.",),
    ),
    "the field that more of the change is about comes first": Case(
        drift(edges=(REMOVED, replace(REMOVED, source="speed"))),
        ("between 'delay' and 'day' was removed; 1 more dependency changed, with 'speed'.",),
    ),
    "a field that is given is not blamed": Case(
        drift(given=("rain",)),
        ("between 'delay' and 'rain' was added.", "at the source of 'delay' and 'rain'"),
    ),
    "a clock that moved on is no alarm": Case(
        rules(NodeChange("day", (), 1e-9, 0.1), level=DriftLevel.NOTICE, given=("day",)),
        ("Only how given fields come has changed",),
        ("are set to raise no alarm",),
    ),
    "strength is told before and now, in words and numbers": Case(
        DRIFT,
        (
            "before: none (0.0002 nats, 95 % interval 0 to 0.0009)",
            "now: strong (0.112 nats, 95 % interval 0.098 to 0.126)",
            "how much knowing one field tells about the other",
        ),
    ),
    "fields held fixed are told in plain words": Case(
        DRIFT, ("comparing only records that agree in 'day'",)
    ),
    "no field is held fixed": Case(drift(edges=(REMOVED,)), (), ("agree in",)),
    "one change too many to tell in full": Case(
        drift(edges=tuple(replace(ADDED, source=f"x{i}") for i in range(6))),
        ("There is 1 more change of this kind.",),
    ),
    "only the strongest changes are told in full": Case(
        drift(edges=tuple(replace(ADDED, source=f"x{i}") for i in range(7))),
        ("There are 2 more changes",),
        ("between 'x5'",),
    ),
    "a mechanism has the same inputs and another rule": Case(
        rules(RULE),
        (
            "'delay' now comes out differently for the same values of 'day' and 'rain'",
            "where some fields have the same values as before, others now have other ones",
            "Among records with the same 'day' and 'rain', the values of 'delay' come in other",
            "medium, 0.02 nats per record",
        ),
        ("was added",),
    ),
    "two mechanisms take the plural": Case(
        rules(RULE, replace(RULE, name="rain")),
        ("'delay' and 'rain' now come out differently for the same values of other",),
    ),
    "a marginal leaves the dependencies as before": Case(
        rules(NodeChange("rain", (), 0.001, 0.02), kind=DriftKind.MARGINAL),
        (
            "the values of 'rain' come in other shares than before",
            "Only how often values come has changed",
        ),
        ("another rule",),
    ),
    "the node of a structural drift need not follow the same fields": Case(
        drift(node_changes=(replace(RULE, parents=("day",)),)),
        ("records with the same 'day', the values of 'delay' come in other shares",),
        ("same fields",),
    ),
    "an association without an edge names the clearest pair": Case(
        drift(kind=DriftKind.ASSOCIATION, edges=()),
        ("how 'day' and 'rain' depend on each other changed", "No single dependency could be"),
    ),
    "a pair whose test does not reject is not named": Case(
        drift(
            kind=DriftKind.ASSOCIATION,
            edges=(),
            families=(replace(MECHANISM, p_value=0.0004), ASSOCIATION),
        ),
        (),
        ("'day'",),
    ),
    "a drift without a name claims no field": Case(
        UNNAMED, ("the relations between the fields changed",), ("p-value", "'")
    ),
    # Since when, how sure, at which scale
    "window, records and times are told": Case(
        make_report(DRIFT, start=0.0, end=90_000.0),
        (
            "5,000 records (numbers 70,000 to 74,999)",
            "from 1970-01-01 00:00:00 UTC to 1970-01-02 01:00:00 UTC",
        ),
    ),
    "no time without event time": Case(DRIFT, (), ("UTC",)),
    "a single record is singular": Case(
        replace(make_report(STABLE), rows=1, first_record=7, last_record=7),
        ("holds 1 record (number 7)",),
    ),
    "certainty is a p-value and the rate of false alarms": Case(
        DRIFT,
        (
            "p-value is 0.0004 after correction",
            "a false alarm like this is expected once in 100 windows",
        ),
    ),
    "another rate": Case(drift(alpha=0.001), ("once in 1,000 windows",)),
    "a tiny p-value": Case(drift(p_value=1e-12), ("p-value is less than 0.0001",)),
    "one window was enough": Case(DRIFT, ("seen in this window alone",)),
    "several windows were needed": Case(
        drift(scale=4), ("seen only over the last 4 windows together",), ("alone",)
    ),
    "the reference is counted": Case(DRIFT, ("the reference: 8 earlier windows",)),
    "a reference of one": Case(
        drift(reference_windows=1), ("the reference: 1 earlier window put",)
    ),
    # The other levels
    "stable tells the strongest sign and the raw distance": Case(
        STABLE,
        (
            "no sign of a change",
            "strongest sign of a change was between 'day' and 'rain', with a p-value of 0.31",
            "differ in 1 dependency (raw Hamming distance 1)",
            "Neighbouring windows differ by chance; the tests confirm no change.",
        ),
        ("false alarm",),
    ),
    "a raw distance of two": Case(make_report(STABLE, n_raw=2), ("differ in 2 dependencies",)),
    "a distance inside its band is usual": Case(
        make_report(STABLE, n_raw=2, usual=HammingBand(0, 3, 32)),
        (
            "(raw Hamming distance 2), which is usual for this stream: 0 to 3 in the last 32 calm",
            "the tests confirm no change",
        ),
        ("more than usual",),
    ),
    "a distance above its band is said to be so, also where the tests see nothing": Case(
        make_report(STABLE, n_raw=2, usual=HammingBand(0, 1, 12)),
        (
            "no sign of a change in the relations between the fields, though the graph differs",
            "more than is usual for this stream: 0 to 1 in the last 12 calm windows",
            "compare counts and not graphs, confirm none of it",
        ),
        ("by chance;",),
    ),
    "a distance below its band is told and no news": Case(
        make_report(STABLE, n_raw=1, usual=HammingBand(2, 3, 12)),
        ("less than is usual for this stream: 2 to 3", "the tests confirm no change"),
        ("though the graph",),
    ),
    "graphs and tests may agree on a change": Case(
        make_report(DRIFT, usual=HammingBand(0, 0, 8)),
        ("more than is usual", "with the whole reference, confirm 1 change of a dependency."),
    ),
    "a rule that changed is no change of the graph": Case(
        make_report(rules(RULE), usual=HammingBand(0, 3, 8)),
        ("confirm no change of a single dependency; what changed is told above",),
        ("by chance;",),
    ),
    "a raw distance of none": Case(
        make_report(STABLE, n_raw=0), ("do not differ (raw Hamming distance 0)",)
    ),
    "negligible tells size and limit": Case(
        drift(level=DriftLevel.NEGLIGIBLE, effect=0.004, min_effect=0.02),
        ("too small for an alarm", "is 0.004 nats (weak), below the 0.02 nats"),
        ("What to do",),
    ),
    "a notice says why it is no alarm": Case(
        rules(RULE, level=DriftLevel.NOTICE),
        (
            "a change that raises no alarm; 'delay' now comes out",
            "kind (mechanism) are set to raise no",
        ),
        ("What to do",),
    ),
    "a stream that moves by itself is promised no rate of false alarms": Case(
        drift(wander=(Wander("rain", 3.0),)),
        ("This stream moves by itself", "how often it moves this far is not known"),
        ("once in",),
    ),
    "an alarm is not told to use larger windows": Case(
        drift(n_undecided=7, design_effect=30.0, p_value=1e-9), (), ("arger windows",)
    ),
    "nor is a stream that moves": Case(
        replace(STABLE, n_undecided=7, wander=(Wander("rain", 3.0),)), (), ("arger windows",)
    ),
    "calm with too few records is": Case(
        replace(STABLE, n_undecided=7), ("Larger windows would show smaller changes",)
    ),
    "learning claims nothing": Case(
        DriftDecision(DriftLevel.LEARNING, 0.01), ("nothing yet to compare with",)
    ),
    "settling follows a drift": Case(
        SETTLING, ("the window after a drift", "starts the new reference")
    ),
    "a return names the regime": Case(
        replace(SETTLING, recurring=True, regime=3),
        ("The relations are back to what they were in regime 3",),
        ("starts the new reference",),
    ),
    "an alarm may be a return": Case(
        drift(recurring=True, regime=3), ("are back to an earlier state.",)
    ),
    "no return, no regime": Case(DRIFT, (), ("regime",)),
    "a quiet return is no alarm and names the regime": Case(
        replace(STABLE, recurring=True, regime=3),
        (
            "back to an earlier state, which is no alarm",
            "The relations are back to what they were in regime 3",
        ),
    ),
    "an undecided window advises larger ones": Case(
        DriftDecision(DriftLevel.UNDECIDED, 0.01),
        ("too few records for any test", "What to do:", "Larger windows"),
    ),
    # What limits the report
    "undecided pairs are told with what would show": Case(
        replace(
            STABLE,
            undecided=(UndecidedPair("day", "rain", math.inf), UndecidedPair("day", "speed", 0.04)),
            n_undecided=7,
        ),
        (
            "On 7 pairs of fields this window is too small to tell",
            "'day' and 'rain' (no change at all would show)",
            "smallest change that would show is 0.04 nats (strong)",
            "and 5 more",
            "Silence is not evidence",
        ),
    ),
    "one undecided pair is singular": Case(
        replace(STABLE, undecided=(UndecidedPair("day", "rain", math.inf),), n_undecided=1),
        ("On 1 pair of fields",),
    ),
    "a deadline": Case(
        make_report(STABLE, overrun=Overrun.DEADLINE),
        ("its time was over", "What to do:", "deadline_seconds"),
        ("raw Hamming",),
    ),
    "a limit of tests": Case(
        make_report(STABLE, overrun=Overrun.TESTS),
        ("number of tests was used up", "What to do:", "max_tests"),
        ("raw Hamming",),
    ),
    "a little dependence of rows is not told": Case(
        replace(STABLE, design_effect=1.5), (), ("design effect",)
    ),
    "dependence of rows is told, and a discount only if a test had one": Case(
        replace(STABLE, design_effect=5.0),
        ("as much as about 1,000 independent ones (design effect 5)",),
        ("discounted", "What to do"),
    ),
    "a discount is told": Case(
        replace(STABLE, design_effect=5.0, families=(replace(MECHANISM, design_effect=2.5),)),
        ("discounted this by up to 2.5",),
    ),
    "much dependence of rows advises larger windows": Case(
        replace(STABLE, design_effect=20.5), ("What to do:", "larger windows")
    ),
    "schema events are told": Case(
        make_report(
            STABLE,
            events=(
                SchemaEvent(SchemaEventKind.NEW_LEVEL, "day", ("x", "y"), 9, 31),
                SchemaEvent(SchemaEventKind.NEW_COLUMN, "wind"),
                SchemaEvent(SchemaEventKind.MISSING_COLUMN, "speed", n_rows=1),
            ),
        ),
        (
            "'day' has 9 values never seen before ('x', 'y' and 7 more) in 31 records",
            "a column 'wind' that was not there before",
            "'speed' is absent in 1 record;",
            "What to do:",
        ),
    ),
    # Twins and the target
    "a twin is told only if its field is named": Case(
        make_report(DRIFT, twins=(("wet", "rain"), ("v", "speed"))),
        ("'wet' always says the same as 'rain', so either may be meant",),
        ("'v'",),
    ),
    "the target itself is touched": Case(
        make_report(DRIFT, target="delay", blanket=("rain",)),
        ("touches 'delay'", "relies on 'delay'"),
    ),
    "a field near the target is touched": Case(
        make_report(DRIFT, target="speed", blanket=("day", "rain")),
        ("not touch the target 'speed' itself, but 'rain', which tells",),
    ),
    "fields near the target are touched": Case(
        make_report(DRIFT, target="speed", blanket=("delay", "rain")),
        ("but 'delay' and 'rain', which tell something",),
    ),
    "the target is not touched": Case(
        make_report(DRIFT, target="speed", blanket=("day",)),
        ("touches neither the target 'speed'",),
        ("relies on",),
    ),
    "a twin stands for the target": Case(
        make_report(DRIFT, target="wet", twins=(("wet", "rain"),)), ("touches 'wet'",)
    ),
    "the target is unknown if nothing was named": Case(
        make_report(UNNAMED, target="speed"), ("is not known",)
    ),
    "no alarm, no target": Case(make_report(STABLE, target="speed"), (), ("target",)),
}


@pytest.mark.parametrize(("told", "said", "unsaid"), CASES.values(), ids=CASES)
def test_a_window_is_explained_in_plain_words(
    told: DriftDecision | WindowReport, said: tuple[str, ...], unsaid: tuple[str, ...]
) -> None:
    text = text_of(told)
    for words in said:
        assert words in text
    for words in unsaid:
        assert words not in text


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
    assert words in text_of(drift(edges=(edge,)))


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
    assert words in text_of(drift(episode=2, since=12, episode_event=event))


# The form


def test_text_is_wrapped_and_names_cannot_break_lines() -> None:
    edges = (replace(ADDED, source="two\nlines", target="x" * 500),)
    lines = str(make_report(drift(edges=edges)).explain()).splitlines()
    assert any("'two\\nlines'" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_numbers_and_times_are_words_whatever_they_are() -> None:
    limits = {0.0009: "none", 0.0099: "weak", 0.0299: "medium", 0.299: "strong", 0.3: "very strong"}
    assert {nats: strength(nats) for nats in limits} == limits
    assert strength(math.nan) == decimal(math.inf) == decimal(math.nan) == "unknown"
    assert moment(1e300) == "1e+300 seconds since the epoch"
    assert "nan" in moment(math.nan)
    assert span(None, None) is None
    assert span(0.0, None) == span(None, 0.0) == span(0.0, 0.5) == "at 1970-01-01 00:00:00 UTC"
    assert listed(()) == ""
