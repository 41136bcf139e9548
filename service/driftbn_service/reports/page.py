"""A report on a monitor as a page that needs nothing else, and as one picture."""

from __future__ import annotations

from driftbn.explain.html import (
    bullets,
    edge_table,
    excluded_table,
    family_table,
    figure_of,
    node_table,
    numbers,
    page,
    section,
    shown,
    table,
    timeline_panel,
    undecided_table,
)
from driftbn.explain.picture import picture_of, scene_of
from driftbn.explain.svg import Drawing
from driftbn.explain.timeline import timeline_of
from driftbn_service.reports.story import Story
from driftbn_service.reports.words import episode_windows, more_episodes

_MAX_SENTENCES = 3  # of those on changes that a picture has room for


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
        section("Time line", [timeline_panel(story.moments, story.chosen)]),
        section("Changed dependencies", [edge_table(report)]),
        section("Changed fields", [node_table(report)]),
        section("How it was found", [bullets(story.found)]),
        section("Episodes", [_episode_table(story)]),
        section("Numbers", [_of_window(story), numbers(report), family_table(report)]),
        section("Too small to tell", [undecided_table(report)]),
        section("Left out", [excluded_table(report)]),
    ]
    return page(f"driftbn: {story.name}, {story.subject}", body)


def chat_picture_of(story: Story) -> Drawing:
    """Return the picture for a chat message: words in short, graph, legend and time line."""
    return picture_of(
        story.headline,
        (story.title, *story.context, *story.changes[:_MAX_SENTENCES]),
        scene_of(story.report),
        timeline_of(story.moments, story.chosen),
    )


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


def _episode_table(story: Story) -> str:
    rows = [
        (f"{row.episode:,}", episode_windows(row), row.state, row.kind or "", row.headline)
        for row in story.episodes
    ]
    more = "".join(f'<p class="soft">{shown(text)}</p>' for text in more_episodes(story))
    return table(("Episode", "Windows", "State", "Kind", "What"), rows) + more
