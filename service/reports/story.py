"""What a report on a monitor tells: chosen from the history and put in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from driftbn.report import WindowReport
from driftbn.reporting.caveats import target_sentences
from driftbn.reporting.changes import change_sentences
from driftbn.reporting.timeline import Moment
from driftbn.reporting.words import counted, moment
from service.event_words import monitor_name, summary
from service.naming import naming_window
from service.reports.choosing import Request, find_episode, find_key, find_window
from service.reports.errors import NotInHistoryError
from service.reports.reading import report_from_dict
from service.store import EpisodeRow, Store, WindowDetail, WindowRow

MAX_EPISODES: Final = 10
"""Episodes that are listed; the others are counted."""
_MAX_NAMING: Final = 4  # windows of one episode whose words are told


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
    key = find_key(store, request)
    episodes = store.episodes(request.monitor, key, limit=MAX_EPISODES)
    episode = find_episode(store, request, key, episodes)
    if episode is None:
        story = _window_story(find_window(store, request, key))
    else:
        story = _episode_story(store, episode)
    row = store.monitor(request.monitor, key)
    return replace(
        story,
        windows=_time_line(store, story, request.last),
        episodes=tuple(episodes),
        n_episodes=len(episodes) if row is None else row.n_episodes,
    )


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
        report_from_dict(detail.report),
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
        report = report_from_dict(detail.report)
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
