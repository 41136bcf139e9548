"""Values as JSON documents, and back, by the fields of their classes.

One rule serves writing, reading and the JSON schema, so the three cannot disagree:

===================================  ===============================================
a dataclass or named tuple           an object with a member for each field
``tuple[T, ...]``                    an array
``T | None``                         the same, or null
an enumeration                       its value
``float``                            a number; null if it is not finite
``int``, ``str``, ``bool``           as they are
``dict`` and ``Any``                 as they are: plain values already
===================================  ===============================================

What departs from it is given to the ``Codec``. A field that takes no part in comparisons, such as a
time that was measured, is written on demand only: equal values give equal documents. Reading is
tolerant: members that are not known are ignored, and a field that is absent takes its default.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from operator import itemgetter
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from driftbn.errors import FormatError

Names: TypeAlias = tuple[str, ...]
Schema: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Any], Any]
_T = TypeVar("_T")

INFINITE: Final = MappingProxyType({"null": math.inf})
"""Metadata of a field that is null where it is infinite; elsewhere null is not a number."""
_NULL: Final = {"type": "null"}
_NUMBER_OR_NULL: Final = {"type": ["number", "null"]}
_PLAIN: Final[dict[Any, str]] = {int: "integer", str: "string", bool: "boolean"}


class StandIn(NamedTuple):
    """A class whose fields are written in place of another one's.

    ``of`` makes it of the value, and ``back`` the value of it.
    """

    type_: Any
    of: Step
    back: Step


class _Form(NamedTuple):
    encode: Step
    decode: Step
    schema: Callable[[dict[str, Schema]], Schema]
    plain: type | None = None  # a value of exactly this type is read as it is


class _Member(NamedTuple):
    key: str
    name: str
    form: _Form
    has_default: bool
    written: bool = True
    read: bool = True


class Codec:
    """Writes and reads values of dataclasses, and knows the shape of what it writes.

    ``derived``: properties of a class that are written too, for the convenience of readers.
    ``renamed``: keys of a class's fields that are not their names. ``omitted``: fields of a class
    that are not written. ``stand_ins``: what is written in place of a class. ``base``: a codec
    whose departures hold as well.

    >>> class Ratio(NamedTuple):
    ...     part: int
    ...     share: float = 1.0
    >>> codec = Codec(renamed={Ratio: {"part": "n"}})
    >>> codec.encode(Ratio(3, math.inf))
    {'n': 3, 'share': None}
    >>> codec.decode(Ratio, {"n": 3, "unknown": 0})
    Ratio(part=3, share=1.0)
    >>> codec.schema(Ratio, components := {}), components["Ratio"]["properties"]["n"]
    ({'$ref': '#/components/schemas/Ratio'}, {'type': 'integer'})
    """

    def __init__(
        self,
        *,
        derived: Mapping[Any, Names] | None = None,
        renamed: Mapping[Any, Mapping[str, str]] | None = None,
        omitted: Mapping[Any, Names] | None = None,
        stand_ins: Mapping[Any, StandIn] | None = None,
        base: Codec | None = None,
    ) -> None:
        self._derived: dict[Any, Names] = {**(base._derived if base else {}), **(derived or {})}
        self._renamed: dict[Any, Mapping[str, str]]
        self._renamed = {**(base._renamed if base else {}), **(renamed or {})}
        self._omitted: dict[Any, Names] = {**(base._omitted if base else {}), **(omitted or {})}
        self._stand_ins: dict[Any, StandIn]
        self._stand_ins = {**(base._stand_ins if base else {}), **(stand_ins or {})}
        self._form: Callable[..., _Form] = cache(self._make_form)

    def encode(self, value: object, *, as_type: Any = None, uncompared: bool = False) -> Any:
        """Return a value as plain dicts, lists, strings and numbers.

        ``as_type``: its type, if it is not that of a dataclass or named tuple. ``uncompared``:
        whether to write the fields that take no part in comparisons.
        """
        return self._form(as_type or type(value), uncompared).encode(value)

    def decode(self, type_: type[_T], document: object) -> _T:
        """Return the value that a document was made of.

        Raises FormatError if a part is absent that has no default, or one is not allowed.
        """
        try:
            found: _T = self._form(type_, True).decode(document)
        except KeyError as error:
            problem = f"{_title(type_)} without {error}; it must have all its parts"
            raise FormatError(problem) from error
        except (TypeError, ValueError) as error:
            raise FormatError(f"{_title(type_)} that is not sound: {error}") from error
        return found

    def schema(self, hint: Any, components: dict[str, Schema]) -> Schema:
        """Return the JSON schema of what is written of a type.

        ``components``: where the schemas of classes are entered, under their names.
        """
        return self._form(hint, False).schema(components)

    def _make_form(self, hint: Any, uncompared: bool, null: float = math.nan) -> _Form:
        if hint in self._stand_ins:
            type_, of, back = self._stand_ins[hint]
            inner = self._form(type_, uncompared)
            return _Form(
                lambda value: inner.encode(of(value)),
                lambda found: back(inner.decode(found)),
                inner.schema,
            )
        if get_origin(hint) is tuple:
            return _array(self._form(get_args(hint)[0], uncompared))
        if get_origin(hint) in (Union, UnionType):
            (some,) = (item for item in get_args(hint) if item is not NoneType)
            return _nullable(self._form(some, uncompared))
        if dataclasses.is_dataclass(hint) or hasattr(hint, "_field_defaults"):
            return _record(hint, self._members(hint, uncompared))
        return _scalar(hint, null)

    def _members(self, type_: Any, uncompared: bool) -> list[_Member]:
        hints, keys, found = hints_of(type_), self._renamed.get(type_, {}), []
        for name in self._derived.get(type_, ()):
            form = self._form(hints_of(getattr(type_, name).fget)["return"], uncompared)
            found.append(_Member(name, name, form, True, read=False))
        for name, field in _fields(type_).items():
            if name in self._omitted.get(type_, ()):
                continue
            form = self._form(hints[name], uncompared, field.metadata.get("null", math.nan))
            absent = field.default is field.default_factory is dataclasses.MISSING
            written = uncompared or bool(field.compare)
            found.append(_Member(keys.get(name, name), name, form, not absent, written))
        return found


def _fields(type_: Any) -> dict[str, dataclasses.Field[Any]]:
    if dataclasses.is_dataclass(type_):
        return {field.name: field for field in dataclasses.fields(type_)}
    defaults = type_._field_defaults
    absent = dataclasses.MISSING
    return {name: dataclasses.field(default=defaults.get(name, absent)) for name in type_._fields}


def _record(type_: Any, members: list[_Member]) -> _Form:
    read = [
        (member.key, member.name, member.form.decode, member.has_default)
        for member in members
        if member.read
    ]
    written = [member for member in members if member.written]

    def decode(document: Any) -> Any:
        known = _checked(document, (dict, Mapping))  # a dict is known at once
        return type_(
            **{
                name: step(known[key])
                for key, name, step, has_default in read
                if key in known or not has_default
            }
        )

    def schema(components: dict[str, Schema]) -> Schema:
        if type_.__name__ not in components:
            components[type_.__name__] = {}  # its place, before those of its parts
            properties = {member.key: member.form.schema(components) for member in written}
            components[type_.__name__] |= {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        return {"$ref": f"#/components/schemas/{type_.__name__}"}

    if dataclasses.is_dataclass(type_):
        return _Form(_of_fields(written), decode, schema)
    return _Form(_of_parts(written), _to_parts(type_, members, decode), schema)


def _of_fields(members: list[_Member]) -> Step:
    steps = [(member.key, member.name, member.form.encode) for member in members]
    return lambda value: {key: step(getattr(value, name)) for key, name, step in steps}


def _of_parts(members: list[_Member]) -> Step:
    """Return what writes a named tuple, or any other with the same parts."""
    keys = [member.key for member in members]
    plain = (_same, bool)  # of truth values there are none of numpy's in tuples
    steps = [(item.key, item.form.encode) for item in members if item.form.encode not in plain]
    if not steps:
        return lambda value: dict(zip(keys, value))  # noqa: B905 - to compare lengths takes a third of it

    def encode(value: Any) -> dict[str, Any]:
        found = dict(zip(keys, value, strict=True))
        return found | {key: step(found[key]) for key, step in steps}

    return encode


def _to_parts(type_: Any, members: list[_Member], decode: Step) -> Step:
    """Return what reads a named tuple, at a third of the time where its parts are plain."""
    kinds = tuple(member.form.plain for member in members)
    is_whole = tuple(member.name for member in members) == type_._fields
    if not is_whole or None in kinds or len(kinds) < 2:
        return decode
    parts_of, make = itemgetter(*(member.key for member in members)), type_._make

    def read(document: Any) -> Any:
        try:
            parts = parts_of(document)
        except (KeyError, TypeError):
            return decode(document)
        return make(parts) if tuple(map(type, parts)) == kinds else decode(document)

    return read


def _array(item: _Form) -> _Form:
    encode, decode = item.encode, item.decode
    return _Form(
        list if encode is _same else lambda values: list(map(encode, values)),
        lambda values: tuple(map(decode, _checked(values, (list, tuple)))),
        lambda components: {"type": "array", "items": item.schema(components)},
    )


def _nullable(some: _Form) -> _Form:
    def schema(components: dict[str, Schema]) -> Schema:
        found = some.schema(components)
        return found if found == _NUMBER_OR_NULL else {"anyOf": [found, _NULL]}

    return _Form(
        lambda value: None if value is None else some.encode(value),
        lambda value: None if value is None else some.decode(value),
        schema,
    )


def _scalar(type_: Any, null: float) -> _Form:
    if type_ is float:
        return _Form(
            _number,
            lambda value: null if value is None else float(value),
            lambda _: dict(_NUMBER_OR_NULL),
        )
    if type_ in _PLAIN:
        encode = _same if type_ is str else type_  # numpy has numbers and truth values of its own
        schema = {"type": _PLAIN[type_]}
        return _Form(
            encode,
            lambda value: value if type(value) is type_ else _checked(value, type_),
            lambda _: schema,
            type_,
        )
    if isinstance(type_, type) and issubclass(type_, Enum):
        choices = {"type": "string", "enum": [item.value for item in type_]}
        return _Form(lambda value: value.value, type_, lambda _: choices)
    return _Form(_same, _same, lambda _: {"type": "object"})


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _checked(value: Any, allowed: Any) -> Any:
    if not isinstance(value, allowed):
        kind = allowed[0] if isinstance(allowed, tuple) else allowed
        raise TypeError(f"{value!r:.100} is no {kind.__name__}")
    return value


def _same(value: Any) -> Any:
    return value


def _title(type_: type) -> str:
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in type_.__name__).strip()
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
