"""``driftbn calibrate``: how far a monitor can be trusted on a stream like this one."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, NamedTuple

from driftbn.drift.trust import CalibrationReport
from driftbn.errors import DataError
from driftbn.explain.sentences import printable
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport
from driftbn_service.commands import (
    Line,
    Progress,
    Style,
    edge_text,
    shown,
    write_lines,
    write_text,
)
from driftbn_service.commands.replay import Replay, add_replay_options, counted

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


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    replay = Replay.from_arguments(arguments, shadow_share=SHADOW_SHARE)
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
    facts = [
        ("records of a window", f"{found.window_rows}"),
        ("windows of the reference", f"{found.reference_windows}"),
        ("drifts found", f"{n_drifts}"),
        ("false alarms asked for", f"at most {found.alpha:.2%} of windows"),
        ("false alarms measured", _measured(found)),
        ("visible in half of the pairs", _nats(found.visible_to(0.5))),
        ("visible in nine of ten pairs", _nats(found.visible_to(0.9))),
        ("records for the wanted change", _recommended(found)),
        ("largest design effect", f"{found.largest_design_effect:.2f}"),
    ]
    width = max(len(name) for name, _ in facts)
    lines = [Line(f"{name:<{width}}  {value}", Style.NOTE) for name, value in facts]
    lines += _table("pairs of fields that show least", _pairs(found))
    lines += _table("design effects, largest first", _effects(found))
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


def _recommended(found: CalibrationReport) -> str:
    rows = found.recommended_rows()
    what = f"{found.wanted:g} nats, nine of ten pairs"
    return f"{'no number' if rows is None else rows} ({what})"


def _pairs(found: CalibrationReport) -> list[tuple[str, str]]:
    return [
        (edge_text((pair.source, pair.target), directed=False), _nats(pair.nats))
        for pair in found.visible[:MAX_LISTED]
    ]


def _effects(found: CalibrationReport) -> list[tuple[str, str]]:
    ordered = sorted(found.design_effects, key=lambda effect: (-effect[1], effect[0]))
    return [(shown(name), f"{effect:.2f}") for name, effect in ordered[:MAX_LISTED]]


def _table(title: str, rows: list[tuple[str, str]]) -> list[Line]:
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
