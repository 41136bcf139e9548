"""Any table as raw columns by name."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbn.encoding.factors import Numbers
from driftbn.encoding.optional import loaded
from driftbn.errors import DataError
from driftbn.kernels.encoding import WORD, turn_bytes

_BIG_ENDIAN: Final = sys.byteorder == "big"
"""Whether the first byte of a word is its highest."""


class Table(NamedTuple):
    """Raw columns by name, in the order given, all of ``n_rows`` rows.

    Nothing is converted yet, but that the columns of an array of integers are ``Numbers``.
    """

    n_rows: int
    columns: dict[str, Any]


def read_table(data: object, names: Sequence[str] | None = None) -> Table:
    """Split a table of any supported kind into raw columns.

    Raises
    ------
    DataError
        If it is no table, is empty or ragged, or a name is empty, no text or taken twice.

    Examples
    --------
    >>> read_table([{"a": 1, "b": "x"}, {"b": "y"}])
    Table(n_rows=2, columns={'a': [1, None], 'b': ['x', 'y']})
    """
    if isinstance(data, np.ndarray):
        n_rows, labels, raw = _split_array(data, names)
    elif names is not None:
        raise DataError("names go with a 2-D array only; this table has its own")
    else:
        n_rows, labels, raw = _split_named(data)
    if not labels:
        raise DataError("the table has no columns; there must be at least one")
    if not n_rows:
        raise DataError("the table has no rows; there must be at least one")
    return Table(n_rows, dict(zip(_checked_names(labels), raw, strict=True)))


_Split: TypeAlias = tuple[int, Sequence[Any], Iterable[Any]]  # rows, labels, columns


def _split_array(data: NDArray[Any], names: Sequence[str] | None) -> _Split:
    if data.ndim != 2:
        raise DataError(f"an array must have 2 dimensions (rows, columns), not {data.ndim}")
    if names is None:
        raise DataError("an array has no column names; pass names=")
    if len(names) != data.shape[1]:
        raise DataError(f"{len(names)} names for {data.shape[1]} columns; there must be one each")
    if isinstance(data, np.ma.MaskedArray):
        return data.shape[0], list(names), data.T
    turned = _turned(data)
    if turned.dtype.kind not in "iu" or not turned.size:
        return data.shape[0], list(names), turned
    ends = zip(turned.min(axis=1).tolist(), turned.max(axis=1).tolist(), strict=True)
    return data.shape[0], list(names), map(Numbers, turned, repeat(None), ends)


def _turned(data: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of an array as rows, integers as narrow as they can be."""
    dtype = _narrowest(data)
    if dtype.kind not in "iu" or dtype.itemsize > 1 or data.flags.f_contiguous or _BIG_ENDIAN:
        return data.T.astype(dtype, order="C")
    n_rows, n_columns = data.shape
    words = np.empty((n_columns, -(-n_rows // WORD)), np.uint64)
    turn_bytes(data.astype(dtype, order="C").view(np.uint8), words)
    return words.view(dtype)[:, :n_rows]


def _narrowest(data: NDArray[Any]) -> np.dtype[Any]:
    """Return the smallest type that holds all integers; less memory moves when turned over."""
    if data.dtype.kind not in "iu" or not data.size:
        return data.dtype
    ends = np.min_scalar_type(data.min()), np.min_scalar_type(data.max())
    found = np.result_type(*ends)
    return found if found.kind in "iu" and found.itemsize < data.itemsize else data.dtype


def _split_named(data: Any) -> _Split:
    if isinstance(data, loaded("pandas", "DataFrame")):
        # Ten times faster than items(), which makes a Series of each column.
        arrays = getattr(data, "_iter_column_arrays", None)
        columns = arrays() if arrays is not None else (s.array for _, s in data.items())
        return len(data), data.columns.tolist(), columns
    if isinstance(data, (loaded("pyarrow", "Table"), loaded("pyarrow", "RecordBatch"))):
        return _split_arrow(data)
    if isinstance(data, Mapping):
        return _split_mapping(data)
    if isinstance(data, list | tuple):
        return _split_records(data)
    raise DataError(
        f"{type(data).__name__} is no table: it must be a DataFrame, an Arrow table or record "
        "batch, a list of dicts, a dict of columns, or a 2-D array with names"
    )


def _split_arrow(data: Any) -> _Split:
    batches = data.to_batches() if isinstance(data, loaded("pyarrow", "Table")) else [data]
    # The columns of a batch are plain arrays, which are made faster than chunked ones.
    whole = batches[0] if len(batches) == 1 else data
    return data.num_rows, data.schema.names, whole.columns


def _split_mapping(data: Mapping[Any, Any]) -> _Split:
    n_rows: int | None = None
    for label, column in data.items():
        if not hasattr(column, "__len__") or isinstance(column, str | bytes | Mapping | Set):
            problem = f"{type(column).__name__} is no column: it must be a list or an array"
            raise DataError(problem, column=str(label), value=column)
        if getattr(column, "ndim", 1) != 1:
            problem = f"a column must have 1 dimension, not {column.ndim}"
            raise DataError(problem, column=str(label))
        n_rows = len(column) if n_rows is None else n_rows
        if len(column) != n_rows:
            problem = f"{len(column)} rows, where the first column has {n_rows}; all must agree"
            raise DataError(problem, column=str(label))
    return n_rows or 0, list(data), data.values()


def _split_records(records: Sequence[Any]) -> _Split:
    for row, record in enumerate(records if set(map(type, records)) != {dict} else ()):
        if not isinstance(record, Mapping):
            problem = f"{type(record).__name__} is no record; each must be a dict"
            raise DataError(problem, row=row, value=record)
    keys = list(dict.fromkeys(chain.from_iterable(records)))
    if len(keys) > 1 and all(len(record) == len(keys) for record in records):
        return len(records), keys, map(list, zip(*map(itemgetter(*keys), records), strict=True))
    return len(records), keys, ([record.get(key) for record in records] for key in keys)


def _checked_names(labels: Sequence[Any]) -> list[str]:
    names = [label if type(label) is str and label else _name(label) for label in labels]
    if len(set(names)) < len(names):
        ((twice, _),) = Counter(names).most_common(1)
        raise DataError("the name is taken twice; names must differ", column=twice)
    return names


def _name(label: object) -> str:
    whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    if whole or (isinstance(label, str) and label):
        return str(label)
    problem = f"column name {label!r} is not allowed: it must be non-empty text or a whole number"
    raise DataError(problem, value=label)
