"""Tables as text: aligned columns, or Markdown; rates with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from driftbn.drift.trust import wilson_interval

T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of cells; the first cells of a row are words, the rest numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_words: int = 1

    def render(self, *, markdown: bool) -> str:
        """Return the table as text: aligned columns, or Markdown."""
        if markdown:
            rule = ("---",) * self.n_words + ("--:",) * (len(self.header) - self.n_words)
            lines = [f"| {' | '.join(row)} |" for row in (self.header, rule, *self.rows)]
            return "\n".join((f"### {self.title}", "", *lines, "", ""))
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = [self._aligned(row, widths) for row in (self.header, *self.rows)]
        return "\n".join((self.title, *lines, "", ""))

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = [
            cell.ljust(width) if i < self.n_words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()


@dataclass(frozen=True)
class Rate:
    """A share, with Wilson's 95 % interval."""

    hits: int
    n: int

    @classmethod
    def of(cls, answers: Iterable[bool | None]) -> Rate:
        """Count the answers that are yes among those that are not ``None``."""
        known = [answer for answer in answers if answer is not None]
        return cls(sum(known), len(known))

    @property
    def share(self) -> float:
        """Hits of all; not a number if there are none."""
        return self.hits / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the share (Wilson 1927); 0 and 1 without any case."""
        return wilson_interval(self.hits, self.n)


def in_order(values: Iterable[T]) -> list[T]:
    """Return each value once, in the order of its first appearance."""
    return list(dict.fromkeys(values))


def rate_text(rate: Rate) -> str:
    """Return a share in per cent, its interval and what it is of; a dash if there is nothing."""
    if not rate.n:
        return "-"
    low, high = rate.interval
    return f"{percent(rate.share)} ({percent(low)}-{percent(high)}) of {rate.n:,}"


def seen_text(first: Rate, soon: Rate) -> str:
    """Return two shares in per cent; a dash if there is nothing."""
    return f"{percent(first.share)} / {percent(soon.share)}" if first.n else "-"


def percent(share: float) -> str:
    """Return a share in per cent, with more digits where it is small."""
    if share == 0 or share >= 0.1:
        return f"{100 * share:.0f}"
    return f"{100 * share:.2g}"


def number(value: float) -> str:
    """Return a number in three digits; a dash if it is none."""
    return "-" if math.isnan(value) else f"{value:.3g}"
