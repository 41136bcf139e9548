"""``driftbn calibrate``: how far a monitor can be trusted on a stream like this one."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from driftbn.drift.trust import CalibrationReport
from driftbn.errors import DataError
from driftbn.explain.sentences import printable
from driftbn.monitor import DriftMonitor
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


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "calibrate",
        description=(
            "Run a monitor over files and tell how often it raises false alarms there, how small a"
            " change it can see, and how large its windows should be."
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
    n_windows = n_drifts = 0
    with Progress(len(replay.paths), quiet=replay.quiet) as progress:
        for report in replay.reports(monitor, progress):
            n_windows += 1
            n_drifts += report.decision.drift
    if not n_windows:
        limit = replay.config.windows.row_limit
        raise DataError(f"no window is complete: {monitor.n_pending} records, {limit} make one")
    found = monitor.calibration(arguments.wanted)
    if arguments.json:
        document = _document(found, n_windows, n_drifts)
        write_text(json.dumps(document, indent=1) + "\n", arguments.output)
    else:
        name = ", ".join(map(printable, replay.paths))
        head = Line(f"{name}: {counted(n_windows, 'window')}", Style.HEAD)
        write_lines([head, *_lines(found, n_drifts)], arguments.output)
    return 0


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
    return lines + [Line(text, Style.WARNING) for text in found.advice]


def _measured(found: CalibrationReport) -> str:
    rate = found.false_alarm_rate
    if rate is None:
        return "not yet: it takes more than four windows without a drift"
    low, high = found.false_alarm_interval
    return (
        f"{rate:.2%} (95 % interval {low:.2%} to {high:.2%}):"
        f" {found.shadow_alarms} of {counted(found.shadow_windows, 'window')} dealt out anew"
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
