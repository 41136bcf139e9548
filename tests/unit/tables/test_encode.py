from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import Schema
from tests.encoded import (
    KEEP_IDS,
    MAX_NAMED_LEVELS,
    MISSING,
    OTHER,
    SchemaEvent,
    SchemaEventKind,
    Variable,
    VariableKind,
    assert_same,
    canonical_text,
    encode,
    infer_and_encode,
    labels_of,
    merged_events,
    reasons,
    tables,
)


class TestFixedSchema:
    SCHEMA = infer_and_encode(
        {"b": [True, False, True], "n": [1, 2, 2], "t": ["x", "y", "z"], "gone": [1, 1, 1]}
    ).schema

    def test_unknown_levels_become_other_and_are_named(self):
        table = encode({"b": [True, 1], "n": [7, 0.5], "t": ["x", "q"]}, self.SCHEMA)
        assert labels_of(table, "n") == [OTHER, OTHER]
        assert labels_of(table, "b") == ["true", OTHER]
        assert [(e.column, e.levels, e.n_levels, e.n_rows) for e in table.events] == [
            ("b", ("1",), 1, 1),
            ("n", ("0.5", "7"), 2, 2),
            ("t", ("q",), 1, 1),
        ]

    def test_named_levels_are_bounded_but_all_are_counted(self):
        values = [f"new{i}" for i in range(400) for _ in range(2)]
        schema = Schema([self.SCHEMA["t"]])
        (event,) = encode({"t": values}, schema).events
        assert event.levels == (
            "new0",
            "new1",
            "new10",
            "new100",
            "new101",
            "new102",
            "new103",
            "new104",
        )
        assert (event.n_levels, event.n_rows) == (400, 800)

    def test_absent_column_is_missing_throughout(self):
        table = encode({"b": [True], "n": [1]}, self.SCHEMA)
        assert labels_of(table, "t") == [MISSING]
        assert table.events == (SchemaEvent(SchemaEventKind.MISSING_COLUMN, "t", n_rows=1),)

    def test_unknown_column_is_left_out_but_an_excluded_one_is_no_news(self):
        data = {"b": [True], "n": [1], "t": ["x"], "gone": [5], "extra": [1], "also": [[1]]}
        table = encode(data, self.SCHEMA)
        assert [(e.kind.value, e.column) for e in table.events] == [
            ("new_column", "also"),
            ("new_column", "extra"),
        ]

    def test_many_numbers_for_a_categorical_variable_are_looked_up_one_by_one(self):
        values = np.concatenate([np.arange(1000) * 1000, [1, 2]])
        table = encode({"n": values}, Schema([self.SCHEMA["n"]]))
        assert np.flatnonzero(table.codes[0] != 2).tolist() == [1000, 1001]
        assert table.events[0].n_rows == 1000

    def test_schema_without_variables_gives_no_rows_of_codes(self):
        assert encode({"x": [1, 2]}, Schema([])).codes.shape == (0, 2)


class TestResult:
    def test_codes_are_contiguous_bytes_a_row_for_each_variable(self):
        table = infer_and_encode({"b": ["x", "y", "y"], "a": [1, 2, 1]})
        assert table.codes.dtype == np.uint8
        assert table.codes.flags.c_contiguous
        assert table.codes.shape == (2, 3)
        assert table.n_rows == 3
        assert table.column("b").tolist() == [0, 1, 1]

    def test_whole_numbers_as_names_become_text(self):
        frame = pd.DataFrame([[1, "a"], [2, "a"]])
        table = infer_and_encode(frame)
        assert table.schema.names == ("0",)
        assert reasons(table) == {"1": "constant"}

    @given(
        st.lists(st.floats(), min_size=1),
        st.sets(st.floats(allow_nan=False, allow_infinity=False), max_size=30),
    )
    def test_the_code_of_a_number_counts_the_edges_below_it(self, values, edges):
        variable = Variable("x", VariableKind.NUMERIC, edges=tuple(sorted(edges)))
        expected = [
            variable.missing_code if value != value else sum(edge < value for edge in edges)
            for value in values
        ]
        for column in (values, np.array(values)):
            assert encode({"x": column}, Schema([variable])).codes.tolist() == [expected]


@pytest.mark.slow
class TestOrderDoesNotMatter:
    @given(tables(), st.randoms(use_true_random=False))
    @settings(max_examples=150)
    def test_permuted_rows_give_the_same_schema_and_permuted_codes(self, columns, random):
        n_rows = len(next(iter(columns.values())))
        order = list(range(n_rows))
        random.shuffle(order)
        table = infer_and_encode(columns, KEEP_IDS)
        shuffled = infer_and_encode(
            {k: [v[i] for i in order] for k, v in columns.items()}, KEEP_IDS
        )
        assert shuffled.schema == table.schema
        np.testing.assert_array_equal(shuffled.codes, table.codes[:, order])

    @given(tables())
    def test_order_of_columns_does_not_matter(self, columns):
        turned = dict(reversed(list(columns.items())))
        assert_same(infer_and_encode(turned), infer_and_encode(columns))

    @given(tables())
    def test_frames_records_and_columns_give_the_same(self, columns):
        expected = infer_and_encode(columns)
        frame = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
        records = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        assert_same(infer_and_encode(frame), expected)
        assert_same(infer_and_encode(records), expected)

    @given(tables(kinds=("text", "boolean", "integer", "float")))
    def test_arrow_tables_and_their_dictionaries_give_the_same(self, columns):
        expected = infer_and_encode(columns)
        table = pa.table({k: pa.array(v, from_pandas=True) for k, v in columns.items()})
        assert_same(infer_and_encode(table), expected)
        assert_same(encode(table, expected.schema), expected)

    @given(tables())
    def test_encoding_with_the_inferred_schema_repeats_the_codes(self, columns):
        table = infer_and_encode(columns)
        again = encode(columns, Schema.from_dict(table.schema.to_dict()))
        assert_same(again, table)
        assert again.events == ()

    @given(tables())
    def test_codes_are_those_of_the_canonical_texts(self, columns):
        table = infer_and_encode(columns)
        for variable in table.schema.variables:
            texts_of_cells = [canonical_text(value) for value in columns[variable.name]]
            if variable.kind is not VariableKind.NUMERIC:
                expected = [variable.code_of(text) for text in texts_of_cells]
                assert table.column(variable.name).tolist() == expected

    @given(tables(), tables())
    def test_any_table_can_be_encoded_with_any_schema(self, columns, other):
        schema = infer_and_encode(columns).schema
        codes = encode(other, schema).codes
        limits = [[variable.cardinality] for variable in schema.variables]
        assert (codes < np.array(limits).reshape(-1, 1)).all()


NEW = SchemaEventKind.NEW_LEVEL


def test_events_of_the_same_column_and_kind_are_put_together() -> None:
    one = SchemaEvent(NEW, "x", ("b",), 1, 2)
    other = SchemaEvent(NEW, "x", ("a", "b"), 2, 5)
    gone = SchemaEvent(SchemaEventKind.MISSING_COLUMN, "x", n_rows=4)
    assert merged_events((one,), (other, gone)) == (gone, SchemaEvent(NEW, "x", ("a", "b"), 2, 7))
    assert merged_events((), (one,)) == (one,)
    assert merged_events((one,), ()) == (one,)


def test_of_many_new_levels_it_is_only_said_that_there_are_more() -> None:
    first = SchemaEvent(NEW, "x", tuple(f"a{i}" for i in range(6)), 6, 6)
    second = SchemaEvent(NEW, "x", tuple(f"b{i}" for i in range(6)), 6, 6)
    (event,) = merged_events((first,), (second,))
    assert event.levels == (*first.levels, "b0", "b1")
    assert (event.n_levels, event.n_rows) == (MAX_NAMED_LEVELS + 1, 12)
    assert merged_events((event,), (second,))[0].n_levels == MAX_NAMED_LEVELS + 1


@pytest.mark.slow
def test_events_of_ever_new_columns_are_bounded_however_they_come() -> None:
    events = [SchemaEvent(NEW, f"x{i:05}", n_rows=1) for i in range(3000)]
    one_by_one: tuple[SchemaEvent, ...] = ()
    for event in reversed(events):
        one_by_one = merged_events(one_by_one, (event,))
    assert one_by_one == merged_events((), tuple(events)) == tuple(events[:1000])
