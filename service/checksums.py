"""Rows of SQLite that tell whether they are as they were written."""

from __future__ import annotations

import sqlite3
import zlib


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


def _checksum(columns: str, prefix: str = "") -> str:
    """Return the expression of a checksum.

    The literals of all values are one blob: a damaged text may be no UTF-8, which no function in
    Python is given. Numbers with a fraction go as they are, as their literals depend on the version
    of SQLite, unless damage has made something else of them.
    """
    words = [definition.split() for definition in columns.split(",")]
    reals = [f"{prefix}{name}" for name, kind, *_ in words if kind == "REAL"]
    others = [f"quote({prefix}{name})" for name, kind, *_ in words if kind != "REAL"]
    floats = [f"CASE typeof({name}) WHEN 'real' THEN {name} END" for name in reals]
    types = [f"typeof({name})" for name in reals]
    literals = " || ',' || ".join((*others, *types))
    return f"row_checksum({', '.join((f'CAST({literals} AS BLOB)', *floats))})"


def _row_checksum(literals: bytes, *floats: float | None) -> int:
    return zlib.crc32(repr(floats).encode(), zlib.crc32(literals))
