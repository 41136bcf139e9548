"""What a report says, and what an event says to somebody who is woken by it, in plain words.

They know the fields but not the method. Headlines of events hold no values of records, so that
they may stand in a log.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from driftbn.drift.outcome import TOO_FEW_ROWS, DriftDecision, DriftLevel, EpisodeEvent
from driftbn.explain.changes import Change
from driftbn.explain.sentences import (
    BACK,
    LIMITS,
    caveat_sentences,
    counted,
    decimal,
    event_sentence,
    joined,
    listed,
    moment,
    quoted,
    shortened,
    size_words,
    span,
)
from driftbn.learning.search import Overrun
from driftbn.tables.encode import SchemaEvent, SchemaEventKind

if TYPE_CHECKING:
    from driftbn.report import WindowReport


MAX_SENTENCES = 4
"""Of an explanation, besides its headline and at least one sentence on what to do."""
SMALLEST_P = 1e-300  # a p-value of 0 has only been rounded to it

_AFTER_FAILURE = "The graph shown is the one from before; the next window is judged as usual."
_WIDTH = 80  # columns of a terminal that has not been touched


class State(StrEnum):
    """How a stream is, as people are told it."""

    LEARNING = "learning"
    CALM = "calm"
    CHANGED = "changed"
    """An episode is open, whether or not the newest window shows anything."""
    CANNOT_TELL = "cannot tell"
    FAILED = "failed"


def state_of(decision: DriftDecision) -> State:
    if decision.failed:
        return State.FAILED
    if decision.drift or decision.settling or _is_in_episode(decision):
        return State.CHANGED
    if decision.level is DriftLevel.UNDECIDED:
        return State.CANNOT_TELL
    return State.LEARNING if decision.level is DriftLevel.LEARNING else State.CALM


@dataclass(frozen=True)
class Explanation:
    """What a report says, for people who know the fields and not the method.

    ``sentences``: what the change is, since when, and which values moved. ``advice``: what to do
    now; often nothing. ``details``: how strong and how sure it is, what the words mean, and what
    could not be told.

    >>> print(Explanation("All is calm.", ("Nothing changed.",)))
    All is calm.
    <BLANKLINE>
    - Nothing changed.
    """

    headline: str
    sentences: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [filled(self.headline), _bullets(self.sentences)]
        parts.append(_bullets(self.advice, "What to do:"))
        return "\n\n".join(filter(None, parts))

    def in_full(self) -> str:
        """Return the text with its details."""
        return "\n\n".join(filter(None, (str(self), _bullets(self.details, "In detail:"))))


def _bullets(texts: tuple[str, ...], heading: str = "") -> str:
    lines = [filled(text, "- ") for text in texts]
    return "\n".join([heading, *lines] if heading and lines else lines)


def explain(report: WindowReport) -> Explanation:
    """Say in plain words what a report tells, and nothing that it does not.

    >>> from driftbn.graphs.graph import Dag, StructureDiff
    >>> from driftbn.learning import SearchCost
    >>> from driftbn.report import WindowReport
    >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
    >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
    >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, SearchCost((1,)))
    >>> print(explain(report))
    Window 0: learning, there is nothing yet to compare with.
    <BLANKLINE>
    - Window 0 holds 9 records (numbers 0 to 8).
    """
    change = Change(report)
    sentences = tuple(_sentences(change))[:MAX_SENTENCES]
    details = tuple(text for text in _details(change) if text not in sentences)
    advice = tuple(change.advice())[: MAX_SENTENCES + 1 - len(sentences)]
    return Explanation(_headline(change), sentences, advice, details)


def explain_tables(names: tuple[str, str], n_before: int, report: WindowReport) -> Explanation:
    """Say in plain words how a table differs from an earlier one; ``report`` judges it by that."""
    decision, change = report.decision, Change(report)
    sizes = (
        f"{counted(report.rows, 'record')} of {names[1]} were compared with {n_before:,} of"
        f" {names[0]}, in {counted(len(report.graph.nodes), 'field')}."
    )
    what, how = change.sentences() if decision.kind is not None else ([], [])
    found = [*what, *how, sizes]
    if decision.level in (DriftLevel.NEGLIGIBLE, DriftLevel.NOTICE):
        found.append(_why_no_alarm(change))
    found += change.target_sentences()
    details = change.details()
    if decision.p_value <= decision.alpha:
        details.append(
            f"{_p_value(decision)}. At the chosen level two tables from the same source are told"
            f" apart in {decision.alpha:.3g} of all comparisons."
        )
    else:
        found += _strongest_sign(decision)
    details += change.twin_sentences()
    caveats = [
        text.replace("this window is", "the tables are") for text in caveat_sentences(report)
    ]
    if decision.kind is None:  # silence is not evidence
        found += caveats[: MAX_SENTENCES - len(found)]
    more = tuple(text for text in (*details, *caveats) if text not in found)
    return Explanation(_tables_headline(change), tuple(found[:MAX_SENTENCES]), (), more)


def _tables_headline(change: Change) -> str:
    decision = change.decision
    match decision.level:
        case DriftLevel.DRIFT:
            return f"The tables differ: {change.summary}."
        case DriftLevel.NEGLIGIBLE | DriftLevel.NOTICE:
            return f"The tables differ, but not enough for an alarm: {change.summary}."
        case DriftLevel.UNDECIDED:
            return f"The tables could not be compared: {decision.reason or TOO_FEW_ROWS}."
        case _:
            return "No sign of a change in the relations between the fields."


def filled(text: str, first: str = "") -> str:
    """Return a text in lines that fit a terminal, the first one behind a mark."""
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _headline(change: Change) -> str:
    decision, index = change.decision, f"{change.report.index:,}"
    window = f"Window {index}"
    match decision.level:
        case DriftLevel.DRIFT:
            return f"Drift in window {index}: {change.summary}."
        case DriftLevel.NEGLIGIBLE | DriftLevel.NOTICE:
            small = decision.level is DriftLevel.NEGLIGIBLE
            why = "too small for an alarm" if small else "that raises no alarm"
            return f"{window}: a change {why}; {change.summary}."
        case DriftLevel.SETTLING:
            return f"{window}, after a drift: {_settled(change)}."
        case DriftLevel.STABLE:
            return f"{window}: {_calm(change.report)}."
        case DriftLevel.LEARNING:
            return f"{window}: learning, there is nothing yet to compare with."
        case DriftLevel.UNDECIDED:
            return f"{window} could not be judged: {decision.reason or TOO_FEW_ROWS}."


def _calm(report: WindowReport) -> str:
    decision = report.decision
    if decision.recurring:
        return f"{_BACK_SHORT}, which is no alarm"
    if _is_in_episode(decision):
        since = "" if decision.since is None else f", begun in window {decision.since:,},"
        return f"nothing further changed; episode {decision.episode}{since} is open"
    though = ", though the graph differs more than usual" if differs_unusually(report) else ""
    return f"no sign of a change in the relations between the fields{though}"


def _is_in_episode(decision: DriftDecision) -> bool:
    """Whether the episode of a window goes on after it."""
    return decision.episode is not None and decision.episode_event is not EpisodeEvent.ENDED


def _settled(change: Change) -> str:
    if change.decision.kind is not None:
        return change.summary
    if change.decision.recurring:
        return _BACK_SHORT
    return "the relations are being learned anew"


def _sentences(change: Change) -> list[str]:
    report, decision = change.report, change.decision
    if decision.kind is None:
        found = [_window_sentence(report)]
        if decision.level is DriftLevel.UNDECIDED:
            found += _level_sentences(change)
        return [*found, *caveat_sentences(report)]
    what, how = change.sentences()
    found = [*what, _when(report), *how]
    if decision.level in (DriftLevel.NEGLIGIBLE, DriftLevel.NOTICE):
        found.append(_why_no_alarm(change))
    return [*found, *change.target_sentences()]


def _details(change: Change) -> list[str]:
    report, decision = change.report, change.decision
    found = [_window_sentence(report)]
    if decision.kind is not None:
        found += change.details()
    found += _level_sentences(change)
    found += _episode_sentences(decision)
    found += change.target_sentences()
    found += change.twin_sentences()
    found += _raw_sentences(change)
    return found + caveat_sentences(report)


def _when(report: WindowReport) -> str:
    """Say since when: in records, and in event time if there is one."""
    decision = report.decision
    time = span(report.start, report.end)
    place = (
        f"records {report.first_record:,} to {report.last_record:,}{f', {time}' if time else ''}"
    )
    if decision.since is not None and decision.since < report.index:
        return f"It began in window {decision.since:,}; this is window {report.index:,} ({place})."
    if decision.scale is not None and decision.scale > 1:
        return (
            f"It shows in the last {decision.scale} windows together, up to window"
            f" {report.index:,} ({place}), so it may have begun before that one."
        )
    return f"First seen in window {report.index:,} ({place})."


def _window_sentence(report: WindowReport) -> str:
    first, last = report.first_record, report.last_record
    numbers = f"number {first:,}" if first == last else f"numbers {first:,} to {last:,}"
    when = span(report.start, report.end)
    had = counted(report.rows, "record")
    if report.sample is not None:
        had = f"{counted(report.sample.records, 'record')}, of which {report.rows:,} were judged"
    return f"Window {report.index:,} holds {had} ({numbers}){', ' + when if when else ''}."


def _level_sentences(change: Change) -> list[str]:
    decision = change.decision
    match decision.level:
        case DriftLevel.DRIFT if decision.p_value > decision.alpha:
            return ["The tests of the relations between the fields show no change."]
        case DriftLevel.DRIFT:
            return _scale_sentences(decision) + _certainty(decision) + _regime(decision)
        case DriftLevel.NEGLIGIBLE | DriftLevel.NOTICE:
            why = _why_no_alarm(change)
            return [*_scale_sentences(decision), why, *_certainty(decision), *_regime(decision)]
        case DriftLevel.SETTLING:
            return _settling(decision) + _regime(decision)
        case DriftLevel.STABLE:
            return _strongest_sign(decision) + _regime(decision)
        case DriftLevel.UNDECIDED:
            nothing = "Nothing is known of this window: neither change nor calm."
            return [nothing, _AFTER_FAILURE] if decision.failed else [nothing]
        case DriftLevel.LEARNING:
            return []


def _why_no_alarm(change: Change) -> str:
    decision = change.decision
    if decision.level is DriftLevel.NEGLIGIBLE:
        return (
            f"The largest change is {size_words(decision.effect)}, below the"
            f" {decimal(decision.min_effect)} nats set as worth an alarm."
        )
    if {*change.touched} <= {*decision.given}:
        return "Only how given fields come has changed, such as clock, calendar or keys."
    return f"Changes of this kind ({decision.kind}) are set to raise no alarm."


def _scale_sentences(decision: DriftDecision) -> list[str]:
    found = []
    if decision.scale == 1:
        found.append("It is seen in this window alone.")
    elif decision.scale is not None:
        found.append(
            f"It is seen only over the last {decision.scale} windows together, so it may have begun"
            " before this one."
        )
    if decision.reference_windows:
        earlier = counted(decision.reference_windows, "earlier window")
        found.append(f'"Before" means the reference: {earlier} put together.')
    return found


def _certainty(decision: DriftDecision) -> list[str]:
    if decision.p_value > decision.alpha:
        return []
    between = max(1, round(1 / decision.alpha)) if decision.alpha > 0 else 0
    rate = (
        "This stream moves by itself, which the tests allow for; how often it moves this far is not"
        " known beforehand."
        if decision.wander
        else f"At the chosen level of {decision.alpha:g}, a false alarm like this is expected once"
        f" in {counted(between, 'window')}."
    )
    return [f"{_p_value(decision)} (the smaller, the harder to explain by chance). {rate}"]


def _p_value(decision: DriftDecision) -> str:
    p_value = decimal(max(decision.p_value, SMALLEST_P))
    return f"How sure: the p-value is {p_value} after correction for all tests made"


def _settling(decision: DriftDecision) -> list[str]:
    if decision.recurring:
        return ["This is the window after a drift."]
    return [
        "This is the window after a drift: it makes the description of the change more exact and"
        " starts the new reference."
    ]


def _regime(decision: DriftDecision) -> list[str]:
    if not decision.recurring:
        return []
    return [
        f"The relations are back to what they were in regime {decision.regime} (a regime is a"
        " stretch of the stream with the same relations; the first is regime 0)."
    ]


def _strongest_sign(decision: DriftDecision) -> list[str]:
    if not decision.families:
        return []
    best = min(decision.families, key=lambda result: result.p_value)
    where = f"{'at' if len(best.fields) == 1 else 'between'} {listed(best.fields)}"
    return [
        f"The strongest sign of a change was {where}, with a p-value of {decimal(best.p_value)}"
        f" after correction for all tests made; an alarm needs {decision.alpha:g} or less."
    ]


def _episode_sentences(decision: DriftDecision) -> list[str]:
    if decision.episode is None:
        return []
    episode = f"episode {decision.episode}"
    began = "" if decision.since is None else f" (begun in window {decision.since:,})"
    match decision.episode_event:
        case EpisodeEvent.STARTED:
            return [f"With this window {episode} begins."]
        case EpisodeEvent.ENDED:
            return [f"{episode.capitalize()}{began} has ended with this window."]
        case _:
            return [f"The window belongs to {episode}{began}."]


def _raw_sentences(change: Change) -> list[str]:
    report = change.report
    if report.decision.level is DriftLevel.LEARNING or report.degraded or report.decision.failed:
        return []
    raw = report.diff.hamming
    differ = f"differ in {counted(raw, 'dependency', 'dependencies')}" if raw else "do not differ"
    return [
        f"The graphs of this window and of the one before it {differ} (raw Hamming distance {raw})"
        f"{_usual(report)}. {_agreement(change)}"
    ]


def differs_unusually(report: WindowReport) -> bool:
    """Whether the graph differs from the one before more than it usually does."""
    return report.usual is not None and report.diff.hamming > report.usual.high


def _usual(report: WindowReport) -> str:
    band = report.usual
    if band is None:
        return ""
    past = f"{band.low} to {band.high} in the last {band.n_windows} calm windows"
    if band.low <= report.diff.hamming <= band.high:
        return f", which is usual for this stream: {past}"
    more = "more" if differs_unusually(report) else "less"
    return f", {more} than is usual for this stream: {past}"


def _agreement(change: Change) -> str:
    """Say how what was learned agrees with what was tested."""
    number = change.decision.confirmed_hamming
    if change.causes:
        return "What changed is told above."
    if number:
        changes = counted(number, "change of a dependency", "changes of dependencies")
        return f"The tests, which compare with the whole reference, confirm {changes}."
    if change.decision.kind is not None:
        return "The tests confirm no change of a single dependency; what changed is told above."
    if differs_unusually(change.report):
        return (
            "The tests, which compare counts and not graphs, confirm none of it: dependencies that"
            " a window can hardly show come and go, now and then many at once."
        )
    return "Neighbouring windows differ by chance; the tests confirm no change."


MAX_SUMMARY = 300
"""Characters of a summary that later events repeat."""

_SCHEMA_PARTS = (
    (SchemaEventKind.MISSING_COLUMN, "{names} {is_are} absent"),
    (SchemaEventKind.NEW_COLUMN, "{names} {is_are} new"),
    (SchemaEventKind.NEW_LEVEL, "{names} {has_have} values never seen before"),
    (SchemaEventKind.MISSING_VALUES, "{names} {has_have} no value more often than ever"),
    (SchemaEventKind.OTHER_SCALE, "{names} {has_have} numbers of another size"),
)
_BACK_SHORT = "the relations are back to an earlier state"
_UNDONE = (
    "This means that nothing changes any more, not that the change was undone: the records as they"
    " are now count as normal, and later ones are compared with them."
)


def monitor_name(stream: str, key: str) -> str:
    """Return a stream in words, or the part of it that has a key.

    >>> monitor_name("orders", ""), monitor_name("orders", "eu")
    ('orders', "orders for 'eu'")
    """
    return f"{stream} for {quoted(key)}" if key else stream


def episode_headline(name: str, report: WindowReport, back: bool) -> str:
    """Return the one thing to know of an episode; ``back`` if an earlier state has come back."""
    also = f"; {_BACK_SHORT}" if back and not report.decision.recurring else ""
    return f"Drift in {name}: {Change(report).summary}{also}."


def started(name: str, report: WindowReport, explanation: Explanation) -> Explanation:
    """Return the words of an episode that begins, given those of its first window."""
    return replace(explanation, headline=episode_headline(name, report, False))


def updated(name: str, report: WindowReport, explanation: Explanation, known: str) -> Explanation:
    """Return the words of an episode of which something more is known than before."""
    change = Change(report)
    back = report.decision.recurring
    further = report.decision.drift and not back
    lead = "something further changed" if further else "more is known now"
    what, how = change.sentences()
    headline = f"Drift in {name}, {lead}: {BACK if back else change.summary}."
    return replace(explanation, headline=headline, sentences=(known, *what, *how))


def ended(name: str, report: WindowReport, known: str, episode: int, back: bool) -> Explanation:
    """Return the words of an episode that has ended, in whatever way.

    ``report``: the window that ends it. ``known``, ``episode``: what was told of it, and its
    number. ``back``: whether an earlier state has come back.
    """
    after = f"{BACK.capitalize()}." if back else _UNDONE
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


def noticed(
    name: str, report: WindowReport, explanation: Explanation, fields: tuple[str, ...]
) -> Explanation:
    """Return the words of what moves and raises no alarm: now, and since the last notice."""
    change = Change(report)
    if report.decision.level is DriftLevel.NOTICE and {*fields} == {*change.touched}:
        return replace(explanation, headline=f"Notice from {name}: {change.summary}.")
    since = "This is what moved since the last such notice, in ways that raise no alarm."
    return Explanation(f"{name} is still moving: {listed(fields)}.", (since,))


def completed(window: int, seconds: float) -> str:
    """Return when a window without event times was complete, as a sentence.

    >>> completed(1200, 0.0)
    'Window 1,200 was complete at 1970-01-01 00:00:00 UTC.'
    """
    return f"Window {window:,} was complete at {moment(seconds)}."


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
    limit = LIMITS[report.overrun or Overrun.TESTS]
    sentences = (
        f"Learning which fields of {name} depend on each other from window {report.index:,}"
        f" ({counted(report.rows, 'record')}) was stopped because {limit.why}.",
        "The dependencies shown are those from before, and of a change it may not be told where.",
    )
    busy = "Look whether the machine is busy with something else."
    advice = (
        f"If this goes on, raise {limit.setting} of the learner, or watch fewer fields.",
        *([busy] if report.overrun is Overrun.DEADLINE else []),
    )
    headline = f"Stream {name} shows an older state: learning was stopped by a limit."
    return Explanation(headline, sentences, advice)


def failed(name: str, reason: str) -> Explanation:
    sentences = (
        f"Its last records ended in an error, again and again: {shortened(reason, MAX_SUMMARY)}.",
        "Nothing is watched there any more. Records that come for it are set aside and counted.",
    )
    advice = (
        "The log has the whole error, and the quarantine the records; please report both.",
        "A restart tries again from the last good state; 'driftbn run --reset' begins anew.",
    )
    return Explanation(f"Stream {name} has failed and takes no more records.", sentences, advice)


def recovered(name: str, report: WindowReport) -> Explanation:
    sentence = f"Window {report.index:,} ({counted(report.rows, 'record')}) was learned in full."
    return Explanation(f"Stream {name} works as it should again.", (sentence,))


def accepted(name: str, known: str, author: str, comment: str) -> Explanation:
    """Return the words of an episode that somebody has ended by accepting the present."""
    by = f" by {shortened(author, MAX_SUMMARY)}" if author else ""
    said = (f"It was said: {shortened(comment, MAX_SUMMARY)}",) if comment else ()
    headline = f"Drift in {name} has ended: the present state was accepted as normal{by}."
    return Explanation(headline, (known, *said))
