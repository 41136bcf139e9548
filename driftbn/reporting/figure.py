"""The picture of a report with its legend, as a part of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftbn.reporting.page import shown
from driftbn.reporting.scene import CHANGED, TARGET, LineKind
from driftbn.reporting.svg import Picture, picture_of

if TYPE_CHECKING:
    from driftbn.report import WindowReport

NARROW_NODES = 16
"""Nodes that a narrow screen shows at once; of a larger graph it gets what is around changes."""


def figure_of(report: WindowReport) -> str:
    """Return the picture of a report; narrow screens get one that is cut closer."""
    whole, close = picture_of(report), picture_of(report, NARROW_NODES)
    if not close.svg or close == whole:
        return _figure(whole)
    wide = f'<div class="for-wide">{_figure(whole)}</div>'
    return f'{wide}<div class="for-narrow">{_figure(close)}</div>'


def scrolling(svg: str) -> str:
    """Return a drawing that scrolls where it has no room."""
    hint = '<p class="soft narrow">A picture wider than the screen moves sideways.</p>'
    return f'<div class="wide">{svg}</div>{hint}'


def _figure(picture: Picture) -> str:
    note = f'<p class="soft">{shown(picture.note)}</p>' if picture.note else ""
    if not picture.svg:
        return note
    return f'<div class="panel">{scrolling(picture.svg)}{_legend(picture)}</div>{note}'


def _legend(picture: Picture) -> str:
    keys = [
        _key(kind, confirmed)
        for confirmed in (True, False)
        for kind in LineKind
        if (kind, confirmed) in picture.kinds
    ]
    notes = ["no arrow head: the data do not tell the direction"]
    if any(kind is not LineKind.KEPT and not confirmed for kind, confirmed in picture.kinds):
        notes.append("thin and pale: differences such as come by chance between any two windows")
    if CHANGED in picture.marks:
        notes.append(f"{CHANGED} follows another rule, or its values come in other shares")
    if TARGET in picture.marks:
        notes.append(f"{TARGET} target")
    return f'<ul class="legend">{"".join(keys)}{"".join(f"<li>{n}</li>" for n in notes)}</ul>'


def _key(kind: LineKind, confirmed: bool) -> str:
    text = kind.value
    if confirmed:
        text = f"{kind.sign} {kind.value}, confirmed by a test"
    elif kind is not LineKind.KEPT:
        text = f"{kind.sign} {kind.value} since the window before, not confirmed"
    classes = f"line {kind.value}{' confirmed' if confirmed else ''}"
    line = f'<g class="{classes}"><path d="M0 6H40"/></g>'
    return f'<li><svg width="40" height="12" aria-hidden="true">{line}</svg>{text}</li>'
