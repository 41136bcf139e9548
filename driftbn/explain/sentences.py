"""Sentences on what has changed, what a report cannot tell, and what to do.

Numbers, names and times as a sentence needs them come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from driftbn.config import DriftKind
from driftbn.drift.facts import Fact, FactKind
from driftbn.drift.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    Family,
    NodeChange,
    UndecidedPair,
    Wander,
)
from driftbn.learning import Overrun
from driftbn.tables.encode import SchemaEvent, SchemaEventKind

if TYPE_CHECKING:
    from driftbn.report import WindowReport


MAX_NAME = 60
"""Characters of a name that a sentence shows."""
MAX_LISTED = 5
"""Names that a sentence lists; the others are counted."""

_STRENGTHS = ((0.001, "none"), (0.01, "weak"), (0.03, "medium"), (0.3, "strong"))
_SMALLEST = 0.0001  # what a number is written down to
# The first and the last second that a date can be made of: the years 1 to 9999.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799


def printable(text: str) -> str:
    r"""Write what has no picture, such as a line break, as Python would.

    >>> printable("two\nlines")
    'two\\nlines'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened(text: str, length: int = MAX_NAME) -> str:
    shown = printable(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def quoted(name: str) -> str:
    """Return a name in quotes.

    >>> quoted("a")
    "'a'"
    """
    return f"'{shortened(name)}'"


def listed(names: Sequence[str], limit: int = MAX_LISTED) -> str:
    """Return names in quotes as a list in words.

    >>> listed(("a", "b", "c"))
    "'a', 'b' and 'c'"
    >>> listed("abcdefgh", limit=2)
    "'a', 'b' and 6 more"
    """
    shown = [quoted(name) for name in names[:limit]]
    if len(names) > limit:
        shown.append(f"{len(names) - limit} more")
    return joined(shown)


def joined(parts: Sequence[str]) -> str:
    """Return parts with commas and a last ``and``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> counted(1, "record"), counted(5000, "record"), counted(2, "pair of fields", "pairs")
    ('1 record', '5,000 records', '2 pairs')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def strength(nats: float) -> str:
    """Return how strong an association or a change of so many nats is, in a word.

    >>> [strength(nats) for nats in (0.0, 0.001, 0.01, 0.03, 0.3)]
    ['none', 'weak', 'medium', 'strong', 'very strong']
    """
    if math.isnan(nats):
        return "unknown"
    return next((word for limit, word in _STRENGTHS if nats < limit), "very strong")


def decimal(number: float) -> str:
    """Return a number that is not below 0 without an exponent.

    >>> decimal(0.11249), decimal(0.00042), decimal(1e-9), decimal(0.0), decimal(12.0)
    ('0.112', '0.0004', 'less than 0.0001', '0', '12')
    """
    if not math.isfinite(number):
        return "unknown"
    if 0 < number < _SMALLEST:
        return f"less than {_SMALLEST:.4f}"
    places = 4 if number < 0.01 else 3
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(seconds: float) -> str:
    """Return seconds since the epoch as a time in UTC.

    >>> moment(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        return f"{seconds:g} seconds since the epoch"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(start: float | None, end: float | None) -> str | None:
    """Return from when to when, if anything is known of it.

    >>> span(0.0, 60.0)
    'from 1970-01-01 00:00:00 to 00:01:00 UTC'
    """
    if start is None or end is None:
        known = start if end is None else end
        return None if known is None else f"at {moment(known)}"
    first, last = moment(start), moment(end)
    if first == last:
        return f"at {first}"
    day = len("2026-01-31 ")
    if first[:day] == last[:day] and first.endswith("UTC"):
        first, last = first.removesuffix(" UTC"), last[day:]
    return f"from {first} to {last}"


MAX_CHANGES = 5
"""Changes of one kind that are told in full; the others are counted."""
DEPENDENT_ROWS = 1.5
"""Design effect above which a reader should know of it."""
SURE_P = 1e-6
"""P-value below which no larger window would tell anything else."""
TOO_DEPENDENT_ROWS = 20.0
"""Design effect above which windows should be larger."""

_MAX_EVENTS = 5
_MAX_PAIRS = 3
_UNITS = (
    "Strength is measured in nats: how much knowing one field tells about the other, where 0 is"
    " nothing and 0.03 or more is strong; the interval holds the true value in 95 of 100 cases."
)
_DISTANCE = (
    "How far two rules are apart is measured in nats per record, where 0 is not at all and 0.03 or"
    " more is strong."
)


def summary_of(decision: DriftDecision) -> str:
    """Return what changed as the end of a headline, without a full stop.

    >>> change = NodeChange("x", ("a",), 0.001, 0.1)
    >>> summary_of(DriftDecision(DriftLevel.DRIFT, 0.01, node_changes=(change,)))
    "'x' follows the same fields by another rule"
    """
    if decision.facts:
        return _facts_summary(decision.facts)
    if decision.edges:
        return _edges_summary(decision)
    if decision.node_changes:
        return _nodes_summary(decision.node_changes)
    pair = _strongest_pair(decision)
    if decision.kind is DriftKind.ASSOCIATION and pair:
        return f"how {listed(pair)} go together changed"
    return "the relations between the fields changed"


_FACTS = {
    FactKind.CONSTANT: "{name} hardly varies any more",
    FactKind.MISSING: "{name} is missing in {now} of the records",
    FactKind.NEW_LEVEL: "{name} has values never seen before in {now} of the records",
    FactKind.LOST_LEVEL: "a common value of {name} no longer comes",
    FactKind.CLOCK: "{name} no longer follows from the time of day",
    FactKind.JUMPED: "{name} does not go on as it always did",
    FactKind.REPEATED: "{name} repeats earlier values in {now} of the records",
    FactKind.OUTSIDE: "{name} lies far beyond everything before in {now} of the records",
    FactKind.UNUSUAL: "{name} has other values than ever, as if its unit had changed",
    FactKind.ROUGH: "neighbouring records are no longer alike in {name}",
}
_PAST = {
    FactKind.CONSTANT: "{now} of the records have the same value, or one from the same range; it"
    " was never more than {before}",
    FactKind.MISSING: "It was never more than {before}",
    FactKind.NEW_LEVEL: "It was never more than {before}",
    FactKind.LOST_LEVEL: "Until now at least {before} of the records of every window had it",
    FactKind.CLOCK: "It does in {now} of the records, and did in at least {before} of every window",
    FactKind.JUMPED: "It always went on the same way; records are missing, or a clock was set",
    FactKind.REPEATED: "They come in the same order as before, which was never more than {before}",
    FactKind.OUTSIDE: "It was never more than {before}",
    FactKind.UNUSUAL: "{now} of the records lie outside of where nearly all were in every window",
    FactKind.ROUGH: "Neighbours differ {now} as much as any two records, and never did more than"
    " {before}",
}


def _fact_words(fact: Fact, words: str) -> str:
    now, before = f"{fact.share:.1%}", f"{fact.before:.1%}"
    return words.format(name=quoted(fact.field), now=now, before=before)


def _facts_summary(facts: Sequence[Fact]) -> str:
    """Return facts as the end of a headline.

    >>> _facts_summary([Fact("price", FactKind.MISSING, 0.3, 0.01)])
    "'price' is missing in 30.0% of the records"
    """
    first = _fact_words(facts[0], _FACTS[facts[0].kind])
    others = [fact.field for fact in facts[1:] if fact.field != facts[0].field]
    names = listed(list(dict.fromkeys(others)), limit=3)
    return f"{first}; there is more of this kind in {names}" if others else first


def fact_sentences(decision: DriftDecision) -> list[str]:
    """Return what is plain to see of single fields."""
    found = []
    for fact in decision.facts[:MAX_CHANGES]:
        what = _fact_words(fact, _FACTS[fact.kind])
        found.append(f"{what[0].upper()}{what[1:]}. {_fact_words(fact, _PAST[fact.kind])}.")
    if len(decision.facts) > MAX_CHANGES:
        more = counted(len(decision.facts) - MAX_CHANGES, "more field")
        found.append(f"There is something like this in {more}.")
    return found


def _strongest_pair(decision: DriftDecision) -> tuple[str, ...]:
    """Return the pair of fields whose way of going together changed most surely, if one did."""
    for result in decision.families:
        if result.family is Family.ASSOCIATION and result.p_value <= decision.alpha:
            return result.fields
    return ()


def touched_fields(decision: DriftDecision) -> tuple[str, ...]:
    """Return the fields that a named change is about: facts first, given fields last."""
    found = [fact.field for fact in decision.facts]
    named = [name for edge in decision.edges for name in _ends(edge, decision)]
    named += [*decision.nodes]
    found += sorted(named, key=lambda name: name in decision.given)
    if not found and decision.kind is DriftKind.ASSOCIATION:
        found += _strongest_pair(decision)
    return tuple(dict.fromkeys(found))


def change_sentences(decision: DriftDecision) -> list[str]:
    found = fact_sentences(decision)
    if decision.kind not in (None, DriftKind.DATA):
        found.append(_kind_sentence(decision))
    found += [_edge_sentence(edge, decision) for edge in decision.edges[:MAX_CHANGES]]
    if len(decision.edges) > MAX_CHANGES:
        more = counted(len(decision.edges) - MAX_CHANGES, "more change")
        found.append(f"There {_be(len(decision.edges) - MAX_CHANGES)} {more} of this kind.")
    if decision.edges:
        found.append(_UNITS)
    nodes = decision.node_changes
    found += [_node_sentence(change, decision.kind) for change in nodes[:MAX_CHANGES]]
    if len(decision.node_changes) > MAX_CHANGES:
        n_more = len(decision.node_changes) - MAX_CHANGES
        found.append(f"The same holds for {counted(n_more, 'more field')}.")
    if decision.node_changes and not decision.edges:
        found.append(_DISTANCE)
    return found


def _arrow_of(edge: EdgeChange) -> str:
    if not edge.directed:
        return "the data do not tell its direction"
    source, target = quoted(edge.source), quoted(edge.target)
    verb = "it pointed" if edge.change is ChangeType.REMOVED else "it points"
    return f"{verb} from {source} to {target}"


def _strength_of(association: Association) -> str:
    """Return an association in a word and in numbers.

    >>> _strength_of(Association(0.05, 0.04, 0.06))
    'strong (0.05 nats, 95 % interval 0.04 to 0.06)'
    """
    low, high = decimal(association.low), decimal(association.high)
    word = strength(association.nats)
    return f"{word} ({decimal(association.nats)} nats, 95 % interval {low} to {high})"


def _be(number: int, *, past: bool = False) -> str:
    one, many = ("was", "were") if past else ("is", "are")
    return one if number == 1 else many


def _edges_summary(decision: DriftDecision) -> str:
    """Return the largest change of an edge, and the fields of the others."""
    first, *more = decision.edges
    headline = _edge_headline(first, decision)
    if not more:
        return headline
    others = [name for edge in more for name in _ends(edge, decision) if name not in first.pair]
    number = counted(len(more), "more dependency", "more dependencies")
    return f"{headline}; {number} changed, with {listed(list(dict.fromkeys(others)), limit=3)}"


def _edge_headline(edge: EdgeChange, decision: DriftDecision) -> str:
    article = "a" if edge.change is ChangeType.ADDED else "the"
    first, second = _ends(edge, decision)
    return f"{article} dependency between {quoted(first)} and {quoted(second)} was {edge.change}"


def _ends(edge: EdgeChange, decision: DriftDecision) -> list[str]:
    """Return the ends of an edge, first the one that more of what changed is about.

    A field that is given comes second: the clock does not follow demand.
    """
    about = dict.fromkeys((edge.source, edge.target), 0.0)
    for name in about:
        about[name] = sum(one.effect for one in decision.edges if name in one.pair)
    return sorted(about, key=lambda name: (name in decision.given, -about[name]))


def _nodes_summary(changes: tuple[NodeChange, ...]) -> str:
    names = listed([change.name for change in changes], limit=3)
    if not any(change.parents for change in changes):
        return f"the values of {names} come in other shares than before"
    verb = "follows" if len(changes) == 1 else "follow"
    return f"{names} {verb} the same fields by another rule"


def _kind_sentence(decision: DriftDecision) -> str:
    if decision.kind is DriftKind.STRUCTURAL:
        number = len(decision.edges)
        which = counted(number, "dependency", "dependencies")
        return f"What changed is which fields depend on each other: {which} could be named."
    if decision.kind is DriftKind.ASSOCIATION:
        pair = _strongest_pair(decision)
        sign = f" The clearest sign is between {listed(pair)}." if pair else ""
        return "How fields go together changed, but no single dependency could be named." + sign
    if decision.kind is DriftKind.MECHANISM:
        return (
            "As far as these records show the dependencies are those of before, but a rule changed:"
            " the same inputs now lead to other outcomes."
        )
    return (
        "Only how often values come has changed, in fields that depend on no other; how the fields"
        " depend on each other has not."
    )


def _edge_sentence(edge: EdgeChange, decision: DriftDecision) -> str:
    what, arrow = _edge_headline(edge, decision), _arrow_of(edge)
    if edge.change is ChangeType.REVERSED and edge.directed:
        arrow += f", before from {quoted(edge.target)} to {quoted(edge.source)}"
    how = f", comparing only records that agree in {listed(edge.given)}" if edge.given else ""
    return (
        f"{what[0].upper()}{what[1:]} ({arrow}). Strength before: {_strength_of(edge.before)};"
        f" now: {_strength_of(edge.after)}{how}."
    )


def _node_sentence(change: NodeChange, kind: DriftKind | None) -> str:
    name = quoted(change.name)
    size = f"{strength(change.effect)}, {decimal(change.effect)} nats per record"
    if not change.parents:
        return f"The values of {name} come in other shares than before ({size})."
    inputs = listed(change.parents)
    if kind is DriftKind.MECHANISM:
        return f"{name} follows {inputs} as before, by another rule (difference: {size})."
    return (
        f"Comparing only records that agree in {inputs}, the values of {name} come in other shares"
        f" than before ({size})."
    )


def target_touch(report: WindowReport) -> str | None:
    """Return how near a named change is to the target.

    ``"itself"``, ``"nearby"`` (a field of its Markov blanket) or ``"elsewhere"``; ``None`` if there
    is no target or no field was named.
    """
    touched = touched_fields(report.decision)
    if report.target is None or not touched:
        return None
    if {report.target, dict(report.twins).get(report.target)} & set(touched):
        return "itself"
    return "nearby" if set(report.blanket) & set(touched) else "elsewhere"


def target_sentences(report: WindowReport) -> list[str]:
    if report.target is None:
        return []
    touch, target = target_touch(report), quoted(report.target)
    if touch == "itself":
        return [f"The change touches {target}, the field you named as target."]
    if touch == "nearby":
        near = [name for name in report.blanket if name in touched_fields(report.decision)]
        return [
            f"The change does not touch the target {target} itself, but {listed(near)}, which"
            f" {'tells' if len(near) == 1 else 'tell'} something about it directly."
        ]
    if touch == "elsewhere":
        return [
            f"The change touches neither the target {target} nor any field that tells something"
            " about it directly."
        ]
    if report.decision.level is DriftLevel.DRIFT:
        return [f"No field could be named, so whether it touches the target {target} is not known."]
    return []


def twin_sentences(report: WindowReport, mentioned: Sequence[str]) -> list[str]:
    """Return for the mentioned fields which others always say the same."""
    return [
        f"{quoted(name)} always says the same as {quoted(other)}, so either may be meant."
        for name, other in report.twins
        if other in mentioned or name in mentioned
    ]


def caveat_sentences(report: WindowReport) -> list[str]:
    """Return what limits the report, and differences from the schema."""
    found = _undecided(report)
    if report.overrun is not None:
        found.append(_overrun(report.overrun))
    if report.relearned is not None and report.relearned.overrun is not None:
        found.append(
            f"Learning the graph of the reference again was stopped because"
            f" {_limit(report.relearned.overrun)}; the reference keeps the graph from before."
        )
    if report.decision.design_effect > DEPENDENT_ROWS:
        found.append(_dependent_rows(report))
    if report.decision.wander:
        found.append(_wander(report.decision.wander))
    found += [event_sentence(event) for event in report.events[:_MAX_EVENTS]]
    if len(report.events) > _MAX_EVENTS:
        more = counted(len(report.events) - _MAX_EVENTS, "more difference")
        found.append(f"And {more} from the expected columns and values.")
    return found


def _undecided(report: WindowReport) -> list[str]:
    pairs, total = report.decision.undecided, report.decision.n_undecided
    if not total:
        return []
    shown = [_visible(pair) for pair in pairs[:_MAX_PAIRS]]
    if shown and total > len(shown):
        shown.append(f"and {total - len(shown):,} more")
    which = f": {'; '.join(shown)}" if shown else ""
    number = counted(total, "pair of fields", "pairs of fields")
    return [f"On {number} this window is too small to tell{which}. Silence is not evidence there."]


def _visible(pair: UndecidedPair) -> str:
    fields = listed((pair.source, pair.target))
    if not math.isfinite(pair.visible_change):
        return f"{fields} (no change at all would show)"
    size = f"{decimal(pair.visible_change)} nats ({strength(pair.visible_change)})"
    return f"{fields} (the smallest change that would show is {size})"


def _overrun(overrun: Overrun) -> str:
    return (
        f"The search for the graph was stopped because {_limit(overrun)}; the graph shown is the"
        " one from before."
    )


def _limit(overrun: Overrun) -> str:
    deadline = overrun is Overrun.DEADLINE
    return "its time was over" if deadline else "its number of tests was used up"


def _dependent_rows(report: WindowReport) -> str:
    effect = report.decision.design_effect
    worth = max(1, round(report.rows / effect)) if math.isfinite(effect) else 1
    discounted = max((result.design_effect for result in report.decision.families), default=1.0)
    done = f"; the tests discounted this by up to {decimal(discounted)}" if discounted > 1 else ""
    return (
        "Neighbouring records resemble each other, as in sessions or bursts: for the worst field"
        f" {counted(report.rows, 'record')} {'tells' if report.rows == 1 else 'tell'} only as much"
        f" as about {counted(worth, 'independent one')} (design effect {decimal(effect)}){done}."
    )


def _wander(fields: Sequence[Wander]) -> str:
    shown = [f"{quoted(one.name)} {decimal(one.factor)} times" for one in fields[:_MAX_PAIRS]]
    if len(fields) > len(shown):
        shown.append(f"{len(fields) - len(shown):,} more fields by less")
    return (
        f"By itself this stream moves from window to window further than by chance: {joined(shown)}"
        " as far. The tests allow for that."
    )


def event_sentence(event: SchemaEvent) -> str:
    """Return a difference from the schema in words.

    >>> event_sentence(SchemaEvent(SchemaEventKind.NEW_LEVEL, "size", ("xl",), 1, 12))
    "'size' has 1 value never seen before ('xl') in 12 records; it counts as other."
    """
    column = quoted(event.column)
    where = f" in {counted(event.n_rows, 'record')}" if event.n_rows else ""
    if event.kind is SchemaEventKind.NEW_LEVEL:
        values = counted(event.n_levels, "value")
        named = f" ({_levels(event)})" if event.levels else ""
        end = "it counts as other" if event.n_levels == 1 else "they count as other"
        return f"{column} has {values} never seen before{named}{where}; {end}."
    if event.kind is SchemaEventKind.NEW_COLUMN:
        new = f"There is a column {column} that was not there before, or hardly"
        return f"{new}{where}; it is left out."
    return f"The column {column} is absent{where}; it counts as missing there."


def _levels(event: SchemaEvent) -> str:
    hidden = max(0, event.n_levels - len(event.levels))
    shown = ", ".join(quoted(level) for level in event.levels)
    return f"{shown} and {hidden:,} more" if hidden else shown


def advice_of(report: WindowReport) -> list[str]:
    found = _advice_on_change(report)
    if report.decision.failed:
        found.append("Please report this error; if it comes again, keep the records of a window.")
    elif report.decision.level is DriftLevel.UNDECIDED or _lacks_power(report.decision):
        found.append("Larger windows would show smaller changes.")
    if report.overrun is not None:
        setting = "deadline_seconds" if report.overrun is Overrun.DEADLINE else "max_tests"
        found.append(f"Raise {setting}, or watch fewer fields, so that the search can finish.")
    if report.decision.design_effect > TOO_DEPENDENT_ROWS and _is_in_doubt(report.decision):
        found.append(
            "Use larger windows: where records resemble each other this much, windows of this size"
            " can raise false alarms."
        )
    if report.events and not report.decision.facts:
        found.append("Find out whether the new or absent columns and values are meant to be so.")
    return found


def _lacks_power(decision: DriftDecision) -> bool:
    """Whether silence may be due to the size of the window; a stream that moves has no better."""
    return bool(decision.n_undecided) and decision.kind is None and not decision.wander


def _is_in_doubt(decision: DriftDecision) -> bool:
    """Whether larger windows could decide otherwise."""
    return decision.kind is None or decision.p_value > SURE_P


def _advice_on_change(report: WindowReport) -> list[str]:
    decision = report.decision
    if decision.level is not DriftLevel.DRIFT:
        return []
    touched = touched_fields(decision)
    where = f" {listed(touched)}" if touched else " the fields"
    end = "" if report.end is None else f" ({moment(report.end)})"
    when = f"record {report.last_record:,}{end}"
    found = [f"Look for what changed at the source of{where} up to {when}."]
    if report.target is not None and target_touch(report) in ("itself", "nearby"):
        found.append(f"Check whatever relies on {quoted(report.target)}.")
    return found
