"""The SQLite file of a state: its connections, checks, and the copy to go back to."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from time import time
from typing import Final, TypeAlias
from urllib.parse import quote

from driftbn_service.state import database
from driftbn_service.state.database import (
    DamagedError,
    Database,
    Result,
    StoreError,
)
from driftbn_service.state.sql import STATEMENTS, VERSION, WORKING

logger = logging.getLogger("driftbn.service.state.sqlite")

APPLICATION_ID: Final = 0x44424E32
"""Says in the file's head whose it is: DBN2."""
BUSY_SECONDS: Final = 10.0
"""How long to wait for another process that writes."""
CHECKED_BYTES: Final = 128 << 20
"""In a larger file a start does not compare indexes with tables: that takes 3 s for 100 MB."""
_WAL_BYTES: Final = 64 << 20
_WAL_PAGES: Final = 4096
"""After so many the log is written back: states that change often are written back once."""
_OLD_LAYOUT: Final = ("lanes", "history.sqlite", "journals", "identity.json")
_NO_STATE: Final = "this is no state of driftbn: give the state.sqlite of a state directory"

Connection: TypeAlias = sqlite3.Connection


class SqliteDatabase(Database):
    """The file that a daemon writes to; for any thread, and for several processes.

    It is made if need be. One that is damaged or gone is replaced by the copy that ``back_up`` has
    made, with an error in the log; ``restored_from`` is then when that copy was made, in seconds
    since the epoch. Raises ``StoreError`` if it cannot be used, belongs to another program or
    another driftbn, or is damaged and there is no good copy.
    """

    path: Path
    shared = False
    failures = (sqlite3.Error, UnicodeDecodeError)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.scratch = str(path.parent)
        self._holding: tuple[Path, int] | None = None  # the file of this owner, which is open
        with self._told("opened"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.with_name(f"{path.name}.lock")):
                self._prepare()
                self._writer = _with_log(path)

    @property
    def copy_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.copy")

    def close(self) -> None:
        self.let_go()
        with self._writing, self._resting:
            for connection in (*self._readers, self._writer):
                connection.close()
            self._readers.clear()

    # --- Writing and reading ---

    def now(self, connection: database.Connection) -> float:
        return time()

    def problem(self, connection: database.Connection) -> str | None:
        assert isinstance(connection, Connection)
        return structure_problem(connection, with_indexes=True)

    def hold(self, connection: database.Connection, number: int) -> None:
        """Lock a file, which the system takes back however the process ends."""
        self.let_go()
        for path in owner_paths(self.path):
            if not is_held(path):
                path.unlink(missing_ok=True)
        path = owner_path(self.path, number)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._holding = (path, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_held(self, connection: database.Connection, number: int) -> bool:
        return is_held(owner_path(self.path, number))

    def let_go(self) -> None:
        if self._holding is not None:
            path, descriptor = self._holding
            path.unlink(missing_ok=True)
            os.close(descriptor)
            self._holding = None

    def _begun(self) -> Connection:
        self._writer.execute("BEGIN IMMEDIATE")
        return self._writer

    def _put_right(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # where it is closed
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _failure(self, error: Exception, done: str) -> StoreError:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_NOTADB and done == "read":
            return StoreError(self.path, _NO_STATE)
        if isinstance(error, sqlite3.Error) and _is_damage(error):
            problem = f"the state is damaged ({error}): restart, to go back to its copy"
            return DamagedError(self.path, problem)
        reason = "the disk is full" if code == sqlite3.SQLITE_FULL else str(error)
        return StoreError(self.path, f"the state cannot be {done}: {reason}")

    def _begun_reading(self) -> database.Connection:
        connection = self._rested()
        if connection is None:
            connection = _connected(self.path)
            connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        return connection

    # --- Opening: what is there, and what to do if it is damaged ---

    def _prepare(self) -> None:
        is_gone = not self.path.exists() or not self.path.stat().st_size
        if is_gone and not self.copy_path.exists():
            _refuse_old_layout(self.path)
            _create(self.path)
            return
        problem = "it is gone" if is_gone else problem_of(self.path)
        if problem is not None:
            self._go_back(problem)

    def _go_back(self, problem: str) -> None:
        """Put the copy in the place of a file that is damaged."""
        users = [owner for owner in owner_paths(self.path) if is_held(owner)]
        if users:
            raise DamagedError(
                self.path, f"the state is damaged ({problem}) and another process uses it: stop it"
            )
        copy = self.copy_path
        of_copy = problem_of(copy) if copy.exists() else "there is none"
        if of_copy is not None:
            raise DamagedError(
                self.path,
                f"the state is damaged ({problem}), and so is the copy to go back to ({of_copy}):"
                " put back a copy of your own, or move both away to begin anew",
            )
        aside = _set_aside(self.path)
        self.restored_from = copy.stat().st_mtime
        temporary = self.path.with_name(f"{self.path.name}.new")
        shutil.copyfile(copy, temporary)
        _rename_durably(temporary, self.path)
        moment = datetime.fromtimestamp(self.restored_from, UTC).isoformat(timespec="seconds")
        logger.error(
            "the state was damaged (%s) and is as of %s again, from %s; records since then are"
            " read again where their source still has them, those accepted over HTTP since then"
            " are lost, and events may be sent a second time; what is damaged is kept as %s",
            problem, moment, copy, aside.name,
        )  # fmt: skip

    def back_up(self) -> bool:
        """Copy the file as it is now for a later start to go back to; ``False`` if that failed.

        The copy is checked before it takes the place of the one before.
        """
        temporary = self.copy_path.with_name(f"{self.copy_path.name}.{os.getpid()}.new")
        try:
            with closing(_connected(self.path)) as source, closing(_connected(temporary)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")
            problem = problem_of(temporary)
            if problem is None:
                _rename_durably(temporary, self.copy_path)
                return True
            logger.error(
                "the state is damaged: %s: %s; the copy made before stays, and the next start goes"
                " back to it", self.path, problem,
            )  # fmt: skip
        except (OSError, sqlite3.Error) as error:
            logger.error("the state cannot be copied, the copy before stays: %s", error)
        finally:
            temporary.unlink(missing_ok=True)
        return False


class ReadOnlyDatabase(SqliteDatabase):
    """A file that is only looked at, while a daemon may write to it: nothing is made or locked."""

    def __init__(self, path: Path) -> None:
        Database.__init__(self, path)
        if not path.is_file():
            what = "is no file" if path.exists() else "there is no such file"
            raise StoreError(path, f"{what}: give the state.sqlite of a state directory")
        with self.reading():
            pass

    def close(self) -> None:
        """Do nothing: each connection is closed when it has read."""

    def write(self, action: Callable[[database.Connection], Result]) -> Result:
        raise StoreError(self.path, "the state was opened to be read only")

    def back_up(self) -> bool:
        return False

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection, which sees one moment of the state.

        Raises ``StoreError`` also if somebody begins just then to write to a state that nobody had
        open.
        """
        with self._told("read"):
            self.path.open("rb").close()  # says better than SQLite why a file cannot be opened
            # As long as anybody has the state open there is a write-ahead log. Without one the file
            # is read as it lies: SQLite would leave files beside it, or fail where it may make
            # none.
            at_rest = None if self._has_log() else self._stamp()
            options = f"mode=ro&immutable={int(at_rest is not None)}"
            with closing(_opened(self.path, options)) as connection:
                _check_head(connection, self.path)
                connection.execute("BEGIN")
                yield connection
            if at_rest is not None and (self._has_log() or self._stamp() != at_rest):
                raise StoreError(self.path, "the state is being written to since now: try again")

    def _has_log(self) -> bool:
        return self.path.with_name(f"{self.path.name}-wal").exists()

    def _stamp(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_size


# --- Checks ---


def problem_of(path: Path) -> str | None:
    """Return why a daemon cannot work with a file; ``None`` if it can.

    Raises ``StoreError`` if it belongs to another program or another driftbn.
    """
    try:
        with closing(_connected(path)) as connection:
            _check_head(connection, path)
            problem = structure_problem(connection, path.stat().st_size <= CHECKED_BYTES)
            found = (table.damaged(connection.execute(table.select)) for table in WORKING)
            damaged = None if problem else next(chain.from_iterable(found), None)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return str(error)
    except UnicodeDecodeError as error:  # SQLite quotes from tables whose names are damaged
        return str(error)
    return problem if damaged is None else f"{damaged} is damaged"


def structure_problem(connection: Connection, with_indexes: bool) -> str | None:
    """Return what is wrong with the pages of a file; ``None`` if nothing is."""
    if _layout(connection) != _layout_of_new():
        return "the definitions of its tables have changed"
    check = "integrity_check" if with_indexes else "quick_check"
    (found,) = connection.execute(f"PRAGMA {check}(1)").fetchone()
    return None if found == "ok" else str(found)


def _check_head(connection: Connection, path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if owner != APPLICATION_ID:
        raise StoreError(path, _NO_STATE)
    if version != VERSION:
        problem = (
            f"the state has version {version} and this driftbn knows version {VERSION}: use the"
            " driftbn that wrote it, or give another state directory to begin anew"
        )
        raise StoreError(path, problem)


def _refuse_old_layout(path: Path) -> None:
    found = [name for name in _OLD_LAYOUT if (path.parent / name).exists()]
    if found:
        raise StoreError(
            path.parent,
            f"this state was written by driftbn 0.1 ({', '.join(found)}), which this driftbn does"
            " not read and cannot take over: move the directory away, or set service.state_dir to"
            " another one; its streams then begin anew, without their old history",
        )


def _layout(connection: Connection) -> list[tuple[str, ...]]:
    query = "SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema ORDER BY type, name"
    return connection.execute(query).fetchall()


def _layout_of_new() -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
        return _layout(connection)


# --- Connections and files ---


def _connected(path: Path) -> Connection:
    connection = _opened(path)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(path: Path, options: str = "") -> Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{options}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    # A damaged text, whose checksum tells, is to be read too.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _with_log(path: Path) -> Connection:
    connection = _connected(path)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        connection.close()
        problem = f"no write-ahead log can be kept here ({mode}): give a local directory"
        raise StoreError(path, problem)
    return connection


def _create(path: Path) -> None:
    """Make a new file, which is there with all its tables or not at all."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    with closing(_connected(temporary)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    _rename_durably(temporary, path)


def _set_aside(path: Path) -> Path:
    """Rename a database, with what SQLite keeps beside it, and return its new name."""
    number, aside = 1, path.with_name(f"{path.name}.corrupt")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{number}")
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def _rename_durably(path: Path, target: Path) -> None:
    _sync(path)
    path.rename(target)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def owner_path(path: Path, number: object) -> Path:
    """Return the file that an owner of lanes holds locked while it lives."""
    return path.with_name(f"{path.name}.owner-{number}")


def owner_paths(path: Path) -> Iterator[Path]:
    """Iterate over the files of all owners, also of some that have ended."""
    return path.parent.glob(f"{path.name}.owner-*")


def is_held(path: Path) -> bool:
    """Return whether a process that lives holds the lock on a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from making or replacing the same file meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)  # the low byte is the primary code
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
