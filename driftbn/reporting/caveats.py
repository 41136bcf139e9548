"""Sentences on what a report cannot tell, and what else was met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftbn.decision.outcome import DriftLevel, UndecidedPair
from driftbn.learning import Overrun
from driftbn.records import SchemaEvent, SchemaEventKind
from driftbn.reporting.changes import touched_fields
from driftbn.reporting.words import counted, decimal, listed, moment, quoted, strength

if TYPE_CHECKING:
    from driftbn.report import WindowReport

DEPENDENT_ROWS = 1.5
"""Design effect above which a reader should know of it."""
TOO_DEPENDENT_ROWS = 20.0
"""Design effect above which windows should be larger."""

_MAX_EVENTS = 5
_MAX_PAIRS = 3


def representative(report: WindowReport, name: str) -> str:
    """Return the field that stands for another one that always says the same."""
    return dict(report.twins).get(name, name)


def target_touch(report: WindowReport) -> str | None:
    """Return how near a named change is to the target.

    Returns
    -------
    str or None
        ``"itself"``, ``"nearby"`` (a field of its Markov blanket) or ``"elsewhere"``; ``None`` if
        there is no target or no field was named.
    """
    touched = touched_fields(report.decision)
    if report.target is None or not touched:
        return None
    if {report.target, representative(report, report.target)} & set(touched):
        return "itself"
    return "nearby" if set(report.blanket) & set(touched) else "elsewhere"


def target_sentences(report: WindowReport) -> list[str]:
    """Return whether the change touches the field that the user cares for."""
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
    if report.decision.design_effect > DEPENDENT_ROWS:
        found.append(_dependent_rows(report))
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
    deadline = overrun is Overrun.DEADLINE
    limit = "its time was over" if deadline else "its number of tests was used up"
    return (
        f"The search for the graph was stopped because {limit}; the graph shown is the one from"
        " before."
    )


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


def event_sentence(event: SchemaEvent) -> str:
    """Return a difference from the schema in words.

    Examples
    --------
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
    """Return what a reader may do now."""
    found = _advice_on_change(report)
    if report.decision.failed:
        found.append("Please report this error; if it comes again, keep the records of a window.")
    elif report.decision.level is DriftLevel.UNDECIDED or report.decision.n_undecided:
        found.append("Larger windows would show smaller changes.")
    if report.overrun is not None:
        setting = "deadline_seconds" if report.overrun is Overrun.DEADLINE else "max_tests"
        found.append(f"Raise {setting}, or watch fewer fields, so that the search can finish.")
    if report.decision.design_effect > TOO_DEPENDENT_ROWS:
        found.append(
            "Use larger windows: where records resemble each other this much, windows of this size"
            " can raise false alarms."
        )
    if report.events:
        found.append("Find out whether the new or absent columns and values are meant to be so.")
    return found


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
