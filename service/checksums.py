"""Rows of SQLite that tell whether they are as they were written."""

from __future__ import annotations

import re
import sqlite3
import zlib
from typing import Final

_NAME: Final = re.compile(r'\s*("\w+"|\w+)')


def checksummed(columns: str) -> str:
    """Return the columns of a new table and two more that SQLite itself keeps.

    ``checksum`` is written with the row, whoever writes it, and covers every column; ``intact`` is
    whether it fits what is read now. An ``UPDATE`` makes a checksum of what it finds: it must leave
    out rows that are not intact.

    Parameters
    ----------
    columns
        Their definitions, without commas in them.

    Examples
    --------
    >>> connection = sqlite3.connect(":memory:")
    >>> understand_checksums(connection)
    >>> _ = connection.execute(f"CREATE TABLE t ({checksummed('x TEXT, y REAL')})")
    >>> _ = connection.execute("INSERT INTO t VALUES ('a', 1)")
    >>> connection.execute("SELECT x, y, intact FROM t").fetchall()
    [('a', 1.0, 1)]
    """
    names = [match[1] for match in map(_NAME.match, columns.split(",")) if match]
    checksum = f"row_checksum({', '.join(map(_exact, names))})"
    return (
        f"{columns}, checksum INTEGER NOT NULL AS ({checksum}) STORED,"
        f" intact INTEGER AS (checksum IS {checksum}) VIRTUAL"
    )


def understand_checksums(connection: sqlite3.Connection) -> None:
    """Have a connection write and check rows with checksums, and read texts that are damaged."""
    connection.create_function("row_checksum", -1, _row_checksum, deterministic=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")


def _exact(name: str) -> str:
    """Return a value so that it comes whole to Python: a damaged text may be no UTF-8.

    Only numbers with a fraction go as they are: their text depends on the version of SQLite.
    """
    return f"CASE typeof({name}) WHEN 'real' THEN {name} ELSE CAST(quote({name}) AS BLOB) END"


def _row_checksum(*values: bytes | float) -> int:
    return zlib.crc32(repr(values).encode())
