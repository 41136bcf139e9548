"""Entries of a Redis stream as bytes that can be decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from driftbn_service.sources.messages import Lines
from driftbn_service.sources.redis_stream import Entry
from driftbn_service.tables import TableFormat

MAX_EMPTY: Final = 20
"""A table may have so many times as many cells as values."""


class Block(NamedTuple):
    """Records as bytes, how they are written, and where a record stands."""

    data: bytes
    kind: TableFormat
    place: Callable[[int, int], str]


def n_together(payload: str | None, entries: Sequence[Entry]) -> int:
    """Return how many of the first entries go well into one block.

    Entries with ever other fields would make a table of mostly nothing.
    """
    n_entries = len(entries)
    while payload is None and n_entries > 1:
        rows = [entry.fields or [] for entry in entries[:n_entries]]
        n_values = sum(map(len, rows)) // 2
        if len(_names(rows)) * n_entries <= MAX_EMPTY * n_values:
            break
        n_entries //= 2
    return n_entries


def as_block(stream: str, payload: str | None, entries: Sequence[Entry]) -> Block:
    r"""Return entries as bytes.

    Parameters
    ----------
    stream
        Its name, for places.
    payload
        The field that holds a record as JSON. ``None`` if the fields are the record: they become
        CSV, since their values are text of which types must be read.
    entries
        None of them deleted.

    Examples
    --------
    >>> entries = [Entry(b"1-0", [b"a", b"1"]), Entry(b"2-0", [b"a", b"2", b"b", b"x"])]
    >>> block = as_block("orders", None, entries)
    >>> block.data
    b'"a","b"\n"1",\n"2","x"\n'
    >>> block.place(1, 0)
    'stream orders entry 2-0'
    """

    def describe(number: int) -> str:
        return f"stream {stream} entry {entries[number].id.decode()}"

    if payload is None:
        data = _csv([entry.fields or [] for entry in entries])
        return Block(data, TableFormat.CSV, lambda record, byte: describe(record))
    name = payload.encode()
    lines = Lines([_payload(entry.fields or [], name) for entry in entries])
    return Block(lines.data, TableFormat.NDJSON, lines.place(describe))


def _payload(fields: list[bytes], name: bytes) -> bytes:
    if fields[0] == name:
        return fields[1]
    for place in range(2, len(fields), 2):
        if fields[place] == name:
            return fields[place + 1]
    # Text is no record either: it is set aside where the others are read, and says why.
    return json.dumps(f"the entry has no field {name.decode()!r}").encode()


def _csv(rows: list[list[bytes]]) -> bytes:
    names = _names(rows)
    # One bad name must not cost the whole block.
    header = b",".join(_quoted(name.decode(errors="backslashreplace").encode()) for name in names)
    lines = [header]
    for row in rows:
        if len(row) == 2 * len(names) and row[0::2] == names:
            lines.append(b",".join(map(_quoted, row[1::2])))
        else:
            values = dict(zip(row[0::2], map(_quoted, row[1::2]), strict=True))
            lines.append(b",".join(values.get(name, b"") for name in names))
    return b"\n".join(lines) + b"\n"


def _names(rows: list[list[bytes]]) -> list[bytes]:
    return list(dict.fromkeys(name for row in rows for name in row[0::2]))


def _quoted(value: bytes) -> bytes:
    return b'"%s"' % value.replace(b'"', b'""')
