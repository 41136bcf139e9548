"""Tables as a journal keeps them: compressed bodies, and what is said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

_CODEC: Final = "zstd"


@dataclass(frozen=True)
class Accepted:
    """What became of a table that was given.

    Parameters
    ----------
    sequence
        Its number in the journal, from 1; later ones have larger numbers.
    n_records
        How many records it has.
    duplicate
        Whether it was accepted before under the same idempotency key, and not again now.
    """

    sequence: int
    n_records: int
    duplicate: bool = False


@dataclass(frozen=True)
class Body:
    """A table that waits.

    Parameters
    ----------
    sequence
        Its number.
    table
        The records; ``None`` if the body is damaged.
    n_behind
        How many records wait behind it.
    damaged
        What there is of a damaged body.
    """

    sequence: int
    table: pa.Table | None = field(repr=False)
    n_behind: int
    damaged: bytes = field(default=b"", repr=False)

    @property
    def n_records(self) -> int:
        """How many records can be read."""
        return 0 if self.table is None else self.table.num_rows


def raw_bytes(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def compressed(raw: pa.Buffer) -> bytes:
    """Return an Arrow stream as the body that is kept."""
    body: bytes = pa.compress(raw, codec=_CODEC, asbytes=True)
    return body


def unpacked(body: bytes, n_raw_bytes: int) -> pa.Table:
    """Return the table of a body."""
    raw = pa.decompress(body, decompressed_size=n_raw_bytes, codec=_CODEC)
    return pa.ipc.open_stream(raw).read_all()
