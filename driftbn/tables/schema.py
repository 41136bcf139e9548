"""The variables of a table and their levels, and the columns that are left out."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from driftbn.config import MAX_LEVELS, MissingPolicy, choice
from driftbn.errors import ConfigError, DataError, FormatError, UnknownVariableError
from driftbn.kernels.counting import level_in

OTHER: Final = "__other__"
MISSING: Final = "__missing__"
RESERVED: Final = frozenset((OTHER, MISSING))
"""Levels that every variable has beside its own."""

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PARTS: Final = ("one", "other", "between one", "between other")
_NUMBER_START: Final = frozenset("+-.0123456789")


class VariableKind(StrEnum):
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

    ``levels``: canonical texts of the levels, without the reserved ones, at most 250. For a numeric
    variable the intervals; they follow from the edges and may be left empty. ``edges``: inner bin
    edges of a numeric variable, finite and rising; a value belongs to the first bin whose edge is
    not below it. Infinity belongs to the first or the last bin. ``pooled``: whether rare levels
    were dropped into ``__other__`` when the variable was inferred. An unknown level is then nothing
    new. ``scale``: if not 0, each bin is four levels, by the value times this number, rounded: one
    bit of its hash and, where values were ``whole`` multiples, near to it or not. So it is seen of
    values in a single bin whether they stand still, and whether they have more digits than before.

    Raises DataError if the name is empty, or levels or edges break a rule above.

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
    scale: float = 0.0
    whole: bool = False

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
        if self.scale:
            intervals = tuple(f"{text} {part}" for text in intervals for part in _PARTS)
        if self.levels and self.levels != intervals:
            problem = f"levels {self.levels} must be the intervals {intervals} of the edges"
            raise DataError(problem, column=self.name, value=self.levels)
        object.__setattr__(self, "levels", intervals)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.levels, OTHER, MISSING)

    @property
    def cardinality(self) -> int:
        return len(self.levels) + 2

    @property
    def other_code(self) -> int:
        return len(self.levels)

    @property
    def missing_code(self) -> int:
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
            place = sum(edge < value for edge in self.edges)
            return level_in(place, value, self.scale, self.whole)
        return self.other_code


def level_key(text: str) -> tuple[int, float, str]:
    """Return the sort key of a level: numbers by value, then all else as text.

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


MIN_PRESENT_ROWS: Final = 10
"""Rows with a value from which on something can be tested of a field.

With fewer, whatever the other field is, a cell of the fourfold table of having a value and one of
its levels has an expected count below 5, where chi-square does not hold (Cochran 1954).
"""
RARE_SHARE: Final = 0.05
"""Share of the rows from which on a field is kept in any case: small windows are pooled."""

_FORMAT: Final = "driftbn.schema"
_VERSION: Final = 1


class ExclusionReason(StrEnum):
    CONSTANT = "constant"
    """One level only; it depends on nothing."""
    DUPLICATE = "duplicate"
    """The same partition of the rows as a column that comes earlier by name, not by chance."""
    ID_LIKE = "id_like"
    """Nearly every row has a value of its own."""
    ALL_MISSING = "all_missing"
    """No row has a value."""
    TEMPORAL = "temporal"
    """Dates, times or durations, which move on by themselves; derive hour or weekday instead."""
    RARE = "rare"
    """Too few rows have a value for any test. Such fields all seem to determine each other."""


def is_rare(n_present: int, n_rows: int) -> bool:
    """Return whether values in so many rows are too few for any test.

    >>> is_rare(9, 5000), is_rare(10, 5000), is_rare(5, 100)
    (True, False, False)
    """
    return n_present < MIN_PRESENT_ROWS and n_present < RARE_SHARE * n_rows


@dataclass(frozen=True, order=True)
class Exclusion:
    name: str
    reason: ExclusionReason
    detail: str


@dataclass(frozen=True)
class Schema:
    """The variables of a table, in the order of their names.

    Parameters
    ----------
    variables
        Stored sorted by name.
    excluded
        Columns that are no variables; stored sorted by name.
    missing
        What encoding does with a missing value.

    Raises
    ------
    DataError
        If two variables or exclusions share a name.

    Examples
    --------
    >>> schema = Schema([Variable("b", VariableKind.BOOLEAN, ("false", "true"))])
    >>> schema.names, schema["b"].cardinality
    (('b',), 4)
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    variables: tuple[Variable, ...]
    excluded: tuple[Exclusion, ...] = ()
    missing: MissingPolicy = MissingPolicy.LEVEL

    def __init__(
        self,
        variables: Iterable[Variable],
        excluded: Iterable[Exclusion] = (),
        missing: MissingPolicy = MissingPolicy.LEVEL,
    ) -> None:
        object.__setattr__(self, "variables", tuple(sorted(variables, key=lambda v: v.name)))
        object.__setattr__(self, "excluded", tuple(sorted(excluded)))
        object.__setattr__(self, "missing", missing)
        names = sorted((*self.names, *(e.name for e in self.excluded)))
        for first, second in pairwise(names):
            if first == second:
                raise DataError("a name may stand in a schema only once", column=first)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the variables, sorted."""
        return tuple(v.name for v in self.variables)

    @cached_property
    def rare(self) -> frozenset[str]:
        """The excluded columns that had too few values, and may have more later."""
        return frozenset(e.name for e in self.excluded if e.reason is ExclusionReason.RARE)

    @cached_property
    def expected(self) -> tuple[str, ...]:
        """The columns whose values are no news: the variables, then those excluded for good."""
        return (*self.names, *(e.name for e in self.excluded if e.name not in self.rare))

    @cached_property
    def ignored(self) -> frozenset[str]:
        """The columns excluded for good."""
        return frozenset(self.expected[len(self.names) :])

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __getitem__(self, name: str) -> Variable:
        return self.variables[self.index(name)]

    def index(self, name: str) -> int:
        """Return the position of a variable, which is its row in the codes.

        Raises
        ------
        UnknownVariableError
            If no variable has this name.
        """
        if name not in self._positions:
            raise UnknownVariableError(name, self.names)
        return self._positions[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as values that JSON can hold; equal schemas give equal text."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "missing": self.missing.value,
            "variables": [
                {
                    "name": v.name,
                    "kind": v.kind.value,
                    "levels": [] if v.edges else list(v.levels),
                    "edges": list(v.edges),
                    "pooled": v.pooled,
                    "scale": v.scale,
                    "whole": v.whole,
                }
                for v in self.variables
            ],
            "excluded": [
                {"name": e.name, "reason": e.reason.value, "detail": e.detail}
                for e in self.excluded
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read what ``to_dict`` wrote.

        Raises
        ------
        FormatError
            If it is something else, of another version, or breaks a rule of ``Variable``.
        """
        if not isinstance(data, Mapping) or data.get("format") != _FORMAT:
            raise FormatError(f"not a schema: 'format' must be {_FORMAT!r}")
        if data.get("version") != _VERSION:
            found = data.get("version")
            raise FormatError(f"schema version {found!r} is not known: it must be {_VERSION}")
        try:
            return cls(
                [_read_variable(item) for item in _items(data, "variables")],
                [_read_exclusion(item) for item in _items(data, "excluded")],
                choice(MissingPolicy, "missing", data.get("missing")),
            )
        except (ConfigError, DataError, OverflowError) as error:
            raise FormatError(f"schema is not valid: {error}") from error


def _field(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    value = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(value, kind):
        raise FormatError(f"schema field {key!r} is {value!r}: it must be a {kind}")
    return value


def _items(data: Mapping[str, Any], key: str) -> list[Any]:
    return list(_field(data, key, (list, tuple)))


def _read_variable(item: Mapping[str, Any]) -> Variable:
    name = _field(item, "name", str)
    levels, edges = _items(item, "levels"), _items(item, "edges")
    if not all(isinstance(level, str) for level in levels):
        raise FormatError(f"levels of {name!r} must be texts: {levels!r}")
    if not all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in edges):
        raise FormatError(f"edges of {name!r} must be numbers: {edges!r}")
    kind = choice(VariableKind, "kind", item.get("kind"))
    numbers = tuple(map(float, edges))
    scale, whole = item.get("scale", 0.0), item.get("whole", False)
    if not isinstance(scale, float) or not 0.0 <= scale < math.inf or not isinstance(whole, bool):
        raise FormatError(f"scale of {name!r} is {scale!r}: it must be a number from 0")
    return Variable(name, kind, tuple(levels), numbers, _field(item, "pooled", bool), scale, whole)


def _read_exclusion(item: Mapping[str, Any]) -> Exclusion:
    name, detail = _field(item, "name", str), _field(item, "detail", str)
    return Exclusion(name, choice(ExclusionReason, "reason", item.get("reason")), detail)
