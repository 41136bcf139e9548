"""The state in a database of PostgreSQL: its connections, session locks, and text of any kind."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import StrDumperUnknown, TextBinaryLoader

from driftbn_service.state import sql
from driftbn_service.state.database import (
    AwayError,
    Connection,
    Cursor,
    Database,
    Result,
    StoreError,
)

IDLE_SECONDS: Final = 10
"""A process that stops amid a transaction holds up the others for no longer than this."""
LOCK_SECONDS: Final = 30
_USUAL: Final = {
    "application_name": "driftbn",
    "connect_timeout": 10,
    # Without these a host that is gone would be waited for until the system gives up.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of connections unless the address has others."""
_SESSION: Final = f"SET lock_timeout = '{LOCK_SECONDS}s'"
_WRITER: Final = f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITING: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
_NOW: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
_HELD: Final = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = ? AND objid = ?"
    " AND objsubid = 2 AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_ABOUT: Final = (
    "SELECT current_setting('server_encoding'), current_schema(), EXISTS"
    " (SELECT * FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'facts')"
)
"""``to_regclass`` would not see a table that was made while a lock was waited for."""
_VERSION: Final = "version"


class PostgresDatabase(Database):
    """A database of PostgreSQL, by its address; the tables are made if need be.

    Raises ``StoreError`` if it cannot be used, or holds tables of another program or another
    driftbn. A server that goes away is an ``AwayError``, and connected to again by the next call.
    Connections must be sessions of their own, which a pooler may not share out.
    """

    shared = True
    failures = (psycopg.Error,)

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        super().__init__(_shown(address))
        self._address = address
        self._read_only = read_only
        self._writer: _Session | None = None
        self._held: int | None = None
        with self._told("opened"):
            self._lock_class = 0
            session = self._connected()
            try:
                self._prepare(session)
            finally:
                session.close()

    def close(self) -> None:
        with self._writing, self._resting:
            for session in (*self._readers, self._writer):
                if session is not None:
                    session.close()
            self._readers.clear()
            self._writer = self._held = None

    def write(self, action: Callable[[Connection], Result]) -> Result:
        """Do something in a transaction; of two that wait for each other one is done again."""
        if self._read_only:
            raise StoreError(self.path, "the state was opened to be read only")
        while True:
            try:
                return super().write(action)
            except AwayError as error:
                if not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                    raise

    @contextmanager
    def rows(self, connection: Connection, query: str, *values: Any) -> Iterator[Iterable[Any]]:
        """Give rows, of which the server keeps those that were not asked for yet."""
        assert isinstance(connection, _Session)
        with connection.raw.cursor("rows", binary=True) as cursor:
            yield cursor.execute(_translated(query), values)

    def now(self, connection: Connection) -> float:
        return float(connection.execute(_NOW).fetchone()[0])

    def back_up(self) -> bool:
        """Do nothing: the server's own copies are for that."""
        return False

    def problem(self, connection: Connection) -> str | None:
        return None

    def hold(self, connection: Connection, number: int) -> None:
        """Take a lock that the server frees when this process ends or is cut off."""
        if self._held is not None:
            place = (self._lock_class, self._held)
            connection.execute("SELECT pg_advisory_unlock(?, ?)", place)
        connection.execute("SELECT pg_try_advisory_lock(?, ?)", (self._lock_class, number))
        self._held = number

    def is_held(self, connection: Connection, number: int) -> bool:
        found = connection.execute(_HELD, (self._lock_class, number)).fetchone()
        return bool(found[0])

    def let_go(self) -> None:
        """Do nothing: to close the connection frees the lock."""

    # --- Connections ---

    def _begun(self) -> Connection:
        if self._writer is not None:
            with suppress(psycopg.Error):
                self._writer.execute(_WRITING)
                return self._writer
            self._writer.close()  # the server was away meanwhile
        self._writer = None
        session = self._connected()
        session.execute(_WRITER)
        if self._held is not None:
            place = (self._lock_class, self._held)
            session.execute("SELECT pg_try_advisory_lock(?, ?)", place)
        session.execute(_WRITING)
        self._writer = session
        return session

    def _put_right(self) -> None:
        if self._writer is not None and self._writer.in_transaction:
            with suppress(psycopg.Error):  # a connection that is lost is made anew
                self._writer.execute("ROLLBACK")

    def _begun_reading(self) -> Connection:
        while (rested := self._rested()) is not None:
            with suppress(psycopg.Error):
                rested.execute(_READING)
                return rested
            rested.close()  # the server was away meanwhile
        session = self._connected()
        session.execute(_READING)
        return session

    def _connected(self) -> _Session:
        raw = psycopg.connect(self._address, autocommit=True, **_unless_given(self._address))
        try:
            raw.adapters.register_dumper(str, _TextDumper)
            raw.adapters.register_loader("text", _TextLoader)
            session = _Session(raw)
            session.execute(_SESSION)
        except BaseException:
            raw.close()
            raise
        return session

    def _failure(self, error: Exception, done: str) -> StoreError:
        gone = (psycopg.OperationalError, psycopg.InternalError, psycopg.InterfaceError)
        kind = AwayError if isinstance(error, gone) else StoreError
        reason = " ".join(str(error).split()) or type(error).__name__
        return kind(self.path, f"the state cannot be {done}: {reason}")

    # --- Tables ---

    def _prepare(self, session: _Session) -> None:
        """Have all tables; one process at a time makes them."""
        encoding, schema, _ = session.execute(_ABOUT).fetchone()
        if encoding != "UTF8":
            problem = f"its encoding is {encoding}: make the database with ENCODING 'UTF8'"
            raise StoreError(self.path, problem)
        if schema is None:
            raise StoreError(self.path, "its search_path names no schema that is there: mend it")
        self._lock_class = zlib.crc32(schema.encode()) >> 1
        session.execute(_WRITING)
        session.execute("SELECT pg_advisory_xact_lock(?, 0)", (self._lock_class,))
        if not session.execute(_ABOUT).fetchone()[2]:
            if self._read_only:
                raise StoreError(self.path, "there is no state of driftbn in it")
            for statement in sql.STATEMENTS:
                session.execute(_defined(statement))
            fact = sql.FACTS.sealed((_VERSION, str(sql.VERSION)))
            session.execute(sql.FACTS.insert, fact)
        self._check_version(session)
        session.execute("COMMIT")

    def _check_version(self, session: _Session) -> None:
        try:
            found = session.execute(sql.FACT, (_VERSION,)).fetchone()
        except psycopg.ProgrammingError as error:
            problem = "its table 'facts' is another program's: give another database or schema"
            raise StoreError(self.path, problem) from error
        version = "none" if found is None else sql.FACTS.opened(found)[1]
        if version != str(sql.VERSION):
            problem = (
                f"the state has version {version} and this driftbn knows version {sql.VERSION}: use"
                " the driftbn that wrote it, or give another database or schema to begin anew"
            )
            raise StoreError(self.path, problem)


class _Session:
    """A connection of psycopg as one of SQLite looks."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    @property
    def in_transaction(self) -> bool:
        status = self.raw.info.transaction_status
        return status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Cursor:
        return self.raw.cursor(binary=True).execute(_translated(query), values)

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> Cursor:
        cursor = self.raw.cursor()
        cursor.executemany(_translated(query), values)
        return cursor

    def close(self) -> None:
        self.raw.close()


@cache
def _translated(query: str) -> bytes:
    return query.replace("?", "%s").replace(sql.LOCKING, " FOR UPDATE").encode()


def _defined(statement: str) -> str:
    """Return the definition of a table; texts are in the order of their bytes, as in SQLite.

    >>> _defined('CREATE TABLE t ("x" TEXT NOT NULL, "y" BLOB)')
    'CREATE TABLE t ("x" TEXT COLLATE "C" NOT NULL, "y" BYTEA)'
    """
    return re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', re.sub(r"\bBLOB\b", "BYTEA", statement))


def _shown(address: str) -> str:
    """Return an address without anything secret.

    >>> _shown("postgresql://driftbn:secret@db.example.org/drift?sslmode=require")
    'postgresql://db.example.org:5432/drift'
    """
    parts = conninfo_to_dict(address)
    name = parts.get("dbname") or parts.get("user") or ""
    return f"postgresql://{parts.get('host', '')}:{parts.get('port', 5432)}/{name}"


def _unless_given(address: str) -> dict[str, Any]:
    given = conninfo_to_dict(address)
    return {name: value for name, value in _USUAL.items() if name not in given}


# PostgreSQL has no text with a zero in it. The order of texts stays as it is.


def _without_zeros(text: str) -> str:
    r"""Return a text without zeros, from which ``_with_zeros`` makes it again.

    >>> _with_zeros(_without_zeros("a\0b\1")) == "a\0b\1"
    True
    """
    return text.replace("\1", "\1b").replace("\0", "\1a")


def _with_zeros(text: str) -> str:
    return text.replace("\1a", "\0").replace("\1b", "\1")


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(_without_zeros(obj))


class _TextLoader(TextBinaryLoader):
    def load(self, data: Any) -> Any:
        found = str(super().load(data))
        return _with_zeros(found) if "\1" in found else found
