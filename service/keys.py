"""Rows parted by the value of their key field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftbn.encoding.canonical import canonical_text
from driftbn.variables import MISSING

MAX_KEY_LENGTH: Final = 256
"""Characters of a key; longer ones are refused, because keys are names in files and answers."""


class KeyedRows(NamedTuple):
    """Rows that share a key; ``key`` is ``None`` for rows without one that can be used."""

    key: str | None
    rows: Any
    n_rows: int


def part_by_key(rows: Any, field: str) -> Iterator[KeyedRows]:
    """Part rows by the value of ``field``, in the order in which the keys come first.

    Parameters
    ----------
    rows
        An Arrow table, or a list of dicts.
    field
        The key field. Its values are read as the library reads categories: 3, 3.0 and "3" are one
        key. It is left out of the rows, as it would say the same in all rows of a key.

    Examples
    --------
    >>> rows = pa.table({"tenant": ["b", "a", "b", None], "x": [1, 2, 3, 4]})
    >>> [(part.key, part.rows["x"].to_pylist()) for part in part_by_key(rows, "tenant")]
    [('b', [1, 3]), ('a', [2]), (None, [4])]
    """
    if isinstance(rows, list):
        yield from _part_records(rows, field)
        return
    if field not in rows.schema.names:
        yield KeyedRows(None, rows, len(rows))
        return
    encoded = pc.dictionary_encode(rows[field].combine_chunks(), null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = [_key_text(value) for value in encoded.dictionary.to_pylist()]
    numbers = {text: number for number, text in reversed(list(enumerate(texts)))}
    merged = np.array([numbers[text] for text in texts], np.int64)
    codes = merged[encoded.indices.to_numpy(zero_copy_only=False)]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = [*starts[1:].tolist(), len(order)]
    rest = rows.drop_columns([field])
    ordered = rest.take(pa.array(order)) if len(starts) > 1 else rest
    for start, end in zip(starts.tolist(), ends, strict=True):
        part = ordered.slice(start, end - start)
        yield KeyedRows(texts[codes[order[start]]], part, end - start)


def _part_records(rows: list[dict[str, Any]], field: str) -> Iterator[KeyedRows]:
    parts: dict[str | None, list[dict[str, Any]]] = {}
    for record in rows:
        rest = {name: value for name, value in record.items() if name != field}
        parts.setdefault(_key_text(record.get(field)), []).append(rest)
    for key, part in parts.items():
        yield KeyedRows(key, part, len(part))


def _key_text(value: object) -> str | None:
    try:
        text = canonical_text(value)
    except TypeError:  # a time, a list
        return None
    return text if text not in ("", MISSING) and len(text) <= MAX_KEY_LENGTH else None
