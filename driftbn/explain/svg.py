"""Drawings in SVG: colours and style, as a part of a page or as a sheet of their own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from driftbn.explain.words import printable

Point = tuple[float, float]

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
    # The colours are put in: not everything that draws SVG knows variables.
    style = re.sub(r"var\(--(\w+)\)", lambda name: LIGHT[name[1]], STYLE + _SHEET_STYLE)
    paper = '<rect class="paper" width="100%" height="100%"/>'
    whole = "".join([f"<style>{style}</style>", paper, *body])
    return Drawing("sheet", heading, width + 2 * _MARGIN, y - _PAD + _MARGIN, whole)


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
