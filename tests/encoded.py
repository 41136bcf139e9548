"""What tests use of the tables: how to encode them, tables to encode, what to ask of the result."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from driftbn.config import SchemaConfig
from driftbn.tables.cells import canonical_text  # noqa: F401
from driftbn.tables.encode import (  # noqa: F401
    MAX_NAMED_LEVELS,
    EncodedTable,
    SchemaEvent,
    SchemaEventKind,
    encode,
    merged_events,
)
from driftbn.tables.infer import infer_and_encode, infer_schema  # noqa: F401
from driftbn.tables.read import as_records, read_table, read_times  # noqa: F401
from driftbn.tables.schema import (  # noqa: F401
    MAX_LEVELS,
    MISSING,
    OTHER,
    RESERVED,
    Exclusion,
    ExclusionReason,
    Variable,
    VariableKind,
    level_key,
    sorted_levels,
)

NAN = float("nan")
INF = float("inf")
KEEP_IDS = SchemaConfig(id_like_ratio=1.0)


texts = st.sampled_from(["a", "b", "c", "3", "3.0", "007", "", OTHER, MISSING, "true", "é\n"])
whole = st.integers(-3, 3) | st.integers(-(2**40), 2**40)
cells = {
    "text": texts,
    "boolean": st.booleans(),
    "integer": whole,
    "float": st.floats(width=64),
    "mixed": texts | st.booleans() | whole | st.floats(width=32),
}


@st.composite
def tables(draw, kinds=tuple(cells)):
    n_rows = draw(st.integers(1, 12))
    columns = {}
    for name in draw(
        st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=5, unique=True)
    ):
        cell = st.none() | cells[draw(st.sampled_from(kinds))]
        columns[name] = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
    return columns


def labels_of(table: EncodedTable, name: str) -> list[str]:
    labels = table.schema[name].labels
    return [labels[code] for code in table.column(name)]


def labels(values) -> list[str]:
    return labels_of(infer_and_encode({"x": values}), "x")


def reasons(table: EncodedTable) -> dict[str, str]:
    return {e.name: e.reason.value for e in table.schema.excluded}


def assert_same(first: EncodedTable, second: EncodedTable) -> None:
    assert first.schema == second.schema
    np.testing.assert_array_equal(first.codes, second.codes)
