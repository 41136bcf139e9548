"""Variables: a name, the levels its values fall into, and the order of levels."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Final

from driftbn.config import MAX_LEVELS
from driftbn.errors import DataError

OTHER: Final = "__other__"
MISSING: Final = "__missing__"
RESERVED: Final = frozenset((OTHER, MISSING))
"""Levels that every variable has beside its own."""

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NUMBER_START: Final = frozenset("+-.0123456789")


class VariableKind(StrEnum):
    """What the values of a variable are."""

    CATEGORICAL = "categorical"
    """Text, or a mix of types told apart by their canonical text."""
    BOOLEAN = "boolean"
    """``true`` and ``false``."""
    INTEGER = "integer"
    """Whole numbers, few enough to be a level each."""
    NUMERIC = "numeric"
    """Numbers cut into bins at frozen edges."""


@dataclass(frozen=True)
class Variable:
    """One variable: a name and the levels its values fall into.

    Codes run through ``levels`` and then two reserved levels, ``__other__`` for a value that is
    none of them and ``__missing__``. Both are always there, so codes stay valid whatever comes.

    Parameters
    ----------
    name
        Any text but the empty one.
    kind
        What the values are.
    levels
        Canonical texts of the levels, without the reserved ones, at most 250. For a numeric
        variable the intervals; they follow from the edges and may be left empty.
    edges
        Inner bin edges of a numeric variable, finite and rising; a value belongs to the first bin
        whose edge is not below it. Infinity belongs to the first or the last bin.
    pooled
        Whether rare levels were dropped into ``__other__`` when the variable was inferred. An
        unknown level is then nothing new.

    Raises
    ------
    DataError
        If the name is empty, or levels or edges break a rule above.

    Examples
    --------
    >>> colour = Variable("colour", VariableKind.CATEGORICAL, ("blue", "red"))
    >>> colour.labels
    ('blue', 'red', '__other__', '__missing__')
    >>> colour.code_of("red"), colour.code_of("green")
    (1, 2)
    >>> Variable("age", VariableKind.NUMERIC, edges=(18.0, 65.0)).levels
    ('(-inf, 18]', '(18, 65]', '(65, inf)')
    """

    name: str
    kind: VariableKind
    levels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    pooled: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise DataError(f"the name of a variable must not be empty: {self.name!r}")
        if self.kind is VariableKind.NUMERIC:
            self._check_edges()
        elif self.edges:
            raise DataError("only a numeric variable has edges", column=self.name, value=self.edges)
        levels = self.levels
        if len(levels) > MAX_LEVELS:
            problem = f"{len(levels)} levels; there may be at most {MAX_LEVELS}"
            raise DataError(problem, column=self.name)
        if len({*levels, OTHER, MISSING}) != len(levels) + 2:
            problem = f"levels must differ from each other and from {OTHER} and {MISSING}"
            raise DataError(problem, column=self.name, value=levels)

    def _check_edges(self) -> None:
        edges = self.edges
        rising = all(a < b for a, b in pairwise(edges))
        if not rising or not all(map(math.isfinite, edges)):
            problem = f"edges {edges} must be finite and rising"
            raise DataError(problem, column=self.name, value=edges)
        intervals = _intervals(edges)
        if self.levels and self.levels != intervals:
            problem = f"levels {self.levels} must be the intervals {intervals} of the edges"
            raise DataError(problem, column=self.name, value=self.levels)
        object.__setattr__(self, "levels", intervals)

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of every code, the reserved ones last."""
        return (*self.levels, OTHER, MISSING)

    @property
    def cardinality(self) -> int:
        """The number of codes, the two reserved ones included."""
        return len(self.levels) + 2

    @property
    def other_code(self) -> int:
        """The code of ``__other__``."""
        return len(self.levels)

    @property
    def missing_code(self) -> int:
        """The code of ``__missing__``."""
        return len(self.levels) + 1

    @cached_property
    def _codes(self) -> dict[str, int]:
        if self.kind is VariableKind.NUMERIC:
            return {OTHER: self.other_code, MISSING: self.missing_code}
        return {text: code for code, text in enumerate(self.labels)}

    def code_of(self, text: str) -> int:
        """Return the code of a canonical text; ``other_code`` if it is none of the levels."""
        code = self._codes.get(text)
        if code is not None:
            return code
        if self.kind is VariableKind.NUMERIC and _NUMBER.fullmatch(text):
            value = float(text)
            return sum(edge < value for edge in self.edges)
        return self.other_code


def level_key(text: str) -> tuple[int, float, str]:
    """Return the sort key of a level: numbers by value, then all else as text.

    Examples
    --------
    >>> sorted(["b", "10", "9", "-1.5", "a"], key=level_key)
    ['-1.5', '9', '10', 'a', 'b']
    """
    if text[:1] in _NUMBER_START and _NUMBER.fullmatch(text):
        return (0, float(text), text)
    return (1, 0.0, text)


def sorted_levels(levels: Collection[str]) -> tuple[str, ...]:
    """Return levels in canonical order, that of ``level_key``."""
    ordered = sorted(levels)
    # Nothing that starts like a number sorts after ":", and plain text needs no key.
    if ordered and ordered[0] < ":":
        ordered.sort(key=level_key)
    return tuple(ordered)


def _intervals(edges: tuple[float, ...]) -> tuple[str, ...]:
    marks = ["-inf", *(repr(edge).removesuffix(".0") for edge in edges), "inf"]
    closing = ["]"] * len(edges) + [")"]
    return tuple(f"({marks[i]}, {marks[i + 1]}{end}" for i, end in enumerate(closing))
