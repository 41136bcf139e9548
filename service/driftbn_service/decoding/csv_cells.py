"""Cells of CSV as values whose types do not depend on what else is in a chunk.

A cell is a number if it is written like one, missing if it is empty or ``NA``, and text otherwise.
Arrow would decide by all cells of a column that it sees at once, and so by where chunks are cut.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftbn.encoding.canonical import canonical_text
from driftbn.event_times import read_times
from driftbn.intake import as_records
from driftbn_service.decoding.decoded import Rows
from driftbn_service.decoding.json_records import EXACT, Record, as_batches

_WHOLE: Final = r"-?(?:0|[1-9][0-9]{0,17})"
"""At most 18 digits, which 64 bits hold."""
_NUMBER: Final = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
"""A leading zero makes text, as in a postal code."""
_LONG: Final = r".*(?:[eE]\+?[0-9]{3}|[0-9]{200}).*"
"""A number that may be beyond what a float holds."""
_FEW: Final = 64
"""Distinct texts up to which Python is faster: Arrow compiles a pattern at each call."""


class _Cells(NamedTuple):
    """A column of texts."""

    texts: Any  # the distinct ones, an Arrow array
    indices: Any  # [rows]: which of them, an Arrow array; null where a cell is missing
    numbers: NDArray[np.bool_]  # [distinct]: whether it is written like a number
    whole: NDArray[np.bool_]  # [distinct]: whether that is whole, and 64 bits hold it

    @property
    def mixed(self) -> bool:
        """Whether some cells are numbers and some are not."""
        return bool(self.numbers.any() and not self.numbers.all())


def typed_rows(
    table: pa.Table, time_column: str | None = None, *, known: bool = False
) -> list[Rows]:
    """Return a table of texts with the type that each cell has by itself.

    Where a column holds numbers and text the rows are dicts. If the schema is known, a number
    among texts becomes its canonical text instead, which then stands for the same. Cells of the
    column of event times become seconds.

    Parameters
    ----------
    table
        Columns of dictionary-encoded text.
    time_column
        The column with event times, if there is one.
    known
        Whether the monitor has its schema.

    Examples
    --------
    >>> texts = {"a": ["1", "2"], "b": ["0.50", "x"], "c": ["07", None]}
    >>> table = pa.table({name: pa.array(t).dictionary_encode() for name, t in texts.items()})
    >>> [rows.to_pydict() for rows in typed_rows(table, known=True)]
    [{'a': [1, 2], 'b': ['0.5', 'x'], 'c': ['07', None]}]
    >>> typed_rows(table)
    [[{'a': 1, 'b': 0.5, 'c': '07'}, {'a': 2, 'b': 'x'}]]
    """
    named = zip(table.column_names, table.columns, strict=True)
    columns = {name: _read_cells(column) for name, column in named}
    times = columns.get(time_column or "")
    others = [cells for cells in columns.values() if cells is not times]
    if not columns or any((cells.mixed and not known) or _is_wide(cells) for cells in others):
        return [*as_batches(_records(columns, len(table)))]
    typed = {
        name: _times(cells) if cells is times and cells.mixed else _column(cells)
        for name, cells in columns.items()
    }
    return [as_records(pa.table(typed))]


def _read_cells(column: Any) -> _Cells:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    texts = array.dictionary
    numbers = _matches(texts, _NUMBER)
    if not numbers.any():
        return _Cells(texts, array.indices, numbers, numbers)
    whole = _matches(texts, _WHOLE)
    for place in np.flatnonzero(_matches(texts, _LONG) & numbers).tolist():
        numbers[place] = math.isfinite(float(texts[place].as_py()))
    return _Cells(texts, array.indices, numbers, whole)


def _matches(texts: Any, pattern: str) -> NDArray[np.bool_]:
    """Return which texts match a pattern from end to end."""
    if len(texts) <= _FEW:
        match = re.compile(pattern).fullmatch
        return np.array([match(text) is not None for text in texts.to_pylist()], np.bool_)
    found = pc.match_substring_regex(texts, f"^(?:{pattern})$")
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


def _column(cells: _Cells) -> Any:
    texts, indices = cells.texts, cells.indices
    if not len(texts):
        return pa.nulls(len(indices))
    if not cells.numbers.any():
        return pa.DictionaryArray.from_arrays(indices, texts)
    if cells.numbers.all():
        kind = pa.int64() if cells.whole.all() else pa.float64()
        return texts.cast(kind).take(indices)
    canonical = texts.to_pylist()
    for place in np.flatnonzero(cells.numbers).tolist():
        canonical[place] = canonical_text(_number(cells, place))
    return pa.DictionaryArray.from_arrays(indices, pa.array(canonical))


def _times(cells: _Cells) -> Any:
    """Return the event times of a column in which some are numbers and some are text."""
    return pa.array(read_times(_values(cells))).take(cells.indices)


def _is_wide(cells: _Cells) -> bool:
    """Whether there are fractions and whole numbers that lose digits as floats."""
    if not cells.numbers.all() or not cells.whole.any() or cells.whole.all():
        return False
    whole = cells.texts.filter(pa.array(cells.whole)).cast(pa.int64()).to_numpy()
    return bool(np.abs(whole).max() > EXACT)


def _records(columns: dict[str, _Cells], n_rows: int) -> list[Record]:
    """Return rows as dicts, without what is missing."""
    records: list[Record] = [{} for _ in range(n_rows)]
    for name, cells in columns.items():
        values = _values(cells)
        for record, place in zip(records, cells.indices.to_pylist(), strict=True):
            if place is not None:
                record[name] = values[place]
    return records


def _values(cells: _Cells) -> list[Any]:
    """Return the distinct values of a column, numbers as such."""
    values: list[Any] = cells.texts.to_pylist()
    for place in np.flatnonzero(cells.numbers).tolist():
        values[place] = _number(cells, place)
    return values


def _number(cells: _Cells, place: int) -> int | float:
    text = cells.texts[place].as_py()
    return int(text) if cells.whole[place] else float(text)
