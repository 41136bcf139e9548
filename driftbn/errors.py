"""Errors that driftbn raises; each carries its data and says what is allowed."""

from __future__ import annotations

from collections.abc import Sequence


class DriftbnError(Exception):
    """Base of every error raised on purpose by driftbn."""


class ConfigError(DriftbnError, ValueError):
    """A setting has a value that is not allowed: what was set, to what, and what may be."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        super().__init__(f"{field} = {value!r} is not allowed: it must be {allowed}")

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        """Each setting at fault by itself."""
        return (self,)


class UnknownSettingError(ConfigError):
    def __init__(self, field: str, value: object, known: Sequence[str]) -> None:
        self.known = tuple(known)
        super().__init__(field, value, f"left out; known are {', '.join(map(repr, known))}")


class CombinedConfigError(ConfigError):
    """Several settings have values that are not allowed; ``field`` and so on are of the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self._errors = tuple(errors)
        super().__init__(errors[0].field, errors[0].value, errors[0].allowed)
        self.args = ("; ".join(map(str, errors)),)

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        return self._errors


class KnowledgeError(ConfigError):
    """Expert knowledge contradicts itself or names an unknown variable."""


class DataError(DriftbnError, ValueError):
    """A table cannot be taken in; the message names column, first row, value and rule.

    ``column`` and ``row`` are ``None`` where no single one is at fault.
    """

    def __init__(
        self,
        problem: str,
        *,
        column: str | None = None,
        row: int | None = None,
        value: object = None,
    ) -> None:
        self.problem = problem
        self.column = column
        self.row = row
        self.value = value
        place = "" if column is None else f"column {column!r}"
        if row is not None:
            place += f"{', ' if place else ''}row {row}"
        super().__init__(f"{place}: {problem}" if place else problem)


class FormatError(DriftbnError, ValueError):
    """A file or text is not in the format it claims to be."""


class GraphError(DriftbnError, ValueError):
    """A graph breaks a rule of its kind, for example a cycle in a DAG."""


class VariableMismatchError(GraphError):
    """Two values that must speak of the same variables do not."""

    def __init__(self, expected: Sequence[str], found: Sequence[str]) -> None:
        self.expected = tuple(expected)
        self.found = tuple(found)
        missing = sorted(set(self.expected) - set(self.found))
        extra = sorted(set(self.found) - set(self.expected))
        super().__init__(f"variables differ: missing {missing}, unexpected {extra}")


class UnknownVariableError(GraphError, KeyError):
    """A name that is not a variable of the graph or table."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"no variable {name!r}; there are {len(self.known)}: {self.known[:8]}")

    def __str__(self) -> str:
        """Return the message itself; ``KeyError`` would show its repr."""
        return str(self.args[0])


class MissingExtraError(DriftbnError, ImportError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'driftbn[{extra}]'")
