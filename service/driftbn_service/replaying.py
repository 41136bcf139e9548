"""A monitor run over files: its settings from the command line, and its reports one by one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from driftbn.config import DEFAULT_SIZE, ErrorPolicy, MonitorConfig, WindowConfig, check_integer
from driftbn.errors import DataError, UnknownVariableError
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport
from driftbn.tables.schema import Schema
from driftbn_service.errors import UsageError, blamed_on
from driftbn_service.options import (
    ReadingOptions,
    add_reading_options,
    add_setting_options,
    given_settings,
)
from driftbn_service.progress import Progress
from driftbn_service.records.inputs import DEFAULT_ROWS, STDIN, Batch, Input
from driftbn_service.records.rows import n_rows_of
from driftbn_service.records.tables import unmixed


@dataclass
class Replay:
    """Which files to run a monitor over, and how.

    Parameters
    ----------
    paths
        The files, in the order of the stream; ``-`` is standard input.
    config
        Settings of the monitor.
    reading
        How to read the files.
    batch_rows
        Rows read at a time at most.
    quiet
        Whether not to show a bar.

    Attributes
    ----------
    n_unread
        Records that could not be read and were left out.
    """

    paths: tuple[str, ...]
    config: MonitorConfig
    reading: ReadingOptions
    batch_rows: int = DEFAULT_ROWS
    quiet: bool = False
    n_unread: int = field(default=0, init=False)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace, **settings: Any) -> Replay:
        """Check the parsed arguments.

        Parameters
        ----------
        arguments
            As ``add_replay_options`` declares them.
        **settings
            Settings of the monitor beside those given as options.

        Raises
        ------
        ConfigError
            If a value is not allowed.
        UsageError
            If standard input is to be read twice.
        """
        if arguments.files.count(STDIN) > 1:
            raise UsageError("standard input can be read only once")
        check_integer("batch", arguments.batch, 1)
        settings |= given_settings(arguments, MonitorConfig)
        settings["window"] = WindowConfig(size=arguments.window, seconds=arguments.seconds)
        return cls(
            tuple(arguments.files),
            MonitorConfig(**settings),
            ReadingOptions.from_arguments(arguments),
            arguments.batch,
            arguments.quiet,
        )

    def reports(self, monitor: DriftMonitor, progress: Progress) -> Iterator[WindowReport]:
        """Yield the reports in order, each as soon as its window is complete.

        Raises
        ------
        InputError
            If a file cannot be read or holds a record that cannot.
        """
        for number, path in enumerate(self.paths):
            with Input(path, self.reading.input_format) as source:
                for batch in self._batches(source):
                    self.n_unread += batch.n_unread
                    reports = _taken(monitor, source.name, batch)
                    done = None if batch.share is None else number + batch.share
                    progress.show(done, source.name)
                    yield from reports

    def _batches(self, source: Input) -> Iterator[Batch]:
        lenient = self.config.on_error is ErrorPolicy.REJECT_ROWS
        return source.batches(
            self._columns, self.batch_rows, time_column=self.config.time_column, lenient=lenient
        )

    @property
    def _columns(self) -> tuple[str, ...]:
        time_column = self.config.time_column
        if not self.reading.columns or time_column is None:
            return self.reading.columns
        return tuple(dict.fromkeys((*self.reading.columns, time_column)))


def add_replay_options(parser: argparse.ArgumentParser, *more: str) -> None:
    """Declare the options of every command that runs a monitor over files.

    Parameters
    ----------
    parser
        The command.
    *more
        Settings of the monitor that are options of this command only.
    """
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="CSV, NDJSON, JSON, Parquet or Arrow, also compressed; - for standard input; several"
        " are one stream in this order",
    )
    windows = parser.add_argument_group("windows")
    windows.add_argument(
        "--window",
        type=int,
        metavar="N",
        help=f"records of a window ({DEFAULT_SIZE}; with --seconds no limit of its own)",
    )
    add_setting_options(windows, WindowConfig, ["seconds"])
    add_setting_options(windows, MonitorConfig, ["time_column"])
    decision = parser.add_argument_group("decision")
    names = ("alpha", "windows_between_false_alarms", *more)
    add_setting_options(decision, MonitorConfig, names)
    add_reading_options(parser)
    reading = parser.add_argument_group("reading in pieces")
    reading.add_argument(
        "--batch",
        type=int,
        metavar="ROWS",
        default=DEFAULT_ROWS,
        help="rows taken in at a time, at most (%(default)s); the result is the same for all",
    )
    add_setting_options(reading, MonitorConfig, ["on_error"])


def check_target(schema: Schema | None, target: str | None) -> None:
    """Check that the target is a variable, once there is a schema.

    Raises
    ------
    DataError
        If it was left out.
    UnknownVariableError
        If there is no such column.
    """
    if schema is None or target is None or target in schema:
        return
    for column in schema.excluded:
        if column.name == target:
            reason = f"{column.reason.value}: {column.detail}"
            raise DataError(f"the target was left out ({reason})", column=target)
    raise UnknownVariableError(target, schema.names)


def _taken(monitor: DriftMonitor, name: str, batch: Batch) -> list[WindowReport]:
    """Update the monitor; rows in errors count from the start of the input."""
    reports: list[WindowReport] = []
    first_row = batch.first_row
    with blamed_on(name):
        for rows in unmixed(batch.data, known=monitor.schema is not None):
            try:
                reports += monitor.update(rows)
            except DataError as error:
                row = None if error.row is None else first_row + error.row
                raise DataError(
                    error.problem, column=error.column, row=row, value=error.value
                ) from error
            first_row += n_rows_of(rows)
        check_target(monitor.schema, monitor.config.target)
    return reports
