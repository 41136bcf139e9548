"""Records that were sent, as one table for the journal."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Submission:
    """The records of one request; all of them can be read.

    Parameters
    ----------
    stream
        Whose records they are.
    table
        The records.
    digest
        Of the body as it was sent, decompressed: tells whether two are the same.
    idempotency_key
        What the sender calls this body, if anything; the same key is taken once.
    """

    stream: str
    table: pa.Table = field(repr=False)
    digest: bytes = field(repr=False)
    idempotency_key: str | None = None
