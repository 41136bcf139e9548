"""``driftbn state``, ``driftbn history``: what a daemon remembers, and whether it is whole."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from driftbn.explain.sentences import shortened
from driftbn_service.commands import Line, Style, one_line, write_lines, write_text
from driftbn_service.errors import ExitCode, InputError, blamed_on
from driftbn_service.lane import unpacked
from driftbn_service.state import FILE, LaneRow, Store, named_place
from driftbn_service.state.sql import HISTORY, Table

_HEAD: Final = Line(
    "  lane      committed                keys    of states   windows  position", Style.HEAD
)
_SHOWN_POSITION: Final = 80
_PAGE: Final = 1000
_TYPES: Final = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TEXT": pa.string()}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "state",
        description=(
            "Look at the state of a daemon, which may run meanwhile: nothing is locked or changed."
        ),
    )
    actions = parser.add_subparsers(title="what to do", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show",
        help="list streams and lanes",
        description=(
            "List every lane: when it was committed last, its monitors, the bytes of their states,"
            " its windows so far, and where the source goes on."
        ),
    )
    verify = actions.add_parser(
        "verify",
        help="read everything and check it",
        description=(
            "Check every page and the checksum of every row. Exits with"
            f" {ExitCode.FAILED} if anything is damaged."
        ),
    )
    export = actions.add_parser(
        "export",
        help="write a stream to files",
        description=(
            "Write what is known of a stream to a new directory: snapshot-N.driftbn is for"
            " DriftMonitor.restore; snapshots.ndjson says whose they are; windows.ndjson,"
            " episodes.ndjson and events.ndjson are its history."
        ),
    )
    for action, run in ((show, run_show), (verify, run_verify), (export, run_export)):
        place = "a state directory, or postgresql://HOST/NAME"
        action.add_argument("place", metavar="DIR", help=place)
        action.set_defaults(run=run)
    show.add_argument("--json", action="store_true", help="write a JSON object a lane, not text")
    export.add_argument("stream", metavar="STREAM", help="its name")
    export.add_argument("target", metavar="TO", help="the directory to make")


def run_show(arguments: argparse.Namespace) -> int:
    with opened(arguments.place) as store:
        lanes = store.lanes()
    if arguments.json:
        write_text("".join(json.dumps(asdict(lane)) + "\n" for lane in lanes), None)
    else:
        write_lines(list(_lines(store.path, lanes)), None)
    return ExitCode.OK


def run_verify(arguments: argparse.Namespace) -> int:
    with opened(arguments.place) as store:
        found = [Line(one_line(damaged), Style.REMOVED) for damaged in store.check()]
    word = f"{len(found)} damaged" if found else "everything is as it was written"
    write_lines([*found, Line(f"{store.path}: {word}", Style.NOTE)], None)
    return ExitCode.FAILED if found else ExitCode.OK


def run_export(arguments: argparse.Namespace) -> int:
    target, stream = Path(arguments.target), arguments.stream
    with opened(arguments.place) as store:
        if stream not in {lane.stream for lane in store.lanes()}:
            raise InputError(str(store.path), f"there is no stream {stream!r}")
        target.mkdir(parents=True)
        _write_rows(target / "snapshots.ndjson", _snapshots(store, stream, target))
        _write_rows(target / "windows.ndjson", _windows(store, stream))
        _write_rows(target / "episodes.ndjson", _episodes(store, stream))
        events = (event.document for _, event in store.events_of(stream))
        _write_rows(target / "events.ndjson", events)
    return ExitCode.OK


def opened(text: str) -> Store:
    """Open the state in a directory, or at an address, to be read."""
    place = named_place(text)
    return Store(place if isinstance(place, str) else place / FILE, read_only=True)


def _lines(path: Path | str, lanes: list[LaneRow]) -> Iterator[Line]:
    size = f": {path.stat().st_size} bytes" if isinstance(path, Path) else ""
    yield Line(f"{path}{size}", Style.HEAD)
    for stream in dict.fromkeys(lane.stream for lane in lanes):
        mine = [lane for lane in lanes if lane.stream == stream]
        yield Line(stream, Style.HEAD)
        yield _HEAD
        yield from (Line(_shown(lane), Style.NOTE) for lane in mine)


def _shown(lane: LaneRow) -> str:
    position = shortened(one_line(json.dumps(lane.position)), _SHOWN_POSITION)
    moment = "never"
    if lane.committed is not None:
        moment = datetime.fromtimestamp(lane.committed, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sizes = f"{lane.n_keys:>7}  {lane.state_bytes:>11}  {lane.n_windows:>8}"
    owner = "" if lane.owner is None else f"  ({lane.owner})"
    return f"  {lane.lane or 'main':<8}  {moment:<20}  {sizes}  {position}{owner}"


def _snapshots(store: Store, stream: str, target: Path) -> Iterator[dict[str, Any]]:
    for number, (lane, key, state) in enumerate(store.states(stream), 1):
        name = f"snapshot-{number}.driftbn"
        (target / name).write_bytes(unpacked(state)[1])
        yield {"lane": lane, "key": key, "file": name}


def _windows(store: Store, stream: str) -> Iterator[dict[str, Any]]:
    for key in (monitor.key for monitor in store.monitors(stream)):
        after = -1
        while rows := store.windows(
            stream, key, after=after, before=after + _PAGE + 1, limit=_PAGE
        ):
            for row in reversed(rows):
                detail = store.window(stream, key, row.window_index)
                yield {"key": key, "report": detail.report if detail else None}
            after += _PAGE


def _episodes(store: Store, stream: str) -> Iterator[dict[str, Any]]:
    for key in (monitor.key for monitor in store.monitors(stream)):
        for episode in reversed(store.episodes(stream, key, limit=2**62)):
            yield asdict(episode)


def _write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


# The history as Parquet.


def add_history_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("history", description="Work with the history of a daemon.")
    actions = parser.add_subparsers(title="what to do", required=True, metavar="ACTION")
    export = actions.add_parser(
        "export",
        help="write it as Parquet",
        description=(
            "Write windows, edges, episodes, events and actions to a new directory, each as a"
            " Parquet file; times are seconds since the epoch. The daemon may run meanwhile."
        ),
    )
    export.add_argument("place", metavar="DIR", help="a state directory, or an address")
    export.add_argument("target", metavar="TO", help="the directory to make")
    export.add_argument("--stream", metavar="NAME", help="only this stream")
    export.set_defaults(run=export_history)


def export_history(arguments: argparse.Namespace) -> int:
    target = Path(arguments.target)
    with opened(arguments.place) as store:
        stream = arguments.stream
        if stream is not None and not store.monitors(stream, limit=1):
            raise InputError(str(store.path), f"there is nothing of a stream {stream!r}")
        with blamed_on(str(target)):
            target.mkdir(parents=True)
        for table in HISTORY:
            path = target / f"{table.name}.parquet"
            n_rows = _write_table(path, table, store.table(table, stream))
            write_lines([Line(f"{path}: {n_rows}", Style.EDGE)], None)
    return ExitCode.OK


def _write_table(path: Path, table: Table, pages: Iterable[list[list[Any]]]) -> int:
    columns = zip(table.names, table.types, strict=True)
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns])
    n_rows = 0
    with blamed_on(str(path)), pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in filter(None, pages):
            values = [list(column) for column in zip(*rows, strict=True)]
            writer.write_table(pa.table(values, schema=schema))
            n_rows += len(rows)
    return n_rows
