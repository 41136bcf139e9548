"""Tables accepted over HTTP: on disk before the answer, given once, gone with the commit."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from driftbn_service.state import (
    FILE,
    Accepted,
    Checkpoint,
    Journal,
    JournalError,
    JournalFullError,
    KeyConflictError,
    Store,
)

N_KILLS = 16
MANY = 1 << 30


def table(*values: int) -> pa.Table:
    return pa.table({"n": list(values), "t": pa.array(["x"] * len(values)).dictionary_encode()})


def journal_of(store: Store, *, max_pending_bytes: int = MANY, remember_keys: int = 5) -> Journal:
    return store.journal("orders", max_pending_bytes=max_pending_bytes, remember_keys=remember_keys)


def numbers(journal: Journal, after: int = 0) -> list[int]:
    """All that waits, read in small pieces."""
    found: list[int] = []
    while bodies := journal.read(after, 1):
        for body in bodies:
            assert body.table is not None
            found += body.table["n"].to_pylist()
            after = body.sequence
    return found


def cover(store: Store, journal: Journal, sequence: int) -> None:
    """Commit what was read up to a body."""
    store.lane("orders", "", journal).commit(Checkpoint({"sequence": sequence}))


@pytest.fixture
def store(place: Path | str) -> Iterator[Store]:
    with Store(place) as made:
        yield made


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as made:
        yield made


@pytest.fixture
def journal(store: Store) -> Journal:
    return journal_of(store)


def test_tables_come_out_as_they_went_in(journal: Journal) -> None:
    tables = [
        table(1, 2),
        pa.table({"other": pa.array([None, 1.5]), "nested": [{"a": [1]}, {"a": []}]}),
        table(),
    ]
    for i, given in enumerate(tables, start=1):
        assert journal.append(given) == Accepted(i, given.num_rows)
    bodies = journal.read(0, 1 << 20)
    assert [body.table for body in bodies] == tables
    assert [body.n_behind for body in bodies] == [2, 0, 0]
    assert [body.sequence for body in journal.read(0, 1)] == [1]
    assert journal.read(3, MANY) == ()


def test_a_known_key_gets_the_first_answer_and_another_table_is_refused(journal: Journal) -> None:
    first = journal.append(table(1, 2), "a")
    journal.append(table(3), "b")
    assert journal.append(table(1, 2), "a") == Accepted(first.sequence, 2, duplicate=True)
    with pytest.raises(KeyConflictError, match="'a'"):
        journal.append(table(9), "a")
    assert numbers(journal) == [1, 2, 3]


def test_a_commit_deletes_what_it_covers_and_the_oldest_keys_of_that(
    store: Store, journal: Journal
) -> None:
    sequences = [journal.append(table(n), f"key {n}").sequence for n in range(9)]
    cover(store, journal, sequences[6])
    assert numbers(journal) == [7, 8]
    again = journal_of(store)  # as after a restart
    assert again.append(table(8), "key 8").duplicate
    assert again.append(table(4), "key 4").duplicate
    assert not again.append(table(0), "key 0").duplicate
    assert again.append(table(5)).sequence > sequences[-1]


def test_a_full_journal_refuses_until_a_commit_makes_room(store: Store) -> None:
    values = random.Random(1).choices(range(1 << 60), k=300)
    journal = journal_of(store, max_pending_bytes=2000)
    first = journal.append(table(*values))  # larger than allowed, but nothing waits
    with pytest.raises(JournalFullError, match="of 2000 allowed") as caught:
        journal.append(table(1))
    assert caught.value.n_pending_bytes > 2000
    cover(store, journal, first.sequence)
    journal.append(table(1))
    assert numbers(journal) == [1]


def test_a_reader_wakes_as_soon_as_a_table_comes_and_when_it_closes(journal: Journal) -> None:
    assert not journal.wait(0, 0)
    woken = []
    threads = [
        threading.Thread(target=lambda after=after: woken.append(journal.wait(after, 60)))
        for after in (0, 1)
    ]
    for thread in threads:
        thread.start()
    journal.append(table(1))
    threads[0].join(30)
    assert woken == [True]
    journal.close()
    threads[1].join(30)
    assert woken == [True, False]


def test_tables_that_another_process_accepts_are_learned_here(place: Path | str) -> None:
    with Store(place) as mine, Store(place) as other:
        journal = journal_of(mine)
        sequence = journal_of(other).append(table(1), "key").sequence
        assert journal.wait(0, 0) == mine.shared
        assert numbers(journal) == [1]
        assert journal.append(table(1), "key") == Accepted(sequence, 1, duplicate=True)


def test_many_threads_may_append_while_one_reads_and_commits(store: Store) -> None:
    n_threads, n_each = 6, 10
    journal = journal_of(store, remember_keys=n_threads * n_each)
    seen: list[int] = []

    def append(thread: int) -> None:
        for n in range(n_each):
            value = thread * n_each + n
            journal.append(table(value), f"key {value}")
            journal.append(table(value), f"key {value}")

    threads = [threading.Thread(target=append, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    after = 0
    while len(seen) < n_threads * n_each and journal.wait(after, 30):
        for body in journal.read(after, 2000):
            assert body.sequence > after
            assert body.table is not None
            seen += body.table["n"].to_pylist()
            after = body.sequence
        cover(store, journal, after)
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(n_threads * n_each))
    assert all(
        mine == sorted(mine)
        for mine in ([v for v in seen if v // n_each == i] for i in range(n_threads))
    )


def test_a_damaged_body_comes_without_its_table_and_spares_the_others(file_store: Store) -> None:
    journal = journal_of(file_store)
    for n in range(3):
        journal.append(table(n), f"key {n}")
    with sqlite3.connect(file_store.path) as connection:
        connection.execute("UPDATE bodies SET body = x'0102' WHERE sequence = 2")
        connection.execute("UPDATE body_keys SET n_records = 7 WHERE key = 'key 0'")
    connection.close()
    found = journal.read(0, MANY)
    assert [body.table for body in found] == [table(0), None, table(2)]
    assert found[1].damaged == b"\x01\x02"
    with pytest.raises(JournalError, match="idempotency key 'key 0' is damaged"):
        journal.append(table(0), "key 0")


def test_a_full_disk_refuses_and_loses_nothing(file_store: Store) -> None:
    """SQLite's own limit of pages stands for the disk."""
    journal = journal_of(file_store)
    journal.append(table(1), "one")
    writer = file_store._database._writer
    writer.execute("PRAGMA max_page_count = 1")
    large = table(*random.Random(1).choices(range(1 << 60), k=5000))
    with pytest.raises(JournalError, match="the disk is full"):
        journal.append(large, "large")
    assert numbers(journal) == [1]
    writer.execute("PRAGMA max_page_count = 100000")
    assert not journal.append(large, "large").duplicate
    assert len(numbers(journal)) == 5001


_APPENDERS = """
import os, sys
import pyarrow as pa
from driftbn_service.state import Checkpoint, Store

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())  # whole or not at all

def append(path, start, done):
    with Store(path) as store:
        journal = store.journal("orders", max_pending_bytes=1 << 30, remember_keys=100_000)
        lane = store.lane("orders", "", journal)
        for value in range(start, start + 100_000):
            journal.append(pa.table({"n": [value] * (value % 50 + 1)}), f"key {value}")
            say(value)
            if value % 7 == 0:
                lane.commit(Checkpoint({"sequence": done}))

pa.table({"n": [1]})  # what it imports is there for every child
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        path, start, done = line.split()
        append(path, int(start), int(done))
    say("child", child)
    os.waitpid(child, 0)
    say("killed")
"""


class Appenders:
    """Makes processes that append until they are killed; their modules are loaded once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _APPENDERS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )

    def run(self, place: Path | str, start: int, done: int, n_values: int) -> list[int]:
        """Kill one after so many values, and return those that were acknowledged."""
        given, lines = self._process.stdin, self._process.stdout
        assert given is not None
        assert lines is not None
        given.write(f"{place} {start} {done}\n".encode())
        given.flush()
        child, found = 0, []
        while (line := lines.readline()) != b"killed\n":
            if line.startswith(b"child "):
                child = int(line.split()[1])
            else:
                found.append(int(line))
            if child and len(found) >= n_values:
                os.kill(child, signal.SIGKILL)
                n_values = sys.maxsize  # once is enough
        return found

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture
def appenders() -> Iterator[Appenders]:
    made = Appenders()
    yield made
    made.close()


@pytest.mark.slow
def test_what_was_acknowledged_is_there_exactly_once_after_every_kill(
    place: Path | str, appenders: Appenders
) -> None:
    randomness = random.Random(3)
    start = after = 0
    seen: list[int] = []
    for _ in range(N_KILLS):
        acknowledged = appenders.run(place, start, after, randomness.randint(1, 30))
        assert acknowledged == list(range(start, start + len(acknowledged)))
        with Store(place) as store:
            journal = journal_of(store)
            # The one under way got no answer, so its sender sends it once more.
            last = start + len(acknowledged)
            journal.append(pa.table({"n": [last] * (last % 50 + 1)}), f"key {last}")
            for body in journal.read(after, MANY):
                assert body.table is not None
                values = body.table["n"].to_pylist()
                assert values == values[:1] * (values[0] % 50 + 1)
                seen.append(values[0])
                after = body.sequence
        start = last + 1
        assert seen == list(range(start))
