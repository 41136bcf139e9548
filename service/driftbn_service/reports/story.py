"""What a report on a monitor tells: chosen from the history and put in order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from driftbn.errors import DriftbnError
from driftbn.explain.messages import monitor_name, summary
from driftbn.explain.sentences import change_sentences, target_sentences
from driftbn.explain.timeline import Moment
from driftbn.explain.words import counted, moment
from driftbn.report import WindowReport
from driftbn_service.events import naming_window
from driftbn_service.store import EpisodeRow, Store, WindowDetail, WindowRow

DEFAULT_LAST: Final = 200
"""Windows of the time line."""
MAX_EPISODES: Final = 10
"""Episodes that are listed; the others are counted."""
_MAX_NAMED: Final = 10  # names that an error lists
_MAX_NAMING: Final = 4  # windows of one episode whose words are told


class NotInHistoryError(DriftbnError):
    """The history does not hold what a report is asked of.

    Attributes
    ----------
    path, problem
        The file of the history, and what it does not hold and what it does.
    """

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


@dataclass(frozen=True)
class Request:
    """What to report on.

    Parameters
    ----------
    monitor, key
        The monitor; without a key the only one there is.
    window, episode
        A window or an episode; if neither is given, the newest episode, or else the newest window.
    last
        Windows of the time line at most.
    """

    monitor: str
    key: str | None = None
    window: int | None = None
    episode: int | None = None
    last: int = DEFAULT_LAST


@dataclass(frozen=True)
class Story:
    """What a report on a monitor tells.

    Parameters
    ----------
    monitor, key
        Whose it is.
    headline
        The one thing to know.
    context
        From when to when.
    changes
        What changed, in sentences.
    found
        How it was found and what else is known, in sentences; empty if ``changes`` tells that.
    advice
        What to do.
    report
        The window that is drawn, with all changes of the episode.
    episode
        What it is about; ``None`` if that is a window.
    windows
        The time line, the oldest first.
    episodes
        The newest episodes of the monitor, the newest first.
    n_episodes
        How many there have been.
    """

    monitor: str
    key: str
    headline: str
    context: tuple[str, ...]
    changes: tuple[str, ...]
    found: tuple[str, ...]
    advice: tuple[str, ...]
    report: WindowReport = field(repr=False)
    episode: EpisodeRow | None
    windows: tuple[WindowRow, ...] = field(repr=False)
    episodes: tuple[EpisodeRow, ...] = field(repr=False)
    n_episodes: int

    @property
    def name(self) -> str:
        """The monitor in words."""
        return monitor_name(self.monitor, self.key)

    @property
    def state(self) -> str:
        """What it comes to, in a word."""
        if self.episode is None:
            return self.report.decision.level.value
        return "drift" if self.episode.is_open else "ended"

    @property
    def subject(self) -> str:
        """What it is about, in words."""
        if self.episode is None:
            return f"window {self.report.index:,}"
        return f"episode {self.episode.episode:,}"

    @property
    def title(self) -> str:
        """Whose it is, what it is about and what it comes to."""
        return f"{self.name}, {self.subject}: {self.state}"

    @property
    def chosen(self) -> range:
        """Numbers of the windows that it is about."""
        if self.episode is None:
            return range(self.report.index, self.report.index + 1)
        return range(self.episode.started_window, self.episode.last_window + 1)

    @property
    def moments(self) -> list[Moment]:
        """The time line as it is drawn."""
        return [
            Moment(row.window_index, row.hamming, row.confirmed_hamming, row.drift, row.episode)
            for row in self.windows
        ]


def story_of(store: Store, request: Request) -> Story:
    """Choose from the history what a report tells.

    Raises
    ------
    NotInHistoryError
        If there is no such monitor, key, window or episode.
    StoreError
        If the history cannot be read.
    FormatError
        If a later driftbn has written it.
    """
    key = _find_key(store, request)
    episodes = store.episodes(request.monitor, key, limit=MAX_EPISODES)
    episode = _find_episode(store, request, key, episodes)
    if episode is None:
        story = _window_story(_find_window(store, request, key))
    else:
        story = _episode_story(store, episode)
    row = store.monitor(request.monitor, key)
    return replace(
        story,
        windows=_time_line(store, story, request.last),
        episodes=tuple(episodes),
        n_episodes=len(episodes) if row is None else row.n_episodes,
    )


def _find_key(store: Store, request: Request) -> str:
    """Return the key of the monitor that is meant.

    Raises
    ------
    NotInHistoryError
        If there is no such monitor or key, or there are several keys and none is given.
    """
    if request.key is not None and store.monitor(request.monitor, request.key) is not None:
        return request.key
    found = [row.key for row in store.monitors(request.monitor, limit=_MAX_NAMED + 1)]
    if not found:
        raise NotInHistoryError(
            store.path, f"there is no window of a monitor {request.monitor!r}; {_known(store)}"
        )
    if request.key is None and ("" in found or len(found) == 1):
        return found[0]
    more = " and more" if len(found) > _MAX_NAMED else ""
    keys = ", ".join(repr(key) for key in found[:_MAX_NAMED]) + more
    if request.key is None:
        problem = f"monitor {request.monitor!r} has several keys, give one with --key: {keys}"
    else:
        problem = f"monitor {request.monitor!r} has no key {request.key!r}; there are: {keys}"
    raise NotInHistoryError(store.path, problem)


def _known(store: Store) -> str:
    names: list[str] = []
    while len(names) <= _MAX_NAMED:
        # No name holds a NUL, so this skips the other keys of the last one.
        after = (f"{names[-1]}\0", "") if names else None
        row = next(iter(store.monitors(after=after, limit=1)), None)
        if row is None:
            break
        names.append(row.monitor)
    more = " and more" if len(names) > _MAX_NAMED else ""
    listed = ", ".join(repr(name) for name in names[:_MAX_NAMED])
    return f"there are: {listed}{more}" if names else "there is none of any monitor yet"


def _find_episode(
    store: Store, request: Request, key: str, newest: Sequence[EpisodeRow]
) -> EpisodeRow | None:
    """Return the episode to tell of, or ``None`` if that is a window.

    Raises
    ------
    NotInHistoryError
        If there is no such episode.
    """
    if request.window is not None:
        return None
    if request.episode is None:
        return newest[0] if newest else None
    found = store.episode(request.monitor, key, request.episode)
    if found is None:
        numbers = ", ".join(str(row.episode) for row in newest)
        there = f"the newest are {numbers}" if numbers else "there is none yet"
        name = monitor_name(request.monitor, key)
        problem = f"there is no episode {request.episode} of {name}; {there}"
        raise NotInHistoryError(store.path, problem)
    return found


def _find_window(store: Store, request: Request, key: str) -> WindowDetail:
    """Return the window to tell of: the one that is asked for, or the newest.

    Raises
    ------
    NotInHistoryError
        If there is no such window.
    """
    index = request.window
    if index is None:
        index = store.windows(request.monitor, key, limit=1)[0].window_index
    found = store.window(request.monitor, key, index)
    if found is None:
        there = store.series(request.monitor, key, sys.maxsize).window_index
        name = monitor_name(request.monitor, key)
        problem = f"there is no window {index} of {name}; there are {there[0]} to {there[-1]}"
        raise NotInHistoryError(store.path, problem)
    return found


def _window_story(detail: WindowDetail) -> Story:
    words = detail.explanation
    return Story(
        detail.row.monitor,
        detail.row.key,
        words["headline"],
        (),
        tuple(words["sentences"]),
        (),
        tuple(words["advice"]),
        WindowReport.from_dict(detail.report),
        None,
        (),
        (),
        0,
    )


def _episode_story(store: Store, episode: EpisodeRow) -> Story:
    naming = _naming_windows(store, episode)
    report = _with_all_changes(episode, [one.report for one in naming])
    alarm = store.window(episode.monitor, episode.key, episode.started_window)
    first = [] if alarm is None else [_Told.of(alarm)]
    name = monitor_name(episode.monitor, episode.key)
    back = "; the relations are back to an earlier state" if episode.recurring else ""
    changes = _once(text for one in naming for text in one.changes)
    rest = _once(text for one in (*first, *naming) for text in one.rest)
    return Story(
        episode.monitor,
        episode.key,
        f"Drift in {name}: {summary(report.decision)}{back}.",
        _context(episode),
        changes,
        tuple(text for text in rest if text not in changes),
        _once(text for one in (*first, *naming) for text in one.advice),
        report,
        episode,
        (),
        (),
        0,
    )


@dataclass(frozen=True)
class _Told:
    """A window with its sentences: those on what changed, and the rest."""

    report: WindowReport
    changes: tuple[str, ...]
    rest: tuple[str, ...]
    advice: tuple[str, ...]

    @classmethod
    def of(cls, detail: WindowDetail) -> _Told:
        report = WindowReport.from_dict(detail.report)
        about = {*change_sentences(report.decision), *target_sentences(report)}
        sentences = detail.explanation["sentences"]
        return cls(
            report,
            tuple(text for text in sentences if text in about),
            tuple(text for text in sentences if text not in about),
            tuple(detail.explanation["advice"]),
        )


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _naming_windows(store: Store, episode: EpisodeRow) -> list[_Told]:
    """Return the windows that name the changes of an episode, as far as they are still there."""
    wanted = {edge.window_index for edge in episode.edges} or {naming_window(store, episode)}
    details = [
        store.window(episode.monitor, episode.key, index) for index in sorted(wanted)[-_MAX_NAMING:]
    ]
    found = [_Told.of(detail) for detail in details if detail is not None]
    if found:
        return found
    name = monitor_name(episode.monitor, episode.key)
    problem = f"the windows of episode {episode.episode} of {name} are not kept any more"
    raise NotInHistoryError(store.path, problem)


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


def _context(episode: EpisodeRow) -> tuple[str, ...]:
    where = [f"window {episode.started_window:,}"]
    if episode.started_record is not None:
        where.append(f"record {episode.started_record:,}")
    if episode.started_time is not None:
        where.append(moment(episode.started_time))
    began = f"Episode {episode.episode:,} began in {', '.join(where)}"
    if episode.is_open:
        so_far = counted(episode.n_windows, "window")
        return (f"{began}, and goes on; it has {so_far} up to window {episode.last_window:,}.",)
    if episode.ended_window != episode.last_window:
        return (f"{began}, and ended before window {episode.ended_window:,}.",)
    return (f"{began}, and ended with window {episode.ended_window:,}: nothing further changed.",)


def _time_line(store: Store, story: Story, last: int) -> tuple[WindowRow, ...]:
    """Return the newest windows, or, if what is told lies before them, those around it."""
    rows = store.windows(story.monitor, story.key, limit=last)
    if rows and rows[-1].window_index > story.chosen[0]:
        before = story.chosen[-1] + 1 + last // 4
        rows = store.windows(story.monitor, story.key, before=before, limit=last)
    return tuple(reversed(rows))
