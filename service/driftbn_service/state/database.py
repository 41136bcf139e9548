"""What the state asks of a database; SQLite and PostgreSQL connect below it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from driftbn.errors import DriftbnError
from driftbn_service.state import sql

Result = TypeVar("Result")


class Cursor(Protocol):
    """The rows of a query."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """What ``sqlite3.Connection`` has, as far as it is used."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, query: str, values: Iterable[Sequence[Any]], /) -> Cursor: ...

    def close(self) -> None: ...


class StoreError(DriftbnError):
    """The state cannot be read or written; what was written before is still there."""

    def __init__(self, path: Path | str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class AwayError(StoreError):
    """The server of the database does not answer, or not now; nothing has changed."""


class DamagedRowError(StoreError):
    """A row is not as it was written; the others can be read.

    ``event`` is number and monitor, if it is an event; the monitor may be damaged.
    """

    def __init__(self, path: Path | str, row: str, event: tuple[int, str] | None = None) -> None:
        self.row = row
        self.event = event
        super().__init__(path, f"{row} is damaged in the state: its checksum does not fit")


class DamagedError(StoreError):
    """The file is damaged as a whole: nothing can be written until a start has gone back."""


class Database(ABC):
    """Transactions of one database; for any thread, and for several processes.

    ``shared`` says whether processes on other hosts may work with it too. ``restored_from`` is when
    the copy was made that had to be gone back to, in seconds since the epoch.
    """

    shared: bool
    failures: tuple[type[Exception], ...]
    """What the driver of the database raises."""
    scratch: str | None = None
    """Where files may be put for a while; where the system does unless given."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.restored_from: float | None = None
        self._waiting: deque[_Task[Any]] = deque()
        self._writing = threading.Lock()
        self._resting = threading.Lock()
        self._readers: list[Connection] = []

    def write(self, action: Callable[[Connection], Result]) -> Result:
        """Do something in a transaction, as a whole or not at all; on return it is on disk.

        While one thread waits for the disk others get in line, and whoever is next puts all of them
        into one transaction. One whose action fails takes none of the others with it. Raises
        ``StoreError`` if it cannot be written: nothing has changed then, and calling again later
        works.
        """
        task = _Task(action)
        self._waiting.append(task)
        with self._writing:
            if not task.done:
                self._commit_waiting()
        with self._told("written"):
            return task.outcome()

    def _commit_waiting(self) -> None:
        tasks = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            connection = self._begun()
            for task in tasks:
                task.run(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            for task in tasks:
                task.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            for task in tasks:
                task.done = True
            self._put_right()

    @abstractmethod
    def close(self) -> None:
        """Let go of it; no other thread may be using it."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection to read with, which sees one moment of the state."""
        with self._told("read"):
            connection = self._begun_reading()
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                    with self._resting:
                        self._readers.append(connection)
                else:
                    connection.close()

    @contextmanager
    def rows(self, connection: Connection, query: str, *values: Any) -> Iterator[Iterable[Any]]:
        """Give rows of which there may be more than fit into memory."""
        with closing(connection.execute(query, values)) as cursor:
            yield cursor

    @abstractmethod
    def now(self, connection: Connection) -> float:
        """Return the time by the clock that all who use the database share, since the epoch."""

    @abstractmethod
    def back_up(self) -> bool:
        """Keep a copy for a later start to go back to; ``False`` if there is none now."""

    @abstractmethod
    def problem(self, connection: Connection) -> str | None:
        """Return what is wrong with the database as a whole; ``None`` if nothing is known to be."""

    # --- Whether a process that works on lanes is still there ---

    @abstractmethod
    def hold(self, connection: Connection, number: int) -> None:
        """Show others that this process is there, as an owner of lanes, for as long as it is."""

    @abstractmethod
    def is_held(self, connection: Connection, number: int) -> bool:
        """Return whether the process that is this owner is there, which it may be and hang."""

    @abstractmethod
    def let_go(self) -> None:
        """Show no more that this process is there."""

    # --- What connects ---

    @abstractmethod
    def _begun_reading(self) -> Connection:
        """Return a connection that reads, within a new transaction."""

    def _rested(self) -> Connection | None:
        """Return a connection that has read before; ``None`` if all are in use."""
        with self._resting:
            return self._readers.pop() if self._readers else None

    @abstractmethod
    def _begun(self) -> Connection:
        """Return the connection that writes, within a new transaction."""

    @abstractmethod
    def _put_right(self) -> None:
        """End a transaction that was left open."""

    @abstractmethod
    def _failure(self, error: Exception, done: str) -> StoreError:
        """Return what one of the ``failures`` means where the state could not be ``done``."""

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Turn what database and disk say into errors that name the state."""
        try:
            yield
        except sql.RowDamage as damage:
            raise DamagedRowError(self.path, damage.row, damage.event) from damage
        except self.failures as error:
            raise self._failure(error, done) from error
        except OSError as error:
            problem = f"the state cannot be {done}: {error.strerror}"
            raise StoreError(self.path, problem) from error


class _Task(Generic[Result]):
    def __init__(self, action: Callable[[Connection], Result]) -> None:
        self.action = action
        self.done = False
        self.error: BaseException | None = None
        self._results: list[Result] = []

    def run(self, connection: Connection) -> None:
        """Do it; if it fails, the transaction is as it was before."""
        connection.execute("SAVEPOINT task")
        try:
            self._results.append(self.action(connection))
        except Exception as error:
            if not connection.in_transaction:  # rolled back is then what all others have done
                raise
            connection.execute("ROLLBACK TO SAVEPOINT task")
            self.error = error
        connection.execute("RELEASE SAVEPOINT task")

    def outcome(self) -> Result:
        if self.error is not None:
            raise self.error
        return self._results[0]


def next_number(connection: Connection, name: str) -> int:
    """Return a number that was never given before under a name.

    Nobody else gets one until the transaction ends, so that later ones are seen later.
    """
    found = connection.execute(sql.NUMBER, (name,)).fetchone()
    if found is None:
        connection.execute(sql.NUMBERS.insert_new, sql.NUMBERS.sealed((name, 0)))
        found = connection.execute(sql.NUMBER, (name,)).fetchone()
    number: int = 1 + sql.NUMBERS.opened(found)[1]
    connection.execute(sql.NUMBERS.upsert, sql.NUMBERS.sealed((name, number)))
    return number
