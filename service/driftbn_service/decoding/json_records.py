"""One JSON record as a flat row, or what is wrong with it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final, NoReturn

import orjson

from driftbn_service.decoding.decoded import Problem, RejectReason
from driftbn_service.decoding.kernels import Bytes, count_names
from driftbn_service.decoding.limits import MAX_NAME_LENGTH, Limits, check_name, long_name

MAX_DEPTH: Final = 4
"""Objects within each other that are taken apart: names have four parts at most."""
EXACT: Final = 2**53
"""Beyond it a float does not hold every whole number."""
_MAX_BATCH_CELLS: Final = 1 << 22
"""Cells of the columns that records become: those that share no field make mostly empty ones."""

Record = dict[str, Any]


def read_record(text: bytes, data: Bytes, start: int, limits: Limits) -> Record:
    """Return the record that stands in ``data`` from ``start`` on, which is ``text``.

    An object within it is taken apart, ``{"a": {"b": 1}}`` to ``{"a.b": 1}``. What has no value is
    left out: ``null``, a list, a field without a name.

    Raises
    ------
    Problem
        If it is none, or too large.
    """
    if len(text) > limits.record_bytes:
        raise limits.long_record(len(text))
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        _explain(text)
    if type(record) is not dict:
        raise Problem(RejectReason.NOT_AN_OBJECT, f"{_kind(record)} where an object should be")
    n_written = count_names(data, start, start + len(text))
    if n_written != len(record) and n_written != n_names(record):
        _explain(text)
    if len(text) > MAX_NAME_LENGTH:  # else no name in it can be too long, however it is joined
        check_name(max(map(len, record), default=0))
    return flat(record, limits)


def flat(record: Record, limits: Limits) -> Record:
    """Return a record without objects in it, and without what has no value.

    Raises
    ------
    Problem
        If objects are nested too deep, there are too many fields, a name gets too long, or two
        fields get the same one.

    Examples
    --------
    >>> flat({"a": {"b": 1, "c": None}, "d": "x", "e": [1, 2]}, Limits(100))
    {'d': 'x', 'a.b': 1}
    """
    plain = {
        name: value
        for name, value in record.items()
        if value is not None and name and type(value) is not list and type(value) is not dict
    }
    if len(plain) > limits.fields:
        raise limits.many_fields(len(plain))
    if len(plain) == len(record):
        return plain
    for name, value in record.items():
        if type(value) is dict:
            _add_parts(plain, name, value, 2, limits)
    return plain


def _add_parts(plain: Record, prefix: str, parts: Record, depth: int, limits: Limits) -> None:
    """Add the fields of an object; nothing is joined that would not be kept."""
    if depth > MAX_DEPTH:
        raise Problem(RejectReason.TOO_DEEP, f"objects more than {MAX_DEPTH} deep")
    for part, value in parts.items():
        if value is None or type(value) is list:
            continue
        if len(prefix) + len(part) >= MAX_NAME_LENGTH:
            raise long_name(len(prefix) + 1 + len(part))
        name = f"{prefix}.{part}"
        if type(value) is dict:
            _add_parts(plain, name, value, depth + 1, limits)
            continue
        if name in plain:
            problem = f"two fields get the name {name[:100]!r} when the record is made flat"
            raise Problem(RejectReason.DUPLICATE_KEY, problem)
        plain[name] = value
        if len(plain) > limits.fields:
            raise limits.many_fields(len(plain))


def n_names(record: Record) -> int:
    """Count the names of all objects in a record, however deep."""
    n_found = 0
    left: list[Any] = [record]
    while left:
        value = left.pop()
        if type(value) is dict:
            n_found += len(value)
            value = value.values()
        left += [part for part in value if type(part) is dict or type(part) is list]
    return n_found


def as_batches(records: list[Record]) -> list[list[Record]]:
    """Cut records into batches that may each become one table.

    Where a field has a whole number beyond 2**53 after a fraction, or before one, the first would
    be read as a float and lose its last digits; what a record means must not depend on its
    neighbours. And records that have few fields in common would make columns of nothing.
    """
    return [part for whole in _split_wide(records) for part in _split_sparse(whole)]


def _split_sparse(records: list[Record]) -> list[list[Record]]:
    n_names = len(set(chain.from_iterable(records)))
    if len(records) * n_names <= _MAX_BATCH_CELLS or len(records) == 1:
        return [records]
    middle = len(records) // 2
    return _split_sparse(records[:middle]) + _split_sparse(records[middle:])


def _split_wide(records: list[Record]) -> Iterable[list[Record]]:
    if not any(_is_wide(value) for record in records for value in record.values()):
        return [records] if records else []
    parts: list[list[Record]] = []
    wide: set[str] = set()
    floats: set[str] = set()
    for record in records:
        new_wide = {name for name, value in record.items() if _is_wide(value)}
        new_floats = {name for name, value in record.items() if type(value) is float}
        if not parts or (wide | new_wide) & (floats | new_floats):
            parts.append([])
            wide, floats = set(), set()
        parts[-1].append(record)
        wide |= new_wide
        floats |= new_floats
    return parts


def _is_wide(value: object) -> bool:
    return type(value) is int and not -EXACT <= value <= EXACT


def _explain(text: bytes) -> NoReturn:
    """Raise what is wrong with a text that is no JSON, or has a name twice.

    The parser of the standard library is slower, but it can be asked.
    """
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} of the record is not UTF-8"
        raise Problem(RejectReason.INVALID_UTF8, detail) from None
    try:
        json.loads(
            decoded,
            parse_constant=_refuse_constant,
            parse_float=_checked_float,
            parse_int=_checked_float,
            object_pairs_hook=_checked_pairs,
        )
    except RecursionError:
        raise Problem(RejectReason.TOO_DEEP, "nested too deep for the parser") from None
    except json.JSONDecodeError as error:
        raise Problem(RejectReason.NOT_JSON, f"{error.msg} at character {error.pos}") from None
    # The stricter parser refuses two things that the other takes.
    if "\\u" in decoded:
        raise Problem(RejectReason.INVALID_UTF8, "an escape is half of a surrogate pair")
    raise Problem(RejectReason.TOO_DEEP, "nested too deep for the parser")


def _refuse_constant(name: str) -> NoReturn:
    raise Problem(RejectReason.NOT_A_NUMBER, f"{name} is no JSON number")


def _checked_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Problem(RejectReason.NOT_A_NUMBER, "a number is too large for a float")
    return value


def _checked_pairs(pairs: list[tuple[str, Any]]) -> Record:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise Problem(RejectReason.DUPLICATE_KEY, f"the name {twice[:100]!r} is there twice")
    return found


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
