"""Numbers, names and times as a sentence needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

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
