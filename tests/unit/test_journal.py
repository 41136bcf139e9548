from __future__ import annotations

import logging
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
from driftbn_service.journal import (
    Accepted,
    Body,
    Journal,
    JournalError,
    JournalFullError,
    KeyConflictError,
)
from driftbn_service.journal.bodies import raw_bytes
from driftbn_service.settings import HttpSourceSettings

N_KILLS = 24
N_FLIPS = 240


def table(*values: int) -> pa.Table:
    return pa.table({"n": list(values), "t": pa.array(["x"] * len(values)).dictionary_encode()})


def numbers(journal: Journal, after: int = 0) -> list[int]:
    """All that waits, read in small pieces."""
    found: list[int] = []
    while bodies := journal.read(after, 1):
        for body in bodies:
            found += body.table["n"].to_pylist()
            after = body.sequence
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "deep" / "journal.sqlite") as journal:
        yield journal


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
    assert [body.sequence for body in bodies] == [1, 2, 3]
    assert [body.n_behind for body in bodies] == [2, 0, 0]


def test_at_least_one_table_is_read_and_not_many_more_than_asked_for(journal: Journal) -> None:
    for n in range(10):
        journal.append(table(n))
    size = raw_bytes(table(0)).size
    assert [body.sequence for body in journal.read(0, 1)] == [1]
    assert [body.sequence for body in journal.read(4, 3 * size + size // 2)] == [5, 6, 7]
    assert journal.read(10, 1000) == ()


def test_a_known_key_gets_the_first_answer(journal: Journal) -> None:
    first = journal.append(table(1, 2), "a")
    journal.append(table(3), "b")
    assert journal.append(table(1, 2), "a") == Accepted(first.sequence, 2, duplicate=True)
    assert numbers(journal) == [1, 2, 3]


def test_another_table_under_a_known_key_is_refused(journal: Journal) -> None:
    journal.append(table(1), "a")
    with pytest.raises(KeyConflictError, match="idempotency key 'a'"):
        journal.append(table(2), "a")
    journal.append(table(1), "b", digest=b"one")
    assert journal.append(table(2), "b", digest=b"one").duplicate
    assert numbers(journal) == [1, 1]


def test_keys_outlive_a_restart_and_the_release_of_their_tables(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path, remember_keys=3) as journal:
        for n in range(6):
            journal.append(table(n), f"key {n}")
        journal.release(5)
    with Journal(path, remember_keys=3) as journal:
        assert [journal.append(table(n), f"key {n}").duplicate for n in (3, 4, 5)] == [True] * 3
        assert not journal.append(table(2), "key 2").duplicate
        assert numbers(journal) == [5, 2]


def test_keys_of_tables_that_wait_are_not_forgotten(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite", remember_keys=0) as journal:
        for n in range(4):
            journal.append(table(n), f"key {n}")
        journal.release(2)
        assert [journal.append(table(n), f"key {n}").duplicate for n in (2, 3)] == [True, True]
        assert not journal.append(table(0), "key 0").duplicate


def test_a_full_journal_refuses_until_something_is_released(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite", max_pending_bytes=1024) as journal:
        accepted = [journal.append(table(0), "first")]
        size = journal.n_pending_bytes
        while journal.n_pending_bytes + size <= 1024:
            accepted.append(journal.append(table(len(accepted))))
        with pytest.raises(JournalFullError, match=r"bytes wait, of 1024 allowed") as caught:
            journal.append(table(*range(100)))
        assert 0 < caught.value.n_pending_bytes <= 1024
        assert journal.append(table(0), "first").duplicate  # its answer needs no room
        assert numbers(journal) == list(range(len(accepted)))
        journal.release(accepted[0].sequence)
        journal.append(table(99))
        assert numbers(journal)[-1] == 99


def test_a_table_larger_than_the_limit_is_accepted_by_an_empty_journal(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite", max_pending_bytes=1024) as journal:
        values = random.Random(1).choices(range(1 << 60), k=1000)
        journal.append(table(*values))
        assert journal.n_pending_bytes > 1024
        with pytest.raises(JournalFullError):
            journal.append(table(1))


def test_numbers_are_never_used_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        journal.append(table(1))
        journal.append(table(2))
        journal.release(2)
    with Journal(path) as journal:
        assert journal.last_sequence == 2
        assert journal.n_pending_bytes == 0
        assert journal.append(table(3)).sequence == 3
        assert journal.read(0, 1000)[0].n_behind == 0
        journal.reserve(50)
        journal.reserve(10)
        assert journal.append(table(4)).sequence == 51


def test_a_reader_wakes_as_soon_as_a_table_comes(journal: Journal) -> None:
    assert not journal.wait(0, 0)
    woken = []
    thread = threading.Thread(target=lambda: woken.append(journal.wait(0, 60)))
    thread.start()
    journal.append(table(1))
    thread.join(30)
    assert woken == [True]


def test_closing_wakes_those_who_wait(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    woken = []
    thread = threading.Thread(target=lambda: woken.append(journal.wait(0, 60)))
    thread.start()
    journal.close()
    thread.join(30)
    assert woken == [False]
    with pytest.raises(JournalError, match="closed"):
        journal.append(table(1))


def test_many_threads_may_append_while_one_reads_and_releases(journal: Journal) -> None:
    n_threads, n_each = 8, 15
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
            seen += body.table["n"].to_pylist()
            after = body.sequence
        journal.release(after - 5)
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(n_threads * n_each))
    for thread in range(n_threads):
        mine = [value for value in seen if value // n_each == thread]
        assert mine == sorted(mine)


def test_a_file_that_is_no_journal_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"something else " * 100)
    with Journal(path) as journal:
        journal.append(table(1))
    assert "is damaged and a new one is begun; it is kept as journal.sqlite.corrupt" in caplog.text
    assert (tmp_path / "journal.sqlite.corrupt").read_bytes() == b"something else " * 100


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(JournalError, match="it has version 7, but this program reads version 2"):
        Journal(path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="journal"):
        Journal(tmp_path / "file" / "journal.sqlite")


def test_a_damaged_body_comes_without_its_table_and_spares_the_others(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        for n in range(3):
            journal.append(table(n))
    data = path.read_bytes()
    (body,) = [body for body in bodies_in(path) if body.sequence == 2]
    assert body.table is not None
    with sqlite3.connect(path) as connection:
        (stored,) = connection.execute("SELECT body FROM bodies WHERE sequence = 2").fetchone()
    connection.close()
    path.write_bytes(data.replace(stored, stored[:-1] + bytes([stored[-1] ^ 1])))
    found = bodies_in(path)
    assert [body.sequence for body in found] == [1, 2, 3]
    assert [body.table for body in found] == [table(0), None, table(2)]
    assert found[1].damaged == stored[:-1] + bytes([stored[-1] ^ 1])


def bodies_in(path: Path) -> tuple[Body, ...]:
    with Journal(path) as journal:
        return journal.read(0, 1 << 30)


def test_no_flipped_bit_changes_an_answer_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.sqlite"
    chance = random.Random(1)
    tables = [table(*chance.choices(range(1 << 60), k=20)) for _ in range(40)]
    with Journal(path) as journal:
        for number, given in enumerate(tables):
            journal.append(given, f"key {number}")
    data = path.read_bytes()
    n_told = 0
    for bit in chance.sample(range(8 * len(data)), N_FLIPS):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        caplog.clear()
        try:
            with Journal(path) as journal:
                found = [body.table for body in journal.read(0, 1 << 30)]
                known = [known_as(journal, f"key {n}", given) for n, given in enumerate(tables)]
        except JournalError:
            n_told += 1
            continue
        told = any(record.levelno == logging.ERROR for record in caplog.records)
        n_told += told
        assert told or (found, known) == (tables, list(range(1, len(tables) + 1)))
        for aside in tmp_path.glob("*.corrupt*"):
            aside.unlink()
    assert n_told > N_FLIPS / 4


def known_as(journal: Journal, key: str, given: pa.Table) -> int | str:
    """Return under which number a table was accepted, or why that cannot be told."""
    try:
        return journal.append(given, key).sequence
    except JournalError as error:
        return str(error)


def test_settings_make_a_journal(tmp_path: Path) -> None:
    settings = HttpSourceSettings(max_pending_bytes=2048)
    with Journal.of(tmp_path / "journal.sqlite", settings) as journal:
        values = random.Random(1).choices(range(1 << 60), k=300)
        journal.append(table(*values))
        with pytest.raises(JournalFullError, match="of 2048 allowed"):
            journal.append(table(1))


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """SQLite's own limit of pages stands for the disk."""
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.append(table(1), "one")
        (n_pages,) = journal._writer.execute("PRAGMA page_count").fetchone()
        journal._writer.execute(f"PRAGMA max_page_count = {n_pages}")
        large = table(*random.Random(1).choices(range(1 << 60), k=5000))
        with pytest.raises(JournalError, match="full"):
            journal.append(large, "large")
        assert numbers(journal) == [1]
        journal._writer.execute("PRAGMA max_page_count = 100000")
        assert not journal.append(large, "large").duplicate
        assert len(numbers(journal)) == 5001


_APPENDERS = """
import os, sys
from pathlib import Path
import pyarrow as pa
from driftbn_service.journal import Journal

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())  # whole or not at all

def append(path, start, done):
    with Journal(Path(path)) as journal:
        for value in range(start, start + 100_000):
            journal.append(pa.table({"n": [value] * (value % 50 + 1)}), f"key {value}")
            say(value)
            if value % 7 == 0:
                journal.release(done)

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
            cwd=Path(__file__).parents[2],
        )

    def run(self, path: Path, start: int, done: int, n_values: int) -> list[int]:
        """Kill one after so many values, and return those that were acknowledged."""
        given, lines = self._process.stdin, self._process.stdout
        assert given is not None
        assert lines is not None
        given.write(f"{path} {start} {done}\n".encode())
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


def test_what_was_acknowledged_is_there_exactly_once_after_every_kill(
    tmp_path: Path, appenders: Appenders
) -> None:
    path, randomness = tmp_path / "journal.sqlite", random.Random(3)
    start = after = 0
    seen: list[int] = []
    for _ in range(N_KILLS):
        acknowledged = appenders.run(path, start, after, randomness.randint(1, 30))
        assert acknowledged == list(range(start, start + len(acknowledged)))
        with Journal(path) as journal:
            # The one under way got no answer, so its sender sends it once more.
            last = start + len(acknowledged)
            journal.append(pa.table({"n": [last] * (last % 50 + 1)}), f"key {last}")
            for body in journal.read(after, 1 << 30):
                values = body.table["n"].to_pylist()
                assert values == values[:1] * (values[0] % 50 + 1)
                seen.append(values[0])
                after = body.sequence
        start = last + 1
        assert seen == list(range(start))
