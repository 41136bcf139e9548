"""Databases that are damaged: rows that tell it of themselves, and files that are set aside."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def checksummed(columns: str) -> str:
    """Return the columns of a new table and one more, ``checksum``, that covers them all.

    SQLite itself writes it with the row, whoever writes that. An ``UPDATE`` makes a checksum of
    what it finds, so it must leave out rows that are not intact.

    Parameters
    ----------
    columns
        Their definitions, without commas in them.

    Examples
    --------
    >>> columns = "x TEXT, y REAL"
    >>> connection = sqlite3.connect(":memory:")
    >>> understand_checksums(connection)
    >>> _ = connection.execute(f"CREATE TABLE t ({checksummed(columns)})")
    >>> _ = connection.execute("INSERT INTO t VALUES ('a', 1)")
    >>> connection.execute(f"SELECT x, y, {intact(columns)} FROM t").fetchall()
    [('a', 1.0, 1)]
    """
    return f"{columns}, checksum INTEGER NOT NULL AS ({_checksum(columns)}) STORED"


def intact(columns: str, prefix: str = "") -> str:
    """Return the expression that tells whether a row is as it was written.

    Parameters
    ----------
    columns
        As they were given to ``checksummed``.
    prefix
        Of the table in a query, with its dot.
    """
    return f"{prefix}checksum IS {_checksum(columns, prefix)}"


def understand_checksums(connection: sqlite3.Connection) -> None:
    """Have a connection write and check rows with checksums, and read texts that are damaged."""
    connection.create_function("row_checksum", -1, _row_checksum, deterministic=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")


def check_structure(connection: sqlite3.Connection, statements: Iterable[str]) -> str | None:
    """Return what was wrong with indexes, which are then made anew; ``None`` if nothing was.

    Parameters
    ----------
    connection
        To the database.
    statements
        Those that have made its tables.

    Raises
    ------
    sqlite3.DatabaseError
        If the tables are damaged; its code is ``SQLITE_CORRUPT``.
    """
    if _layout(connection) != _layout_of(statements):
        raise corrupt("the definitions of its tables have changed")
    problem = _damage(connection)
    if problem is None:
        return None
    try:
        connection.execute("REINDEX")
        remains = _damage(connection)
    except sqlite3.OperationalError:
        raise  # it is locked, or the disk is full
    except sqlite3.DatabaseError as error:
        remains = str(error)
    if remains is not None:
        raise corrupt(problem)
    return problem


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether an error says that the file is damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED  # the low byte is the primary code


def set_aside(path: Path) -> Path:
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


def corrupt(problem: str) -> sqlite3.DatabaseError:
    """Return the error that SQLite itself raises for a damaged file."""
    error = sqlite3.DatabaseError(problem)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _layout(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    query = "SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema ORDER BY type, name"
    return connection.execute(query).fetchall()


def _layout_of(statements: Iterable[str]) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(":memory:")
    understand_checksums(connection)
    try:
        for statement in statements:
            connection.execute(statement)
        return _layout(connection)
    finally:
        connection.close()


def _damage(connection: sqlite3.Connection) -> str | None:
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return None if found == "ok" else str(found)


def _checksum(columns: str, prefix: str = "") -> str:
    """Return the expression of a checksum.

    The literals of texts and whole numbers are one blob: a damaged text may be no UTF-8, which no
    function in Python is given. Others go as they are, unless damage has made something else of
    them: bytes may be many, and the literals of numbers depend on the version of SQLite.
    """
    literals, values = [], []
    for definition in columns.split(","):
        name, kind, *_ = definition.split()
        column = f"{prefix}{name}"
        if kind in ("REAL", "BLOB"):
            literals.append(f"typeof({column})")
            values.append(f"CASE typeof({column}) WHEN '{kind.lower()}' THEN {column} END")
        else:
            literals.append(f"quote({column})")
    text = " || ',' || ".join(literals)
    return f"row_checksum({', '.join((f'CAST({text} AS BLOB)', *values))})"


def _row_checksum(*values: bytes | float | None) -> int:
    checksum = 0
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        checksum = zlib.crc32(data, checksum)
    return checksum
