"""The state of daemons in one database: what must survive together is committed together."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid4, uuid5

from driftbn_service.errors import naming_the_extra, part_of_kind
from driftbn_service.events import Event, Publication
from driftbn_service.settings import POSTGRES_PATTERN, ServiceSettings
from driftbn_service.state import history, sql
from driftbn_service.state.database import (
    AwayError,
    Connection,
    DamagedError,
    DamagedRowError,
    Database,
    StoreError,
    next_number,
)
from driftbn_service.state.history import (
    ActionKind,
    LaneRow,
    MonitorRow,
    Series,
    Silences,
    Wanted,
    WindowDetail,
    Wish,
    event_pair,
)
from driftbn_service.state.lanes import (
    REMEMBERED_KEYS,
    Accepted,
    Body,
    Checkpoint,
    Journal,
    JournalError,
    JournalFullError,
    KeyConflictError,
    LaneLostError,
    LaneState,
    LockedError,
    Owner,
)
from driftbn_service.state.sql import ActionRow, EdgeRow, EpisodeEdge, EpisodeRow, WindowRow
from driftbn_service.state.sqlite import ReadOnlyDatabase, SqliteDatabase

__all__ = [
    "FILE",
    "Accepted",
    "ActionKind",
    "ActionRow",
    "AwayError",
    "Body",
    "Checkpoint",
    "DamagedError",
    "DamagedRowError",
    "EdgeRow",
    "EpisodeEdge",
    "EpisodeRow",
    "Journal",
    "JournalError",
    "JournalFullError",
    "KeyConflictError",
    "LaneLostError",
    "LaneRow",
    "LaneState",
    "LockedError",
    "MonitorRow",
    "Series",
    "Silences",
    "Store",
    "StoreError",
    "Wanted",
    "WindowDetail",
    "WindowRow",
    "Wish",
    "named_place",
    "place_of",
]

logger = logging.getLogger("driftbn.service.state.store")

FILE: Final = "state.sqlite"
"""The name of the file in a state directory."""
MAX_PENDING: Final = 100_000
"""Events that wait for one outlet at most."""
PRUNE_SECONDS: Final = 5.0
"""How long deleting goes on at a time."""
Lanes: TypeAlias = Collection[tuple[str, str]] | None
"""Monitor and lane of the events that are meant; ``None`` for all."""
_SECONDS_A_DAY: Final = 86_400.0
_PAGE: Final = 100
_EXPORTED: Final = 10_000
"""Rows of a page of a whole table."""
_LANES_AT_ONCE: Final = 10_000
_LARGEST: Final = 2**63 - 1
_INSTANCE: Final = "instance"


class Store:
    """The state in a file, or in PostgreSQL; for any thread, and for several processes.

    Every method raises ``StoreError`` if it cannot be read or written. Nothing is lost then, and
    calling again later works. File and tables are made if need be; a file that is damaged is
    replaced by its copy. With ``read_only`` they must be there, are never changed, and daemons may
    be writing to them. The time is the database's unless there is a ``clock``.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Callable[[], float] | None = None,
        read_only: bool = False,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self._database = _database(path, read_only)
        self.path = self._database.path
        self._now = self._database.now if clock is None else lambda _: clock()
        self._owner = Owner(self._database, self._now)
        if not read_only:
            self._have_identity(new_id)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database and of all lanes; no other thread may be using it."""
        self._database.close()

    # --- What a daemon works with ---

    @property
    def shared(self) -> bool:
        """Whether daemons on other hosts may work with it too."""
        return self._database.shared

    @property
    def restored_from(self) -> float | None:
        """When the copy was made that this start had to go back to; ``None`` if it had not to."""
        return self._database.restored_from

    @property
    def identity(self) -> UUID:
        with self._database.reading() as connection:
            return UUID(_fact(connection, _INSTANCE))

    def origin(self, stream: str) -> UUID:
        """Return the namespace of the ids of a stream's events.

        No two states have the same, and a stream gets another one with each reset.
        """
        with self._database.reading() as connection:
            instance = UUID(_fact(connection, _INSTANCE))
            return uuid5(instance, json.dumps([stream, _n_resets(connection, stream)]))

    def lane(self, stream: str, lane: str, journal: Journal | None = None) -> LaneState:
        """Take a lane over; ``LockedError`` if another process works on it."""
        return LaneState(self._owner, stream, lane, journal)

    def journal(
        self, stream: str, *, max_pending_bytes: int, remember_keys: int = REMEMBERED_KEYS
    ) -> Journal:
        return Journal(
            self._database,
            stream,
            max_pending_bytes=max_pending_bytes,
            remember_keys=remember_keys,
        )

    def reset(self, stream: str) -> None:
        """Forget states, positions and history of a stream; its events get other ids from then on.

        Raises ``LockedError`` if another process works on it.
        """

        def action(connection: Connection) -> None:
            fact = (f"resets of {stream}", str(_n_resets(connection, stream) + 1))
            connection.execute(sql.FACTS.upsert, sql.FACTS.sealed(fact))
            for row in connection.execute(sql.LANES_OF, (stream,)).fetchall():
                values = sql.LANES.opened(row)
                self._owner.check_free(connection, values)
                anew = (*values[:2], None, values[3] + 1, None, 0, None)
                connection.execute(sql.LANES.upsert, sql.LANES.sealed(anew))
            for statement in sql.FORGET_STREAM:
                connection.execute(statement, (stream,))

        self._database.write(action)

    def renew_lease(self) -> None:
        """Say that this process still works on its lanes; call it several times a minute."""
        self._owner.renew()

    def back_up(self) -> bool:
        return self._database.back_up()

    def publish(self, publications: Sequence[Publication], outlets: Wanted = ()) -> int:
        """Enter windows with their events, all or none; return how many are new.

        The windows of a monitor come in their order. One that is there already stays.
        """

        def action(connection: Connection) -> int:
            writer = history.PublicationWriter(connection, outlets, self._now(connection))
            writer.write(publications)
            return writer.n_new

        return self._database.write(action)

    def prune(self, keep_windows: int, keep_events_days: float) -> int:
        """Delete what is too old, in steps between which others write; return how much went.

        What is left after a few seconds is for the next call. Events that wait for an outlet stay,
        unless more than 100,000 wait for one: then the oldest are given up, with an error in the
        log. With windows go their documents and edges, and episodes that do not reach into those
        kept. The newest event of each type stays.
        """

        def action(connection: Connection) -> int:
            next_number(connection, "prunings")  # one process at a time
            before = self._now(connection) - keep_events_days * _SECONDS_A_DAY
            history.give_up_oldest(connection, MAX_PENDING)
            n_windows = history.prune_windows(connection, keep_windows)
            return n_windows + history.prune_events(connection, before)

        n_deleted, until = 0, time.monotonic() + PRUNE_SECONDS
        while n_step := self._database.write(action):
            n_deleted += n_step
            if time.monotonic() > until:
                break
        return n_deleted

    # --- What people do ---

    def act(self, wish: Wish) -> ActionRow:
        """Enter what somebody wants; on return it is on disk. An accept is done by its lane."""
        return self._database.write(
            lambda connection: history.enter(connection, wish, self._now(connection))
        )

    def wanted(self) -> list[ActionRow]:
        """Return the accepts of all streams that are not done yet, the oldest first."""
        return self._rows(sql.ACTIONS, sql.WANTED)

    def silences(self) -> Silences:
        with self._database.reading() as connection:
            return history.silences(connection, self._now(connection))

    def actions(
        self, stream: str, key: str, *, before: int | None = None, limit: int = _PAGE
    ) -> list[ActionRow]:
        """Return what was done about a monitor, or about all keys of its stream, newest first."""
        values = (stream, key, _LARGEST if before is None else before, limit)
        return self._rows(sql.ACTIONS, sql.ACTIONS_BEFORE, *values)

    # --- Events on their way to outlets ---

    def pending(self, outlet: str, lanes: Lanes, limit: int) -> list[tuple[int, Event]]:
        """Return events that an outlet has not got yet, the oldest first, with their numbers."""
        found: list[tuple[int, Event]] = []
        with self._database.reading() as connection:
            rows: list[Sequence[Any]] = []
            for part in _parts(lanes):
                query = sql.pending_of(None if part is None else len(part))
                rows += connection.execute(query, (outlet, *_flat(part), limit)).fetchall()
            for row in sorted(rows, key=itemgetter(1))[:limit]:  # by the number
                try:
                    found.append(_pending_pair(row))
                except sql.RowDamage:
                    if not found:
                        raise
                    break  # told when it is the first
        return found

    def delivered(self, outlet: str, sequences: Collection[int]) -> None:
        if sequences:
            values = [(outlet, sequence) for sequence in sequences]
            self._database.write(
                lambda connection: connection.executemany(sql.DELIVERED, values).rowcount
            )

    def n_pending(self, outlet: str) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(sql.COUNT_PENDING, (outlet,)).fetchone()[0])

    def outlets(self) -> list[str]:
        with self._database.reading() as connection:
            return [name for (name,) in connection.execute(sql.PENDING_OUTLETS)]

    def newest_events(self, outlet: str, lanes: Lanes, types: Collection[str]) -> list[Event]:
        """Return each monitor's newest event of these types that does not wait for an outlet.

        Those that are silenced are left out.
        """
        found: list[Event] = []
        with self._database.reading() as connection:
            for part in _parts(lanes):
                query = sql.newest_of(len(types), None if part is None else len(part))
                values = (*sorted(types), *_flat(part), outlet)
                found += [one for _, one in _intact_events(connection.execute(query, values))]
            silences = history.silences(connection, self._now(connection))
        return [
            event
            for event in found
            if event.type not in history.SILENCED or not silences.cover(event.stream, event.key)
        ]

    def last_event(self) -> int:
        """Return the number of the newest event; 0 if there is none."""
        with self._database.reading() as connection:
            return int(connection.execute(sql.LAST_EVENT).fetchone()[0])

    def events(self, after_sequence: int = 0, limit: int = _PAGE) -> list[tuple[int, Event]]:
        """Return events after a number, the oldest first, with their numbers."""
        found: list[tuple[int, Event]] = []
        with self._database.reading() as connection:
            while n_more := limit - len(found):
                values = (after_sequence, n_more)
                rows = connection.execute(sql.EVENTS_AFTER, values).fetchall()
                found += _intact_events(rows)
                if len(rows) < n_more:
                    break
                after_sequence = rows[-1][0]
        return found

    # --- Reading the history ---

    def monitors(
        self,
        stream: str | None = None,
        *,
        after: tuple[str, str] | None = None,
        limit: int = sys.maxsize,
    ) -> list[MonitorRow]:
        """Return monitors in the order of name and key, those after a name and key if given."""
        query = sql.summaries(of_one=stream is not None, after=after is not None)
        values = (*(after or ()), *(() if stream is None else (stream,)), limit)
        with self._database.reading() as connection:
            return [_monitor_row(row) for row in connection.execute(query, values)]

    def monitor(self, stream: str, key: str) -> MonitorRow | None:
        """Return a monitor; ``None`` if no window of it is there."""
        with self._database.reading() as connection:
            found = connection.execute(sql.SUMMARY, (stream, key)).fetchone()
            return None if found is None else _monitor_row(found)

    def windows(  # noqa: PLR0913 - all but the monitor are limits that may be left out
        self,
        stream: str,
        key: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = _PAGE,
        drift_only: bool = False,
    ) -> list[WindowRow]:
        """Return windows of a monitor, the newest first, with numbers between two if given."""
        query = sql.DRIFTS_BETWEEN if drift_only else sql.WINDOWS_BETWEEN
        limits = (-1 if after is None else after, _LARGEST if before is None else before, limit)
        return self._rows(sql.WINDOWS, query, stream, key, *limits)

    def window(self, stream: str, key: str, index: int) -> WindowDetail | None:
        """Return a window with all that belongs to it; ``None`` if it is not there."""
        place = (stream, key, index)
        with self._database.reading() as connection:
            found = connection.execute(sql.WINDOW, place).fetchone()
            documents = connection.execute(sql.DOCUMENT, place).fetchone()
            if found is None and documents is None:
                return None
            if found is None or documents is None:
                raise sql.RowDamage(sql.DOCUMENTS.described(place))
            row = sql.WINDOWS.read(found)
            report, explanation = map(history.decompressed, sql.DOCUMENTS.opened(documents)[3:])
        by_name = attrgetter("origin", "source", "target", "change")
        edges = sorted(history.edges_of(*place, report), key=by_name)
        return WindowDetail(row, report, explanation, tuple(edges))

    def series(self, stream: str, key: str, limit: int = _PAGE) -> Series:
        """Return the last windows of a monitor as columns, the oldest first."""
        rows = self.windows(stream, key, limit=limit)[::-1]
        names = Series.__dataclass_fields__
        return Series(*(tuple(getattr(row, name) for row in rows) for name in names))

    def episodes(
        self, stream: str, key: str, *, before: int | None = None, limit: int = _PAGE
    ) -> list[EpisodeRow]:
        """Return episodes of a monitor, the newest first; ``before`` as for ``windows``."""
        values = (stream, key, _LARGEST if before is None else before, limit)
        return self._rows(sql.EPISODES, sql.EPISODES_BEFORE, *values)

    def episode(self, stream: str, key: str, number: int) -> EpisodeRow | None:
        """Return an episode; ``None`` if it is not there."""
        found = self._rows(sql.EPISODES, sql.EPISODE, stream, key, number)
        return found[0] if found else None

    def edge_history(
        self, stream: str, key: str, source: str, target: str, limit: int = _PAGE
    ) -> list[EdgeRow]:
        """Return what became of an edge, in either direction, the newest first."""
        names = (sql.text(source), sql.text(target))
        values = (stream, key, *names, stream, key, *names[::-1], limit)
        return self._rows(sql.EDGES, sql.EDGE_HISTORY, *values)

    def table(self, table: sql.Table, stream: str | None = None) -> Iterator[list[list[Any]]]:
        """Iterate over pages of the rows of a table, of one stream or all; damaged ones not."""
        where = "" if stream is None else "WHERE stream = ?"
        query = f"{table.select} {where} {table.order}"
        with (
            self._database.reading() as connection,
            self._database.rows(connection, query, *([] if stream is None else [stream])) as rows,
        ):
            waiting = iter(rows)
            while page := list(islice(waiting, _EXPORTED)):
                yield list(_intact_rows(table, page))

    # --- Looking at the whole of it ---

    def lanes(self) -> list[LaneRow]:
        with self._database.reading() as connection:
            rows = connection.execute(sql.SURVEY).fetchall()
            held = (row[5] and self._database.is_held(connection, row[5]) for row in rows)
            return [_lane_row(row, bool(lives)) for row, lives in zip(rows, held, strict=True)]

    def states(self, stream: str) -> Iterator[tuple[str, str, bytes]]:
        with (
            self._database.reading() as connection,
            self._database.rows(connection, sql.STATES_OF, stream) as rows,
        ):
            for row in rows:
                _, lane, key, state = sql.STATES.opened(row)
                yield lane, key, state

    def events_of(self, stream: str) -> Iterator[tuple[int, Event]]:
        with (
            self._database.reading() as connection,
            self._database.rows(connection, sql.EVENTS_OF, stream) as rows,
        ):
            yield from _intact_events(rows)

    def check(self) -> Iterator[str]:
        """Check the whole and every row; iterate over what is damaged, in words."""
        with self._database.reading() as connection:
            problem = self._database.problem(connection)
            if problem is not None:
                yield problem
            for table in sql.TABLES:
                with self._database.rows(connection, table.select) as rows:
                    yield from table.damaged(rows)

    def _rows(self, table: sql.RowTable[sql.Row], query: str, *values: Any) -> list[sql.Row]:
        with self._database.reading() as connection:
            return [table.read(row) for row in connection.execute(query, values)]

    def _have_identity(self, new_id: Callable[[], UUID]) -> None:
        def action(connection: Connection) -> None:
            if not _fact(connection, _INSTANCE):
                fact = sql.FACTS.sealed((_INSTANCE, str(new_id())))
                connection.execute(sql.FACTS.insert_new, fact)

        self._database.write(action)


def place_of(service: ServiceSettings) -> Path | str:
    """Return where the settings keep the state: a file, or the address of a database."""
    if service.database is not None:
        return service.database.get_secret_value()
    return service.state_dir / FILE


def named_place(text: str) -> Path | str:
    return text if re.match(POSTGRES_PATTERN, text) else Path(text)


def _database(path: Path | str, read_only: bool) -> Database:
    place = named_place(str(path))
    if isinstance(place, Path):
        return ReadOnlyDatabase(place) if read_only else SqliteDatabase(place)
    with naming_the_extra("a state in PostgreSQL"):
        connected = part_of_kind(__package__, "postgres", "PostgresDatabase")
    found: Database = connected(place, read_only=read_only)
    return found


def _fact(connection: Connection, name: str) -> str:
    found = connection.execute(sql.FACT, (name,)).fetchone()
    return "" if found is None else str(sql.FACTS.opened(found)[1])


def _n_resets(connection: Connection, stream: str) -> int:
    return int(_fact(connection, f"resets of {stream}") or 0)


def _parts(lanes: Lanes) -> Iterable[Lanes]:
    """Return lanes in parts that a query takes."""
    if lanes is None:
        return (None,)
    named = sorted(lanes)
    return [named[i : i + _LANES_AT_ONCE] for i in range(0, len(named), _LANES_AT_ONCE)]


def _flat(lanes: Lanes) -> Iterable[str]:
    return () if lanes is None else chain.from_iterable(sorted(lanes))


def _pending_pair(row: Sequence[Any]) -> tuple[int, Event]:
    n_columns = sql.DELIVERIES.n_columns
    delivery, event = row[:n_columns], row[n_columns:]
    try:
        sql.DELIVERIES.opened(delivery)
        return event_pair(event)
    except sql.RowDamage as damage:
        raise sql.RowDamage(f"event {delivery[1]}", (delivery[1], str(event[3]))) from damage


def _intact_events(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, Event]]:
    """Iterate over events; damaged ones are logged and left out."""
    for row in rows:
        try:
            yield event_pair(row)
        except sql.RowDamage as damage:
            logger.error("%s in the history and left out", damage)


def _intact_rows(table: sql.Table, rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    for row in rows:
        try:
            yield table.opened(row)
        except sql.RowDamage as damage:
            logger.error("%s in the history and left out", damage)


def _monitor_row(row: Sequence[Any]) -> MonitorRow:
    n_counts, n_window = sql.MONITORS.n_columns, sql.WINDOWS.n_columns
    counts = sql.MONITORS.opened(row[:n_counts])
    window, episode = row[n_counts : n_counts + n_window], row[n_counts + n_window :]
    if window[0] is None:  # its last window has lost its name
        raise sql.RowDamage(sql.MONITORS.described(row))
    open_episode = None if episode[0] is None else sql.EPISODES.read(episode)
    return MonitorRow(*(*counts[:6], sql.WINDOWS.read(window), open_episode))


def _lane_row(row: Sequence[Any], lives: bool) -> LaneRow:
    stream, lane, position, n_ahead, committed, _, host, pid, *counts = row
    place = None if position is None else json.loads(position)
    process = f"process {pid} on {host}" if lives else None
    return LaneRow(stream, lane, place, n_ahead, committed, process, *counts)
