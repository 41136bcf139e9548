"""An Arrow array as codes into a list of values, or as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from numpy.typing import NDArray

from driftbn.encoding.canonical import ALLOWED
from driftbn.encoding.factors import (
    MISSING_BYTE,
    Column,
    Factor,
    Numbers,
    Times,
    make_factor,
    make_numbers,
    missing_factor,
)
from driftbn.encoding.optional import arrow
from driftbn.errors import DataError
from driftbn.variables import VariableKind

_Reader: TypeAlias = tuple[Callable[[Any], bool], Callable[[Any], Column]]


def one_array(raw: Any) -> Any:
    """Return an Arrow array, or the chunks of a chunked one, as one array."""
    if not isinstance(raw, arrow().ChunkedArray):
        return raw
    return raw.chunk(0) if raw.num_chunks == 1 else raw.combine_chunks()


def read_arrow(name: str, raw: Any) -> Column:
    """Turn one Arrow array into codes or numbers.

    Raises
    ------
    DataError
        If its type is none of text, number, boolean, time or null.
    """
    for accepts, read in _readers():
        if accepts(raw.type):
            return read(raw)
    row = next((row for row, value in enumerate(raw) if value.is_valid), 0)
    problem = f"type {raw.type} is not allowed: {ALLOWED}"
    raise DataError(problem, column=name, row=row, value=raw[row].as_py())


@cache
def _readers() -> tuple[_Reader, ...]:
    types = arrow().types
    return (
        (types.is_dictionary, _arrow_dictionary),
        (is_arrow_text, lambda array: _arrow_dictionary(array.dictionary_encode())),
        (types.is_integer, _arrow_integers),
        (types.is_floating, lambda array: make_numbers(_as_numpy(array))),
        (types.is_boolean, _arrow_booleans),
        (types.is_null, lambda array: missing_factor(len(array), VariableKind.CATEGORICAL)),
        (types.is_temporal, lambda array: Times(str(array.type))),
        (types.is_decimal, lambda array: make_numbers(_as_numpy(array.cast("float64")))),
    )


def is_arrow_text(kind: Any) -> bool:
    """Whether an Arrow type is text or bytes of any layout."""
    name = str(kind)
    return name.endswith(("string", "string_view", "binary", "binary_view")) or "binary[" in name


def _as_numpy(array: Any) -> NDArray[Any]:
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _arrow_dictionary(array: Any) -> Factor:
    indices, values = array.indices, array.dictionary
    if indices.null_count:
        indices = indices.cast("int32").fill_null(-1)
    if len(values) <= MISSING_BYTE:
        values = values.to_pylist()
    return make_factor(_as_numpy(indices), values, VariableKind.CATEGORICAL)


def _arrow_integers(array: Any) -> Numbers:
    if not array.null_count:
        return Numbers(_as_numpy(array))
    return Numbers(_as_numpy(array.fill_null(0)), _as_numpy(array.is_null()))


def _arrow_booleans(array: Any) -> Factor:
    codes = _as_numpy(array.cast("uint8").fill_null(MISSING_BYTE))
    return make_factor(codes, [False, True], VariableKind.BOOLEAN)
