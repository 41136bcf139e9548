"""``driftbn replay``, ``driftbn calibrate``: a monitor run over files, and what it can see."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, NamedTuple

from driftbn.config import DEFAULT_SIZE, ErrorPolicy, MonitorConfig, WindowConfig, check_integer
from driftbn.drift.outcome import DriftLevel
from driftbn.drift.trust import CalibrationReport
from driftbn.errors import DataError, UnknownVariableError
from driftbn.explain.html import episodes_of, html_of
from driftbn.explain.sentences import counted, printable, windows_between
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport
from driftbn.tables.schema import Schema
from driftbn_service.commands import (
    Line,
    Progress,
    ReadingOptions,
    Style,
    add_reading_options,
    add_setting_options,
    edge_text,
    given_settings,
    note,
    shown,
    word_lines,
    write_lines,
    write_text,
)
from driftbn_service.errors import ExitCode, UsageError, blamed_on
from driftbn_service.records.files import DEFAULT_ROWS, STDIN, Batch, Input


class Replay:
    """Which files to run a monitor over, in the order of the stream, and how.

    ``settings`` of the monitor come beside those given as options.
    """

    def __init__(self, arguments: argparse.Namespace, **settings: Any) -> None:
        if arguments.files.count(STDIN) > 1:
            raise UsageError("standard input can be read only once")
        check_integer("batch", arguments.batch, 1)
        settings |= given_settings(arguments, MonitorConfig)
        settings["window"] = WindowConfig(size=arguments.window, seconds=arguments.seconds)
        self.config = MonitorConfig(**settings)
        self.paths, self.quiet = arguments.files, arguments.quiet
        self.n_unread = 0  # records that were left out
        self._reading, self._batch_rows = ReadingOptions.from_arguments(arguments), arguments.batch

    def reports(self, monitor: DriftMonitor, progress: Progress) -> Iterator[WindowReport]:
        """Yield the reports in order, each as soon as its window is complete."""
        time_column, columns = self.config.time_column, self._reading.columns
        if columns and time_column is not None:
            columns = tuple(dict.fromkeys((*columns, time_column)))
        lenient = self.config.on_error is ErrorPolicy.REJECT_ROWS
        for number, path in enumerate(self.paths):
            with Input(path, self._reading.input_format) as source:
                for batch in source.batches(
                    columns, self._batch_rows, time_column=time_column, lenient=lenient
                ):
                    self.n_unread += batch.n_unread
                    reports = _taken(monitor, source.name, batch)
                    done = None if batch.share is None else number + batch.share
                    progress.show(done, source.name)
                    yield from reports


def add_replay_options(parser: argparse.ArgumentParser, *more: str) -> None:
    """Declare the options of every command that runs a monitor over files, and ``more``."""
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
    names = ("alpha", "windows_between_false_alarms", "given", "quiet_returns", *more)
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
    """Check that the target is a variable, once there is a schema."""
    if schema is None or target is None or target in schema:
        return
    for column in schema.excluded:
        if column.name == target:
            reason = f"{column.reason.value}: {column.detail}"
            raise DataError(f"the target was left out ({reason})", column=target)
    raise UnknownVariableError(target, schema.names)


def _taken(monitor: DriftMonitor, name: str, batch: Batch) -> list[WindowReport]:
    """Update the monitor; rows in errors count from the start of the input."""
    with blamed_on(name):
        try:
            reports = monitor.update(batch.data)
        except DataError as error:
            row = None if error.row is None else batch.first_row + error.row
            raise DataError(
                error.problem, column=error.column, row=row, value=error.value
            ) from error
        check_target(monitor.schema, monitor.config.target)
    return list(reports)


# ``driftbn replay``: what a monitor would have said of files, window by window.

_HEAD = Line("window   records  level        p-value   raw  confirmed", Style.HEAD)
_STYLES = {
    DriftLevel.DRIFT: Style.REMOVED,
    DriftLevel.SETTLING: Style.WARNING,
    DriftLevel.NEGLIGIBLE: Style.WARNING,
    DriftLevel.NOTICE: Style.WARNING,
    DriftLevel.UNDECIDED: Style.WARNING,
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "replay",
        description=(
            "Run a monitor over files as if they were a stream. Prints a line for each window: its"
            " number, its records, what it comes to, the p-value of the decision, the raw Hamming"
            " distance from the window before and the changes confirmed; then each drift in words."
        ),
    )
    add_replay_options(parser, "min_effect", "alarm_on", "target", "audit_share")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="write a JSON object a window instead of text"
    )
    output.add_argument("--html", metavar="FILE", help="write a page with pictures too")
    output.add_argument("--quiet", action="store_true", help="only the drifts; no progress bar")
    output.add_argument(
        "--exit-code",
        action="store_true",
        help=f"exit with {ExitCode.DIFFERENT} if there was a drift",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.html == STDIN:
        raise UsageError("--html needs a file; standard output carries the windows")
    replay = Replay(arguments)
    monitor = DriftMonitor(replay.config)
    told = _Told(arguments, replay.config.windows.row_limit)
    with Progress(len(replay.paths), quiet=replay.quiet) as progress:
        for report in replay.reports(monitor, progress):
            with progress.aside():
                told.window(report)
    if arguments.html is not None:
        write_text(html_of(told.reports), arguments.html)
    told.end(monitor, replay.n_unread)
    return ExitCode.DIFFERENT if arguments.exit_code and told.n_drifts else 0


class _Told:
    """Writes what is to be said, and remembers what is to be said at the end."""

    def __init__(self, arguments: argparse.Namespace, row_limit: int) -> None:
        self._json, self._quiet = arguments.json, arguments.quiet
        self._keeps_all = arguments.html is not None
        self._row_limit = row_limit
        self.reports: list[WindowReport] = []  # all for a page, else those of episodes
        self.n_windows = self.n_drifts = 0
        self._disagreements: list[int] = []

    def window(self, report: WindowReport) -> None:
        if self._json:
            write_text(json.dumps(report.to_dict()) + "\n", None)
        elif not self._quiet:
            write_lines([*([] if self.n_windows else [_HEAD]), _window_line(report)], None)
        self.n_windows += 1
        self.n_drifts += report.decision.drift
        if report.audit is not None:
            self._disagreements.append(report.audit.disagreement)
        if self._keeps_all or report.decision.drift or report.decision.episode is not None:
            self.reports.append(report)

    def end(self, monitor: DriftMonitor, n_unread: int) -> None:
        remarks = self._remarks(monitor, n_unread + monitor.n_rejected)
        if self._json:
            for remark in remarks:
                note(remark)
            return
        lines = _episode_lines(self.reports)
        if not self._quiet:
            lines += [Line(remark, Style.NOTE) for remark in remarks]
        write_lines(lines, None)

    def _remarks(self, monitor: DriftMonitor, n_rejected: int) -> list[str]:
        found = []
        n_pending = monitor.n_pending
        if self._disagreements:
            n_audits, total = len(self._disagreements), sum(self._disagreements)
            found.append(
                f"{counted(n_audits, 'window')} learned once more from nothing:"
                f" {total / n_audits:.1f} edges differ on average"
            )
        if monitor.n_late:
            found.append(f"{counted(monitor.n_late, 'record')} came too late for a window")
        if n_rejected:
            rejected = counted(n_rejected, "record")
            found.append(f"{rejected} could not be read and were left out")
        if n_pending:
            are = "is" if n_pending == 1 else "are"
            found.append(f"{counted(n_pending, 'record')} {are} left in an unfinished window")
        if not self.n_windows:
            found.append(f"no window is complete; up to {self._row_limit} records make one")
        return found


def _window_line(report: WindowReport) -> Line:
    decision = report.decision
    text = (
        f"{report.index:>6}  {report.rows:>8}  {decision.level.value:<10}"
        f"  {decision.p_value:>8.2g}  {report.diff.hamming:>4}  {decision.confirmed_hamming:>9}"
    )
    return Line(text, _STYLES.get(decision.level, Style.NOTE))


def _episode_lines(reports: Sequence[WindowReport]) -> list[Line]:
    lines = []
    for group in episodes_of(reports):
        if not any(report.decision.drift for report in group):
            continue
        number = group[0].decision.episode
        name = "Alarm" if number is None else f"Episode {number}"
        where = windows_between(group[0].index, group[-1].index)
        lines += [Line("", Style.NOTE), Line(f"{name}, {where}", Style.HEAD)]
        for report in group:  # the window after an alarm names the change better
            if report.decision.drift or report.decision.settling:
                lines += [*word_lines(report.explain()), Line("", Style.NOTE)]
    return lines


# ``driftbn calibrate``: how far a monitor can be trusted on a stream like this one.

SHADOW_SHARE = 1.0
"""Share of windows judged once more to measure false alarms: a file has few of them."""
MAX_LISTED = 10
"""Fields and pairs that are listed in a text."""
LEAST_GAIN = 0.2
"""By how much more of the windows a period must foretell the regime than the commonest one does."""

_DAY = 86400.0
PERIODS: Mapping[str, tuple[float, Callable[[datetime], int]]] = {
    "hour of the day": (_DAY / 2, lambda moment: moment.hour),
    "day of the week": (3.5 * _DAY, datetime.weekday),
    "month": (182 * _DAY, lambda moment: moment.month),
}
"""What may bring regimes back: the longest window that shows it, and its part of a time (UTC)."""


def add_calibrate_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "calibrate",
        description=(
            "Run a monitor over files and tell how often it raises false alarms there, how small a"
            " change it can see, how large its windows should be, and which settings fit it."
        ),
    )
    add_replay_options(parser)
    parser.add_argument(
        "--wanted",
        type=float,
        metavar="NATS",
        default=0.01,
        help="the change that should be seen; a medium edge has 0.01 to 0.03 (%(default)s)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="write JSON instead of text")
    output.add_argument("--output", metavar="FILE", help="instead of standard output")
    output.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=calibrate)


def calibrate(arguments: argparse.Namespace) -> int:
    replay = Replay(arguments, shadow_share=SHADOW_SHARE)
    monitor = DriftMonitor(replay.config)
    monitor.calibration(arguments.wanted)  # refuses what is not allowed before the work
    seen: list[Seen] = []
    with Progress(len(replay.paths), quiet=replay.quiet) as progress:
        seen += (Seen.of(report) for report in replay.reports(monitor, progress))
    n_windows, n_drifts = len(seen), sum(window.drift for window in seen)
    if not seen:
        limit = replay.config.windows.row_limit
        raise DataError(f"no window is complete: {monitor.n_pending} records, {limit} make one")
    found = monitor.calibration(arguments.wanted)
    proposed = proposed_settings(found, seen)
    if arguments.json:
        document = _document(found, n_windows, n_drifts)
        document |= {"proposed": proposed, "period": period_of(seen)}
        write_text(json.dumps(document, indent=1) + "\n", arguments.output)
    else:
        name = ", ".join(map(printable, replay.paths))
        head = Line(f"{name}: {counted(n_windows, 'window')}", Style.HEAD)
        lines = [head, *_lines(found, n_drifts), *_proposed_lines(proposed, period_of(seen))]
        lines += [Line(text, Style.WARNING) for text in found.advice]
        write_lines(lines, arguments.output)
    return 0


class Seen(NamedTuple):
    """What a proposal takes from a window."""

    regime: int
    drift: bool
    recurring: bool
    given: tuple[str, ...]
    start: float | None
    end: float | None

    @classmethod
    def of(cls, report: WindowReport) -> Seen:
        told = report.decision
        return cls(told.regime, told.drift, told.recurring, told.given, report.start, report.end)


def proposed_settings(found: CalibrationReport, seen: Sequence[Seen]) -> dict[str, Any]:
    """Return the settings that fit a stream better than those it was run with."""
    proposed: dict[str, Any] = {}
    rows = found.recommended_rows()
    if rows is not None and rows > found.window_rows:
        proposed["window"] = rows
    times = Counter(name for window in seen for name in window.given)
    given = sorted(name for name, number in times.items() if 2 * number > len(seen))
    if given:
        proposed["given"] = given
    if sum(window.recurring for window in seen) > 1:
        proposed["quiet_returns"] = True
    return proposed


def period_of(seen: Sequence[Seen]) -> str | None:
    """Return the period that foretells best which regime a window belongs to, if one does.

    A window is foretold by the commonest regime in the other stretches with the same part of the
    period, so that a month that was met only once foretells nothing.
    """
    timed = [
        (window.regime, window.start, window.end)
        for window in seen
        if window.start is not None and window.end is not None
    ]
    regimes = [regime for regime, _, _ in timed]
    if len(set(regimes)) < 2:
        return None
    length = median(end - start for _, start, end in timed)
    middles = [datetime.fromtimestamp((start + end) / 2, UTC) for _, start, end in timed]
    shares = {
        name: _foretold([part(moment) for moment in middles], regimes)
        for name, (longest, part) in PERIODS.items()
        if length <= longest
    }
    least = max(Counter(regimes).values()) / len(regimes) + LEAST_GAIN
    good = [name for name, share in shares.items() if share >= least]
    return max(good, key=shares.__getitem__, default=None)


def _foretold(parts: Sequence[int], regimes: Sequence[int]) -> float:
    """Return the share of windows whose regime is that of most others with the same part."""
    turns = [before != now for before, now in pairwise(parts)]
    stretch = list(accumulate(turns, initial=0))
    rows = list(zip(parts, stretch, regimes, strict=True))
    hits = 0
    for part, number, regime in rows:
        others = Counter(r for p, s, r in rows if p == part and s != number)
        hits += bool(others) and others.most_common(1)[0][0] == regime
    return hits / len(rows)


def _proposed_lines(proposed: Mapping[str, Any], period: str | None) -> list[Line]:
    if not proposed:
        return []
    why = {"quiet_returns": f"  # regimes return by the {period}"} if period else {}
    lines = [
        Line(f"  {name} = {json.dumps(value)}{why.get(name, '')}", Style.NOTE)
        for name, value in proposed.items()
    ]
    return [Line("proposed settings", Style.HEAD), *lines]


def _lines(found: CalibrationReport, n_drifts: int) -> list[Line]:
    rows = found.recommended_rows()
    facts = [
        ("records of a window", f"{found.window_rows}"),
        ("windows of the reference", f"{found.reference_windows}"),
        ("drifts found", f"{n_drifts}"),
        ("false alarms asked for", f"at most {found.alpha:.2%} of windows"),
        ("false alarms measured", _measured(found)),
        ("visible in half of the pairs", _nats(found.visible_to(0.5))),
        ("visible in nine of ten pairs", _nats(found.visible_to(0.9))),
        (
            "records for the wanted change",
            f"{'no number' if rows is None else rows} ({found.wanted:g} nats, nine of ten pairs)",
        ),
        ("largest design effect", f"{found.largest_design_effect:.2f}"),
    ]
    width = max(len(name) for name, _ in facts)
    lines = [Line(f"{name:<{width}}  {value}", Style.NOTE) for name, value in facts]
    pairs = [
        (edge_text((pair.source, pair.target), directed=False), _nats(pair.nats))
        for pair in found.visible
    ]
    effects = sorted(found.design_effects, key=lambda effect: (-effect[1], effect[0]))
    lines += _table("pairs of fields that show least", pairs)
    lines += _table(
        "design effects, largest first", [(shown(name), f"{size:.2f}") for name, size in effects]
    )
    return lines


def _measured(found: CalibrationReport) -> str:
    rate = found.false_alarm_rate
    if rate is None:
        return "not yet: it takes more than four windows without a drift"
    low, high = found.false_alarm_interval
    return (
        f"{rate:.2%} (95 % interval {low:.2%} to {high:.2%}):"
        f" {found.shadow_alarms} of {counted(found.shadow_windows, 'window')} permuted"
    )


def _nats(nats: float) -> str:
    return f"{nats:.4f} nats" if math.isfinite(nats) else "no change, however large"


def _table(title: str, rows: list[tuple[str, str]]) -> list[Line]:
    rows = rows[:MAX_LISTED]
    width = max((len(name) for name, _ in rows), default=0)
    found = [Line(f"  {name:<{width}}  {value}", Style.NOTE) for name, value in rows]
    return [Line(title, Style.HEAD), *found] if rows else []


def _document(found: CalibrationReport, n_windows: int, n_drifts: int) -> dict[str, Any]:
    return {
        "format": "driftbn-calibration",
        "version": 1,
        "windows": n_windows,
        "drifts": n_drifts,
        "window_rows": found.window_rows,
        "reference_windows": found.reference_windows,
        "alpha": found.alpha,
        "false_alarms": {
            "windows": found.shadow_windows,
            "alarms": found.shadow_alarms,
            "rate": found.false_alarm_rate,
            "interval": list(found.false_alarm_interval),
        },
        "wanted": found.wanted,
        "recommended_rows": found.recommended_rows(),
        "visible": {
            "half_of_pairs": _number(found.visible_to(0.5)),
            "nine_of_ten_pairs": _number(found.visible_to(0.9)),
            "pairs": [
                {"source": pair.source, "target": pair.target, "nats": _number(pair.nats)}
                for pair in found.visible
            ],
        },
        "design_effects": dict(found.design_effects),
        "largest_design_effect": found.largest_design_effect,
        "advice": list(found.advice),
    }


def _number(value: float) -> float | None:
    """Return a number that JSON has, or ``None``."""
    return value if math.isfinite(value) else None
