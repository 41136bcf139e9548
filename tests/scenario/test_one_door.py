"""A file means the same through every door: the same schema, the same codes, the same reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from driftbn_service.cli import main
from driftbn_service.http import StreamInfo
from driftbn_service.http.ingest import table_of
from driftbn_service.records import Decoder
from driftbn_service.records.files import Input
from driftbn_service.records.formats import SUFFIXES
from driftbn_service.records.rows import Undecoded
from driftbn_service.settings import FilesSourceSettings, StdinSourceSettings
from driftbn_service.sources.files import FilesSource
from driftbn_service.sources.stdin import StdinSource

from driftbn import DriftMonitor, MonitorConfig, Schema
from tests.columns import parquet, stream
from tests.decoding import Lane, TableFormat, one_table
from tests.encoded import infer_and_encode
from tests.intake_parts import Intake

N_ROWS, WINDOW = 1000, 200


def records() -> list[dict[str, Any]]:
    """Return records with a bit of everything, of which the last have text among numbers."""
    rng = np.random.default_rng(5)
    found = []
    for i in range(N_ROWS):
        ok, zone = bool(rng.random() < 0.5), int(rng.integers(3))
        found.append(
            {
                "zip": f"00{zone}" if rng.random() < 0.8 else "12345",
                "day": f"2026-01-{1 + zone:02}",
                "ok": ok,
                "amount": None if rng.random() < 0.1 else round(rng.normal() + 2 * ok, 3),
                "n": zone if i < 850 or ok else "many",
                "wide": 2**53 + 1 + zone if i % 2 else 0.5,
            }
        )
    return found


def written(kind: TableFormat, rows: list[dict[str, Any]]) -> bytes:
    if kind is TableFormat.CSV:
        cells = [
            "" if v is None else json.dumps(v).strip('"') for row in rows for v in row.values()
        ]
        width = len(rows[0])
        lines = [",".join(cells[i : i + width]) for i in range(0, len(cells), width)]
        return "\n".join([",".join(rows[0]), *lines, ""]).encode()
    if kind is TableFormat.NDJSON:
        nested = [{"place": {"zip": row.pop("zip"), "tags": [1]}, **row} for row in rows]
        return "".join(json.dumps(row) + "\n" for row in nested).encode()
    plain = [{name: v for name, v in row.items() if name not in ("n", "wide")} for row in rows]
    return parquet(pa.Table.from_pylist(plain), row_group_size=300)


class Outcome(NamedTuple):
    schema: Schema | None
    codes: list[list[int]]
    reports: list[dict[str, Any]]


def outcome(parts: Iterator[Undecoded], decoder: Decoder) -> Outcome:
    """Feed what comes through a door to a monitor, as a stream of the daemon does."""
    config = MonitorConfig(window=WINDOW)
    monitor, intake = DriftMonitor(config), Intake(config)
    codes, reports = [], []
    for part in parts:
        decoded = decoder.decode(part)
        assert not decoded.rejected
        for batch in decoded.batches:
            reports += monitor.update(batch)
            encoded = intake.take(batch)
            codes += [] if encoded is None else [encoded.codes]
        decoder.use_schema(monitor.schema)
    return Outcome(
        monitor.schema, np.hstack(codes).tolist(), [report.to_dict() for report in reports]
    )


def by_update(path: Path) -> Outcome:
    def parts() -> Iterator[Undecoded]:
        with Input(str(path)) as source:
            for batch in source.batches(n_rows=130):
                yield Undecoded(batch.data, None, place, checked=True)

    return outcome(parts(), Decoder(max_record_bytes=1000))


def by_files(path: Path) -> Outcome:
    source = FilesSource(FilesSourceSettings(path=str(path)), max_record_bytes=1000)
    return outcome(polled(source), Decoder(max_record_bytes=1000))


def by_stdin(path: Path) -> Outcome:
    settings = StdinSourceSettings(format=SUFFIXES[path.suffix])
    with path.open("rb") as file:
        source = StdinSource(settings, file, max_record_bytes=1000)
        return outcome(polled(source), Decoder(max_record_bytes=1000))


def polled(source: FilesSource | StdinSource) -> Iterator[Undecoded]:
    source.open(Lane())
    while not source.drained:
        chunk = source.poll(0)
        if chunk is not None:
            yield chunk
    source.close()


def by_http(path: Path) -> Outcome:
    stored = pa.ipc.open_stream(stream(body_of(path).unify_dictionaries())).read_all()
    chunk = Undecoded(stored, None, place, checked=True)
    return outcome(iter([chunk]), Decoder(max_record_bytes=1000))


def body_of(path: Path) -> pa.Table:
    info = StreamInfo("orders", "http", "running", max_record_bytes=1000)
    return table_of(info, SUFFIXES[path.suffix], path.read_bytes(), 1 << 26)


def place(number: int, byte: int) -> str:
    return f"{number}@{byte}"


DOORS: dict[str, Callable[[Path], Outcome]] = {
    "files": by_files, "stdin": by_stdin, "http": by_http,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TableFormat.CSV, TableFormat.NDJSON, TableFormat.PARQUET])
def test_a_file_means_the_same_through_every_door(
    kind: TableFormat,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("driftbn_service.records.files.CHUNK_BYTES", 20_000)
    path = tmp_path / f"t.{kind.value}"
    path.write_bytes(written(kind, records()))

    expected = by_update(path)

    assert len(expected.reports) == N_ROWS // WINDOW
    for name, door in DOORS.items():
        if name != "stdin" or kind is not TableFormat.PARQUET:
            assert door(path) == expected, name
    assert main(["replay", str(path), "--window", str(WINDOW), "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected.reports
    assert main(["learn", str(path), "--format", "json"]) == 0
    learned = json.loads(capsys.readouterr().out)
    with Input(str(path)) as source:
        whole = one_table([batch.data for batch in source.batches()])
    for table in (whole, body_of(path)):
        schema = infer_and_encode(table).schema
        assert sorted(learned["graph"]["nodes"]) == sorted(schema.names)
        assert schema == infer_and_encode(whole).schema


def test_records_in_python_are_read_as_their_lines_are(tmp_path: Path) -> None:
    lines = written(TableFormat.NDJSON, records())
    (tmp_path / "t.ndjson").write_bytes(lines)
    monitor, reports = DriftMonitor(WINDOW), []
    for line in lines.splitlines():
        record = json.loads(line)
        del record["place"]["tags"]  # a list, which is refused where nothing is set aside
        reports += monitor.update(record)
    expected = by_update(tmp_path / "t.ndjson")
    assert monitor.schema == expected.schema
    assert [report.to_dict() for report in reports] == expected.reports


def test_what_a_cell_is(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(written(TableFormat.CSV, records()))
    schema = by_update(tmp_path / "t.csv").schema
    assert schema is not None
    assert schema["zip"].levels == ("000", "001", "002", "12345")
    assert schema["day"].levels == ("2026-01-01", "2026-01-02", "2026-01-03")
    assert schema["ok"].levels == ("false", "true")
    assert schema["amount"].edges
    assert "__missing__" in schema["amount"].labels
