"""Batches as tables of columns: read from lists of records, columns and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from driftbn.encoding.tables import Table, read_table
from driftbn.errors import DataError

_RECORDS: Final = {b"driftbn.rows": b"records"}
"""Metadata of an Arrow schema: the table was made of records, see ``as_records``."""


def as_records(table: Any) -> Any:
    """Mark an Arrow table as made of records, which need not all have the same fields.

    It is then read as a list of dicts would be, so that it does not matter which records came
    together in one table: a field without a value is an absent one, an absent field is a missing
    value, and neither is an event. The mark stays when the table is cut or filtered.

    Parameters
    ----------
    table
        A ``pyarrow.Table``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from driftbn import MonitorConfig
    >>> from driftbn.intake import Intake
    >>> intake = Intake(MonitorConfig(window=2))
    >>> _ = intake.take([{"x": "a", "y": 1}, {"x": "b", "y": 2}])
    >>> intake.take(as_records(pa.table({"x": ["a"]}))).events
    ()
    >>> [event.kind.value for event in intake.take(pa.table({"x": ["a"]})).events]
    ['missing_column']
    """
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **_RECORDS})


def is_empty(batch: Any) -> bool:
    """Whether a table of any kind has no rows."""
    if isinstance(batch, Mapping):
        return all(hasattr(column, "__len__") and not len(column) for column in batch.values())
    return (isinstance(batch, list | tuple) or hasattr(batch, "columns")) and not len(batch)


def is_sparse(batch: Any) -> bool:
    """Whether a batch is an Arrow table that was made of records."""
    metadata = getattr(getattr(batch, "schema", None), "metadata", None)
    return isinstance(metadata, Mapping) and _RECORDS.items() <= metadata.items()


def read_columns(batch: Any, *, lenient: bool) -> Table:
    """Read a table of columns, of which records may have none, and any table if ``lenient``."""
    bare = hasattr(batch, "columns") and not len(batch.columns)
    if bare and (lenient or is_sparse(batch)):
        return Table(len(batch), {})
    return read_table(batch)


def read_records(records: Sequence[Any]) -> Table:
    """Read a list of dicts, of which all may be without fields."""
    if any(records) or not all(isinstance(record, Mapping) for record in records):
        return read_table(records)
    return Table(len(records), {})


def is_record(record: Any) -> bool:
    """Whether something can be read as a record."""
    try:
        return read_records([record]).n_rows == 1
    except DataError:
        return False
