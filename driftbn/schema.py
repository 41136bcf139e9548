"""The variables of a table and the columns left out of it, with a form that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from driftbn.config import MissingPolicy, SchemaConfig, choice
from driftbn.errors import ConfigError, DataError, FormatError, UnknownVariableError
from driftbn.variables import Variable, VariableKind

__all__ = [
    "Exclusion",
    "ExclusionReason",
    "MissingPolicy",
    "Schema",
    "SchemaConfig",
    "Variable",
    "VariableKind",
]

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
    """Why a column is not a variable."""

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

    Examples
    --------
    >>> is_rare(9, 5000), is_rare(10, 5000), is_rare(5, 100)
    (True, False, False)
    """
    return n_present < MIN_PRESENT_ROWS and n_present < RARE_SHARE * n_rows


@dataclass(frozen=True, order=True)
class Exclusion:
    """A column that was left out, and why.

    Parameters
    ----------
    name
        The column.
    reason
        The rule that left it out.
    detail
        What was seen, for people.
    """

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
                    "levels": list(v.levels),
                    "edges": list(v.edges),
                    "pooled": v.pooled,
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
    return Variable(name, kind, tuple(levels), numbers, _field(item, "pooled", bool))


def _read_exclusion(item: Mapping[str, Any]) -> Exclusion:
    name, detail = _field(item, "name", str), _field(item, "detail", str)
    return Exclusion(name, choice(ExclusionReason, "reason", item.get("reason")), detail)
