"""What the history is asked for and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class WindowRow:
    """A window in short; the fields are the columns of the table ``windows``.

    Parameters
    ----------
    monitor, key, window_index
        Which window of which monitor.
    lane
        The lane that its records came by.
    first_record, last_record, rows
        Its records.
    start, end
        Smallest and largest event time in seconds since the epoch, if there are any.
    hamming, skeleton
        Raw distance from the window before, and its part that is edges added or removed.
    confirmed_hamming
        Changes of edges that a test confirms.
    level, drift, kind
        What the decision comes to.
    p_value, alpha
        Of the decision, and the level that it is held against.
    p_mechanism, p_association
        Smallest p-value of each family of tests; ``None`` if it was not asked.
    n_edges, n_nodes
        Size of the graph.
    warm, tests
        Whether the search began from the window before, and how many tests it took.
    undecided
        Pairs of fields that the rows could not decide on.
    design_effect, effect
        By how much alike rows weaken the tests, and size of the change in nats.
    degraded
        Whether a limit stopped the search.
    episode
        Number of the episode that it belongs to, if any.
    headline
        What to know of it in words.
    learn_seconds, decide_seconds
        How long it took.
    stored
        Seconds since the epoch when it came into the history.
    """

    monitor: str
    key: str
    window_index: int
    lane: str
    first_record: int
    last_record: int
    rows: int
    start: float | None
    end: float | None
    hamming: int
    skeleton: int
    confirmed_hamming: int
    level: str
    drift: bool
    kind: str | None
    p_value: float | None
    alpha: float | None
    p_mechanism: float | None
    p_association: float | None
    n_edges: int
    n_nodes: int
    warm: bool
    tests: int
    undecided: int
    design_effect: float | None
    effect: float | None
    degraded: bool
    episode: int | None
    headline: str
    learn_seconds: float | None
    decide_seconds: float | None
    stored: float


@dataclass(frozen=True)
class EdgeRow:
    """A change of an edge in a window.

    Parameters
    ----------
    monitor, key, window_index
        Which window of which monitor.
    origin
        ``confirmed`` by a test, or ``raw``: it differs from the window before.
    source, target
        The edge.
    change
        ``added``, ``removed`` or ``reversed``.
    p_value
        Of the test.
    before, after
        How strongly the two fields go together in the reference and now, in nats.
    """

    monitor: str
    key: str
    window_index: int
    origin: str
    source: str
    target: str
    change: str
    p_value: float | None
    before: float | None
    after: float | None


@dataclass(frozen=True)
class WindowDetail:
    """A window with all that there is to know of it.

    Parameters
    ----------
    row
        It in short.
    report
        ``WindowReport.to_dict()``.
    explanation
        Headline, sentences and advice, under these names.
    edges
        Confirmed and raw changes of edges.
    """

    row: WindowRow
    report: dict[str, Any] = field(repr=False)
    explanation: dict[str, Any] = field(repr=False)
    edges: tuple[EdgeRow, ...] = field(repr=False)


@dataclass(frozen=True)
class EpisodeEdge:
    """A change of an edge that belongs to an episode.

    Parameters
    ----------
    source, target, change
        The edge and what happened to it.
    window_index
        The window that named it.
    settled
        Whether that was a window that is all after the change, which names it better.
    """

    source: str
    target: str
    change: str
    window_index: int
    settled: bool


@dataclass(frozen=True)
class EpisodeRow:
    """An episode: a change, however many windows it takes.

    Parameters
    ----------
    monitor, key, episode
        Which episode of which monitor.
    started_window, started_record, started_time
        The window in which it was found, its first record and smallest event time, if known.
    last_window
        The last window that belongs to it so far.
    ended_window
        The window that ended it; ``None`` while it is open.
    kind, headline
        What changed, by the window that named it last.
    recurring
        Whether the relations are back to an earlier state.
    n_windows
        Windows that belong to it.
    state
        ``open`` or ``ended``.
    edges
        All changes of edges that were named.
    """

    monitor: str
    key: str
    episode: int
    started_window: int
    started_record: int | None
    started_time: float | None
    last_window: int
    ended_window: int | None
    kind: str | None
    headline: str
    recurring: bool
    n_windows: int
    state: str
    edges: tuple[EpisodeEdge, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.state == "open"


@dataclass(frozen=True)
class MonitorRow:
    """A monitor in short.

    Parameters
    ----------
    monitor, key
        Which one.
    lane
        The lane that its records come by.
    n_windows, n_drifts, n_episodes
        Since its beginning, whether or not they are still in the history.
    last
        Its last window.
    open_episode
        The episode that goes on, if one does.
    """

    monitor: str
    key: str
    lane: str
    n_windows: int
    n_drifts: int
    n_episodes: int
    last: WindowRow
    open_episode: EpisodeRow | None


@dataclass(frozen=True)
class Series:
    """Windows of a monitor as columns for a time line, the oldest first."""

    window_index: tuple[int, ...]
    hamming: tuple[int, ...]
    confirmed_hamming: tuple[int, ...]
    level: tuple[str, ...]
    p_value: tuple[float | None, ...]
    alpha: tuple[float | None, ...]
    last_record: tuple[int, ...]
    end: tuple[float | None, ...]


@dataclass(frozen=True)
class LaneRow:
    """A lane in short.

    Parameters
    ----------
    stream, lane
        Whose lane it is, and its name.
    position, n_ahead
        Where the source goes on, and how many records after that are in the states already.
    committed
        Seconds since the epoch of the last commit; ``None`` before the first.
    owner
        Host and process that work on it; ``None`` if nobody does.
    n_keys, state_bytes
        Monitors, and how much room their states take.
    n_windows
        Windows since the beginning.
    """

    stream: str
    lane: str
    position: dict[str, Any] | None
    n_ahead: int
    committed: float | None
    owner: str | None
    n_keys: int
    state_bytes: int
    n_windows: int
