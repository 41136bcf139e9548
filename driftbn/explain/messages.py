"""Sentences for somebody who is woken by an event and knows the fields but not the method.

Headlines hold no values of records, so that they may stand in a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftbn.drift.outcome import DriftDecision, DriftKind, DriftLevel
from driftbn.explain.explanation import Explanation
from driftbn.explain.sentences import event_sentence, summary_of
from driftbn.explain.words import counted, joined, listed, quoted, shortened
from driftbn.learning.search import Overrun
from driftbn.tables.encode import SchemaEvent, SchemaEventKind

if TYPE_CHECKING:
    from driftbn.report import WindowReport

MAX_SUMMARY = 300
"""Characters of a summary that later events repeat."""

_SCHEMA_PARTS = (
    (SchemaEventKind.MISSING_COLUMN, "{names} {is_are} absent"),
    (SchemaEventKind.NEW_COLUMN, "{names} {is_are} new"),
    (SchemaEventKind.NEW_LEVEL, "{names} {has_have} values never seen before"),
)
_BACK_SHORT = "the relations are back to an earlier state"
_BACK = "the relations between the fields are back to an earlier state"
_UNDONE = (
    "This means that nothing changes any more, not that the change was undone: the records as they"
    " are now count as normal, and later ones are compared with them."
)


def monitor_name(monitor: str, key: str) -> str:
    """Return a monitor in words.

    >>> monitor_name("orders", ""), monitor_name("orders", "eu")
    ('orders', "orders for 'eu'")
    """
    return f"{monitor} for {quoted(key)}" if key else monitor


def summary(decision: DriftDecision) -> str:
    """Return what changed as part of a sentence.

    >>> from driftbn.drift.outcome import NodeChange
    >>> change = NodeChange("delay", ("day", "rain"), 0.001, 0.1)
    >>> rule = DriftDecision(
    ...     DriftLevel.DRIFT, 0.01, kind=DriftKind.MECHANISM, node_changes=(change,)
    ... )
    >>> summary(rule)
    "'delay' now comes out differently for the same values of 'day' and 'rain'"
    """
    changes = decision.node_changes
    if len(decision.edges) > 1:
        first = decision.edges[0]
        pair = f"{quoted(first.source)} and {quoted(first.target)}"
        return f"{summary_of(decision)}, most clearly between {pair}"
    if decision.kind is not DriftKind.MECHANISM or not changes:
        return summary_of(decision)
    if len(changes) == 1 and changes[0].parents:
        name, inputs = quoted(changes[0].name), listed(changes[0].parents, limit=3)
        return f"{name} now comes out differently for the same values of {inputs}"
    names = listed([change.name for change in changes], limit=3)
    be = "comes" if len(changes) == 1 else "come"
    return f"{names} now {be} out differently for the same values of the fields they depend on"


def episode_headline(name: str, decision: DriftDecision, back: bool) -> str:
    """Return the one thing to know of an episode; ``back`` if an earlier state has come back."""
    return f"Drift in {name}: {summary(decision)}{f'; {_BACK_SHORT}' if back else ''}."


def started(name: str, report: WindowReport, explanation: Explanation) -> Explanation:
    """Return the words of an episode that begins, given those of its first window."""
    lead = (
        f"The records of {name} from about number {report.first_record:,} on differ from earlier"
        " ones in a way that chance does not explain. Records are judged in pieces of the stream"
        f" that are called windows; this was seen in window {report.index:,}."
    )
    headline = f"Drift in {name}: {summary(report.decision)}."
    return Explanation(headline, (lead, *explanation.sentences), explanation.advice)


def updated(name: str, report: WindowReport, explanation: Explanation, known: str) -> Explanation:
    """Return the words of an episode of which something more is known than before."""
    decision = report.decision
    if decision.recurring:
        news = f"more is known now: {_BACK}"
    elif decision.level is DriftLevel.DRIFT:
        news = f"something further changed: {summary(decision)}"
    else:
        news = f"more is known now: {summary(decision)}"
    sentences = (known, *explanation.sentences)
    return Explanation(f"Drift in {name}, {news}.", sentences, explanation.advice)


def ended(name: str, report: WindowReport, known: str, episode: int, back: bool) -> Explanation:
    """Return the words of an episode that has ended, in whatever way.

    ``report``: the window that ends it. ``known``, ``episode``: what was told of it, and its
    number. ``back``: whether an earlier state has come back.
    """
    after = f"{_BACK.capitalize()}." if back else _UNDONE
    other = report.decision.episode
    if other == episode:
        why = "nothing further changed"
        how = f"Up to record {report.last_record:,} there is no sign of a further change."
    elif other is None:
        why = "the present state was accepted as normal"
        how = f"It was closed before window {report.index:,}."
    else:
        why = "another change has begun"
        how = f"Window {report.index:,} begins episode {other}, which is told of its own."
    return Explanation(f"Drift in {name} has ended: {why}.", (known, how, after))


def begun(episode: int, window: int, record: int | None, time: str | None) -> str:
    """Return where an episode began, as the start of a sentence.

    >>> begun(2, 1200, 60000, None)
    'Episode 2 began in window 1,200, record 60,000'
    """
    where = [f"window {window:,}"]
    if record is not None:
        where.append(f"record {record:,}")
    if time is not None:
        where.append(time)
    return f"Episode {episode:,} began in {', '.join(where)}"


def lasted(began: str, n_windows: int, last: int, end: int | None) -> str:
    """Return from when to when an episode is, as a sentence.

    ``began``: where it began; see ``begun``. ``end``: the window that ended it; ``None`` while it
    goes on.
    """
    if end is None:
        so_far = counted(n_windows, "window")
        return f"{began}, and goes on; it has {so_far} up to window {last:,}."
    if end != last:
        return f"{began}, and ended before window {end:,}."
    return f"{began}, and ended with window {end:,}: nothing further changed."


def told_before(where: str, what: str) -> str:
    """Return where an episode began and what was told of it last, as a sentence."""
    return f"{where}. What was told last: {shortened(what, MAX_SUMMARY)}."


def schema_changed(name: str, report: WindowReport, news: tuple[SchemaEvent, ...]) -> Explanation:
    parts = []
    for kind, words in _SCHEMA_PARTS:
        columns = [event.column for event in news if event.kind is kind]
        if columns:
            one = len(columns) == 1
            parts.append(
                words.format(
                    names=f"{'column' if one else 'columns'} {listed(columns, limit=3)}",
                    is_are="is" if one else "are",
                    has_have="has" if one else "have",
                )
            )
    lead = (
        f"Window {report.index:,} of {name} holds {counted(report.rows, 'record')}"
        f" (numbers {report.first_record:,} to {report.last_record:,})."
    )
    sentences = (lead, *(event_sentence(event) for event in news))
    advice = ("Find out whether that is meant to be so; if not, look at what sends the records.",)
    return Explanation(f"Records of {name} look different: {joined(parts)}.", sentences, advice)


def degraded(name: str, report: WindowReport) -> Explanation:
    """Return the words of a monitor whose learning was stopped by a limit."""
    late = report.overrun is Overrun.DEADLINE
    limit = "its time was over" if late else "its number of tests was used up"
    setting = "deadline_seconds" if late else "max_tests"
    sentences = (
        f"Learning which fields of {name} depend on each other from window {report.index:,}"
        f" ({counted(report.rows, 'record')}) was stopped because {limit}.",
        "The dependencies shown are those from before, and of a change it may not be told where.",
    )
    advice = (
        f"If this goes on, raise {setting} of the learner, or watch fewer fields.",
        "Look whether the machine is busy with something else." if late else "",
    )
    headline = f"Monitor {name} shows an older state: learning was stopped by a limit."
    return Explanation(headline, sentences, tuple(filter(None, advice)))


def failed(name: str, reason: str) -> Explanation:
    sentences = (
        f"Its last records ended in an error, again and again: {shortened(reason, MAX_SUMMARY)}.",
        "Nothing is watched there any more. Records that come for it are set aside and counted.",
    )
    advice = (
        "The log has the whole error, and the quarantine the records; please report both.",
        "A restart tries again from the last good state; 'driftbn run --reset' begins anew.",
    )
    return Explanation(f"Monitor {name} has failed and takes no more records.", sentences, advice)


def recovered(name: str, report: WindowReport) -> Explanation:
    sentence = f"Window {report.index:,} ({counted(report.rows, 'record')}) was learned in full."
    return Explanation(f"Monitor {name} works as it should again.", (sentence,))
