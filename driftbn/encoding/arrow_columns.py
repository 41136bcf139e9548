"""An Arrow array as codes into a list of values, or as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
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


def plain_column(raw: Any) -> Any:
    """Return an Arrow array or the chunks of one in a type that all of Arrow's functions know.

    Types that store the same cells in another way become the usual one: views of text and bytes,
    run-end encoding, narrow decimals, half floats, and extension types, of which a UUID becomes its
    text, ``bool8`` a boolean, and any other what it is stored as. A time in a zone, which need not
    be a known one, becomes the same instant in UTC. A dictionary keeps its codes where its values
    are text, numbers or booleans, and is unpacked otherwise; of chunks the codes are ``int32`` and
    no value is null, as dictionaries can only then be made one. What has no such form, as lists
    have none, stays as it is.

    Examples
    --------
    >>> import pyarrow as pa
    >>> plain_column(pa.array(["a", None], pa.string_view())).type
    DataType(large_string)
    """
    if not isinstance(raw, arrow().ChunkedArray):
        return _plain_array(raw)
    is_dictionary = arrow().types.is_dictionary(raw.type)
    if is_plain(raw.type) and not (is_dictionary and _must_be_changed(raw)):
        return raw
    chunks = [_one_dictionary(_plain_array(chunk)) for chunk in raw.chunks]
    return arrow().chunked_array(chunks or [arrow().nulls(0)])


def is_plain(kind: Any) -> bool:
    """Whether cells of a type can be read as they are; see ``plain_column``."""
    if kind.id in _usual_ids():
        return True
    if arrow().types.is_dictionary(kind):
        return _keeps_codes(kind.value_type)
    return bool(arrow().types.is_temporal(kind)) and _in_utc(kind) == kind


def cell_type(kind: Any) -> Any:
    """Return the type of the cells of a column, however they are stored."""
    while True:
        if isinstance(kind, arrow().BaseExtensionType):
            kind = kind.storage_type
        elif arrow().types.is_run_end_encoded(kind) or arrow().types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


@cache
def _usual_ids() -> frozenset[int]:
    """Return the ids of types whose cells can be read as they are, but for times."""
    pa = arrow()
    kinds = [pa.null(), pa.bool_(), pa.float32(), pa.float64(), pa.decimal128(1), pa.decimal256(1)]
    kinds += [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1)]
    kinds += [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
    return frozenset(kind.id for kind in kinds)


def _keeps_codes(value_type: Any) -> bool:
    return value_type.id in _usual_ids() and not arrow().types.is_null(value_type)


def _plain_array(array: Any) -> Any:
    kind, types = array.type, arrow().types
    if is_plain(kind):
        return array
    if isinstance(kind, arrow().BaseExtensionType):
        return _plain_array(_stored(array))
    if types.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(_as_numpy(array.run_ends), rows, side="right")
        return _plain_array(array.values).take(arrow().array(runs))
    if types.is_dictionary(kind):
        values = _plain_array(array.dictionary)
        if _keeps_codes(values.type):
            return arrow().DictionaryArray.from_arrays(array.indices, values)
        return values.take(array.indices)
    usual = _usual_type(kind)
    return array if usual == kind else array.cast(usual)


def _must_be_changed(dictionaries: Any) -> bool:
    """Whether chunks of codes could perhaps not be put together."""
    wide = dictionaries.type.index_type == arrow().int32()
    return not wide or any(chunk.dictionary.null_count for chunk in dictionaries.iterchunks())


def _one_dictionary(array: Any) -> Any:
    """Return an array that can be put together with others of its type."""
    if not arrow().types.is_dictionary(array.type):
        return array
    values = array.dictionary
    valid = _as_numpy(values.is_valid())
    places = arrow().array(np.cumsum(valid, dtype=np.int32) - 1, "int32", mask=~valid)
    return arrow().DictionaryArray.from_arrays(places.take(array.indices), values.drop_null())


def _stored(array: Any) -> Any:
    """Return what an array of an extension type means, in the type that it is stored in."""
    name = getattr(array.type, "extension_name", "")
    if name == "arrow.uuid":
        texts = (str(UUID(bytes=value)) if value else None for value in array.storage.to_pylist())
        return arrow().array(list(texts), "string")
    return array.storage.cast("bool") if name == "arrow.bool8" else array.storage


def _usual_type(kind: Any) -> Any:
    pa, types = arrow(), arrow().types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return _in_utc(kind)


def _in_utc(kind: Any) -> Any:
    if not arrow().types.is_timestamp(kind) or kind.tz is None:
        return kind
    return arrow().timestamp(kind.unit, "UTC")


def one_array(raw: Any) -> Any:
    """Return an Arrow array, or the chunks of a chunked one, as one array."""
    if not isinstance(raw, arrow().ChunkedArray):
        return raw
    return raw.chunk(0) if raw.num_chunks == 1 else raw.combine_chunks()


def read_arrow(name: str, raw: Any) -> Column:
    """Turn one Arrow array, or the chunks of one, into codes or numbers.

    Raises
    ------
    DataError
        If its type is none of text, number, boolean, time or null.
    """
    array = one_array(plain_column(raw))
    for accepts, read in _readers():
        if accepts(array.type):
            return read(array)
    row = next((row for row, value in enumerate(array) if value.is_valid), 0)
    problem = f"type {array.type} is not allowed: {ALLOWED}"
    raise DataError(problem, column=name, row=row, value=array[row].as_py())


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
