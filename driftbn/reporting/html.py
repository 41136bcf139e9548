"""Reports as web pages that need nothing else: one window, or a whole replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftbn.reporting.caveats import event_sentence
from driftbn.reporting.explanation import Explanation, explain
from driftbn.reporting.figure import figure_of, scrolling
from driftbn.reporting.page import bullets, page, section, shown
from driftbn.reporting.tables import (
    edge_table,
    excluded_table,
    family_table,
    node_table,
    numbers,
    undecided_table,
)
from driftbn.reporting.timeline import timeline_of, windows_per_bar
from driftbn.reporting.words import counted

if TYPE_CHECKING:
    from driftbn.report import WindowReport

MAX_PICTURES = 40
"""Alarms of a replay that are drawn; a page with more would be slow to open."""


def report_to_html(report: WindowReport) -> str:
    """Return a page on one window: words, picture, tables and numbers.

    The page is one file without scripts and without references to anything outside. Everything
    that comes from data is escaped.

    Examples
    --------
    >>> from driftbn.decision.outcome import DriftDecision, DriftLevel
    >>> from driftbn.diff import StructureDiff
    >>> from driftbn.graph import Dag
    >>> from driftbn.learning import SearchCost
    >>> from driftbn.report import WindowReport
    >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
    >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
    >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, SearchCost((1,)))
    >>> report_to_html(report).startswith("<!doctype html>")
    True
    """
    explanation = explain(report)
    body = [
        _badge(report),
        f"<h1>{shown(explanation.headline)}</h1>",
        _words(explanation),
        section("Picture", [figure_of(report)]),
        section("Changed dependencies", [edge_table(report)]),
        section("Changed fields", [node_table(report)]),
        section("Numbers", [numbers(report), family_table(report)]),
        section(
            "Columns and values", [bullets([event_sentence(event) for event in report.events])]
        ),
        section("Too small to tell", [undecided_table(report)]),
        section("Left out", [excluded_table(report)]),
    ]
    return page(f"driftbn: window {report.index}", body)


def html_of(reports: Sequence[WindowReport]) -> str:
    """Return a page on many windows: a timeline, then each episode with words and pictures.

    Parameters
    ----------
    reports
        In the order of the stream, as a replay gives them.

    Examples
    --------
    >>> "There is no window yet." in html_of([])
    True
    """
    n_alarms = sum(report.decision.drift for report in reports)
    heading = f"{counted(len(reports), 'window')}, {counted(n_alarms, 'alarm')}"
    if not reports:
        return page("driftbn: replay", [f"<h1>{heading}</h1><p>There is no window yet.</p>"])
    body = [f"<h1>{heading}</h1>", _timeline(reports)]
    groups = _episodes(reports)
    if not groups:
        body.append(f"<p>{shown('No window raised an alarm.')}</p>")
    n_drawn = 0
    for group in groups:
        body.append(_episode(group, MAX_PICTURES - n_drawn))
        n_drawn += sum(report.decision.drift for report in group)
    return page("driftbn: replay", body)


def _badge(report: WindowReport) -> str:
    level = report.decision.level.value
    return f'<p><span class="level {level}">{level}</span></p>'


def _words(explanation: Explanation) -> str:
    advice = bullets(explanation.advice)
    return bullets(explanation.sentences) + (f"<h3>What to do</h3>{advice}" if advice else "")


def _timeline(reports: Sequence[WindowReport]) -> str:
    return timeline_panel(timeline_of(reports), len(reports))


def timeline_panel(svg: str, n_windows: int) -> str:
    """Return a timeline with what is to be known to read it."""
    size = windows_per_bar(n_windows)
    shared = f" Each bar shows the largest of {size} windows." if size > 1 else ""
    return (
        f'<div class="panel">{scrolling(svg)}</div>'
        '<p class="soft">Raw differences between neighbouring windows come by chance as well; an'
        f" alarm (▼) needs a change that a test confirms.{shared}</p>"
    )


def _episodes(reports: Sequence[WindowReport]) -> list[list[WindowReport]]:
    """Return the windows of each episode; an alarm outside of any is one of its own."""
    found: dict[tuple[int, int], list[WindowReport]] = {}
    for report in reports:
        episode = report.decision.episode
        if episode is not None:
            found.setdefault((0, episode), []).append(report)
        elif report.decision.drift:
            found[1, report.index] = [report]
    return sorted(found.values(), key=lambda group: group[0].index)


def _episode(group: Sequence[WindowReport], n_pictures: int) -> str:
    first, last = group[0], group[-1]
    number = first.decision.episode
    name = "Alarm outside of any episode" if number is None else f"Episode {number}"
    where = f"windows {first.index:,} to {last.index:,}"
    if first is last:
        where = f"window {first.index:,}"
    parts = []
    for report in group:
        if report.decision.drift or report.decision.edges:
            parts.append(_alarm(report, n_pictures > 0))
            n_pictures -= 1
        else:
            parts.append(f'<p class="soft">{shown(explain(report).headline)}</p>')
    return f'<section class="episode"><h2>{name}: {where}</h2>{"".join(parts)}</section>'


def _alarm(report: WindowReport, drawn: bool) -> str:
    explanation = explain(report)
    picture = figure_of(report) if drawn else ""
    if not drawn:
        picture = f'<p class="soft">Only the first {MAX_PICTURES} alarms are drawn.</p>'
    return (
        f'<h3 id="window-{report.index}">{shown(explanation.headline)}</h3>'
        f"{_words(explanation)}{picture}"
    )
