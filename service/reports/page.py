"""A report on a monitor as a page that needs nothing else."""

from __future__ import annotations

from driftbn.reporting.figure import figure_of
from driftbn.reporting.html import timeline_panel
from driftbn.reporting.page import bullets, page, section, shown, table
from driftbn.reporting.tables import (
    edge_table,
    excluded_table,
    family_table,
    node_table,
    numbers,
    undecided_table,
)
from driftbn.reporting.timeline import timeline_svg
from service.reports.story import Story
from service.reports.words import episode_windows, more_episodes


def html_of(story: Story) -> str:
    """Return the page: words, picture, time line, tables and numbers.

    The page is one file without scripts and without references to anything outside. Everything
    that comes from data is escaped, and equal stories give equal pages.
    """
    report = story.report
    body = [
        _badge(story),
        f"<h1>{shown(story.headline)}</h1>",
        "".join(f"<p>{shown(text)}</p>" for text in story.context),
        section("What changed" if story.episode else "What is known", [bullets(story.changes)]),
        section("What to do", [bullets(story.advice)]),
        section("Picture", [_drawn(story), figure_of(report)]),
        section("Time line", [_time_line(story)]),
        section("Changed dependencies", [edge_table(report)]),
        section("Changed fields", [node_table(report)]),
        section("How it was found", [bullets(story.found)]),
        section("Episodes", [_episode_table(story)]),
        section("Numbers", [_of_window(story), numbers(report), family_table(report)]),
        section("Too small to tell", [undecided_table(report)]),
        section("Left out", [excluded_table(report)]),
    ]
    return page(f"driftbn: {story.name}, {story.subject}", body)


def _badge(story: Story) -> str:
    name = f"{story.name}, {story.subject}"
    state = f'<span class="level {story.state}">{story.state}</span>'
    return f'<p>{state} <span class="soft">{shown(name)}</span></p>'


def _drawn(story: Story) -> str:
    if story.episode is None:
        return ""
    return (
        f'<p class="soft">The dependencies in window {story.report.index:,}, with the changes of'
        " the episode that a test confirms.</p>"
    )


def _of_window(story: Story) -> str:
    if story.episode is None:
        return ""
    return f'<p class="soft">Of window {story.report.index:,}, which names the change.</p>'


def _time_line(story: Story) -> str:
    svg = timeline_svg(story.moments, story.chosen)
    return timeline_panel(svg, len(story.windows))


def _episode_table(story: Story) -> str:
    rows = [
        (f"{row.episode:,}", episode_windows(row), row.state, row.kind or "", row.headline)
        for row in story.episodes
    ]
    more = "".join(f'<p class="soft">{shown(text)}</p>' for text in more_episodes(story))
    return table(("Episode", "Windows", "State", "Kind", "What"), rows) + more
