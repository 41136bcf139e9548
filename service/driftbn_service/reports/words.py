"""A report on a monitor as lines of text, and as data."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any, Final

from driftbn.explain.words import counted, printable
from driftbn_service.reports.story import Story
from driftbn_service.store import EpisodeRow
from driftbn_service.text import Line, Style

FORMAT: Final = "driftbn.monitor-report"
VERSION: Final = 1
_WIDTH: Final = 80  # columns of a terminal that has not been touched
_HEAD: Final = Line("episode  windows        state  what", Style.HEAD)


def lines_of(story: Story) -> list[Line]:
    """Return what is told as lines: headline, sentences, advice, episodes."""
    blank = Line("", Style.NOTE)
    lines = [Line(printable(story.title), Style.NOTE)]
    lines += [Line(text, Style.HEAD) for text in _filled(story.headline, "")]
    lines += [blank, *_bullets((*story.context, *story.changes))]
    if story.advice:
        lines += [blank, Line("What to do:", Style.HEAD), *_bullets(story.advice)]
    if story.found:
        lines += [blank, Line("How it was found:", Style.HEAD), *_bullets(story.found)]
    if story.episodes:
        lines += [blank, _HEAD, *(_episode_line(row) for row in story.episodes)]
    return lines + [Line(text, Style.NOTE) for text in more_episodes(story)]


def more_episodes(story: Story) -> tuple[str, ...]:
    """Return how many episodes are not listed, if any."""
    n_more = story.n_episodes - len(story.episodes)
    return (f"and {counted(n_more, 'earlier episode')}",) if n_more > 0 else ()


def episode_windows(row: EpisodeRow) -> str:
    """Return the windows of an episode.

    Examples
    --------
    >>> row = EpisodeRow("m", "", 0, 8, None, None, 13, 13, None, "", False, 6, "ended")
    >>> episode_windows(row)
    '8 to 13'
    """
    first, last = f"{row.started_window:,}", f"{row.last_window:,}"
    if row.is_open:
        return f"{first} to now"
    return first if first == last else f"{first} to {last}"


def document_of(story: Story) -> dict[str, Any]:
    """Return what is told as plain values, ready for JSON."""
    report = story.report
    columns = ("window_index", "hamming", "confirmed_hamming", "drift", "episode", "p_value", "end")
    series = {name: [getattr(row, name) for row in story.windows] for name in columns}
    return {
        "format": FORMAT,
        "version": VERSION,
        "monitor": story.monitor,
        "key": story.key,
        "subject": "window" if story.episode is None else "episode",
        "state": story.state,
        "headline": story.headline,
        "sentences": [*story.context, *story.changes, *story.found],
        "advice": list(story.advice),
        "episode": None if story.episode is None else _episode_document(story.episode),
        "window": report.to_dict(),
        "timeline": {"window": series.pop("window_index"), **series},
        "episodes": [_episode_document(row) for row in story.episodes],
        "n_episodes": story.n_episodes,
    }


def _episode_document(row: EpisodeRow) -> dict[str, Any]:
    found = {name: value for name, value in vars(row).items() if name not in ("monitor", "key")}
    edges = []
    for edge in row.edges:
        values = dict(vars(edge))
        edges.append({"window": values.pop("window_index"), **values})
    return found | {"edges": edges}


def _bullets(texts: Iterable[str]) -> list[Line]:
    return [Line(line, Style.NOTE) for text in texts for line in _filled(text, "- ")]


def _filled(text: str, first: str) -> list[str]:
    return textwrap.wrap(
        printable(text),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _episode_line(row: EpisodeRow) -> Line:
    text = f"{row.episode:>7}  {episode_windows(row):<13}  {row.state:<5}  {row.headline}"
    return Line(printable(text), Style.REMOVED if row.is_open else Style.NOTE)
