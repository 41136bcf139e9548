"""Draw what the monitor said of a real stream over its whole length.

Run ``python -m tests.benchmarks.cases --streams DIR nycflights elec beijing``: for each stream a
picture in ``tests/benchmarks/cases/`` and its alarms as a table on standard output. The pages that
were written from them are in CASES.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from driftbn import DriftMonitor
from tests.benchmarks.drift_text import Table
from tests.benchmarks.real import SOURCES, read_stream

PICTURES = Path(__file__).parent / "cases"
WIDTH, HEIGHT, LEFT, TOP = 960, 190, 60, 24
BAR = 22
COLOURS = {
    "learning": "#d0d7de",
    "settling": "#d0d7de",
    "undecided": "#d0d7de",
    "stable": "#e6f2ea",
    "negligible": "#e6f2ea",
    "notice": "#e6f2ea",
    "drift": "#b3261e",
}


class Told(NamedTuple):
    """What was said of one window."""

    index: int
    start: str
    level: str
    severity: str
    headline: str
    hamming: int
    usual: tuple[int, int] | None


def run(folder: Path, name: str) -> Iterator[Told]:
    """Yield what the monitor says of each window, with default settings."""
    stream = read_stream(folder, name, None)
    time = stream.source.time
    monitor = DriftMonitor(window=stream.source.window, time_column=time)
    for rows in stream.windows(0, stream.n_windows):
        for report in monitor.update(rows):
            decision, usual = report.decision, report.usual
            yield Told(
                report.index,
                str(rows[time].iloc[0])[:16] if time else "",
                decision.level.value,
                decision.severity or "",
                report.explain().headline.partition(": ")[2] if report.drift else "",
                report.diff.hamming,
                None if usual is None else (usual.low, usual.high),
            )


def picture(told: Sequence[Told], name: str) -> str:
    """Return a bar of windows, coloured by what was said, above their Hamming distances."""
    step = (WIDTH - LEFT - 10) / len(told)
    most = max(max(one.hamming for one in told), 1)
    base, room = HEIGHT - 24, HEIGHT - TOP - BAR - 60

    def across(place: float) -> float:
        return round(LEFT + step * place, 1)

    def up(distance: float) -> float:
        return round(base - room * distance / most, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' font-family="sans-serif" font-size="12"><title>{escape(name)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="16">{escape(name)}: a field a window, alarms in red</text>',
    ]
    for one in told:
        words = escape(f"window {one.index} {one.start}: {one.headline or one.level}")
        parts.append(
            f'<rect x="{across(one.index)}" y="{TOP}" width="{max(step - 1, 1):.1f}" height="{BAR}"'
            f' fill="{COLOURS[one.level]}"><title>{words}</title></rect>'
        )
    for one in told:
        if one.usual is not None:
            low, high = (up(value) for value in one.usual)
            parts.append(
                f'<rect x="{across(one.index)}" y="{high}" width="{step + 0.2:.1f}"'
                f' height="{max(low - high, 1.0):.1f}" fill="#dde7f3"/>'
            )
    points = " ".join(f"{across(one.index + 0.5)},{up(one.hamming)}" for one in told)
    parts += [
        f'<polyline points="{points}" fill="none" stroke="#1f5f99" stroke-width="1.5"/>',
        f'<text x="{LEFT - 8}" y="{up(most) + 4}" text-anchor="end">{most}</text>',
        f'<text x="{LEFT - 8}" y="{base + 4}" text-anchor="end">0</text>',
        f'<text x="{LEFT}" y="{TOP + BAR + 22}" fill="#555">Hamming distance to the window before,'
        " and what is usual</text>",
    ]
    for place in range(0, len(told), max(1, len(told) // 8)):
        label = told[place].start[:10] or str(place)
        parts.append(f'<text x="{across(place)}" y="{HEIGHT - 6}" fill="#555">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Run the streams, write pictures, print alarms."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cases")
    parser.add_argument("--streams", type=Path, required=True, help="folder of Parquet files")
    parser.add_argument("names", nargs="+", help=", ".join(SOURCES))
    chosen = parser.parse_args()
    for name in chosen.names:
        told = list(run(chosen.streams, name))
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / f"{name}.svg").write_text(picture(told, name), "utf-8")
        rows = tuple(
            (str(one.index), one.start, one.severity, one.headline) for one in told if one.headline
        )
        title = f"{name}, {len(told)} windows"
        table = Table(title, ("window", "begins", "severity", "said"), rows)
        sys.stdout.write(table.render(markdown=True))


if __name__ == "__main__":
    main()
