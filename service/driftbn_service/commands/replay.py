"""``driftbn replay``: what a monitor would have said of files, window by window."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from driftbn.drift.outcome import DriftLevel
from driftbn.explain.html import html_of
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport
from driftbn_service.errors import ExitCode, UsageError
from driftbn_service.output import note, write_lines, write_text
from driftbn_service.progress import Progress
from driftbn_service.records.inputs import STDIN
from driftbn_service.replaying import Replay, add_replay_options
from driftbn_service.text import Line, Style

_HEAD = Line("window   records  level        p-value   raw  confirmed", Style.HEAD)
_STYLES = {
    DriftLevel.DRIFT: Style.REMOVED,
    DriftLevel.SETTLING: Style.WARNING,
    DriftLevel.NEGLIGIBLE: Style.WARNING,
    DriftLevel.UNDECIDED: Style.WARNING,
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "replay",
        description=(
            "Run a monitor over files as if they were a stream. Prints a line for each window: its"
            " number, its records, what it comes to, the p-value of the decision, the raw Hamming"
            " distance from the window before and the changes confirmed; then each drift in words."
        ),
    )
    add_replay_options(parser, "min_effect", "quiet_returns", "target", "audit_share")
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
    """Carry the command out and return its exit code."""
    if arguments.html == STDIN:
        raise UsageError("--html needs a file; standard output carries the windows")
    replay = Replay.from_arguments(arguments)
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
        """Write what belongs to one window, as soon as it is there."""
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
        """Write what can be said only now."""
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
                f"{_counted(n_audits, 'window')} learned once more from nothing:"
                f" {total / n_audits:.1f} edges differ on average"
            )
        if monitor.n_late:
            found.append(f"{_counted(monitor.n_late, 'record')} came too late for a window")
        if n_rejected:
            rejected = _counted(n_rejected, "record")
            found.append(f"{rejected} could not be read and were left out")
        if n_pending:
            are = "is" if n_pending == 1 else "are"
            found.append(f"{_counted(n_pending, 'record')} {are} left in an unfinished window")
        if not self.n_windows:
            found.append(f"no window is complete; up to {self._row_limit} records make one")
        return found


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _window_line(report: WindowReport) -> Line:
    decision = report.decision
    text = (
        f"{report.index:>6}  {report.rows:>8}  {decision.level.value:<10}"
        f"  {decision.p_value:>8.2g}  {report.diff.hamming:>4}  {decision.confirmed_hamming:>9}"
    )
    return Line(text, _STYLES.get(decision.level, Style.NOTE))


def _episode_lines(reports: Sequence[WindowReport]) -> list[Line]:
    lines = []
    for group in _episodes(reports):
        first, last = group[0].index, group[-1].index
        number = group[0].decision.episode
        name = "Alarm" if number is None else f"Episode {number}"
        where = f"window {first}" if first == last else f"windows {first} to {last}"
        lines += [Line("", Style.NOTE), Line(f"{name}, {where}", Style.HEAD)]
        for report in group:
            lines += _words(report)
    return lines


def _episodes(reports: Sequence[WindowReport]) -> list[list[WindowReport]]:
    """Return the windows of each episode with an alarm; an alarm outside of any is its own."""
    found: dict[tuple[bool, int], list[WindowReport]] = {}
    for report in reports:
        episode = report.decision.episode
        if episode is not None:
            found.setdefault((True, episode), []).append(report)
        elif report.decision.drift:
            found[False, report.index] = [report]
    groups = [group for group in found.values() if any(report.decision.drift for report in group)]
    return sorted(groups, key=lambda group: group[0].index)


def _words(report: WindowReport) -> list[Line]:
    """Return an alarm, and the window after it that names the change better, in words."""
    if not (report.decision.drift or report.decision.settling):
        return []
    return [Line(text, Style.NOTE) for text in (*str(report.explain()).splitlines(), "")]
