from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from driftbn_service.journal import Journal, JournalError
from driftbn_service.records import Decoder
from driftbn_service.settings import HttpSourceSettings
from driftbn_service.sources.base import Position, SourceError
from driftbn_service.sources.http import HttpSource
from hypothesis import given, settings
from hypothesis import strategies as st


class Lane:
    """A listener with one position."""

    def __init__(self, position: Position | None = None) -> None:
        self.position = position

    def opened(self, lane: str) -> Position | None:
        assert lane == ""
        return self.position

    def closed(self, lane: str) -> None:
        raise AssertionError("a journal is not handed over")


def source_of(journal: Journal, position: Position | None = None) -> HttpSource:
    source = HttpSource(HttpSourceSettings(), journal)
    assert not source.ready
    source.open(Lane(position))
    return source


def numbers(table: bytes | pa.Table) -> list[int]:
    assert isinstance(table, pa.Table)
    return [int(value) for value in table["n"].to_pylist()]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite") as journal:
        yield journal


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
    (rows,) = Decoder(None, max_record_bytes=1000).decode(chunk).batches
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


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=15),
    st.lists(st.integers(0, 3), max_size=6),
)
@settings(max_examples=25)
def test_no_record_is_lost_or_given_twice_however_often_it_is_restarted(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[str, int]], stops: list[int]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    expected, seen = [], []
    with Journal(path) as journal:
        for name, size in sizes:
            values = list(range(len(expected), len(expected) + size))
            expected += values
            journal.append(pa.table({"n": pa.array(values, pa.int64()), name: values}))
    position: Position | None = None
    for n_polls in [*stops, 100]:
        with Journal(path) as journal:
            source = source_of(journal, position)
            for _ in range(n_polls):
                chunk = source.poll(0)
                if chunk is None:
                    break
                seen += numbers(chunk.data)
                position = chunk.position
            if position is not None:
                source.release("", position)
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


def test_released_bodies_make_room(journal: Journal) -> None:
    journal.append(pa.table({"n": [1]}))
    source = source_of(journal)
    chunk = source.poll(0)
    assert chunk is not None
    source.release("", chunk.position)
    assert journal.n_pending_bytes == 0


def test_a_journal_that_was_lost_goes_on_after_the_checkpoint(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    source = source_of(journal, {"sequence": 41})
    assert "it is new" in caplog.text
    assert journal.append(pa.table({"n": [7]})).sequence == 42
    chunk = source.poll(0)
    assert chunk is not None
    assert numbers(chunk.data) == [7]


def test_opening_may_be_tried_again(tmp_path: Path) -> None:
    lane, asked = Lane({"sequence": 3}), []
    lane.opened = lambda name: asked.append(name) or lane.position  # type: ignore[method-assign,func-returns-value]
    journal = Journal(tmp_path / "journal.sqlite")
    really_reserve = journal.reserve
    source = HttpSource(HttpSourceSettings(), journal)
    with pytest.MonkeyPatch.context() as patch:

        def fail(sequence: int) -> None:
            raise JournalError(journal.path, "disk is full")

        patch.setattr(journal, "reserve", fail)
        with pytest.raises(SourceError, match="disk is full"):
            source.open(lane)
        assert not source.ready
        patch.setattr(journal, "reserve", really_reserve)
        source.open(lane)
    assert source.ready
    assert asked == [""]
    assert journal.append(pa.table({"n": [1]})).sequence == 4
    journal.close()


def test_trouble_with_the_journal_may_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    journal.append(pa.table({"n": [1]}))
    source = source_of(journal)
    monkeypatch.setattr(journal, "wait", lambda after, timeout: True)
    journal.close()
    with pytest.raises(SourceError, match=r"HTTP ingest: journal .*closed") as caught:
        source.poll(0)
    assert not caught.value.fatal
    source.release("", {"sequence": 1})
    assert "stays in the journal for now" in caplog.text


def test_a_damaged_body_is_set_aside_as_a_whole_and_those_behind_it_are_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        for n in range(3):
            journal.append(pa.table({"n": [n]}))
    with sqlite3.connect(path) as connection:
        (body,) = connection.execute("SELECT body FROM bodies WHERE sequence = 2").fetchone()
    connection.close()
    path.write_bytes(path.read_bytes().replace(body, body[:-1] + bytes([body[-1] ^ 1])))
    with Journal(path) as journal:
        source = source_of(journal)
        chunks = [source.poll(0) for _ in range(3)]
        assert source.poll(0) is None
    decoder = Decoder(None, max_record_bytes=100)
    decoded = [decoder.decode(chunk) for chunk in chunks if chunk is not None]
    assert [one.n_rows for one in decoded] == [1, 0, 1]
    ((rejected,),) = [one.rejected for one in decoded if one.rejected]
    assert rejected.place == "body 2, which is damaged in the journal"
    assert [chunk.position for chunk in chunks if chunk] == [{"sequence": n} for n in (1, 2, 3)]
    assert "body 2 is damaged in the journal and set aside" in caplog.text
