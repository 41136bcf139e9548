"""What a monitor's next events depend on, besides its next window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driftbn.errors import FormatError
from driftbn.records import SchemaEvent, SchemaEventKind

MAX_DIFFERENCES: Final = 256
"""Differences from the schema that are remembered; of more, the oldest are forgotten."""
MAX_LEVELS: Final = 16
"""New values of one column that are told; more are no news, as with a column of names."""

Difference = tuple[str, ...]
"""Kind and column, and for a new value the value."""


@dataclass(frozen=True)
class OpenEpisode:
    """An episode that subscribers know of and that has not ended.

    Parameters
    ----------
    number
        Of the episode.
    window, record
        Where it began: the window and its first record; the record is ``None`` if it is not known.
    time
        Event time of that window's end in RFC 3339, if there is one.
    summary
        What changed, as told last.
    kind, edges, nodes
        The same for programs.
    touch
        How near it is to the target; see ``driftbn.explain.sentences.target_touch``.
    recurring
        Whether subscribers know that an earlier state has come back.
    """

    number: int
    window: int
    record: int | None
    time: str | None
    summary: str
    kind: str | None = None
    edges: list[dict[str, Any]] = field(default_factory=list, repr=False)
    nodes: list[dict[str, Any]] = field(default_factory=list, repr=False)
    touch: str | None = None
    recurring: bool = False


@dataclass(frozen=True)
class EventState:
    """What a monitor's next events depend on, besides its next window.

    It is kept with the monitor, so that a daemon that was killed tells the same once more.

    Parameters
    ----------
    window
        Running number of the last window; -1 before the first.
    degraded
        Whether the last window was.
    failed
        Whether the monitor has failed since.
    episode
        The open episode, if there is one.
    differences
        Differences from the schema that subscribers know of, oldest first.

    Examples
    --------
    >>> state = EventState(degraded=True)
    >>> EventState.from_dict(state.to_dict()) == state
    True
    """

    window: int = -1
    degraded: bool = False
    failed: bool = False
    episode: OpenEpisode | None = None
    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return {
            "window": self.window,
            "degraded": self.degraded,
            "failed": self.failed,
            "episode": None if self.episode is None else dict(vars(self.episode)),
            "differences": [list(difference) for difference in self.differences],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EventState:
        """Return what ``to_dict`` was made of.

        Raises
        ------
        FormatError
            If it is something else.
        """
        try:
            episode = values["episode"]
            return cls(
                window=int(values["window"]),
                degraded=bool(values["degraded"]),
                failed=bool(values["failed"]),
                episode=None if episode is None else OpenEpisode(**episode),
                differences=tuple(tuple(map(str, item)) for item in values["differences"]),
            )
        except (KeyError, TypeError) as error:
            raise FormatError(f"the state of events is not valid: {error}") from error


def news_of(
    known: tuple[Difference, ...], events: tuple[SchemaEvent, ...]
) -> tuple[tuple[SchemaEvent, ...], tuple[Difference, ...]]:
    """Return the differences from the schema that are new, and all that are known then.

    A column that was there again and is absent once more is news.

    Examples
    --------
    >>> absent = SchemaEvent(SchemaEventKind.MISSING_COLUMN, "x", n_rows=9)
    >>> news, known = news_of((), (absent,))
    >>> news == (absent,), news_of(known, (absent,))[0], news_of(known, ())[1]
    (True, (), ())
    """
    present = {difference for event in events for difference in _differences(event)}
    gone = SchemaEventKind.MISSING_COLUMN.value
    kept = {item: None for item in known if item[0] != gone or item in present}
    news = []
    for event in events:
        fresh = [item for item in _differences(event) if item not in kept]
        if fresh and _n_levels(kept, event) < MAX_LEVELS:
            news.append(event)
            kept.update(dict.fromkeys(fresh))
    return tuple(news), tuple(kept)[-MAX_DIFFERENCES:]


def _differences(event: SchemaEvent) -> list[Difference]:
    head = (event.kind.value, event.column)
    return [(*head, level) for level in event.levels] if event.levels else [head]


def _n_levels(known: Mapping[Difference, None], event: SchemaEvent) -> int:
    if event.kind is not SchemaEventKind.NEW_LEVEL:
        return 0
    return sum(item[:2] == (event.kind.value, event.column) for item in known)
