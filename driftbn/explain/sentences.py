"""Numbers, names and times as a sentence needs them, and sentences on what limits a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from driftbn.drift.outcome import UndecidedPair, Wander
from driftbn.drift.shares import Moved, Value
from driftbn.learning import Overrun
from driftbn.tables.encode import SchemaEvent, SchemaEventKind
from driftbn.tables.schema import MISSING, OTHER

if TYPE_CHECKING:
    from driftbn.report import WindowReport


MAX_NAME = 60
"""Characters of a name that a sentence shows."""
MAX_LISTED = 5
"""Names that a sentence lists; the others are counted."""

BACK = "the relations between the fields are back to an earlier state"


class Limit(NamedTuple):
    """What stopped a search, as a clause, and the setting that allows more."""

    why: str
    setting: str


LIMITS: Final = {
    Overrun.DEADLINE: Limit("its time was over", "deadline_seconds"),
    Overrun.TESTS: Limit("its number of tests was used up", "max_tests"),
}

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


def windows_between(first: int, last: int) -> str:
    """Return which windows are meant.

    >>> windows_between(3, 3), windows_between(3, 1000)
    ('window 3', 'windows 3 to 1,000')
    """
    return f"window {first:,}" if first == last else f"windows {first:,} to {last:,}"


def strength(nats: float) -> str:
    """Return how strong an association or a change of so many nats is, in a word.

    >>> [strength(nats) for nats in (0.0, 0.001, 0.01, 0.03, 0.3)]
    ['none', 'weak', 'medium', 'strong', 'very strong']
    """
    if math.isnan(nats):
        return "unknown"
    return next((word for limit, word in _STRENGTHS if nats < limit), "very strong")


def size_words(nats: float) -> str:
    """Return an association or a change of so many nats with its strength.

    >>> size_words(0.02)
    '0.02 nats (medium)'
    """
    return f"{decimal(nats)} nats ({strength(nats)})"


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


def number(value: float) -> str:
    """Return a number with as many places as people read.

    >>> number(0.012345), number(1726.5), number(20000.0)
    ('0.01235', '1,726', '20,000')
    """
    return f"{float(f'{value:.4g}'):,.10g}"


def percent(share: float) -> str:
    """Return a share of the records.

    >>> percent(0.613), percent(0.004), percent(0.0), percent(0.9996), percent(0.996)
    ('61%', '0.4%', '0%', 'more than 99.9%', '99.6%')
    """
    if 0.0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1.0:
        return "more than 99.9%"
    return f"{share:.1%}" if 0.0 < share < 0.01 or 0.99 < share < 1.0 else f"{share:.0%}"


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


MAX_MOVED = 3
"""Combinations of values that a sentence tells."""


def moved_sentence(moved: Sequence[Moved]) -> str | None:
    """Say which shares moved from what to what; ``None`` if none did.

    >>> high, low, review = Value("risk", "high"), Value("risk", "low"), Value("status", "review")
    >>> moved_sentence([Moved(review, (high,), 61, 100, 6, 50)])
    "How it changed: among records with 'risk' = 'high', 'status' = 'review' went from 61% to 12%."
    """
    parts = []
    for one in moved[:MAX_MOVED]:
        among = joined([value_words(value) for value in one.among])
        where = f"among records with {among}, " if among else ""
        before, now = map(percent, one.shares)
        parts.append(f"{where}{value_words(one.value)} went from {before} to {now}")
    whole = "" if not moved or moved[0].among else " of the records"
    return f"How it changed: {'; '.join(parts)}{whole}." if parts else None


def value_words(value: Value) -> str:
    """Return a value of a field in words.

    >>> value_words(Value("age", None, 18.0, 65.0)), value_words(Value("age", "__missing__"))
    ("'age' between 18 and 65", "no value of 'age'")
    """
    name = quoted(value.field)
    if value.level is None:
        return f"{name} {range_words(value)}"
    if value.level == MISSING:
        return f"no value of {name}"
    return (
        f"rare or new values of {name}"
        if value.level == OTHER
        else f"{name} = {quoted(value.level)}"
    )


def range_words(value: Value) -> str:
    low, high = value.low, value.high
    if low is None:
        return "any number" if high is None else f"up to {number(high)}"
    return f"above {number(low)}" if high is None else f"between {number(low)} and {number(high)}"


DEPENDENT_ROWS = 1.5
"""Design effect above which a reader should know of it."""

_MAX_EVENTS = 5
_MAX_PAIRS = 3


def caveat_sentences(report: WindowReport) -> list[str]:
    """Return what limits the report, and differences from the schema."""
    found, sample, relearned = [], report.sample, report.relearned
    if sample is not None and sample.visible_change is not None:
        found.append(
            f"The {report.rows:,} records that were judged show a change from"
            f" {size_words(sample.visible_change)} on in nine of ten pairs of fields."
        )
    found += _undecided(report)
    if report.overrun is not None:
        found.append(
            f"The search for the graph was stopped because {LIMITS[report.overrun].why}; the graph"
            " shown is the one from before."
        )
    if relearned is not None and relearned.overrun is not None:
        found.append(
            f"Learning the graph of the reference again was stopped because"
            f" {LIMITS[relearned.overrun].why}; the reference keeps the graph from before."
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
    return f"{fields} (the smallest change that would show is {size_words(pair.visible_change)})"


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
    if event.kind is SchemaEventKind.MISSING_VALUES:
        return f"{column} has no value{where}, more than ever."
    if event.kind is SchemaEventKind.OTHER_SCALE:
        return f"{column} has numbers of another size than ever{where}."
    return f"The column {column} is absent{where}; it counts as missing there."


def _levels(event: SchemaEvent) -> str:
    hidden = max(0, event.n_levels - len(event.levels))
    shown = ", ".join(quoted(level) for level in event.levels)
    return f"{shown} and {hidden:,} more" if hidden else shown
