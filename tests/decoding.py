"""What tests use of records: chunks, whole streams through a decoder, and a slow twin."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from driftbn_service.records import Decoded, Decoder, Rejected
from driftbn_service.records.decoder import part_by_key  # noqa: F401
from driftbn_service.records.formats import TableFormat
from driftbn_service.records.rows import (  # noqa: F401
    Undecoded,
    n_rows_of,
    one_table,
    tables_of,
)
from driftbn_service.sources.base import Chunk, Position, RecordSource, SourceError  # noqa: F401

from driftbn.config import MonitorConfig
from driftbn.tables.cells import cells_of, is_mixed
from driftbn.tables.encode import SchemaEvent, merged_events
from driftbn.tables.intake import Intake
from driftbn.tables.read import read_column


def place(number: int, byte: int) -> str:
    return f"{number}@{byte}"


def decode(data: bytes, kind: TableFormat = TableFormat.NDJSON, limit: int = 1000) -> Decoded:
    return Decoder(max_record_bytes=limit).decode(chunk(data, kind))


def chunk(data: Any, kind: TableFormat | None = TableFormat.NDJSON) -> Undecoded:
    return Undecoded(data, kind, place)


def rows_of(decoded: Decoded) -> list[dict[str, Any]]:
    """Return the rows without what has no value."""
    found: list[dict[str, Any]] = []
    for batch in decoded.batches:
        found += records_of(batch)
    return [{name: v for name, v in row.items() if v is not None} for row in found]


def records_of(table: Any) -> list[dict[str, Any]]:
    columns = {name: column_of(table, name) for name in table.column_names}
    return [{name: cells[row] for name, cells in columns.items()} for row in range(len(table))]


def column_of(table: Any, name: str) -> list[Any]:
    """Return the cells of a column, whether or not they are of one type."""
    column = table[name]
    return cells_of(read_column(column)[0]) if is_mixed(column) else column.to_pylist()


class Lane:
    """A listener of a source with one lane, which goes on at a position from a checkpoint."""

    def __init__(self, position: Position | None = None) -> None:
        self.position = None if position is None else json.loads(json.dumps(position))

    def opened(self, lane: str) -> Position | None:
        assert lane == ""
        return self.position

    def closed(self, lane: str) -> None:
        raise AssertionError("the only lane is not handed over")


class Taken(NamedTuple):
    """What became of a stream."""

    codes: list[list[int]]
    events: tuple[SchemaEvent, ...]
    n_unread: int  # by the library
    rejected: list[tuple[str, bytes]]


def take(
    chunks: Iterable[bytes],
    config: MonitorConfig,
    kind: TableFormat = TableFormat.NDJSON,
    *,
    scanner: bool = True,
) -> Taken:
    """Send chunks through a decoder to the library."""
    decoder = Decoder(max_record_bytes=1000, time_column=config.time_column)

    def rows(data: bytes, intake: Intake) -> tuple[Sequence[Any], tuple[Rejected, ...]]:
        decoder.use_schema(intake.schema if scanner else None)
        decoded = decoder.decode(chunk(data, kind))
        return decoded.batches, decoded.rejected

    return _take(chunks, config, rows)


def take_one_by_one(lines: Sequence[bytes], config: MonitorConfig) -> Taken:
    """Send records to the library one after the other, each read by the standard library."""
    return _take(lines, config, lambda line, _: (read_one(line), ()))


def _take(
    chunks: Iterable[bytes],
    config: MonitorConfig,
    rows: Callable[[bytes, Intake], tuple[Sequence[Any], tuple[Rejected, ...]]],
) -> Taken:
    intake = Intake(config)
    codes: list[Any] = []
    events: tuple[SchemaEvent, ...] = ()
    rejected: list[tuple[str, bytes]] = []
    for data in chunks:
        batches, bad = rows(data, intake)
        rejected += [(item.reason.value, item.record) for item in bad]
        for encoded in filter(None, map(intake.take, batches)):
            codes.append(encoded.codes)
            events = merged_events(events, encoded.events)
    last = intake.finish()
    codes += [] if last is None else [last.codes]
    matrix = np.hstack(codes).tolist() if codes else []
    return Taken(matrix, events, intake.n_rejected, rejected)


def read_one(line: bytes) -> list[list[dict[str, Any]]]:
    """Return the record of a line, if it is a good one, by other means than the decoder's."""
    text = line.decode("utf-8-sig").strip(" \t\r\n")
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_int=_whole)
    except ValueError:
        return []
    return [[dict(_flat(pairs, ""))]] if isinstance(pairs, _Pairs) else []


class _Pairs(list[tuple[str, Any]]):
    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a name is there twice")
        super().__init__(pairs)


def _whole(text: str) -> float | int:
    return int(text) if -(2**63) <= int(text) < 2**64 else float(text)


def _flat(pairs: _Pairs, prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in pairs:
        if isinstance(value, _Pairs):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None and not isinstance(value, list) and prefix + name:
            yield prefix + name, value
