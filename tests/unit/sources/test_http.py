from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from driftbn_service.records import Decoder
from driftbn_service.settings import HttpSourceSettings
from driftbn_service.sources.http import HttpSource
from driftbn_service.state import FILE, Checkpoint, Journal, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding import Lane, Position, SourceError


def source_of(journal: Journal, position: Position | None = None) -> HttpSource:
    source = HttpSource(HttpSourceSettings(), journal)
    assert not source.ready
    source.open(Lane(position))
    return source


def numbers(table: bytes | pa.Table) -> list[int]:
    assert isinstance(table, pa.Table)
    return [int(value) for value in table["n"].to_pylist()]


def journal_of(store: Store) -> Journal:
    return store.journal("orders", max_pending_bytes=1 << 30, remember_keys=100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as store:
        yield store


@pytest.fixture
def journal(store: Store) -> Journal:
    return journal_of(store)


def coded(texts: list[str | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(texts)), pa.int8()), pa.array(texts))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([f"a{i}" for i in range(100)], [f"b{i}" for i in range(100)]),
        ([None, "a"], [None, "b"]),
        ([None], [None]),
    ],
    ids=["too many for the codes", "null among the values", "nothing but null"],
)
def test_bodies_whose_dictionaries_arrow_cannot_join_are_read_in_one_chunk(
    journal: Journal, first: list[str | None], second: list[str | None]
) -> None:
    for texts in (first, second):
        journal.append(pa.table({"n": range(len(texts)), "t": coded(texts)}))
    source = source_of(journal)
    chunk = source.poll(0)
    assert chunk is not None
    assert (chunk.start, chunk.position) == ({"sequence": 0}, {"sequence": 2})
    (rows,) = Decoder(max_record_bytes=1000).decode(chunk).batches
    assert isinstance(rows, pa.Table)
    assert rows["t"].to_pylist() == first + second


def test_small_bodies_are_joined_into_one_chunk(journal: Journal) -> None:
    for n in range(5):
        journal.append(
            pa.table({"n": [n, n], "t": pa.array(["ab"[n % 2]] * 2).dictionary_encode()})
        )
    source = source_of(journal)
    chunk = source.poll(0)
    assert chunk is not None
    assert numbers(chunk.data) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert chunk.data["t"].to_pylist()[:4] == ["a", "a", "b", "b"]
    assert chunk.kind is None
    assert chunk.position == {"sequence": 5}
    assert chunk.n_behind == 0
    assert [chunk.place(n, 0) for n in (0, 3, 9)] == [
        "body 1, record 1",
        "body 2, record 2",
        "body 5, record 2",
    ]
    assert source.ready
    assert source.poll(0) is None
    assert not source.drained


def test_bodies_with_other_columns_are_chunks_of_their_own(journal: Journal) -> None:
    for n, name in enumerate("aabba"):
        journal.append(pa.table({"n": [n], name: [1]}))
    source = source_of(journal)
    chunks = [source.poll(0) for _ in range(3)]
    assert [numbers(chunk.data) for chunk in chunks if chunk] == [[0, 1], [2, 3], [4]]
    assert [chunk.position["sequence"] for chunk in chunks if chunk] == [2, 4, 5]
    assert [chunk.n_behind for chunk in chunks if chunk] == [3, 1, 0]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=15),
    st.lists(st.integers(0, 3), max_size=6),
)
@settings(max_examples=25)
def test_no_record_is_lost_or_given_twice_however_often_it_is_restarted(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[str, int]], stops: list[int]
) -> None:
    path = tmp_path_factory.mktemp("state") / FILE
    expected, seen = [], []
    with Store(path) as store:
        journal = journal_of(store)
        for name, size in sizes:
            values = list(range(len(expected), len(expected) + size))
            expected += values
            journal.append(pa.table({"n": pa.array(values, pa.int64()), name: values}))
    for n_polls in [*stops, 100]:
        with Store(path) as store:
            lane = store.lane("orders", "", journal_of(store))
            position = lane.checkpoint.position
            source = source_of(journal_of(store), position)
            for _ in range(n_polls):
                chunk = source.poll(0)
                if chunk is None:
                    break
                seen += numbers(chunk.data)
                position = chunk.position
            lane.commit(Checkpoint(position))
    assert seen == expected


def test_a_poll_wakes_at_once(journal: Journal) -> None:
    source = source_of(journal)
    found = []
    thread = threading.Thread(target=lambda: found.append(source.poll(60)))
    thread.start()
    journal.append(pa.table({"n": [7]}))
    thread.join(30)
    assert [numbers(chunk.data) for chunk in found if chunk] == [[7]]
    source.close()
    assert not source.ready


def test_trouble_with_the_journal_may_pass(
    store: Store, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(journal)
    monkeypatch.setattr(journal, "wait", lambda after, timeout: True)
    with sqlite3.connect(store.path) as connection:
        connection.execute("ALTER TABLE bodies RENAME TO elsewhere")
        with pytest.raises(SourceError, match=r"HTTP ingest: .*no such table") as caught:
            source.poll(0)
        connection.execute("ALTER TABLE elsewhere RENAME TO bodies")
    connection.close()
    assert not caught.value.fatal
    journal.append(pa.table({"n": [1]}))
    assert source.poll(0) is not None


def test_a_damaged_body_is_set_aside_as_a_whole_and_those_behind_it_are_given(
    store: Store, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(3):
        journal.append(pa.table({"n": [n]}))
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE bodies SET body = x'00' WHERE sequence = 2")
    connection.close()
    source = source_of(journal)
    chunks = [source.poll(0) for _ in range(3)]
    assert source.poll(0) is None
    decoder = Decoder(max_record_bytes=100)
    decoded = [decoder.decode(chunk) for chunk in chunks if chunk is not None]
    assert [one.n_rows for one in decoded] == [1, 0, 1]
    ((rejected,),) = [one.rejected for one in decoded if one.rejected]
    assert rejected.place == "body 2, which is damaged in the journal"
    assert [chunk.position for chunk in chunks if chunk] == [{"sequence": n} for n in (1, 2, 3)]
    assert "body 2 is damaged in the journal and set aside" in caplog.text
