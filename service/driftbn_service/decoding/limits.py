"""What a record and a table may hold, so that work is bounded by what was sent."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Final

from driftbn_service.decoding.decoded import Problem, RejectReason

MAX_FIELDS: Final = 2000
"""Fields of a record or a table unless the stream says otherwise."""
MAX_NAME_LENGTH: Final = 256
"""Characters of the name of a field, with those of the objects around it."""
MAX_CELLS: Final = 1 << 24
"""Rows times fields of a body or chunk: cells that are empty take next to nothing to send."""
MAX_TABLE_BYTES: Final = 64 << 20
"""Bytes that a body or chunk may take as a table unless somebody says otherwise."""


@dataclass(frozen=True)
class Limits:
    """What may be decoded at a time.

    Parameters
    ----------
    record_bytes
        Bytes of a record as text.
    fields
        Fields of a record, or columns of a table.
    table_bytes
        Bytes that a table may take once its buffers are decompressed.
    rejected
        Bad records after which decoding stops, where one of them is enough to refuse all.
    """

    record_bytes: int
    fields: int = MAX_FIELDS
    table_bytes: int = MAX_TABLE_BYTES
    rejected: int | None = None

    def check_record(self, n_bytes: int) -> None:
        """Raise a ``Problem`` if a record has too many bytes."""
        if n_bytes > self.record_bytes:
            raise self.long_record(n_bytes)

    def long_record(self, n_bytes: int) -> Problem:
        """Return what is wrong with a record of too many bytes."""
        detail = f"{n_bytes} bytes or more, where max_record_bytes allows {self.record_bytes}"
        return Problem(RejectReason.TOO_LARGE, detail)

    def is_enough(self, rejected: Sized) -> bool:
        """Whether so many records are bad that the rest need not be looked at."""
        return self.rejected is not None and len(rejected) >= self.rejected

    def check_fields(self, n_fields: int) -> None:
        """Raise a ``Problem`` if there are too many fields."""
        if n_fields > self.fields:
            raise self.many_fields(n_fields)

    def many_fields(self, n_fields: int) -> Problem:
        """Return what is wrong with too many fields."""
        detail = f"{n_fields} fields or more, where max_fields allows {self.fields}"
        return Problem(RejectReason.TOO_LARGE, detail)

    def check_bytes(self, n_bytes: int) -> None:
        """Raise a ``Problem`` if a table takes too much memory."""
        if n_bytes > self.table_bytes:
            detail = (
                f"a table of {n_bytes} bytes or more, where max_decoded_bytes allows"
                f" {self.table_bytes}: send fewer records at a time"
            )
            raise Problem(RejectReason.TOO_LARGE, detail)


def check_name(n_characters: int) -> None:
    """Raise a ``Problem`` if the name of a field is too long."""
    if n_characters > MAX_NAME_LENGTH:
        raise long_name(n_characters)


def long_name(n_characters: int) -> Problem:
    """Return what is wrong with a name that is too long."""
    detail = f"a name of {n_characters} characters, where a field may have {MAX_NAME_LENGTH}"
    return Problem(RejectReason.TOO_LARGE, detail)


def check_cells(n_cells: int) -> None:
    """Raise a ``Problem`` if a body or chunk has too many cells."""
    if n_cells > MAX_CELLS:
        detail = (
            f"{n_cells} cells or more, where a body or chunk may have {MAX_CELLS}: send fewer"
            " records at a time"
        )
        raise Problem(RejectReason.TOO_LARGE, detail)
