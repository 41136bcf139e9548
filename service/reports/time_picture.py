"""The time line of a monitor, drawn on a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driftbn.reporting.timeline import Bar, Moment, bars_of, places_in, windows_per_bar
from service.reports.canvas import INK, RULE, SOFT, Area, Canvas, Pen, Stroke, width_of

RAW, CONFIRMED, BAND, CHOSEN = "#9aa5b1", "#c22f10", "#fbe8c8", "#8f5f00"
"""Colours of bars, episodes, and of the frame around what is told."""
_N_TICKS: Final = 8
_RAW_SHARE: Final = 0.62  # of the height that both strips have
_GAP: Final = 2.7  # between the strips, over the size of letters
_BAR: Final = 0.75  # of the width that a bar has


class _Axis:
    """The place of every bar."""

    def __init__(self, bars: Sequence[Bar], left: float, width: float) -> None:
        self.bars, self.left, self.width = bars, left, width
        self.step = width / len(bars)

    def middle(self, place: int) -> float:
        return self.left + (place + 0.5) * self.step

    def stretch(self, places: Sequence[int]) -> tuple[float, float]:
        """Return where a run of bars begins, and its width."""
        return self.left + places[0] * self.step, (places[-1] - places[0] + 1) * self.step


@dataclass(frozen=True)
class _Strip:
    """One of the two bar charts above each other."""

    area: Area
    values: Sequence[int]
    colour: str


def paint_time_line(
    canvas: Canvas, area: Area, moments: Sequence[Moment], chosen: range, size: float
) -> None:
    """Draw raw and confirmed Hamming distances by window, with alarms and episodes.

    Parameters
    ----------
    canvas, area
        Where.
    moments
        At least one, in the order of the stream.
    chosen
        Numbers of windows that are framed.
    size
        Of letters.
    """
    pen = Pen(size, SOFT)
    bars = bars_of(moments)
    axis = _Axis(bars, area.x + 3 * size, area.width - 3 * size)
    top, bottom = area.y + 2.4 * size, area.y + area.height - 1.6 * size
    strips = bottom - top - _GAP * size
    middle = top + _RAW_SHARE * strips
    whole = Area(axis.left, top, axis.width, bottom - top)
    _bands(canvas, axis, whole, middle, pen)
    raw = Area(axis.left, top, axis.width, middle - top)
    low = Area(axis.left, middle + _GAP * size, axis.width, bottom - middle - _GAP * size)
    _strip(canvas, axis, _Strip(raw, [bar.raw for bar in bars], RAW), pen)
    _strip(canvas, axis, _Strip(low, [bar.confirmed for bar in bars], CONFIRMED), pen)
    name = Pen(size, INK)
    shared = windows_per_bar(len(moments))
    note = f" (each bar shows the largest of {shared} windows)" if shared > 1 else ""
    canvas.text((axis.left, area.y + 0.6 * size), f"raw Hamming distance{note}", name)
    canvas.text((axis.left, low.y - 0.7 * size), "confirmed changes", name)
    _frame(canvas, axis, whole, chosen, size)
    _alarms(canvas, axis, top, size)
    _ticks(canvas, axis, bottom + 1.0 * size, pen)


def _bands(canvas: Canvas, axis: _Axis, whole: Area, middle: float, pen: Pen) -> None:
    places: dict[int, list[int]] = {}
    for place, bar in enumerate(axis.bars):
        for episode in bar.episodes:
            places.setdefault(episode, []).append(place)
    label = Pen(0.95 * pen.size, CHOSEN, bold=True)
    free = 0.0
    for episode, at in sorted(places.items(), key=lambda item: item[1][0]):
        x, width = axis.stretch(at)
        gap = min(1.0, axis.step / 8)
        canvas.rectangle(Area(x + gap, whole.y, width - 2 * gap, whole.height), BAND)
        if x >= free:  # a label only where the one before it has ended
            text = f"episode {episode:,}"
            start = min(x + 2, axis.left + axis.width - width_of(text, label))
            canvas.text((start, middle + 0.8 * pen.size), text, label)
            free = start + width_of(text, label) + pen.size


def _strip(canvas: Canvas, axis: _Axis, strip: _Strip, pen: Pen) -> None:
    area, values = strip.area, strip.values
    base, largest = area.y + area.height, max(values)
    scale = pen.aligned("right")
    width = max(0.6, min(_BAR * axis.step, 2.2 * pen.size))
    right = area.x + area.width
    if largest:
        grid = Stroke(RULE, 0.07 * pen.size, (0.2 * pen.size, 0.3 * pen.size))
        canvas.line((area.x, area.y), (right, area.y), grid)
        canvas.text((area.x - 0.5 * pen.size, area.y), f"{largest:,}", scale)
    for place, value in enumerate(values):
        if value:
            tall = area.height * value / largest
            x = axis.middle(place) - width / 2
            canvas.rectangle(Area(x, base - tall, width, tall), strip.colour)
    canvas.line((area.x, base), (right, base), Stroke(SOFT, 0.08 * pen.size))
    canvas.text((area.x - 0.5 * pen.size, base), "0", scale)


def _frame(canvas: Canvas, axis: _Axis, whole: Area, chosen: range, size: float) -> None:
    places = places_in(axis.bars, chosen)
    if places:
        x, width = axis.stretch(places)
        canvas.rectangle(Area(x, whole.y, width, whole.height), None, CHOSEN, 0.1 * size)


def _alarms(canvas: Canvas, axis: _Axis, top: float, size: float) -> None:
    half, y = 0.4 * size, top - 0.25 * size
    for place, bar in enumerate(axis.bars):
        if bar.alarm is not None:
            x = axis.middle(place)
            corners = [(x - half, y - 1.5 * half), (x + half, y - 1.5 * half), (x, y)]
            canvas.polygon(corners, CONFIRMED)


def _ticks(canvas: Canvas, axis: _Axis, y: float, pen: Pen) -> None:
    right = axis.left + axis.width
    canvas.text((right, y), "window", pen.aligned("right"))
    room = right - width_of("window", pen) - 2.5 * pen.size
    every = max(1, -(-len(axis.bars) // _N_TICKS))
    for place in range(0, len(axis.bars), every):
        if axis.middle(place) > room and place:
            break
        number = f"{axis.bars[place].first.index:,}"
        canvas.text((axis.middle(place), y), number, pen.aligned("center"))
