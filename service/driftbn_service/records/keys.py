"""Rows parted by the value of their key field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.tables.cells import canonical_text
from driftbn.tables.read import is_plain, one_array, plain_column
from driftbn.tables.schema import MISSING

MAX_KEY_LENGTH: Final = 256
"""Characters of a key; longer ones are refused, because keys are names in files and answers."""


class KeyedRows(NamedTuple):
    """Rows that share a key; ``key`` is ``None`` for rows without one that can be used."""

    key: str | None
    rows: Any
    n_rows: int


class Keys(NamedTuple):
    """The keys of rows."""

    texts: list[str]  # the distinct ones
    codes: NDArray[np.int64]  # [rows]: which of them; -1 for a row without a key


def part_by_key(rows: Any, field: str) -> Iterator[KeyedRows]:
    """Part rows by the value of ``field``, in the order in which the keys come first.

    Parameters
    ----------
    rows
        An Arrow table of plain columns.
    field
        The key field. Its values are read as the library reads categories: 3, 3.0 and "3" are one
        key. It is left out of the rows, as it would say the same in all rows of a key.

    Examples
    --------
    >>> rows = pa.table({"tenant": ["b", "a", "b", None], "x": [1, 2, 3, 4]})
    >>> [(part.key, part.rows["x"].to_pylist()) for part in part_by_key(rows, "tenant")]
    [('b', [1, 3]), ('a', [2]), (None, [4])]
    """
    texts, codes = read_keys(rows, field)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
    ends = np.append(starts[1:], len(order))
    rest = rows.select([name for name in rows.column_names if name != field])
    if len(starts) > 1 and rest.num_columns:  # Arrow takes no rows of a table without columns
        rest = rest.take(pa.array(order))
    for i in np.argsort(order[starts]).tolist():  # by the first row of each key
        code, n_rows = codes[order[starts[i]]], int(ends[i] - starts[i])
        yield KeyedRows(texts[code] if code >= 0 else None, rest.slice(starts[i], n_rows), n_rows)


def read_keys(rows: Any, field: str) -> Keys:
    """Return the keys of rows.

    No key are a missing value, an empty text or one of more than 256 characters, a list and a time.
    """
    if rows.schema.get_field_index(field) < 0:
        return Keys([], np.full(len(rows), -1))
    array = one_array(plain_column(rows[field]))
    if pa.types.is_temporal(array.type) or pa.types.is_null(array.type) or not is_plain(array.type):
        return Keys([], np.full(len(rows), -1))
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return _coded([_key_text(value) for value in encoded.dictionary.to_pylist()], places)


def _coded(texts: Sequence[str | None], places: NDArray[np.int64]) -> Keys:
    """Return the keys of rows, of which each has the text at a place, -1 for none."""
    found: dict[str, int] = {}
    codes = [-1 if text is None else found.setdefault(text, len(found)) for text in texts]
    return Keys(list(found), np.array([*codes, -1])[places])


def _key_text(value: object) -> str | None:
    try:
        text = canonical_text(value)
    except (TypeError, ValueError, ArithmeticError):  # a time, a list, a number of 5000 digits
        return None
    return text if text not in ("", MISSING) and len(text) <= MAX_KEY_LENGTH else None
