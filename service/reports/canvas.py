"""A sheet to draw on with matplotlib, in units of its own, y downwards."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch, Polygon, Rectangle
from matplotlib.path import Path

from driftbn.reporting.words import printable

Point = tuple[float, float]

PAPER, INK, SOFT, RULE, PANEL = "#ffffff", "#1d232a", "#5a6570", "#d9dee3", "#f5f7f9"
"""Colours of the page in the light."""
_FAMILY: Final = "DejaVu Sans"  # comes with matplotlib, so it is the same on every machine
_LINE: Final = 1.4  # height of a line of text over the size of its letters
_POINTS_AN_INCH: Final = 72.0


@dataclass(frozen=True)
class Pen:
    """How letters look; a size in units of the sheet."""

    size: float
    colour: str = INK
    bold: bool = False
    align: str = "left"

    @property
    def line(self) -> float:
        """Height of a line."""
        return _LINE * self.size

    def aligned(self, align: str) -> Pen:
        """Return the same for another alignment."""
        return replace(self, align=align)


@dataclass(frozen=True)
class Area:
    """A rectangle by its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Canvas:
    """A sheet to draw on.

    Parameters
    ----------
    width, height
        Its size in units.
    unit
        Points of a unit.

    Attributes
    ----------
    width, height
        As given.
    """

    def __init__(self, width: float, height: float, unit: float) -> None:
        self.width, self.height = width, height
        self._unit = unit
        size = (width * unit / _POINTS_AN_INCH, height * unit / _POINTS_AN_INCH)
        self._figure = Figure(figsize=size, dpi=_POINTS_AN_INCH / unit, facecolor=PAPER)
        self._axes: Any = self._figure.add_axes((0, 0, 1, 1))
        self._axes.set(xlim=(0, width), ylim=(height, 0))
        self._axes.set_axis_off()
        self._depth = 1.0

    def text(self, at: Point, text: str, pen: Pen, halo: str | None = None) -> None:
        """Write one line, its middle at the height of ``at``."""
        font = _properties(pen.bold).copy()
        font.set_size(pen.size * self._unit)
        found = self._axes.text(
            *at,
            drawable(text, pen.bold),
            fontproperties=font,
            color=pen.colour,
            ha=pen.align,
            va="center_baseline",
            parse_math=False,
            usetex=False,
            zorder=self._next(),
        )
        if halo is not None:
            found.set_bbox({"facecolor": halo, "edgecolor": "none", "pad": 0.8})

    def block(self, at: Point, lines: Sequence[str], pen: Pen) -> float:
        """Write lines below each other from an upper left corner; return where they end."""
        x, y = at
        for line in lines:
            self.text((x, y + pen.line / 2), line, pen)
            y += pen.line
        return y

    def rectangle(
        self,
        area: Area,
        fill: str | None = None,
        edge: str | None = None,
        width: float = 1.0,
        radius: float = 0.0,
    ) -> None:
        """Draw a rectangle."""
        corner = (area.x, area.y)
        patch: Patch = Rectangle(corner, area.width, area.height)
        if radius:
            box = f"round,pad=0,rounding_size={radius}"
            patch = FancyBboxPatch(corner, area.width, area.height, boxstyle=box)
        patch.set(
            facecolor=fill or "none",
            edgecolor=edge or "none",
            linewidth=width * self._unit if edge else 0.0,
            zorder=self._next(),
        )
        self._axes.add_patch(patch)

    def polygon(self, corners: Iterable[Point], fill: str, alpha: float = 1.0) -> None:
        """Draw a filled shape."""
        patch = Polygon(list(corners), closed=True, facecolor=fill, linewidth=0, alpha=alpha)
        patch.set_zorder(self._next())
        self._axes.add_patch(patch)

    def curve(self, points: Sequence[Point], stroke: Stroke) -> None:
        """Draw a curve through points, four a piece as Bézier has it: a point and three more."""
        codes = [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)]
        self._stroke(Path(list(points), codes), stroke)

    def line(self, start: Point, end: Point, stroke: Stroke) -> None:
        """Draw a straight line."""
        self._stroke(Path([start, end]), stroke)

    def _stroke(self, path: Path, stroke: Stroke) -> None:
        width = stroke.width * self._unit
        dashes = tuple(part / stroke.width for part in stroke.dashes)
        self._axes.add_patch(
            PathPatch(
                path,
                fill=False,
                edgecolor=stroke.colour,
                linewidth=width,
                linestyle=(0, dashes) if dashes else "-",
                capstyle="butt",
                alpha=stroke.alpha,
                zorder=self._next(),
            )
        )

    def _next(self) -> float:
        """Return a depth above all others: what is drawn later covers what was drawn before."""
        self._depth += 0.001
        return self._depth

    def png(self) -> bytes:
        """Return the sheet as a PNG without a time in it."""
        target = io.BytesIO()
        canvas: Any = FigureCanvasAgg(self._figure)  # has no types here, nor has a PDF below
        canvas.print_png(target, metadata={"Software": None})
        return target.getvalue()

    def add_to(self, pages: Any) -> None:
        """Append the sheet to ``PdfPages``."""
        FigureCanvasPdf(self._figure)
        pages.savefig(self._figure)


@dataclass(frozen=True)
class Stroke:
    """How a line looks; lengths in units of the sheet."""

    colour: str
    width: float = 1.0
    dashes: tuple[float, ...] = ()
    alpha: float = 1.0


def width_of(text: str, pen: Pen) -> float:
    """Return how wide a text is, in the units of the pen's size."""
    face = _face(pen.bold)
    face.set_size(100.0, _POINTS_AN_INCH)
    face.set_text(drawable(text, pen.bold), 0.0)
    # FreeType counts in 64ths of a point.
    return face.get_width_height()[0] / 64 * pen.size / 100.0


def wrapped(text: str, pen: Pen, width: float) -> list[str]:
    """Return a text as lines that fit; a word that does not is cut."""
    lines: list[str] = []
    current = ""
    for word in printable(text).split():
        longer = f"{current} {word}" if current else word
        if width_of(longer, pen) <= width:
            current = longer
            continue
        if current:
            lines.append(current)
        current = word
        while width_of(current, pen) > width and len(current) > 1:
            size = _that_fits(current, pen, width)
            lines.append(current[:size])
            current = current[size:]
    return [*lines, current] if current else lines


def fitted(text: str, pen: Pen, width: float) -> str:
    """Return a text as one line that fits, cut with an ellipsis if need be."""
    shown = printable(text)
    if width_of(shown, pen) <= width:
        return shown
    return f"{shown[: _that_fits(shown, pen, width - width_of('…', pen))]}…"


def _that_fits(text: str, pen: Pen, width: float) -> int:
    """Return how many characters of a text fit, at least one."""
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width_of(text[:middle], pen) <= width else (low, middle - 1)
    return low


def drawable(text: str, bold: bool = False) -> str:
    """Return a text of which nothing is left that the letters do not have."""
    face = _face(bold)
    return "".join(c if face.get_char_index(ord(c)) else "\ufffd" for c in printable(text))


@cache
def _properties(bold: bool) -> FontProperties:
    return FontProperties(family=_FAMILY, weight="bold" if bold else "normal")


@cache
def _face(bold: bool) -> FT2Font:
    return get_font(findfont(_properties(bold)))
