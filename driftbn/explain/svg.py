"""Drawings in SVG: colours and style, parts of a page or sheets of their own, and the timeline."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias

from driftbn.explain.sentences import counted, printable, windows_between

if TYPE_CHECKING:
    from driftbn.report import WindowReport


Point = tuple[float, float]

NODE_HEIGHT: Final = 30.0
FONT: Final = 14.0
"""Size of letters in pixels, as are all lengths."""
LIGHT: Final = {
    "paper": "#fff",
    "ink": "#1d232a",
    "soft": "#5a6570",
    "rule": "#d9dee3",
    "panel": "#f5f7f9",
    "kept": "#8b959f",
    "added": "#00795a",
    "removed": "#c22f10",
    "reversed": "#8f5f00",
    "node": "#fff",
    "changed": "#6b3fb5",
    "band": "#fbe8c8",
    "raw": "#9aa5b1",
}
"""Colours on white; what became of an edge has these wherever it is shown."""
DARK: Final = {
    "paper": "#14181d",
    "ink": "#e6eaee",
    "soft": "#a2adb8",
    "rule": "#343c45",
    "panel": "#1c2229",
    "kept": "#77828d",
    "added": "#3fd0a3",
    "removed": "#ff8266",
    "reversed": "#f0b13f",
    "node": "#222a32",
    "changed": "#c3a1ff",
    "band": "#43371c",
    "raw": "#66727e",
}
"""The same on black."""
STYLE: Final = """
svg text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
font-size:14px;fill:var(--ink)}
.node rect{fill:var(--node);stroke:var(--soft)}
.node text{text-anchor:middle;dominant-baseline:central}
.node.changed rect{stroke:var(--changed);stroke-width:3}
.node.aim text{font-weight:700}
.line path{fill:none;stroke:var(--kept);stroke-width:1.2}
.line polygon{fill:var(--kept)}
.line.added path{stroke:var(--added)}
.line.removed path{stroke:var(--removed);stroke-dasharray:6 4}
.line.reversed path{stroke:var(--reversed);stroke-dasharray:11 4 2 4}
.line.added polygon{fill:var(--added)}
.line.removed polygon{fill:var(--removed)}
.line.reversed polygon{fill:var(--reversed)}
g.added,g.removed,g.reversed{opacity:.65}
g.confirmed{opacity:1}
.line.confirmed path{stroke-width:3.6}
svg text.sign{text-anchor:middle;dominant-baseline:central;font-size:13px;paint-order:stroke;
stroke:var(--panel);stroke-width:4px;stroke-linejoin:round}
svg text.sign.confirmed{font-weight:700}
svg text.added{fill:var(--added)}
svg text.removed{fill:var(--removed)}
svg text.reversed{fill:var(--reversed)}
.timeline text{font-size:13px;fill:var(--soft)}
.timeline text.scale{text-anchor:end;dominant-baseline:central}
.timeline text.tick{text-anchor:middle}
.timeline text.tick.name{text-anchor:end}
.timeline text.episode{fill:var(--reversed);font-weight:600}
.timeline .strip{fill:var(--ink)}
.axis{stroke:var(--soft);fill:none}
.grid{stroke:var(--rule);fill:none;stroke-dasharray:2 4}
.bar.raw{fill:var(--raw)}
.bar.confirmed{fill:var(--removed)}
rect.episode{fill:var(--band)}
rect.chosen{fill:none;stroke:var(--reversed);stroke-width:1.5}
path.alarm{fill:var(--removed)}
"""
"""How drawings look; the colours are variables of the page."""

_SHEET_STYLE: Final = """
svg text{font-family:"DejaVu Sans",sans-serif}
.paper{fill:var(--paper)}
.panel{fill:var(--panel);stroke:var(--rule)}
svg text.heading{font-size:21px;font-weight:700}
svg text.soft{fill:var(--soft)}
"""
_HEADING: Final = 21.0
_MARGIN, _PAD = 28.0, 14.0
_MIN_WIDTH: Final = 960.0
_LINE: Final = 1.45  # height of a line of text over the size of its letters
_KEY_LINE: Final = 22.0  # height of a row of a legend
_SHRINK: Final = 0.7  # how far a drawing may shrink on a narrow screen before it scrolls
_NARROW: Final = frozenset("iljtfrI.,:;'|!()[]{} ")


@dataclass(frozen=True)
class Drawing:
    """A drawing.

    ``kind``: its class in the style sheet. ``title``: what it shows, for those who do not see it.
    """

    kind: str
    title: str
    width: float
    height: float
    body: str

    def inline(self) -> str:
        """Return it as a part of a page that has the style."""
        return (
            f'<svg class="{self.kind}" role="img" viewBox="0 0 {self.width:.1f} {self.height:.1f}"'
            f' style="width:{self.width:.0f}px;min-width:{_SHRINK * self.width:.0f}px">'
            f"<title>{escape(self.title)}</title>{self.body}</svg>"
        )

    def document(self) -> str:
        """Return it as a file of its own; it must hold its style."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}"'
            f' height="{self.height:.0f}">{self.body}</svg>'
        )


@dataclass(frozen=True)
class Key:
    """An entry of a legend: the classes of a line, or none, and what it means."""

    classes: str
    text: str

    @property
    def indent(self) -> int:
        return 48 if self.classes else 0

    def line(self) -> str:
        """Return the sample of the line, 40 by 12."""
        return f'<g class="{self.classes}"><path d="M0 6H40"/></g>' if self.classes else ""


def sheet(
    heading: str, texts: Iterable[str], parts: Iterable[Drawing], legend: Sequence[Key] = ()
) -> Drawing:
    """Return texts and drawings in light colours as one that needs no page.

    ``heading``, ``texts``: what stands above the drawings; empty ones are left out. ``parts``: the
    drawings, below each other. ``legend``: what stands below the first of them.

    >>> "a &lt;b&gt;" in sheet("a <b>", (), ()).document()
    True
    """
    drawings = list(parts)
    width = max([_MIN_WIDTH, *(part.width + 2 * _PAD for part in drawings)])
    blocks = [_written(heading, texts, width)]
    blocks += [_panel(part, () if i else legend, width) for i, part in enumerate(drawings)]
    body, y = [], _MARGIN
    for block, tall in blocks:
        body.append(f'<g transform="translate({_MARGIN} {y:.1f})">{block}</g>')
        y += tall + _PAD
    paper = '<rect class="paper" width="100%" height="100%"/>'
    whole = "".join([f"<style>{in_light(STYLE + _SHEET_STYLE)}</style>", paper, *body])
    return Drawing("sheet", heading, width + 2 * _MARGIN, y - _PAD + _MARGIN, whole)


def in_light(text: str) -> str:
    """Put light colours in place of variables, which not everything that draws SVG knows."""
    return re.sub(r"var\(--(\w+)\)", lambda name: LIGHT[name[1]], text)


def _written(heading: str, texts: Iterable[str], width: float) -> tuple[str, float]:
    """Return texts as lines, and how high they are."""
    body, y = [], 0.0
    for text, size, kind in ((heading, _HEADING, "heading"), *((text, FONT, "") for text in texts)):
        for line in _wrapped(text, width * FONT / size):
            y += _LINE * size
            body.append(f'<text class="{kind}" y="{y:.1f}">{escape(line)}</text>')
    return "".join(body), y


def _panel(part: Drawing, legend: Iterable[Key], width: float) -> tuple[str, float]:
    """Return a drawing and its legend on a panel, and how high that is."""
    y = part.height + _PAD
    keys = []
    for row in _rows(legend, width):
        y += _KEY_LINE
        keys += [_key(key, _PAD + x, y) for key, x in row]
    tall = y + _PAD
    panel = f'<rect class="panel" width="{width:.1f}" height="{tall:.1f}" rx="10"/>'
    drawing = (
        f'<svg class="{part.kind}" x="{(width - part.width) / 2:.1f}" y="{_PAD}"'
        f' width="{part.width:.1f}" height="{part.height:.1f}">{part.body}</svg>'
    )
    return "".join([panel, drawing, *keys]), tall


def _key(key: Key, x: float, y: float) -> str:
    return (
        f'<g transform="translate({x:.1f} {y - 10:.1f})">{key.line()}'
        f'<text class="soft" x="{key.indent}" y="10">{escape(key.text)}</text></g>'
    )


def _rows(keys: Iterable[Key], width: float) -> Iterator[list[tuple[Key, float]]]:
    row: list[tuple[Key, float]] = []
    x = 0.0
    for key in keys:
        wide = key.indent + text_width(key.text)
        if row and x + wide > width - 2 * _PAD:
            yield row
            row, x = [], 0.0
        row.append((key, x))
        x += wide + 24
    if row:
        yield row


def _wrapped(text: str, width: float) -> Iterator[str]:
    line = ""
    for word in printable(text).split():
        longer = f"{line} {word}".lstrip()
        if line and text_width(longer) > width:
            yield line
            longer = word
        line = longer
    if line:
        yield line


def text_width(text: str) -> float:
    """Return about how wide a text is; no font is known here."""
    return FONT * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in _NARROW:
        return 0.38
    if character in "MWmw@%—…":
        return 0.95
    return 0.72 if character.isupper() else 0.6


# The timeline of many reports: raw and confirmed differences by window.

MAX_BARS = 240
"""Bars of a timeline; of more windows several share a bar, which shows the largest."""

_WIDTH, _LEFT, _RIGHT = 960.0, 44.0, 12.0  # pixels, as are all lengths below
_TOP, _RAW, _GAP, _CONFIRMED, _BOTTOM = 40.0, 110.0, 44.0, 70.0, 30.0
_HEIGHT = _TOP + _RAW + _GAP + _CONFIRMED + _BOTTOM
_N_TICKS = 6
_AXIS_NAME = 75.0  # room for the name of the axis after the last tick
_STRIPS: Final = {
    "raw": ("raw Hamming distance", _TOP, _RAW, 22.0),
    "confirmed": ("confirmed changes", _TOP + _RAW + _GAP, _CONFIRMED, 8.0),
}
"""The two bar charts: name, top, height, and how far above the name stands."""


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


_Bars: TypeAlias = Sequence[Sequence[Moment]]
"""Neighbouring windows that share a place on the axis, from left to right."""


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
    size = windows_per_bar(len(moments))
    bars = [moments[i : i + size] for i in range(0, len(moments), size)]
    raw = [max(moment.raw for moment in bar) for bar in bars]
    confirmed = [max(moment.confirmed for moment in bar) for bar in bars]
    parts = [
        *_episode_bands(bars),
        *_frame(bars, chosen),
        *_strip(bars, raw, "raw"),
        *_strip(bars, confirmed, "confirmed"),
        *_alarms(bars),
        *_ticks(bars),
    ]
    n_alarms = sum(moment.alarm for moment in moments)
    title = f"{counted(len(moments), 'window')}, {counted(n_alarms, 'alarm')}"
    return Drawing("timeline", title, _WIDTH, _HEIGHT, "".join(parts))


def windows_per_bar(n_windows: int) -> int:
    """Return how many windows share a bar.

    >>> windows_per_bar(240), windows_per_bar(241), windows_per_bar(1000)
    (1, 2, 5)
    """
    return max(1, -(-n_windows // MAX_BARS))


def _step(bars: _Bars) -> float:
    return (_WIDTH - _LEFT - _RIGHT) / len(bars)


def _strip(bars: _Bars, numbers: list[int], kind: str) -> Iterator[str]:
    name, top, height, gap = _STRIPS[kind]
    base = top + height
    step, largest = _step(bars), max(numbers)
    yield f'<text class="strip" x="{_LEFT:.0f}" y="{top - gap:.0f}">{name}</text>'
    yield f'<path class="axis" d="M{_LEFT} {base}H{_WIDTH - _RIGHT}"/>'
    yield f'<text class="scale" x="{_LEFT - 6:.0f}" y="{base:.0f}">0</text>'
    if largest:
        yield f'<text class="scale" x="{_LEFT - 6:.0f}" y="{top + 4:.0f}">{largest:,}</text>'
        yield f'<path class="grid" d="M{_LEFT} {top}H{_WIDTH - _RIGHT}"/>'
    width = max(1.0, min(0.75 * step, 26.0))
    for place, (bar, number) in enumerate(zip(bars, numbers, strict=True)):
        if number:
            tall = height * number / largest
            x = _LEFT + (place + 0.5) * step - width / 2
            label = windows_between(bar[0].index, bar[-1].index)
            yield (
                f'<rect class="bar {kind}" x="{x:.1f}" y="{base - tall:.1f}"'
                f' width="{width:.1f}" height="{tall:.1f}">'
                f"<title>{label}: {name} {number:,}</title></rect>"
            )


def _episode_bands(bars: _Bars) -> Iterator[str]:
    places: dict[int, list[int]] = {}
    for place, bar in enumerate(bars):
        for moment in bar:
            if moment.episode is not None:
                places.setdefault(moment.episode, []).append(place)
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


def _frame(bars: _Bars, chosen: range) -> Iterator[str]:
    places = [i for i, bar in enumerate(bars) if any(m.index in chosen for m in bar)]
    if places:
        step = _step(bars)
        x, width = _LEFT + places[0] * step, (places[-1] - places[0] + 1) * step
        yield (
            f'<rect class="chosen" x="{x:.1f}" y="{_TOP:.0f}" width="{width:.1f}"'
            f' height="{_HEIGHT - _TOP - _BOTTOM:.0f}"><title>shown here</title></rect>'
        )


def _alarms(bars: _Bars) -> Iterator[str]:
    step, y = _step(bars), _TOP - 3
    for place, bar in enumerate(bars):
        moment = next((moment for moment in bar if moment.alarm), None)
        if moment is not None:
            x = _LEFT + (place + 0.5) * step
            mark = (
                f'<path class="alarm" d="M{x - 5:.1f} {y - 9:.1f}h10l-5 9z">'
                f"<title>alarm in window {moment.index:,}</title></path>"
            )
            yield f'<a href="{moment.link}">{mark}</a>' if moment.link else mark


def _ticks(bars: _Bars) -> Iterator[str]:
    every = max(1, -(-len(bars) // _N_TICKS))
    step, y = _step(bars), _HEIGHT - _BOTTOM + 18
    for place in range(0, len(bars), every):
        x = _LEFT + (place + 0.5) * step
        if x > _WIDTH - _RIGHT - _AXIS_NAME and place:
            break
        yield f'<text class="tick" x="{x:.1f}" y="{y:.0f}">{bars[place][0].index:,}</text>'
    yield f'<text class="tick name" x="{_WIDTH - _RIGHT:.0f}" y="{y:.0f}">window</text>'
