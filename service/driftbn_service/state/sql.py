"""The tables of the state and every statement: SQL is written nowhere else.

It is plain SQL for SQLite and PostgreSQL, but for the placeholder ``?``, the type ``BLOB`` and
``LOCKING``: SQLite has one writer at a time, and takes that for a comment; in PostgreSQL it makes
others wait for the row. What only one of them has (``PRAGMA``, copies, checks, advisory locks) is
in ``sqlite`` and ``postgres``.

Every row carries a checksum over all its other columns, which is checked when the row is read. A
row is therefore always written as a whole: ``Table.sealed`` makes the checksum, ``Table.opened``
checks it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Generic, TypeVar

VERSION: Final = 4
"""Of the tables below."""
LOCKING: Final = " /* FOR UPDATE */"
"""After a query for rows that will be written in the same transaction."""


class RowDamage(Exception):  # noqa: N818 - it is found, and told as an error elsewhere
    """A row is not as it was written.

    ``event`` is number and monitor, if it is an event; the monitor may be damaged.
    """

    def __init__(self, row: str, event: tuple[int, str] | None = None) -> None:
        self.row = row
        self.event = event
        super().__init__(f"{row} is damaged")


class Table:
    """A table whose rows have checksums.

    The definitions of its columns have no commas in them. The label is a row in words, with the
    names of columns in braces; ``{whose}`` is the stream and the key.

    >>> table = Table("t", "x TEXT NOT NULL, y BIGINT", "x", "row {x}")
    >>> table.opened(table.sealed(["a", True]))
    ['a', 1]
    >>> table.opened(["b", *table.sealed(["a", True])[1:]])
    Traceback (most recent call last):
    driftbn_service.state.sql.RowDamage: row b is damaged
    """

    def __init__(self, name: str, columns: str, key: str, label: str, *constraints: str) -> None:
        parts = [definition.split() for definition in columns.split(",")]
        self.name = name
        self.names = tuple(part[0] for part in parts)
        self.types = tuple(part[1] for part in parts)
        self.label = label
        self._kinds = [_KINDS[part[1]] for part in parts]
        named = ", ".join(f'"{part[0]}" {" ".join(part[1:])}' for part in parts)
        keys = [f'"{one.strip()}"' for one in key.split(",")]
        rules = (f"PRIMARY KEY ({', '.join(keys)})", *constraints)
        self.create = f"CREATE TABLE {name} ({named}, checksum BIGINT NOT NULL, {', '.join(rules)})"
        places = ", ".join("?" * (len(parts) + 1))
        self.insert = f"INSERT INTO {name} ({self.columns()}) VALUES ({places})"
        others = [f'"{one}"' for one in (*self.names, "checksum") if f'"{one}"' not in keys]
        changed = [f"{one} = excluded.{one}" for one in others]
        conflict = f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(changed)}"
        self.upsert = f"{self.insert} {conflict}"
        self.insert_new = f"{self.insert} ON CONFLICT DO NOTHING"
        self.select = f"SELECT {self.columns()} FROM {name}"
        self.order = f"ORDER BY {', '.join(keys)}"

    @property
    def n_columns(self) -> int:
        """How many columns ``columns`` names."""
        return len(self.names) + 1

    def columns(self, prefix: str = "") -> str:
        """Return the columns in their order and the checksum, for a query."""
        return ", ".join(f'{prefix}"{name}"' for name in (*self.names, "checksum"))

    def sealed(self, values: Iterable[Any]) -> list[Any]:
        """Return values as the database gives them back, and their checksum."""
        plain = [kind(value) for kind, value in zip(self._kinds, values, strict=True)]
        return [*plain, _checksum(plain)]

    def opened(self, row: Sequence[Any]) -> list[Any]:
        """Return a row without its checksum; ``RowDamage`` if that does not fit."""
        *values, checksum = row
        if _checksum(values) != checksum:
            raise RowDamage(self.described(row))
        return values

    def damaged(self, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
        """Iterate over the damaged ones of rows, in words."""
        for row in rows:
            try:
                self.opened(row)
            except RowDamage as damage:
                yield damage.row

    def described(self, row: Sequence[Any]) -> str:
        named = dict(zip(self.names, row, strict=False))
        stream, key = str(named.get("stream")), named.get("key")
        whose = f"stream {stream!r}, key {key!r}" if key else f"stream {stream!r}"
        return self.label.format(**named, whose=whose)


def _checksum(values: Sequence[Any]) -> int:
    blobs = [value for value in values if isinstance(value, bytes)]
    texts = (str(len(value)) if isinstance(value, bytes) else ascii(value) for value in values)
    found = zlib.crc32(",".join(texts).encode())
    for blob in blobs:
        found = zlib.crc32(blob, found)
    return found


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _number(value: Any) -> float | None:
    """Return a number as SQLite does: without NaN, and without the sign of zero."""
    return None if value is None or value != value else float(value) + 0.0


def text(value: str | None) -> str | None:
    r"""Return a text that UTF-8 has; a name from JSON may hold half a character.

    >>> text("\ud800")
    '\\ud800'
    """
    if value is None or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode()


_KINDS: Final[dict[str, Callable[[Any], Any]]] = {
    "BIGINT": _integer,
    "DOUBLE": _number,
    "TEXT": text,
    "BLOB": bytes,
}

# --- Who works on what, and how far that is ---

FACTS: Final = Table("facts", "name TEXT NOT NULL, value TEXT NOT NULL", "name", "fact {name}")
"""The identity of the state, and how often streams were begun anew."""
NUMBERS: Final = Table(
    "numbers", "name TEXT NOT NULL, last BIGINT NOT NULL", "name", "the last number of {name}"
)
"""The last number given to an event, a body, an owner; none is ever given twice."""
OWNERS: Final = Table(
    "owners",
    "owner BIGINT NOT NULL, host TEXT NOT NULL, pid BIGINT NOT NULL,"
    "lease_until DOUBLE PRECISION NOT NULL",
    "owner",
    "owner {owner}",
)
"""Processes that work on lanes."""
LANES: Final = Table(
    "lanes",
    "stream TEXT NOT NULL, lane TEXT NOT NULL, owner BIGINT, fence BIGINT NOT NULL,"
    "position TEXT, n_ahead BIGINT NOT NULL, committed DOUBLE PRECISION",
    "stream, lane",
    "lane {lane!r} of stream {stream!r}",
)
"""Who may commit a lane (``fence`` rises with each new owner), and where reading goes on."""
STATES: Final = Table(
    "states",
    "stream TEXT NOT NULL, lane TEXT NOT NULL, key TEXT NOT NULL, state BLOB NOT NULL",
    "stream, lane, key",
    "the state of {whose}",
)
BODIES: Final = Table(
    "bodies",
    "sequence BIGINT NOT NULL, stream TEXT NOT NULL, n_records BIGINT NOT NULL,"
    "n_bytes BIGINT NOT NULL, n_raw_bytes BIGINT NOT NULL, body BLOB NOT NULL",
    "sequence",
    "body {sequence}",
)
"""Accepted over HTTP and not worked through yet."""
BODY_KEYS: Final = Table(
    "body_keys",
    "stream TEXT NOT NULL, key TEXT NOT NULL, sequence BIGINT NOT NULL, n_records BIGINT NOT NULL,"
    "digest BLOB NOT NULL",
    "stream, key",
    "the idempotency key {key!r}",
)

# --- The history: rows, and their tables ---


@dataclass(frozen=True)
class WindowRow:
    """A window in short; the fields are the columns of its table, as with the rows below."""

    stream: str
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

    stream: str
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

    stream: str
    key: str
    episode: int
    started_window: int  # in which it was found
    started_record: int | None
    started_time: float | None  # smallest event time of that window, if known
    last_window: int
    ended_window: int | None  # None while it is open
    kind: str | None  # by the window that named it last, as are the next two
    severity: str | None
    headline: str
    recurring: bool  # whether the relations are back to an earlier state
    n_windows: int
    state: str  # ``open`` or ``ended``
    edges: tuple[EpisodeEdge, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.state == "open"


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


Row = TypeVar("Row")
_EDGES_TYPE: Final = "tuple[EpisodeEdge, ...]"  # kept as JSON
_TYPES: Final = {
    "bool": "BIGINT", "int": "BIGINT", "float": "DOUBLE PRECISION", "str": "TEXT",
    _EDGES_TYPE: "TEXT",
}  # fmt: skip
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool,
    _EDGES_TYPE: lambda text: tuple(EpisodeEdge(**edge) for edge in json.loads(text)),
}


class RowTable(Table, Generic[Row]):
    """A table whose columns are the fields of a class."""

    def __init__(self, row: type[Row], name: str, key: str, label: str, *constraints: str) -> None:
        hints = {item.name: str(item.type) for item in fields(row)}  # type: ignore[arg-type]
        columns = ", ".join(f"{field} {_definition(hint)}" for field, hint in hints.items())
        super().__init__(name, columns, key, label, *constraints)
        self._row: Callable[..., Row] = row
        self._readers = [_READERS.get(hint) for hint in hints.values()]

    def written(self, row: Row) -> list[Any]:
        return self.sealed(map(_plain, vars(row).values()))

    def read(self, values: Sequence[Any]) -> Row:
        """Return a row by its values and checksum; ``RowDamage`` if that does not fit."""
        columns = zip(self._readers, self.opened(values), strict=True)
        return self._row(*(value if reader is None else reader(value) for reader, value in columns))


def _definition(hint: str) -> str:
    kind = hint.removesuffix(" | None")
    return _TYPES[kind] if kind != hint else f"{_TYPES[kind]} NOT NULL"


def _plain(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    return json.dumps([vars(edge) for edge in value], separators=(",", ":"))


_MONITOR: Final = "stream TEXT NOT NULL, key TEXT NOT NULL"
_WINDOW: Final = f"{_MONITOR}, window_index BIGINT NOT NULL"
_OF_WINDOW: Final = (
    "FOREIGN KEY (stream, key, window_index)"
    " REFERENCES windows (stream, key, window_index) ON DELETE CASCADE"
)

MONITORS: Final = Table(
    "monitors",
    f"{_MONITOR}, lane TEXT NOT NULL, n_windows BIGINT NOT NULL, n_drifts BIGINT NOT NULL,"
    "n_episodes BIGINT NOT NULL, last_window BIGINT NOT NULL, pruned_before BIGINT NOT NULL",
    "stream, key",
    "{whose}",
)
WINDOWS: Final = RowTable(
    WindowRow, "windows", "stream, key, window_index", "window {window_index} of {whose}"
)
DOCUMENTS: Final = Table(
    "documents",
    f"{_WINDOW}, report BLOB NOT NULL, explanation BLOB NOT NULL",
    "stream, key, window_index",
    "the report of window {window_index} of {whose}",
    _OF_WINDOW,
)
EDGES: Final = RowTable(
    EdgeRow,
    "edges",
    "stream, key, window_index, origin, source, target, change",
    "an edge in window {window_index} of {whose}",
    _OF_WINDOW,
)
EPISODES: Final = RowTable(
    EpisodeRow, "episodes", "stream, key, episode", "episode {episode} of {whose}"
)
EVENTS: Final = Table(
    "events",
    f"sequence BIGINT NOT NULL, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, {_MONITOR},"
    "lane TEXT NOT NULL, window_index BIGINT NOT NULL, stored DOUBLE PRECISION NOT NULL,"
    "document TEXT NOT NULL",
    "sequence",
    "event {sequence}",
)
DELIVERIES: Final = Table(
    "deliveries",
    "outlet TEXT NOT NULL, sequence BIGINT NOT NULL",
    "outlet, sequence",
    "event {sequence}",
    "FOREIGN KEY (sequence) REFERENCES events (sequence) ON DELETE CASCADE",
)
"""Events that an outlet has not got yet."""
ACTIONS: Final = RowTable(ActionRow, "actions", "number", "action {number} of {whose}")
"""What people did about monitors; an accept without a window is still to be done."""

HISTORY: Final = (WINDOWS, EDGES, EPISODES, EVENTS, ACTIONS)
"""Tables that are of use to other programs."""
WORKING: Final = (FACTS, NUMBERS, OWNERS, LANES, STATES)
"""Tables without any row of which a daemon cannot go on."""
TABLES: Final = (
    *WORKING, BODIES, BODY_KEYS, MONITORS, WINDOWS, DOCUMENTS, EDGES, EPISODES, EVENTS, DELIVERIES,
    ACTIONS,
)  # fmt: skip
STATEMENTS: Final = (
    *(table.create for table in TABLES),
    "CREATE INDEX bodies_by_stream ON bodies (stream, sequence, n_records, n_bytes)",
    "CREATE INDEX body_keys_by_sequence ON body_keys (stream, sequence)",
    "CREATE INDEX monitors_by_length ON monitors ((last_window - pruned_before))",
    "CREATE INDEX windows_with_drift ON windows (stream, key, window_index) WHERE drift = 1",
    "CREATE INDEX edges_by_name ON edges (stream, key, source, target, window_index)",
    "CREATE UNIQUE INDEX open_episodes ON episodes (stream, key) WHERE state = 'open'",
    "CREATE INDEX events_by_monitor ON events (stream, key, type, sequence)",
    "CREATE INDEX events_by_age ON events (stored)",
    "CREATE INDEX deliveries_by_event ON deliveries (sequence)",
    "CREATE INDEX actions_by_monitor ON actions (stream, key, number)",
    "CREATE INDEX actions_by_end ON actions (until) WHERE kind = 'silence'",
    "CREATE INDEX actions_wanted ON actions (number)"
    " WHERE kind = 'accept' AND window_index IS NULL",
)
"""They make a new database."""


def _sum(column: str) -> str:
    return f"CAST(COALESCE(sum({column}), 0) AS BIGINT)"


# --- Lanes ---

LANE: Final = f"{LANES.select} WHERE stream = ? AND lane = ?{LOCKING}"
LANES_OF: Final = f"{LANES.select} WHERE stream = ?{LOCKING}"
OWNER: Final = f"{OWNERS.select} WHERE owner = ?"
OWNER_NUMBERS: Final = "SELECT owner FROM owners"
FORGET_OWNER: Final = "DELETE FROM owners WHERE owner = ?"
FACT: Final = f"{FACTS.select} WHERE name = ?"
NUMBER: Final = f"{NUMBERS.select} WHERE name = ?{LOCKING}"
STATE: Final = f"{STATES.select} WHERE stream = ? AND lane = ? AND key = ?"
STATES_OF: Final = f"{STATES.select} WHERE stream = ? ORDER BY lane, key"
STATE_KEYS: Final = "SELECT key FROM states WHERE stream = ? AND lane = ? ORDER BY key"
SURVEY: Final = (
    "SELECT l.stream, l.lane, l.position, l.n_ahead, l.committed, o.owner, o.host, o.pid,"
    " (SELECT count(*) FROM states AS s WHERE s.stream = l.stream AND s.lane = l.lane),"
    f" (SELECT {_sum('length(state)')} FROM states AS s"
    " WHERE s.stream = l.stream AND s.lane = l.lane),"
    f" (SELECT {_sum('n_windows')} FROM monitors AS m"
    " WHERE m.stream = l.stream AND m.lane = l.lane)"
    " FROM lanes AS l LEFT JOIN owners AS o ON o.owner = l.owner ORDER BY l.stream, l.lane"
)

# --- Bodies ---

BODY_SIZES: Final = (
    "SELECT sequence, COALESCE(CAST(n_raw_bytes AS BIGINT), 0)"
    " FROM bodies WHERE stream = ? AND sequence > ?"
    " ORDER BY sequence LIMIT ?"
)
BODIES_BETWEEN: Final = (
    f"{BODIES.select} WHERE stream = ? AND sequence > ? AND sequence <= ? ORDER BY sequence"
)
RECORDS_AFTER: Final = f"SELECT {_sum('n_records')} FROM bodies WHERE stream = ? AND sequence > ?"
LAST_BODY: Final = "SELECT COALESCE(max(sequence), 0) FROM bodies WHERE stream = ?"
BODY_BYTES: Final = f"SELECT {_sum('n_bytes')} FROM bodies WHERE stream = ?"
FORGET_BODIES: Final = "DELETE FROM bodies WHERE stream = ? AND sequence <= ?"
BODY_KEY: Final = f"{BODY_KEYS.select} WHERE stream = ? AND key = ?"
FORGET_BODY_KEYS: Final = (
    "DELETE FROM body_keys WHERE stream = ? AND sequence <= ? AND sequence <="
    " (SELECT sequence FROM body_keys WHERE stream = ? ORDER BY sequence DESC LIMIT 1 OFFSET ?)"
)

# --- Writing the history ---

MONITOR: Final = f"{MONITORS.select} WHERE stream = ? AND key = ?{LOCKING}"
COUNTS: Final = (
    f"SELECT count(*), {_sum('drift')}, COALESCE(max(window_index), -1),"
    " COALESCE(min(window_index), 0) FROM windows WHERE stream = ? AND key = ?"
)
COUNT_EPISODES: Final = "SELECT count(*) FROM episodes WHERE stream = ? AND key = ?"
WINDOW: Final = f"{WINDOWS.select} WHERE stream = ? AND key = ? AND window_index = ?"
OPEN_EPISODE: Final = f"{EPISODES.select} WHERE stream = ? AND key = ? AND state = 'open'"
EPISODE: Final = f"{EPISODES.select} WHERE stream = ? AND key = ? AND episode = ?"
END_DAMAGED_EPISODE: Final = (
    "UPDATE episodes SET state = 'ended' WHERE stream = ? AND key = ? AND state = 'open'"
)
"""Its checksum stays wrong: who reads it is told."""
EVENT_BY_ID: Final = "SELECT sequence FROM events WHERE id = ?"

# --- What people do ---

WANTED: Final = f"{ACTIONS.select} WHERE kind = 'accept' AND window_index IS NULL ORDER BY number"
SILENCES: Final = (
    f"{ACTIONS.select} WHERE kind = 'silence' AND until > ? AND NOT EXISTS"
    " (SELECT * FROM actions AS n WHERE n.kind = 'silence' AND n.stream = actions.stream"
    " AND n.key = actions.key AND n.number > actions.number) ORDER BY number"
)
"""Of each stream, the newest one decides."""
ACTIONS_BEFORE: Final = (
    f"{ACTIONS.select} WHERE stream = ? AND key IN (?, '') AND number < ?"
    " ORDER BY number DESC LIMIT ?"
)
FORGET_ACTIONS: Final = (
    "DELETE FROM actions WHERE stored < ? AND (until IS NULL OR until < ?)"
    " AND (kind <> 'accept' OR window_index IS NOT NULL) AND NOT EXISTS"
    " (SELECT * FROM episodes AS e WHERE e.stream = actions.stream AND e.key = actions.key"
    " AND e.episode = actions.episode)"
)
"""Those from before a time, but for those in force and those of episodes that are kept."""

# --- Deleting from it ---

LONG_MONITORS: Final = f"{MONITORS.select} WHERE last_window - pruned_before >= ? LIMIT ?{LOCKING}"
WINDOW_NUMBERS: Final = (
    "SELECT window_index FROM windows WHERE stream = ? AND key = ? AND window_index < ?"
    " ORDER BY window_index LIMIT 1 OFFSET ?"
)
FORGET_WINDOWS: Final = "DELETE FROM windows WHERE stream = ? AND key = ? AND window_index < ?"
FORGET_EPISODES: Final = (
    "DELETE FROM episodes WHERE stream = ? AND key = ? AND last_window < ? AND state = 'ended'"
)
FORGET_EVENTS: Final = (
    "DELETE FROM events WHERE sequence IN (SELECT sequence FROM events AS e WHERE stored < ?"
    " AND NOT EXISTS (SELECT * FROM deliveries AS d WHERE d.sequence = e.sequence)"
    " AND EXISTS (SELECT * FROM events AS n WHERE n.stream = e.stream AND n.key = e.key"
    " AND n.type = e.type AND n.sequence > e.sequence) ORDER BY stored LIMIT ?)"
)
"""Those from before a time, but for those that wait for an outlet and the newest of each type."""
FORGET_STREAM: Final = tuple(
    f"DELETE FROM {table} WHERE stream = ?"
    for table in ("states", "windows", "episodes", "events", "monitors", "actions")
)

# --- Deliveries ---

COUNT_PENDING: Final = "SELECT count(*) FROM deliveries WHERE outlet = ?"
PENDING_OUTLETS: Final = "SELECT DISTINCT outlet FROM deliveries ORDER BY outlet"
DELIVERED: Final = "DELETE FROM deliveries WHERE outlet = ? AND sequence = ?"
LONG_QUEUES: Final = "SELECT outlet, count(*) FROM deliveries GROUP BY outlet HAVING count(*) > ?"
GIVE_UP: Final = (
    "DELETE FROM deliveries WHERE outlet = ? AND sequence IN"
    " (SELECT sequence FROM deliveries WHERE outlet = ? ORDER BY sequence LIMIT ?)"
)


def pending_of(n_lanes: int | None) -> str:
    """Return the query for the oldest events that an outlet has not got, of some lanes or all."""
    return (
        f"SELECT {DELIVERIES.columns('d.')}, {EVENTS.columns('e.')}"
        " FROM deliveries AS d LEFT JOIN events AS e ON e.sequence = d.sequence"
        f" WHERE d.outlet = ? AND (e.sequence IS NULL OR {_of_lanes(n_lanes)})"
        " ORDER BY d.sequence LIMIT ?"
    )


def newest_of(n_types: int, n_lanes: int | None) -> str:
    """Return the query for the newest event of each monitor that does not wait for an outlet."""
    return (
        f"{EVENTS.select} WHERE sequence IN (SELECT max(e.sequence) FROM events AS e"
        f" WHERE e.type IN ({_places(n_types)}) AND {_of_lanes(n_lanes)} AND NOT EXISTS"
        " (SELECT * FROM deliveries AS d WHERE d.outlet = ? AND d.sequence = e.sequence)"
        " GROUP BY e.stream, e.key) ORDER BY stream, key"
    )


def _of_lanes(n_lanes: int | None) -> str:
    if n_lanes is None:
        return "1 = 1"
    if not n_lanes:
        return "1 = 0"
    return f"(e.stream, e.lane) IN (VALUES {', '.join(['(?, ?)'] * n_lanes)})"


def _places(n_values: int) -> str:
    return ", ".join("?" * n_values) or "NULL"


# --- Reading the history ---

WINDOWS_BETWEEN: Final = (
    f"{WINDOWS.select} WHERE stream = ? AND key = ? AND window_index > ? AND window_index < ?"
    " ORDER BY window_index DESC LIMIT ?"
)
DRIFTS_BETWEEN: Final = WINDOWS_BETWEEN.replace("ORDER BY", "AND drift = 1 ORDER BY")
DOCUMENT: Final = f"{DOCUMENTS.select} WHERE stream = ? AND key = ? AND window_index = ?"
EPISODES_BEFORE: Final = (
    f"{EPISODES.select} WHERE stream = ? AND key = ? AND episode < ? ORDER BY episode DESC LIMIT ?"
)
LAST_EVENT: Final = "SELECT COALESCE(max(sequence), 0) FROM events"
EVENTS_AFTER: Final = f"{EVENTS.select} WHERE sequence > ? ORDER BY sequence LIMIT ?"
EVENTS_OF: Final = f"{EVENTS.select} WHERE stream = ? ORDER BY sequence"
_EDGE: Final = f"{EDGES.select} WHERE stream = ? AND key = ? AND source = ? AND target = ?"
EDGE_HISTORY: Final = f"{_EDGE} UNION {_EDGE} ORDER BY window_index DESC, origin, change LIMIT ?"
_SUMMARIES: Final = (
    f"SELECT {MONITORS.columns('m.')}, {WINDOWS.columns('w.')}, {EPISODES.columns('e.')}"
    " FROM monitors AS m LEFT JOIN windows AS w"
    " ON w.stream = m.stream AND w.key = m.key AND w.window_index = m.last_window"
    " LEFT JOIN episodes AS e ON e.stream = m.stream AND e.key = m.key AND e.state = 'open'"
)
SUMMARY: Final = f"{_SUMMARIES} WHERE m.stream = ? AND m.key = ?"


def summaries(*, of_one: bool, after: bool) -> str:
    """Return the query for monitors, each with its last window and its open episode."""
    conditions = (["(m.stream, m.key) > (?, ?)"] if after else []) + (
        ["m.stream = ?"] if of_one else []
    )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{_SUMMARIES}{where} ORDER BY m.stream, m.key LIMIT ?"
