"""A report on a monitor as one picture for a chat message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driftbn.reporting.scene import Scene
from driftbn.reporting.words import counted
from service.reports.canvas import (
    INK,
    PANEL,
    RULE,
    SOFT,
    Area,
    Canvas,
    Pen,
    fitted,
    wrapped,
)
from service.reports.cards import cards_of
from service.reports.graph_picture import (
    COLOURS,
    FRAME,
    drawing_for,
    legend_of,
    paint_graph,
    stroke_of,
)
from service.reports.story import Story
from service.reports.time_picture import paint_time_line

WIDTH, HEIGHT = 1600, 1000
"""Size of the picture in pixels."""
_UNIT: Final = 0.72  # points of a pixel at 100 dots per inch
_MARGIN: Final = 44.0
_COLUMN: Final = 430.0  # width of the words on the right
_TIME: Final = 280.0  # height of the time line with its panel
_PAD: Final = 16.0
_LEGIBLE: Final = 11.5  # pixels of letters
_MAX_CARDS: Final = 3
_SMALL: Final = 17.0
_WORDS, _CARD = Pen(_SMALL), Pen(21.0, bold=True)
_HEADLINES: Final = ((36.0, 2), (29.0, 2), (24.0, 3))  # sizes that are tried, with lines


def png_of(story: Story) -> bytes:
    """Return the picture: headline, graph, changes in short, legend and time line.

    Equal stories give equal bytes with the same version of matplotlib.
    """
    canvas = Canvas(WIDTH, HEIGHT, _UNIT)
    top = _heading(canvas, story)
    bottom = HEIGHT - _MARGIN - _TIME - _PAD
    left = WIDTH - 2 * _MARGIN - _COLUMN - _PAD
    graph = Area(_MARGIN, top, left, bottom - top)
    scene = _graph(canvas, story, graph)
    words = Area(_MARGIN + left + _PAD + 8, top, _COLUMN - 8, bottom - top)
    _column(canvas, story, scene, words)
    panel = Area(_MARGIN, HEIGHT - _MARGIN - _TIME, WIDTH - 2 * _MARGIN, _TIME)
    canvas.rectangle(panel, PANEL, RULE, 1.0, 10.0)
    inner = Area(panel.x + 8, panel.y + _PAD, panel.width - 8 - _PAD, panel.height - 1.5 * _PAD)
    paint_time_line(canvas, inner, story.moments, story.chosen, _SMALL)
    return canvas.png()


def _heading(canvas: Canvas, story: Story) -> float:
    """Write what is above the picture; return where that ends."""
    width = WIDTH - 2 * _MARGIN
    small = Pen(20.0, SOFT)
    name = fitted(f"{story.name}  ·  {story.subject}  ·  {story.state}", small, width)
    y = canvas.block((_MARGIN, 26.0), [name], small)
    for size, n_lines in _HEADLINES:
        pen = Pen(size, INK, bold=True)
        lines = wrapped(story.headline, pen, width)
        if len(lines) <= n_lines:
            break
    else:
        lines = [*lines[: n_lines - 1], fitted(" ".join(lines[n_lines - 1 :]), pen, width)]
    y = canvas.block((_MARGIN, y + 4), lines, pen)
    context = wrapped(" ".join(story.context or story.changes[:1]), small, width)
    shown = context[:2]
    if len(context) > len(shown):
        shown[-1] = fitted(" ".join(context[1:]), small, width)
    return canvas.block((_MARGIN, y + 4), shown, small) + _PAD


def _graph(canvas: Canvas, story: Story, area: Area) -> Scene:
    canvas.rectangle(area, PANEL, RULE, 1.0, 10.0)
    soft = Pen(_SMALL, SOFT)
    room = (area.width - 2 * _PAD, area.height - 2 * _PAD - soft.line)
    scene, drawing = drawing_for(story.report, room, _LEGIBLE)
    notes = wrapped(scene.note, soft, room[0])
    inner = Area(area.x + _PAD, area.y + _PAD, room[0], area.height - 2 * _PAD)
    if drawing is None:
        canvas.block((inner.x, inner.y + inner.height / 2 - soft.line), notes, soft)
        return scene
    below = len(notes) * soft.line
    paint_graph(canvas, drawing, Area(inner.x, inner.y, inner.width, inner.height - below))
    canvas.block((inner.x, inner.y + inner.height - below), notes, soft)
    return scene


def _column(canvas: Canvas, story: Story, scene: Scene, area: Area) -> None:
    """Write the changes from the top and the legend from the bottom."""
    keys = legend_of(scene)
    pen = Pen(_SMALL, SOFT)
    end = area.y + area.height - len(keys) * pen.line
    y = end
    for kind, confirmed, text in keys:
        x, middle = area.x, y + pen.line / 2
        if kind is not None:
            canvas.line((x, middle), (x + 44, middle), stroke_of(kind, confirmed))
            x += 54
        canvas.text((x, middle), fitted(text, pen, area.x + area.width - x), pen)
        y += pen.line
    _cards(canvas, story, Area(area.x, area.y, area.width, end - area.y - _PAD))


def _cards(canvas: Canvas, story: Story, area: Area) -> None:
    cards = cards_of(story.report)
    y, shown = area.y, 0
    for card in cards[:_MAX_CARDS]:
        lines = [line for text in card.lines for line in wrapped(text, _WORDS, area.width)]
        tall = _CARD.line + len(lines) * _WORDS.line
        if y + tall > area.y + area.height:
            break
        colour = FRAME if card.kind is None else COLOURS[card.kind]
        title = Pen(_CARD.size, colour, bold=True)
        y = canvas.block((area.x, y), [fitted(card.title, title, area.width)], title)
        y = canvas.block((area.x, y), lines, _WORDS) + _PAD
        shown += 1
    rest = [f"and {counted(len(cards) - shown, 'more change')}"] if len(cards) > shown else []
    if not cards:
        rest += story.changes[:2] if story.context else story.changes[1:3]
    _texts(canvas, [*rest, *story.advice], Area(area.x, y, area.width, area.y + area.height - y))


def _texts(canvas: Canvas, texts: Sequence[str], area: Area) -> None:
    """Write those texts that fit as a whole."""
    y = area.y
    for text in texts:
        lines = wrapped(text, _WORDS, area.width)
        if y + len(lines) * _WORDS.line > area.y + area.height:
            break
        y = canvas.block((area.x, y), lines, Pen(_SMALL, SOFT)) + _PAD / 2
