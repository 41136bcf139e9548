"""``driftbn history``: what a daemon remembers, as tables for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from driftbn_service.commands import Line, Style, write_lines
from driftbn_service.commands.state import opened
from driftbn_service.errors import ExitCode, InputError, blamed_on
from driftbn_service.state.sql import HISTORY, Table

_TYPES: Final = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TEXT": pa.string()}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    export.set_defaults(run=run_export)


def run_export(arguments: argparse.Namespace) -> int:
    target = Path(arguments.target)
    with opened(arguments.place) as store:
        stream = arguments.stream
        if stream is not None and not store.monitors(stream, limit=1):
            raise InputError(str(store.path), f"there is nothing of a stream {stream!r}")
        with blamed_on(str(target)):
            target.mkdir(parents=True)
        for table in HISTORY:
            path = target / f"{table.name}.parquet"
            n_rows = _write(path, table, store.table(table, stream))
            write_lines([Line(f"{path}: {n_rows}", Style.EDGE)], None)
    return ExitCode.OK


def _write(path: Path, table: Table, pages: Iterable[list[list[Any]]]) -> int:
    columns = zip(table.names, table.types, strict=True)
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns])
    n_rows = 0
    with blamed_on(str(path)), pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in filter(None, pages):
            values = [list(column) for column in zip(*rows, strict=True)]
            writer.write_table(pa.table(values, schema=schema))
            n_rows += len(rows)
    return n_rows
