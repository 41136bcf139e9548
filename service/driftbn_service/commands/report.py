"""``driftbn report``: what a daemon's history tells of a stream, for people elsewhere."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from driftbn.codec import Codec
from driftbn.config import check_integer
from driftbn.explain import (
    Explanation,
    State,
    begun,
    completed,
    episode_headline,
    lasted,
    monitor_name,
    state_of,
)
from driftbn.explain.changes import Change
from driftbn.explain.html import (
    figure_of,
    numbers,
    page,
    section,
    shown,
    table,
    tables_of,
    timeline_panel,
    told,
)
from driftbn.explain.picture import picture_of, scene_of
from driftbn.explain.sentences import counted, moment, printable, windows_between
from driftbn.explain.svg import Drawing, Moment, timeline_of
from driftbn.report import REPORTS, WindowReport
from driftbn_service.commands import (
    Line,
    Style,
    check_names,
    png_renderer,
    save,
    word_lines,
    write_lines,
    write_text,
)
from driftbn_service.errors import InputError
from driftbn_service.events import naming_window
from driftbn_service.records.files import STDIN
from driftbn_service.settings.loading import load_settings, settings_path
from driftbn_service.state import EpisodeRow, Store, WindowRow, named_place, place_of
from driftbn_service.state.sql import EpisodeEdge

FORMAT: Final = "driftbn.monitor-report"
VERSION: Final = 1
DEFAULT_LAST: Final = 200
"""Windows of the time line."""
MAX_EPISODES: Final = 10
"""Episodes that are listed; the others are counted."""
_MAX_NAMED: Final = 10  # names that an error lists
_MAX_NAMING: Final = 4  # windows of one episode whose words are told
_MAX_ADVICE: Final = 2
_LARGEST: Final = 2**63 - 1  # what SQLite can count to
_DRAWN: Final = (
    "The dependencies in window {}, with the changes of the episode that a test confirms."
)
_HEAD: Final = Line("episode  windows        state  what", Style.HEAD)
_ROWS: Final = Codec(
    base=REPORTS,
    renamed={EpisodeEdge: {"window_index": "window"}},
    omitted={EpisodeRow: ("stream", "key")},
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        description=(
            "Tell what the history of a daemon has on a stream: what changed, since when and how"
            " sure it is, with a picture and a time line. The daemon may run meanwhile: nothing is"
            " locked or changed. Without --html or --png the words go to standard output."
        ),
    )
    parser.add_argument("--stream", metavar="NAME", required=True, help="the stream")
    parser.add_argument("--key", help="which of its monitors, where it has one for each key")
    history = parser.add_mutually_exclusive_group()
    history.add_argument(
        "--config", metavar="FILE", help="the daemon's settings file (as DRIFTBN_CONFIG says)"
    )
    history.add_argument(
        "--history",
        metavar="PLACE",
        help="the history itself: state.sqlite of a state directory, or postgresql://HOST/NAME",
    )
    subject = parser.add_mutually_exclusive_group()
    subject.add_argument(
        "--episode",
        type=int,
        metavar="N",
        help="the episode to tell of (the newest; if there is none, the newest window)",
    )
    subject.add_argument("--window", type=int, metavar="N", help="the window to tell of instead")
    parser.add_argument(
        "--last",
        type=int,
        metavar="N",
        default=DEFAULT_LAST,
        help="windows of the time line (%(default)s)",
    )
    output = parser.add_argument_group("output, - for standard output")
    output.add_argument(
        "--html",
        metavar="FILE",
        help="write a page that needs nothing else; a browser prints it to PDF",
    )
    output.add_argument("--png", metavar="FILE", help="write a picture for a chat message")
    output.add_argument(
        "--details", action="store_true", help="add how strong and how sure the change is"
    )
    output.add_argument("--json", action="store_true", help="write a JSON object instead of words")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    render = None if arguments.png is None else png_renderer(arguments.png)
    with Store(_history(arguments), read_only=True) as store:
        key = _find_key(store, arguments.stream, arguments.key)
        source = _Source(store, arguments.stream, key)
        story = source.story(arguments.window, arguments.episode, arguments.last)
    outputs = []
    if arguments.html is not None:
        outputs.append((arguments.html, _html(story).encode("utf-8", "backslashreplace")))
    if render is not None:
        outputs.append((arguments.png, render(_chat_picture(story))))
    save(outputs)
    if arguments.json:
        write_text(json.dumps(_document(story)) + "\n", None)
    elif not outputs:
        write_lines(_lines(story, in_full=arguments.details), None)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    check_integer("last", arguments.last, 1, _LARGEST)
    for name in ("window", "episode"):
        if getattr(arguments, name) is not None:
            check_integer(name, getattr(arguments, name), 0, _LARGEST)
    names = [name for name in (arguments.html, arguments.png) if name is not None]
    check_names([*names, *([STDIN] if arguments.json else [])])


def _history(arguments: argparse.Namespace) -> Path | str:
    if arguments.history is not None:
        return named_place(arguments.history)
    path = settings_path(arguments.config, os.environ)
    return place_of(load_settings(path, os.environ).service)


# --- What is told ---


@dataclass(frozen=True)
class Story:
    """What a report on a monitor tells."""

    stream: str
    key: str
    words: Explanation
    report: WindowReport = field(repr=False)
    episode: EpisodeRow | None = None  # None if it is about a window
    windows: tuple[WindowRow, ...] = field(default=(), repr=False)  # the oldest first
    episodes: tuple[EpisodeRow, ...] = field(default=(), repr=False)  # the newest first
    n_episodes: int = 0  # that there have been

    @property
    def name(self) -> str:
        return monitor_name(self.stream, self.key)

    @property
    def state(self) -> str:
        if self.episode is None:
            return state_of(self.report.decision).value
        return State.CHANGED.value if self.episode.is_open else "ended"

    @property
    def subject(self) -> str:
        if self.episode is None:
            return f"window {self.report.index:,}"
        return f"episode {self.episode.episode:,}"

    @property
    def title(self) -> str:
        return f"{self.name}, {self.subject}: {self.state}"

    @property
    def chosen(self) -> range:
        """Numbers of the windows that it is about."""
        if self.episode is None:
            return range(self.report.index, self.report.index + 1)
        return range(self.episode.started_window, self.episode.last_window + 1)

    @property
    def moments(self) -> list[Moment]:
        return [
            Moment(row.window_index, row.hamming, row.confirmed_hamming, row.drift, row.episode)
            for row in self.windows
        ]


def _find_key(store: Store, stream: str, key: str | None) -> str:
    """Return the key of the monitor that is meant; without one that of the only one there is."""
    if key is not None and store.monitor(stream, key) is not None:
        return key
    found = [row.key for row in store.monitors(stream, limit=_MAX_NAMED + 1)]
    if not found:
        problem = f"there is no window of a stream {stream!r}; {_known(store)}"
        raise InputError(str(store.path), problem)
    if key is None and ("" in found or len(found) == 1):
        return found[0]
    has = f"no key {key!r}; there are" if key is not None else "several keys, give one with --key"
    problem = f"stream {stream!r} has {has}: {_listed(found)}"
    raise InputError(str(store.path), problem)


def _known(store: Store) -> str:
    names: list[str] = []
    while len(names) <= _MAX_NAMED:
        # No name holds a NUL, so this skips the other keys of the last one.
        after = (f"{names[-1]}\0", "") if names else None
        row = next(iter(store.monitors(after=after, limit=1)), None)
        if row is None:
            break
        names.append(row.stream)
    return f"there are: {_listed(names)}" if names else "there is none of any stream yet"


def _listed(names: Sequence[str]) -> str:
    more = " and more" if len(names) > _MAX_NAMED else ""
    return ", ".join(map(repr, names[:_MAX_NAMED])) + more


class _Source:
    """The history of one monitor, out of which a story is chosen."""

    def __init__(self, store: Store, stream: str, key: str) -> None:
        self._store, self._whose = store, (stream, key)
        self._name = monitor_name(stream, key)

    def story(self, window: int | None, episode: int | None, last: int) -> Story:
        """Tell of a window or an episode; of neither, the newest episode, or else window."""
        episodes = tuple(self._store.episodes(*self._whose, limit=MAX_EPISODES))
        chosen = episodes[0] if episodes and window is None else None
        if episode is not None:
            chosen = self._episode(episode, episodes)
        story = self._of_window(window) if chosen is None else self._of_episode(chosen)
        row = self._store.monitor(*self._whose)
        return replace(
            story,
            windows=self._time_line(story.chosen, last),
            episodes=episodes,
            n_episodes=len(episodes) if row is None else row.n_episodes,
        )

    def _episode(self, number: int, newest: Sequence[EpisodeRow]) -> EpisodeRow:
        found = self._store.episode(*self._whose, number)
        if found is None:
            numbers = ", ".join(str(row.episode) for row in newest)
            there = f"the newest are {numbers}" if numbers else "there is none yet"
            raise self._absent(f"there is no episode {number} of {self._name}; {there}")
        return found

    def _of_window(self, index: int | None) -> Story:
        if index is None:
            index = self._store.windows(*self._whose, limit=1)[0].window_index
        found = self._store.window(*self._whose, index)
        if found is None:
            there = self._store.series(*self._whose, sys.maxsize).window_index
            which = f"there are {there[0]} to {there[-1]}"
            raise self._absent(f"there is no window {index} of {self._name}; {which}")
        report = WindowReport.from_dict(found.report)
        words = report.explain()
        if report.end is None:
            stored = completed(index, found.row.stored)
            words = replace(words, sentences=(stored, *words.sentences))
        return Story(*self._whose, words, report)

    def _of_episode(self, episode: EpisodeRow) -> Story:
        naming = self._naming(episode)
        report = _with_all_changes(episode, naming)
        alarm = self._report(episode.started_window)
        told = [one.explain() for one in ([] if alarm is None else [alarm]) + naming]
        change = Change(report)
        what, how = change.sentences()
        words = Explanation(
            episode_headline(self._name, report, episode.recurring),
            (self._context(episode), *what, *how, *change.target_sentences()),
            _once(text for one in told for text in one.advice)[:_MAX_ADVICE],
            _once(text for one in told for text in one.details),
        )
        return Story(*self._whose, words, report, episode)

    def _context(self, row: EpisodeRow) -> str:
        """Say from when to when an episode is: by event time, or when its first window was full."""
        time = None if row.started_time is None else moment(row.started_time)
        first = self._store.window(*self._whose, row.started_window)
        if time is None and first is not None:
            time = f"complete at {moment(first.row.stored)}"
        began = begun(row.episode, row.started_window, row.started_record, time)
        return lasted(began, row.n_windows, row.last_window, row.ended_window)

    def _naming(self, episode: EpisodeRow) -> list[WindowReport]:
        """Return the windows that name the changes of an episode, as far as they are kept."""
        wanted = {edge.window_index for edge in episode.edges}
        wanted = wanted or {naming_window(self._store, episode)}
        found = [self._report(index) for index in sorted(wanted)[-_MAX_NAMING:]]
        kept = [report for report in found if report is not None]
        if not kept:
            which = f"episode {episode.episode} of {self._name}"
            raise self._absent(f"the windows of {which} are not kept any more")
        return kept

    def _report(self, index: int) -> WindowReport | None:
        found = self._store.window(*self._whose, index)
        return None if found is None else WindowReport.from_dict(found.report)

    def _time_line(self, chosen: range, last: int) -> tuple[WindowRow, ...]:
        """Return the newest windows, or, if what is told lies before them, those around it."""
        rows = self._store.windows(*self._whose, limit=last)
        if rows and rows[-1].window_index > chosen[0]:
            before = chosen[-1] + 1 + last // 4
            rows = self._store.windows(*self._whose, before=before, limit=last)
        return tuple(reversed(rows))

    def _absent(self, problem: str) -> InputError:
        return InputError(str(self._store.path), problem)


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _with_all_changes(episode: EpisodeRow, reports: Sequence[WindowReport]) -> WindowReport:
    """Return the last of the windows, with the changes that the others have named as well."""
    last = reports[-1]
    if len(reports) == 1:
        return last
    told = {
        (report.index, edge.source, edge.target): edge
        for report in reports
        for edge in report.decision.edges
    }
    named = ((edge.window_index, edge.source, edge.target) for edge in episode.edges)
    edges = tuple(told[place] for place in named if place in told)
    nodes = {node.name: node for report in reports for node in report.decision.node_changes}
    decision = replace(last.decision, edges=edges, node_changes=tuple(nodes.values()))
    return replace(last, decision=decision)


# --- Words and data ---


def _lines(story: Story, *, in_full: bool) -> list[Line]:
    lines = [Line(printable(story.title), Style.NOTE), *word_lines(story.words, in_full=in_full)]
    if story.episodes:
        lines += [Line("", Style.NOTE), _HEAD, *(_episode_line(row) for row in story.episodes)]
    return lines + [Line(text, Style.NOTE) for text in _more_episodes(story)]


def _more_episodes(story: Story) -> tuple[str, ...]:
    n_more = story.n_episodes - len(story.episodes)
    return (f"and {counted(n_more, 'earlier episode')}",) if n_more > 0 else ()


def _episode_windows(row: EpisodeRow) -> str:
    """Return the windows of an episode.

    >>> row = EpisodeRow("m", "", 0, 8, None, None, 13, 13, None, None, "", False, 6, "ended")
    >>> _episode_windows(row)
    '8 to 13'
    """
    if row.is_open:
        return f"{row.started_window:,} to now"
    return windows_between(row.started_window, row.last_window).partition(" ")[2]


def _document(story: Story) -> dict[str, Any]:
    columns = ("window_index", "hamming", "confirmed_hamming", "drift", "episode", "p_value", "end")
    series = {name: [getattr(row, name) for row in story.windows] for name in columns}
    return {
        "format": FORMAT,
        "version": VERSION,
        "stream": story.stream,
        "key": story.key,
        "subject": "window" if story.episode is None else "episode",
        "state": story.state,
        "headline": story.words.headline,
        "sentences": list(story.words.sentences),
        "advice": list(story.words.advice),
        "details": list(story.words.details),
        "episode": None if story.episode is None else _ROWS.encode(story.episode),
        "window": story.report.to_dict(),
        "timeline": {"window": series.pop("window_index"), **series},
        "episodes": [_ROWS.encode(row) for row in story.episodes],
        "n_episodes": story.n_episodes,
    }


def _episode_line(row: EpisodeRow) -> Line:
    text = f"{row.episode:>7}  {_episode_windows(row):<13}  {row.state:<5}  {row.headline}"
    return Line(printable(text), Style.REMOVED if row.is_open else Style.NOTE)


# --- Page and picture ---


def _html(story: Story) -> str:
    """Return the page: words, picture, time line, tables and numbers.

    The page is one file without scripts and without references to anything outside. Everything
    that comes from data is escaped, and equal stories give equal pages.
    """
    body = [
        *told(story.words, story.state, f"{story.name}, {story.subject}"),
        section("Picture", [_drawn(story), figure_of(story.report)]),
        section("Time line", [timeline_panel(story.moments, story.chosen)]),
        section("Episodes", [_episode_table(story)]),
        *tables_of(story.report, numbers(story.report)),
    ]
    return page(f"driftbn: {story.name}, {story.subject}", body)


def _chat_picture(story: Story) -> Drawing:
    """Return the picture for a chat message: words in short, graph, legend and time line."""
    return picture_of(
        story.words.headline,
        (story.title, *story.words.sentences),
        scene_of(story.report),
        timeline_of(story.moments, story.chosen),
    )


def _drawn(story: Story) -> str:
    """Say which window an episode is shown by."""
    note = _DRAWN.format(f"{story.report.index:,}")
    return "" if story.episode is None else f'<p class="soft">{note}</p>'


def _episode_table(story: Story) -> str:
    rows = [
        (f"{row.episode:,}", _episode_windows(row), row.state, row.kind or "", row.headline)
        for row in story.episodes
    ]
    more = "".join(f'<p class="soft">{shown(text)}</p>' for text in _more_episodes(story))
    return table(("Episode", "Windows", "State", "Kind", "What"), rows) + more
