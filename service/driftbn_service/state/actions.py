"""What people did about a monitor: took its present as normal, silenced it, or left a comment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from driftbn_service.state import sql
from driftbn_service.state.database import Connection, next_number


class ActionKind(StrEnum):
    """What somebody did."""

    ACCEPT = "accept"
    """The present is the new normal, and an open episode is over."""
    SILENCE = "silence"
    """Outlets and alerts do not tell of drifts for a time."""
    COMMENT = "comment"
    """Words for whoever reads the history."""


@dataclass(frozen=True)
class ActionRow:
    """Something that somebody did about a monitor."""

    number: int  # later ones have larger numbers
    kind: str  # ``accept``, ``silence`` or ``comment``
    stream: str
    key: str  # of a silence, "" is all keys of a stream
    episode: int | None  # that it is about
    window_index: int | None  # the last one before it; of an accept, None until it is done
    until: float | None  # end of a silence in seconds since the epoch
    author: str
    comment: str
    stored: float  # seconds since the epoch


@dataclass(frozen=True)
class Wish:
    """What somebody wants to do about a monitor."""

    kind: ActionKind
    stream: str
    key: str = ""
    episode: int | None = None  # the open one unless given
    until: float | None = None
    author: str = ""
    comment: str = ""


class Silences:
    """The monitors whose drifts are not told now.

    >>> row = ActionRow(1, "silence", "orders", "", None, None, 9.0, "", "", 0.0)
    >>> silences = Silences([row])
    >>> silences.cover("orders", "eu"), silences.cover("clicks", "")
    (True, False)
    """

    def __init__(self, rows: Iterable[ActionRow] = ()) -> None:
        self._places = frozenset((row.stream, row.key) for row in rows)

    def cover(self, stream: str, key: str) -> bool:
        return not self._places.isdisjoint(((stream, key), (stream, "")))


def enter(connection: Connection, wish: Wish, now: float) -> ActionRow:
    """Enter a wish; an accept that waits already is not entered a second time."""
    if wish.kind is ActionKind.ACCEPT:
        for waiting in wanted(connection):
            if (waiting.stream, waiting.key) == (wish.stream, wish.key):
                return waiting
    place = (wish.stream, wish.key)
    monitor = connection.execute(sql.MONITOR, place).fetchone()
    is_open = connection.execute(sql.OPEN_EPISODE, place).fetchone()
    window = None if monitor is None else sql.MONITORS.opened(monitor)[6]
    open_episode = None if is_open is None else sql.EPISODES.opened(is_open)[2]
    row = ActionRow(
        number=next_number(connection, "actions"),
        kind=wish.kind.value,
        stream=wish.stream,
        key=wish.key,
        episode=open_episode if wish.episode is None else wish.episode,
        window_index=None if wish.kind is ActionKind.ACCEPT else window,
        until=wish.until,
        author=wish.author,
        comment=wish.comment,
        stored=now,
    )
    connection.execute(sql.ACTIONS.insert, sql.ACTIONS.sealed(vars(row).values()))
    return row


def note_done(connection: Connection, done: Iterable[ActionRow]) -> None:
    """Enter that accepts hold, each with the last window before it."""
    for row in done:
        connection.execute(sql.ACTIONS.upsert, sql.ACTIONS.sealed(vars(row).values()))


def wanted(connection: Connection) -> list[ActionRow]:
    """Return the accepts that are not done yet, the oldest first."""
    return [action_row(row) for row in connection.execute(sql.WANTED)]


def silences(connection: Connection, now: float) -> Silences:
    return Silences(action_row(row) for row in connection.execute(sql.SILENCES, (now,)))


def action_row(row: Iterable[object]) -> ActionRow:
    return ActionRow(*sql.ACTIONS.opened([*row]))
