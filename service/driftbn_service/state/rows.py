"""What the history is asked for and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class WindowRow:
    """A window in short; the fields are the columns of the table ``windows``."""

    monitor: str
    key: str
    window_index: int
    lane: str  # that its records came by
    first_record: int
    last_record: int
    rows: int
    start: float | None  # smallest event time in seconds since the epoch, if there are any
    end: float | None  # largest
    hamming: int  # raw distance from the window before
    skeleton: int  # its part that is edges added or removed
    confirmed_hamming: int  # changes of edges that a test confirms
    level: str
    drift: bool
    kind: str | None
    p_value: float | None
    alpha: float | None  # the level that the p-value is held against
    p_mechanism: float | None  # smallest of this family of tests; None if it was not asked
    p_association: float | None
    n_edges: int
    n_nodes: int
    warm: bool  # whether the search began from the window before
    tests: int
    undecided: int  # pairs of fields that the rows could not decide on
    design_effect: float | None  # by how much alike rows weaken the tests
    effect: float | None  # size of the change in nats
    degraded: bool  # whether a limit stopped the search
    episode: int | None
    headline: str
    learn_seconds: float | None
    decide_seconds: float | None
    stored: float  # seconds since the epoch when it came into the history


@dataclass(frozen=True)
class EdgeRow:
    """A change of an edge in a window."""

    monitor: str
    key: str
    window_index: int
    origin: str  # ``confirmed`` by a test, or ``raw``: it differs from the window before
    source: str
    target: str
    change: str  # ``added``, ``removed`` or ``reversed``
    p_value: float | None
    before: float | None  # strength of the association in the reference, in nats
    after: float | None  # the same now


@dataclass(frozen=True)
class WindowDetail:
    """A window with all that there is to know of it."""

    row: WindowRow
    report: dict[str, Any] = field(repr=False)  # ``WindowReport.to_dict()``
    explanation: dict[str, Any] = field(repr=False)  # headline, sentences, advice
    edges: tuple[EdgeRow, ...] = field(repr=False)


@dataclass(frozen=True)
class EpisodeEdge:
    """A change of an edge that belongs to an episode."""

    source: str
    target: str
    change: str
    window_index: int  # that named it
    settled: bool  # whether that window is all after the change, and names it better


@dataclass(frozen=True)
class EpisodeRow:
    """An episode: a change, however many windows it takes."""

    monitor: str
    key: str
    episode: int
    started_window: int  # in which it was found
    started_record: int | None
    started_time: float | None  # smallest event time of that window, if known
    last_window: int
    ended_window: int | None  # None while it is open
    kind: str | None  # by the window that named it last, as is the headline
    headline: str
    recurring: bool  # whether the relations are back to an earlier state
    n_windows: int
    state: str  # ``open`` or ``ended``
    edges: tuple[EpisodeEdge, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.state == "open"


@dataclass(frozen=True)
class MonitorRow:
    """A monitor in short."""

    monitor: str
    key: str
    lane: str
    n_windows: int  # like the next two since its beginning, whether or not still kept
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
    """A lane in short."""

    stream: str
    lane: str
    position: dict[str, Any] | None  # where the source goes on
    n_ahead: int  # records after that which are in the states already
    committed: float | None  # seconds since the epoch of the last commit; None before the first
    owner: str | None  # host and process that work on it; None if nobody does
    n_keys: int
    state_bytes: int
    n_windows: int  # since the beginning
