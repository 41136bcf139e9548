from datetime import UTC, datetime

import pyarrow as pa
import pytest

from service.keys import MAX_KEY_LENGTH, part_by_key


def parts(rows: object, field: str = "k") -> list[tuple[str | None, list[dict[str, object]]]]:
    found = []
    for key, part, n_rows in part_by_key(rows, field):
        listed = part if isinstance(part, list) else part.to_pylist()
        assert len(listed) == n_rows
        found.append((key, listed))
    return found


ROWS = [
    {"k": "b", "x": 1},
    {"k": "a", "x": 2},
    {"k": "b", "x": 3},
    {"k": None, "x": 4},
    {"k": "a", "x": 5},
]


@pytest.mark.parametrize("rows", [ROWS, pa.Table.from_pylist(ROWS)], ids=["records", "table"])
def test_rows_keep_their_order_and_keys_come_as_they_come_first(rows: object) -> None:
    assert parts(rows) == [
        ("b", [{"x": 1}, {"x": 3}]),
        ("a", [{"x": 2}, {"x": 5}]),
        (None, [{"x": 4}]),
    ]


def test_numbers_and_their_texts_are_one_key() -> None:
    rows = [{"k": 3, "x": 0}, {"k": "3", "x": 1}, {"k": 3.0, "x": 2}, {"k": "3.0", "x": 3}]
    assert [key for key, _ in parts(rows)] == ["3"]
    tables = [pa.table({"k": pa.array(values), "x": [1, 2]}) for values in ([3, 3], [3.0, 3.0])]
    assert [[key for key, _ in parts(table)] for table in tables] == [["3"], ["3"]]


def test_texts_that_mean_one_number_are_one_part_of_a_table() -> None:
    table = pa.table({"k": ["3", "3.0", "4", "3"], "x": [0, 1, 2, 3]})
    assert parts(table) == [("3", [{"x": 0}, {"x": 1}, {"x": 3}]), ("4", [{"x": 2}])]


@pytest.mark.parametrize("key", ["", None, "x" * (MAX_KEY_LENGTH + 1), [1], "__missing__"])
def test_what_cannot_name_a_monitor_is_no_key(key: object) -> None:
    assert [found for found, _ in parts([{"k": key, "x": 1}])] == [None]


def test_a_time_is_no_key() -> None:
    table = pa.table({"k": [datetime(2026, 1, 1, tzinfo=UTC)], "x": [1]})
    assert parts(table) == [(None, [{"x": 1}])]


def test_rows_without_the_field_have_no_key() -> None:
    assert parts(pa.table({"x": [1, 2]})) == [(None, [{"x": 1}, {"x": 2}])]
    assert parts([{"x": 1}]) == [(None, [{"x": 1}])]


def test_chunks_and_dictionaries_are_read_alike() -> None:
    text = pa.chunked_array([["a"], ["b", "a"]])
    table = pa.table({"k": text, "x": [1, 2, 3]})
    coded = pa.table({"k": text.dictionary_encode(), "x": [1, 2, 3]})
    assert parts(table) == parts(coded) == [("a", [{"x": 1}, {"x": 3}]), ("b", [{"x": 2}])]
