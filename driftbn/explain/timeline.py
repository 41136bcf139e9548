"""The timeline of many reports: raw and confirmed differences by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from driftbn.explain.svg import Drawing
from driftbn.explain.words import counted

if TYPE_CHECKING:
    from driftbn.report import WindowReport

MAX_BARS = 240
"""Bars of a timeline; of more windows several share a bar, which shows the largest."""

_WIDTH, _LEFT, _RIGHT = 960.0, 44.0, 12.0  # pixels, as are all lengths below
_TOP, _RAW, _GAP, _CONFIRMED, _BOTTOM = 40.0, 110.0, 44.0, 70.0, 30.0
_HEIGHT = _TOP + _RAW + _GAP + _CONFIRMED + _BOTTOM
_N_TICKS = 6
_AXIS_NAME = 75.0  # room for the name of the axis after the last tick


@dataclass(frozen=True)
class _Strip:
    """One of the two bar charts above each other, and where its name stands."""

    kind: str
    name: str
    top: float
    height: float
    name_at: float


_RAW_STRIP = _Strip("raw", "raw Hamming distance", _TOP, _RAW, _TOP - 22)
_LOW = _TOP + _RAW + _GAP
_CONFIRMED_STRIP = _Strip("confirmed", "confirmed changes", _LOW, _CONFIRMED, _LOW - 8)


@dataclass(frozen=True)
class Moment:
    """A window as a timeline shows it.

    ``raw``, ``confirmed``: its raw Hamming distance, and its confirmed changes. ``link``: where the
    mark of its alarm leads; empty if nowhere.
    """

    index: int
    raw: int
    confirmed: int
    alarm: bool = False
    episode: int | None = None
    link: str = ""


@dataclass(frozen=True)
class _Bar:
    """Neighbouring windows that share a place on the axis."""

    moments: Sequence[Moment]

    @property
    def first(self) -> Moment:
        return self.moments[0]

    @property
    def raw(self) -> int:
        return max(moment.raw for moment in self.moments)

    @property
    def confirmed(self) -> int:
        return max(moment.confirmed for moment in self.moments)

    @property
    def alarm(self) -> Moment | None:
        return next((moment for moment in self.moments if moment.alarm), None)

    @property
    def episodes(self) -> tuple[int, ...]:
        found = (moment.episode for moment in self.moments)
        return tuple(dict.fromkeys(episode for episode in found if episode is not None))

    @property
    def label(self) -> str:
        first, last = self.first.index, self.moments[-1].index
        return f"window {first:,}" if first == last else f"windows {first:,} to {last:,}"


def moments_of(reports: Iterable[WindowReport]) -> list[Moment]:
    """Return windows as a timeline shows them; alarms lead to what the page says of them."""
    return [
        Moment(
            report.index,
            report.diff.hamming,
            report.decision.confirmed_hamming,
            report.decision.drift,
            report.decision.episode,
            f"#window-{report.index}",
        )
        for report in reports
    ]


def timeline_of(moments: Sequence[Moment], chosen: range = range(0)) -> Drawing:
    """Draw raw and confirmed Hamming distances by window, with alarms and episodes marked.

    There must be at least one, in the order of the stream; the ``chosen`` windows are framed.

    >>> drawing = timeline_of([Moment(0, 3, 0), Moment(1, 8, 1, alarm=True)])
    >>> drawing.title, drawing.body.count('class="alarm"')
    ('2 windows, 1 alarm', 1)
    """
    bars = _bars_of(moments)
    parts = [
        *_episode_bands(bars),
        *_frame(bars, chosen),
        *_bars(bars, [bar.raw for bar in bars], _RAW_STRIP),
        *_bars(bars, [bar.confirmed for bar in bars], _CONFIRMED_STRIP),
        *_alarms(bars),
        *_ticks(bars),
    ]
    n_alarms = sum(moment.alarm for moment in moments)
    title = f"{counted(len(moments), 'window')}, {counted(n_alarms, 'alarm')}"
    return Drawing("timeline", title, _WIDTH, _HEIGHT, "".join(parts))


def _bars_of(moments: Sequence[Moment]) -> list[_Bar]:
    size = windows_per_bar(len(moments))
    return [_Bar(moments[i : i + size]) for i in range(0, len(moments), size)]


def windows_per_bar(n_windows: int) -> int:
    """Return how many windows share a bar.

    >>> windows_per_bar(240), windows_per_bar(241), windows_per_bar(1000)
    (1, 2, 5)
    """
    return max(1, -(-n_windows // MAX_BARS))


def _step(bars: list[_Bar]) -> float:
    return (_WIDTH - _LEFT - _RIGHT) / len(bars)


def _bars(bars: list[_Bar], numbers: list[int], strip: _Strip) -> Iterator[str]:
    step, largest = _step(bars), max(numbers)
    top, base, name = strip.top, strip.top + strip.height, strip.name
    yield f'<text class="strip" x="{_LEFT:.0f}" y="{strip.name_at:.0f}">{name}</text>'
    yield f'<path class="axis" d="M{_LEFT} {base}H{_WIDTH - _RIGHT}"/>'
    yield f'<text class="scale" x="{_LEFT - 6:.0f}" y="{base:.0f}">0</text>'
    if largest:
        yield f'<text class="scale" x="{_LEFT - 6:.0f}" y="{top + 4:.0f}">{largest:,}</text>'
        yield f'<path class="grid" d="M{_LEFT} {top}H{_WIDTH - _RIGHT}"/>'
    width = max(1.0, min(0.75 * step, 26.0))
    for place, (bar, number) in enumerate(zip(bars, numbers, strict=True)):
        if number:
            tall = strip.height * number / largest
            x = _LEFT + (place + 0.5) * step - width / 2
            yield (
                f'<rect class="bar {strip.kind}" x="{x:.1f}" y="{base - tall:.1f}"'
                f' width="{width:.1f}" height="{tall:.1f}">'
                f"<title>{bar.label}: {name} {number:,}</title></rect>"
            )


def _episode_bands(bars: list[_Bar]) -> Iterator[str]:
    places: dict[int, list[int]] = {}
    for place, bar in enumerate(bars):
        for episode in bar.episodes:
            places.setdefault(episode, []).append(place)
    step = _step(bars)
    free, labels = 0.0, []
    for episode, at in sorted(places.items(), key=lambda item: item[1][0]):
        x = _LEFT + at[0] * step
        width = (at[-1] - at[0] + 1) * step
        gap = min(1.0, step / 8)  # so that episodes beside each other can be told apart
        yield (
            f'<rect class="episode" x="{x + gap:.1f}" y="{_TOP:.0f}" width="{width - 2 * gap:.1f}"'
            f' height="{_HEIGHT - _TOP - _BOTTOM:.0f}"><title>episode {episode}</title></rect>'
        )
        if x >= free:  # a label only where the one before it has ended
            y = _TOP + _RAW + 15
            labels.append(
                f'<text class="episode" x="{x + 2:.1f}" y="{y:.0f}">episode {episode}</text>'
            )
            free = x + 80
    yield from labels


def _frame(bars: list[_Bar], chosen: range) -> Iterator[str]:
    places = [i for i, bar in enumerate(bars) if any(m.index in chosen for m in bar.moments)]
    if places:
        step = _step(bars)
        x, width = _LEFT + places[0] * step, (places[-1] - places[0] + 1) * step
        yield (
            f'<rect class="chosen" x="{x:.1f}" y="{_TOP:.0f}" width="{width:.1f}"'
            f' height="{_HEIGHT - _TOP - _BOTTOM:.0f}"><title>shown here</title></rect>'
        )


def _alarms(bars: list[_Bar]) -> Iterator[str]:
    step, y = _step(bars), _TOP - 3
    for place, bar in enumerate(bars):
        moment = bar.alarm
        if moment is not None:
            x = _LEFT + (place + 0.5) * step
            mark = (
                f'<path class="alarm" d="M{x - 5:.1f} {y - 9:.1f}h10l-5 9z">'
                f"<title>alarm in window {moment.index:,}</title></path>"
            )
            yield f'<a href="{moment.link}">{mark}</a>' if moment.link else mark


def _ticks(bars: list[_Bar]) -> Iterator[str]:
    every = max(1, -(-len(bars) // _N_TICKS))
    step, y = _step(bars), _HEIGHT - _BOTTOM + 18
    for place in range(0, len(bars), every):
        x = _LEFT + (place + 0.5) * step
        if x > _WIDTH - _RIGHT - _AXIS_NAME and place:
            break
        yield f'<text class="tick" x="{x:.1f}" y="{y:.0f}">{bars[place].first.index:,}</text>'
    yield f'<text class="tick name" x="{_WIDTH - _RIGHT:.0f}" y="{y:.0f}">window</text>'
