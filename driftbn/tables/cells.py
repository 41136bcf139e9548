"""What a cell is: the text that makes it one category with others, columns of mixed cells, times.

A column of one kind of cell is an Arrow array of a plain type. Cells of several kinds together, for
which Arrow has no type, are an array of ``MIXED``: the kind of each cell and its text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from numbers import Integral, Real
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbn.tables.schema import MISSING

ALLOWED: Final = "a cell must be text, a number, a boolean or missing"
"""What an error says about a value of another type."""
TEMPORAL: Final = (date, time, timedelta, np.datetime64, np.timedelta64)
"""Types of values that are times."""
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FEW_ROWS: Final = 64
"""Rows up to which Python finds the distinct texts of a column sooner than Arrow is called."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE_FLOAT_TEXT: Final = re.compile(r"(-?(?:0|[1-9]\d*))\.0", re.ASCII)
NO_KIND: Final = 255


class Kind(IntEnum):
    BOOLEAN = 0
    WHOLE = 1
    FLOAT = 2
    TEXT = 3
    TIME = 4


MIXED: Final = pa.struct([("driftbn.kind", pa.uint8()), ("driftbn.text", pa.large_binary())])
"""The type of a column of mixed cells: their kinds, and text as it is in UTF-8, which may hold lone
surrogates; of numbers and booleans the canonical text, and of times the seconds since the epoch."""


def canonical_text(value: object) -> str:
    """Return the text that stands for a value; equal texts are one category.

    Raises TypeError if the value is no text, number, boolean or missing value.

    >>> [canonical_text(v) for v in (3, 3.0, "3", "3.0", True, 0.5, " x", None)]
    ['3', '3', '3', '3', 'true', '0.5', ' x', '__missing__']
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        match = _WHOLE_FLOAT_TEXT.fullmatch(value)
        return str(int(match[1])) if match else str(value)
    if value is None or is_missing(value):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Real | Decimal):
        return _number_text(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not allowed: {ALLOWED}")


def declared_text(value: object) -> str:
    """Return the canonical text of a declared category.

    Only such a one can be of another type than a cell may be, such as an interval; it goes by its
    ``str``.
    """
    try:
        return canonical_text(value)
    except TypeError:
        return str(value)


def is_missing(value: object) -> bool:
    """Whether a value is NaN or NaT, which differ from themselves, or ``pandas.NA``.

    ``pandas.NA`` answers a comparison with itself.
    """
    equal = value == value
    return equal is value if not isinstance(equal, bool | np.bool_) else not equal


def _number_text(value: Any) -> str:
    if isinstance(value, Integral) or (math.isfinite(value) and value == int(value)):
        return str(int(value))
    return repr(float(value))


def seconds_of(value: Any) -> float:
    """Return a date, or a date and time, in seconds since the epoch; NaN for anything else."""
    try:
        if isinstance(value, np.datetime64):
            return float(seconds_of_datetimes(np.array([value]))[0])
        return _since_epoch(value) if isinstance(value, date) else math.nan
    except (ValueError, ArithmeticError):  # too far away for pandas
        return math.nan


def _since_epoch(value: Any) -> float:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    n_nanoseconds = since.microseconds * 1000 + getattr(since, "nanoseconds", 0)
    return float(since.days * 86400 + since.seconds + n_nanoseconds / PER_SECOND["ns"])


def seconds_of_datetimes(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``datetime64`` of any unit in seconds since the epoch; NaN for NaT."""
    unit = np.datetime_data(values.dtype)[0]
    unit = unit if unit in PER_SECOND else "s"
    per_second = PER_SECOND[unit]
    # Whole seconds apart, so that an instant gives the same number whatever its unit.
    whole, rest = np.divmod(values.astype(f"M8[{unit}]").astype(np.int64), per_second)
    return np.where(np.isnat(values), np.nan, whole + rest / per_second)


def mixed_cells(values: Iterable[Any], *, exact: bool = False) -> tuple[Any, dict[int, str]]:
    """Return values of any types as a column, and by row what is wrong with those that are no cell.

    It is of the plain type that holds all of them, if there is one, unless each must stay exact.

    >>> array, wrong = mixed_cells([3, True, "3", [4]])
    >>> mixed_texts(array).to_pylist(), wrong
    ([b'3', b'true', b'3', None], {3: 'list is not allowed: a cell must be text, ...'})
    """
    kinds: list[int | None] = []
    texts: list[bytes | None] = []
    wrong: dict[int, str] = {}
    for row, value in enumerate(values):
        kind, text = None, None
        try:
            kind, text = _read_cell(value)
        except (TypeError, ArithmeticError) as error:
            wrong[row] = str(error)
        except ValueError:  # Python writes no more than 4300 digits
            wrong[row] = f"the number has too many digits; {ALLOWED}"
        kinds.append(kind)
        texts.append(text if text is None else text.encode("utf-8", "surrogatepass"))
    mixed = mixed_column(pa.array(kinds, pa.uint8()), pa.array(texts, pa.large_binary()))
    return mixed if exact else settled(mixed), wrong


def _read_cell(value: Any) -> tuple[Kind | None, str | None]:
    if isinstance(value, str):
        return Kind.TEXT, str.__str__(value)  # where an enumeration has its value
    if value is None or is_missing(value):
        return None, None
    if isinstance(value, TEMPORAL):
        return Kind.TIME, repr(seconds_of(value))
    text = canonical_text(value)
    if isinstance(value, bool | np.bool_):
        return Kind.BOOLEAN, text
    if isinstance(value, Integral):
        return Kind.WHOLE, text
    if isinstance(value, Real | Decimal):
        return Kind.FLOAT, canonical_text(float(value))
    return Kind.TEXT, text


def is_mixed(array: Any) -> bool:
    kind = array.type
    return bool(kind.id == MIXED.id and kind == MIXED)  # numbers are compared faster than types


_STRINGS: Final = frozenset(kind.id for kind in (pa.string(), pa.large_string(), pa.string_view()))
_TEXTS: Final = _STRINGS | {
    kind.id for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))
}


def is_text(kind: Any) -> bool:
    return kind.id in _TEXTS


def as_numpy(array: Any) -> NDArray[Any]:
    """Return an Arrow array as a NumPy one, copied only where that must be."""
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def kinds_of(array: Any) -> NDArray[np.uint8]:
    """Return the kind of each cell of a mixed column; 255 where it is missing."""
    return as_numpy(array.field(0).fill_null(NO_KIND))


def mixed_texts(array: Any) -> Any:
    """Return the text of each cell of a mixed column."""
    return array.field(1)


def may_hold_times(array: Any) -> bool:
    """Whether a column of a table is of a type in which there are times."""
    if not isinstance(array, pa.Array):
        return False
    return is_mixed(array) or bool(pa.types.is_temporal(array.type))


def time_cells(array: Any) -> NDArray[np.bool_]:
    if is_mixed(array):
        return np.asarray(kinds_of(array) == Kind.TIME)
    if pa.types.is_temporal(array.type):
        return as_numpy(array.is_valid())
    return np.zeros(len(array), np.bool_)


def without_times(array: Any) -> Any:
    times = time_cells(array)
    if not times.any():
        return array
    kinds = pc.if_else(pa.array(times), None, array.field(0))
    return settled(mixed_column(kinds, mixed_texts(array)))


def missing_cells(array: Any) -> NDArray[np.bool_]:
    """Return which cells of a column are missing, or say so."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    missing = as_numpy(array.is_null(nan_is_null=True))
    if is_mixed(array) or is_text(array.type):
        told = (MISSING, MISSING.encode())
        return missing | np.array([cell in told for cell in cells_of(array)], np.bool_)
    return missing


def cells_of(array: Any) -> list[Any]:
    """Return the cells of a column as Python values; a time is its seconds in a tuple."""
    if not is_mixed(array):
        return [None if cell != cell else cell for cell in array.to_pylist()]
    kinds, texts = kinds_of(array).tolist(), mixed_texts(array).to_pylist()
    return [
        None if text is None else _CELLS[kind](text.decode("utf-8", "surrogatepass"))
        for kind, text in zip(kinds, texts, strict=True)
    ]


def _float_cell(text: str) -> int | float:
    """Return a number among floats, which is whole where a float would lose digits of it."""
    value = float(text)
    return value if canonical_text(value) == text else int(text)


_CELLS: Final[dict[int, Callable[[str], Any]]] = {
    Kind.BOOLEAN: lambda text: text == "true",
    Kind.WHOLE: int,
    Kind.FLOAT: _float_cell,
    Kind.TEXT: str,
    Kind.TIME: lambda text: (float(text or "nan"),),
}


def unified(arrays: Sequence[Any]) -> Any:
    """Return the parts of a column as one array, which does not depend on how it was parted.

    Whole numbers among floats become floats where none loses digits; other cells of several kinds
    become a mixed column, in which each keeps its own.

    >>> unified([pa.array([1, None]), pa.array([0.5])]).to_pylist()
    [1.0, None, 0.5]
    >>> mixed_texts(unified([pa.array([1]), pa.array(["a"])])).to_pylist()
    [b'1', b'a']
    """
    n_rows, first = sum(map(len, arrays)), arrays[0].type
    if sum(array.null_count for array in arrays) == n_rows:
        return pa.nulls(n_rows)
    alike = all(array.type == first for array in arrays)
    if alike and first in _KEPT:
        return pa.concat_arrays(arrays)
    if alike and _is_coded_text(first):
        with suppress(pa.ArrowException):  # codes too narrow for all texts, or null among them
            return pa.concat_arrays(pa.chunked_array(arrays).unify_dictionaries().chunks)
    plain = [_decoded(array) for array in arrays]
    kinds = {array.type for array in plain} - {pa.null()}
    if kinds == {pa.int64(), pa.float64()}:
        with suppress(pa.ArrowInvalid):  # a whole number that a float does not hold
            return pa.concat_arrays([array.cast("float64") for array in plain])
    if len(kinds) > 1 or MIXED in kinds:
        return settled(pa.concat_arrays([_as_mixed(array) for array in plain]))
    kind = kinds.pop() if kinds else pa.null()
    return pa.concat_arrays([_cast(array, kind) for array in plain])


_KEPT: Final = (pa.large_string(), pa.int64(), pa.bool_())
"""Types of which ``_decoded`` makes no other."""


def _is_coded_text(kind: Any) -> bool:
    return bool(pa.types.is_dictionary(kind)) and kind.value_type.id in _STRINGS


def _cast(array: Any, kind: Any) -> Any:
    return array if array.type == kind else array.cast(kind)


def _decoded(array: Any) -> Any:
    """Return a column in the one type of its kind."""
    types = pa.types
    if types.is_floating(array.type):
        array = pa.array(as_numpy(array).astype(np.float64), from_pandas=True)
    kind = array.type
    if array.null_count == len(array):
        return pa.nulls(len(array))
    if types.is_dictionary(kind):
        if _is_coded_text(kind):
            return array.dictionary_decode().cast("large_string")
        return _texts(array.dictionary.to_pylist()).take(array.indices.cast("int64"))
    if types.is_integer(kind):
        return array if kind == pa.uint64() else _cast(array, pa.int64())
    if types.is_temporal(kind):
        return _as_mixed(array)
    if kind.id in _STRINGS:
        return _cast(array, pa.large_string())
    return _texts(array.to_pylist()) if is_text(kind) else array


def _texts(values: Sequence[Any]) -> Any:
    """Return values as texts; bytes as they are written, as text is."""
    texts = [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else v for v in values]
    texts = [v if v is None or isinstance(v, str) else declared_text(v) for v in texts]
    return pa.array(texts, pa.large_string())


def mixed_column(kinds: Any, texts: Any) -> Any:
    """Return a mixed column; what has no kind is missing, whatever its text."""
    if kinds.null_count > texts.null_count:
        texts = pc.if_else(kinds.is_valid(), texts, None)
    return pa.StructArray.from_arrays([kinds, texts], fields=list(MIXED), mask=kinds.is_null())


def _as_mixed(array: Any) -> Any:
    kind, types = array.type, pa.types
    if is_mixed(array):
        return array
    if types.is_null(kind):
        return pa.nulls(len(array), MIXED)
    if types.is_temporal(kind):
        return _of_kind(Kind.TIME, pc.if_else(array.is_valid(), b"", None))
    if is_text(kind):
        return _of_kind(Kind.TEXT, array)
    if types.is_boolean(kind):
        return _of_kind(Kind.BOOLEAN, array.cast("string"))
    if types.is_integer(kind):
        return _of_kind(Kind.WHOLE, array.cast("string"))
    coded = array.dictionary_encode()
    texts = pa.array(list(map(canonical_text, coded.dictionary.to_pylist())))
    return _of_kind(Kind.FLOAT, texts.take(coded.indices))


def _of_kind(kind: Kind, texts: Any) -> Any:
    kinds = pc.if_else(texts.is_valid(), pa.scalar(kind, pa.uint8()), None)
    return mixed_column(kinds, texts.cast("large_binary"))


def settled(array: Any) -> Any:
    """Return a mixed column in the plain type that holds all its cells, if there is one.

    Beside a float all numbers are floats, unless a whole one would lose digits by that.
    """
    kinds = kinds_of(array)
    if {Kind.WHOLE, Kind.FLOAT} <= set(kinds.tolist()) and not _has_wide(array, kinds):
        kinds = np.where(kinds == Kind.WHOLE, np.uint8(Kind.FLOAT), kinds)
        array = mixed_column(pa.array(kinds, mask=kinds == NO_KIND), mixed_texts(array))
    found = list(set(kinds.tolist()) - {NO_KIND})
    if not found:
        return pa.nulls(len(array))
    for kind in _PLAIN.get(found[0], ()) if len(found) == 1 else ():
        with suppress(OverflowError, pa.ArrowException, UnicodeEncodeError):
            return pa.array(cells_of(array), kind)
    return array


def _has_wide(array: Any, kinds: NDArray[np.uint8]) -> bool:
    texts = mixed_texts(array).filter(pa.array(kinds == Kind.WHOLE)).to_pylist()
    return any(len(text) > _EXACT_DIGITS and float(text) != int(text) for text in texts)


_EXACT_DIGITS: Final = 15  # of a whole number that every float holds
_PLAIN: Final = {
    Kind.BOOLEAN: (pa.bool_(),),
    Kind.WHOLE: (pa.int64(), pa.uint64()),
    Kind.FLOAT: (pa.float64(),),
    Kind.TEXT: (pa.large_string(),),
}
"""The types that may hold all cells of a kind: numbers can have too many digits for them, and text
a lone surrogate."""


# Event times.


def times_of(array: Any) -> NDArray[np.float64]:
    """Return the event times of a column that was read."""
    types, kind = pa.types, array.type
    if types.is_dictionary(kind):
        values = np.append(times_of(array.dictionary), np.nan)  # where the index -1 points
        return np.take(values, as_numpy(array.indices.cast("int64").fill_null(-1)))
    if types.is_date(kind):
        return times_of(array.cast(pa.timestamp("ms")))
    if types.is_timestamp(kind):
        return seconds_of_datetimes(as_numpy(array))
    if types.is_integer(kind) or types.is_floating(kind):
        return np.array(as_numpy(array.cast("float64", safe=False)))
    if types.is_string(kind) or types.is_large_string(kind):
        return _of_texts(array)
    if is_mixed(array):
        return np.array([_seconds(cell) for cell in cells_of(array)], np.float64)
    return np.full(len(array), np.nan)  # of no other type is a cell a time


def _of_texts(array: Any) -> NDArray[np.float64]:
    for zone in ("UTC", None):
        with suppress(ValueError):  # a fiftieth of the time that Python takes for these texts
            return times_of(array.cast(pa.timestamp("us", zone)))
    return np.array([_seconds(text) for text in array.to_pylist()], np.float64)


def _seconds(cell: Any) -> float:
    if isinstance(cell, tuple):
        return float(cell[0])
    if isinstance(cell, str):
        with suppress(ValueError):
            return seconds_of(datetime.fromisoformat(cell))
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        with suppress(OverflowError):
            return float(cell)
    return float("nan")
