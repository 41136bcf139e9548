"""Fields that every record of a stream must have: its event time and its key."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftbn.event_times import read_times
from driftbn.records import EncodedTable
from driftbn_service.decoding.decoded import Place, Rejected, RejectReason, Rows
from driftbn_service.decoding.set_aside import picked, set_aside
from driftbn_service.keys import read_keys


class _Lack(NamedTuple):
    """Rows that lack a field."""

    reason: RejectReason
    detail: str
    rows: NDArray[np.bool_]  # [rows]


class RequiredFields(NamedTuple):
    """The fields without which a record cannot be taken; ``None`` where a stream has none."""

    time_column: str | None = None
    key: str | None = None

    def split(self, rows: Rows, place: Place) -> tuple[Rows, list[Rejected]]:
        """Return the rows that have these fields, and the others as records set aside.

        In a table event times then are seconds since the epoch.
        """
        if isinstance(rows, EncodedTable):  # a stream that requires a field has none of these
            return rows, []
        timed, lacks = self._read(rows)
        if not any(lack.rows.any() for lack in lacks):
            return timed, []
        bad = np.zeros(len(rows), np.bool_)
        rejected: list[Rejected] = []
        for lack in lacks:
            new = np.flatnonzero(lack.rows & ~bad)
            rejected += set_aside(rows, new, place, lack.reason, lack.detail)
            bad |= lack.rows
        return picked(timed, np.flatnonzero(~bad)), rejected

    def _read(self, rows: Any) -> tuple[Any, list[_Lack]]:
        lacks = []
        given = rows
        if self.time_column is not None:
            times = read_times(_cells(rows, self.time_column))
            detail = f"no event time in the field {self.time_column!r}"
            lacks.append(_Lack(RejectReason.NO_TIME, detail, ~np.isfinite(times)))
            given = _with_times(rows, self.time_column, times)
        if self.key is not None:
            detail = f"no text or number of at most 256 characters in the key field {self.key!r}"
            lacks.append(_Lack(RejectReason.NO_KEY, detail, read_keys(rows, self.key).codes < 0))
        return given, lacks


def _cells(rows: Any, name: str) -> Any:
    if isinstance(rows, list):
        return [record.get(name) for record in rows]
    return rows[name] if name in rows.column_names else [None] * len(rows)


def _with_times(rows: Any, name: str, times: NDArray[np.float64]) -> Any:
    if isinstance(rows, list) or name not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index(name), name, pa.array(times))
