"""A report on a monitor as a PDF for a post-mortem."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from matplotlib.backends.backend_pdf import PdfPages

from driftbn.reporting.scene import LineKind
from driftbn.reporting.words import decimal
from service.reports.canvas import (
    PANEL,
    RULE,
    SOFT,
    Area,
    Canvas,
    Pen,
    Stroke,
    fitted,
    width_of,
    wrapped,
)
from service.reports.cards import pair_text, strength_text
from service.reports.graph_picture import drawing_for, legend_of, paint_graph, stroke_of
from service.reports.story import Story
from service.reports.time_picture import paint_time_line
from service.reports.words import episode_windows, more_episodes

_WIDTH, _HEIGHT = 595.0, 842.0  # A4 in points, as are all lengths below
_LEFT, _TOP, _BOTTOM = 48.0, 46.0, 50.0
_ROOM: Final = _WIDTH - 2 * _LEFT
_GRAPH, _TIME = 245.0, 150.0
_LEGIBLE: Final = 6.0
_MAX_CHANGES: Final = 12
_TEXT, _SOFT = Pen(9.2), Pen(8.2, SOFT)
_HEAD, _TITLE = Pen(11.5, bold=True), Pen(16.0, bold=True)
_CELL, _CELL_HEAD = Pen(7.8), Pen(7.8, SOFT, bold=True)


def pdf_of(story: Story) -> bytes:
    """Return the document: headline, graph, words, time line and tables; most have two pages.

    Equal stories give equal bytes with the same version of matplotlib.
    """
    flow = _Flow()
    flow.lines([f"{story.name}  ·  {story.subject}  ·  {story.state}"], _SOFT)
    flow.text(story.headline, _TITLE)
    for text in story.context:
        flow.text(text, _TEXT)
    _picture(flow, story)
    flow.bullets("What changed" if story.episode else "What is known", story.changes)
    flow.bullets("What to do", story.advice)
    _time_line(flow, story)
    flow.table("Changed dependencies", *_changes(story), widths=(0.1, 0.3, 0.24, 0.24, 0.12))
    flow.table("Changed fields", *_fields(story), widths=(0.25, 0.38, 0.25, 0.12))
    flow.bullets("How it was found", story.found)
    flow.table("Episodes", *_episodes(story), widths=(0.1, 0.15, 0.1, 0.65))
    for text in more_episodes(story):
        flow.text(text, _SOFT)
    return flow.pdf(f"{story.name}, {story.subject}")


class _Flow:
    """Sheets that are filled from top to bottom."""

    def __init__(self) -> None:
        self._sheets = [Canvas(_WIDTH, _HEIGHT, 1.0)]
        self._y = _TOP

    def room(self, height: float) -> tuple[Canvas, float]:
        """Take room of that height; return the sheet and where the room begins."""
        if self._y + height > _HEIGHT - _BOTTOM and self._y > _TOP:
            self._sheets.append(Canvas(_WIDTH, _HEIGHT, 1.0))
            self._y = _TOP
        y = self._y
        self._y += height
        return self._sheets[-1], y

    def lines(self, lines: Sequence[str], pen: Pen, indent: float = 0.0) -> None:
        for line in lines:
            canvas, y = self.room(pen.line)
            shown = fitted(line, pen, _ROOM - indent)
            canvas.text((_LEFT + indent, y + pen.line / 2), shown, pen)

    def text(self, text: str, pen: Pen) -> None:
        self.lines(wrapped(text, pen, _ROOM), pen)

    def heading(self, text: str, following: float) -> None:
        """Write a heading on the sheet of what follows it."""
        canvas, y = self.room(2.1 * _HEAD.size + following)
        self._y -= following
        canvas.text((_LEFT, y + 1.3 * _HEAD.size), text, _HEAD)

    def bullets(self, heading: str, texts: Sequence[str]) -> None:
        if not texts:
            return
        self.heading(heading, 3 * _TEXT.line)
        for text in texts:
            lines = wrapped(text, _TEXT, _ROOM - 12)
            canvas, y = self.room(len(lines) * _TEXT.line + 2)
            canvas.text((_LEFT + 2, y + _TEXT.line / 2), "•", _TEXT)
            canvas.block((_LEFT + 12, y), lines, _TEXT)

    def table(
        self,
        heading: str,
        names: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        widths: Sequence[float],
    ) -> None:
        if not rows:
            return
        self.heading(heading, 4 * _CELL.line)
        for number, row in enumerate((names, *rows)):
            pen = _CELL if number else _CELL_HEAD
            cells = [
                wrapped(cell, pen, share * _ROOM - 6)
                for cell, share in zip(row, widths, strict=True)
            ]
            tall = max(map(len, cells)) * pen.line + 4
            canvas, y = self.room(tall)
            x = _LEFT
            for lines, share in zip(cells, widths, strict=True):
                canvas.block((x, y + 2), lines, pen)
                x += share * _ROOM
            canvas.line((_LEFT, y + tall), (_LEFT + _ROOM, y + tall), Stroke(RULE, 0.6))

    def pdf(self, name: str) -> bytes:
        target = io.BytesIO()
        metadata = {"CreationDate": None, "Creator": None, "Producer": None, "Title": name}
        with PdfPages(target, metadata=metadata) as pages:
            for number, sheet in enumerate(self._sheets, 1):
                y = _HEIGHT - _BOTTOM / 2
                place = f"{number} of {len(self._sheets)}"
                room = _ROOM - width_of(place, _SOFT) - 12
                sheet.text((_LEFT, y), fitted(f"driftbn: {name}", _SOFT, room), _SOFT)
                sheet.text((_WIDTH - _LEFT, y), place, _SOFT.aligned("right"))
                sheet.add_to(pages)
        return target.getvalue()


def _picture(flow: _Flow, story: Story) -> None:
    scene, drawing = drawing_for(story.report, (_ROOM - 16, _GRAPH - 16), _LEGIBLE)
    if drawing is not None:
        flow.room(8)
        canvas, y = flow.room(_GRAPH)
        canvas.rectangle(Area(_LEFT, y, _ROOM, _GRAPH), PANEL, RULE, 0.7, 6.0)
        paint_graph(canvas, drawing, Area(_LEFT + 8, y + 8, _ROOM - 16, _GRAPH - 16))
        flow.room(4)
        _legend(flow, legend_of(scene))
    if scene.note:
        flow.text(scene.note, _SOFT)


def _legend(flow: _Flow, keys: Sequence[tuple[LineKind | None, bool, str]]) -> None:
    x, canvas, y = _ROOM + 1, None, 0.0
    for kind, confirmed, text in keys:
        wide = width_of(text, _SOFT) + (34 if kind is not None else 0)
        if x + wide > _ROOM or canvas is None:
            canvas, y = flow.room(_SOFT.line + 1)
            x = 0.0
        middle, at = y + _SOFT.line / 2, _LEFT + x
        if kind is not None:
            canvas.line((at, middle), (at + 28, middle), stroke_of(kind, confirmed, 0.6))
            at += 34
        canvas.text((at, middle), text, _SOFT)
        x += wide + 16


def _time_line(flow: _Flow, story: Story) -> None:
    flow.heading("Time line", _TIME)
    canvas, y = flow.room(_TIME)
    canvas.rectangle(Area(_LEFT, y, _ROOM, _TIME), PANEL, RULE, 0.7, 6.0)
    inner = Area(_LEFT + 4, y + 8, _ROOM - 14, _TIME - 13)
    paint_time_line(canvas, inner, story.moments, story.chosen, _SOFT.size)
    flow.room(3)
    flow.text(
        "Raw differences between neighbouring windows come by chance as well; an alarm (▼) needs a"
        " change that a test confirms.",
        _SOFT,
    )


def _changes(story: Story) -> tuple[Sequence[str], list[Sequence[str]]]:
    edges = story.report.decision.edges
    rows: list[Sequence[str]] = [
        (
            edge.change.value,
            pair_text(edge),
            strength_text(edge.before),
            strength_text(edge.after),
            decimal(edge.p_value),
        )
        for edge in edges[:_MAX_CHANGES]
    ]
    if len(edges) > _MAX_CHANGES:
        rows.append((f"and {len(edges) - _MAX_CHANGES:,} more", "", "", "", ""))
    return ("Change", "Fields", "Before", "Now", "p-value"), rows


def _fields(story: Story) -> tuple[Sequence[str], list[Sequence[str]]]:
    changes = story.report.decision.node_changes
    rows = [
        (
            change.name,
            ", ".join(change.parents),
            f"{decimal(change.effect)} nats per record",
            decimal(change.p_value),
        )
        for change in changes[:_MAX_CHANGES]
    ]
    return ("Field", "Among records equal in", "Difference", "p-value"), list(rows)


def _episodes(story: Story) -> tuple[Sequence[str], list[Sequence[str]]]:
    rows = [
        (f"{row.episode:,}", episode_windows(row), row.state, row.headline)
        for row in story.episodes
    ]
    return ("Episode", "Windows", "State", "What"), list(rows)
