"""The history under what happens to disks and processes."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from driftbn_service.events import EventState, Publication, publication_of
from driftbn_service.store import DamagedRowError, Store, StoreError, database

from driftbn.drift.outcome import DriftDecision, DriftKind, DriftLevel, EpisodeEvent
from driftbn.graphs.diff import StructureDiff
from driftbn.graphs.graph import Dag
from driftbn.learning import SearchCost
from driftbn.report import WindowReport
from tests.small_disk import small_disk_at

N_KILLS = 40
ROOT = Path(__file__).parents[2]
OUTLETS = [("all", None), ("ends", ("io.driftbn.drift.ended.v1",))]


def decision_of(index: int) -> DriftDecision:
    """Return a drift every tenth window, that ends three windows later."""
    episode, phase = divmod(index, 10)
    if phase not in (5, 6, 7, 8):
        return DriftDecision(DriftLevel.STABLE, alpha=0.01)
    events = {5: EpisodeEvent.STARTED, 8: EpisodeEvent.ENDED}
    return DriftDecision(
        DriftLevel.DRIFT if phase == 5 else DriftLevel.STABLE,
        alpha=0.01,
        p_value=0.001 * phase,
        kind=DriftKind.MECHANISM if phase == 5 else None,
        episode=episode,
        episode_event=events.get(phase),
        since=10 * episode + 5,
    )


def windows_of(key: str, n_windows: int) -> list[Publication]:
    """Return windows without learning anything."""
    dag = Dag("abc", [("a", "b")])
    found, state = [], EventState()
    for n in range(n_windows):
        diff = StructureDiff(added=(("b", "c"),)) if n % 3 else StructureDiff()
        decision, cost = decision_of(n), SearchCost((n,))
        ends = (10 * n, 10 * n + 9)
        report = WindowReport(n, 10, *ends, dag.cpdag(), dag, diff, diff, decision, cost)
        state, publication = publication_of("orders", key, "", report, state)
        found.append(publication)
    return found


@pytest.fixture(scope="module")
def published() -> list[Publication]:
    """Three monitors whose windows come by turns."""
    return [
        one for turn in zip(*(windows_of(key, 100) for key in "abc"), strict=True) for one in turn
    ]


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = sorted(connection.iterdump())
    connection.close()
    return found


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]


# Killed

_ZYGOTE = """
import json, os, random, signal, sys
from driftbn_service.events import Publication
from driftbn_service.store import Store

path, publications, outlets = json.loads(sys.stdin.readline())
publications = [Publication.from_dict(one) for one in publications]

def work(seed):
    rng = random.Random(seed)
    store = Store(path, clock=lambda: 1e9)
    os.write(1, b"opened\\n")
    n_known = sum(row.n_windows for row in store.monitors())
    rest = publications[max(0, n_known - 7):]  # some that are there already
    while rest:
        n = rng.randint(1, 4)
        store.publish(rest[:n], outlets)
        os.write(1, b"published\\n")
        rest = rest[n:]
    os.write(1, b"finished\\n")
    signal.pause()  # to be killed like the others

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        work(int(line))
    os.write(1, b"pid %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"gone\\n")
"""


class Zygote:
    """A process that has imported all it needs and makes others that publish."""

    def __init__(self, *task: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ZYGOTE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
        )
        self.say(json.dumps(task))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    def hear(self) -> list[str]:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().split()

    def life(self, seed: int, n_published: int, seconds: float) -> bool:
        """Have a process publish and kill it some time after so many calls.

        Returns
        -------
        bool
            Whether it had finished before.
        """
        self.say(str(seed))
        heard: list[str] = []
        pid = None
        while "finished" not in heard and (
            pid is None or "opened" not in heard or heard.count("published") < n_published
        ):
            word, *numbers = self.hear()
            heard.append(word)
            pid = int(numbers[0]) if numbers else pid
        assert pid is not None
        time.sleep(seconds)  # into the middle of something
        os.kill(pid, signal.SIGKILL)
        while "gone" not in heard:
            heard += self.hear()
        return "finished" in heard


def test_a_process_killed_again_and_again_leaves_the_same_history(
    tmp_path: Path, published: list[Publication]
) -> None:
    with Store(tmp_path / "undisturbed", clock=lambda: 1e9) as one:
        assert one.publish(published, OUTLETS) == len(published)
    path = tmp_path / "disturbed"
    rng = random.Random(1)
    zygote = Zygote(str(path), [one.to_dict() for one in published], OUTLETS)
    with zygote.process as process:
        moments = [(rng.randrange(4), rng.uniform(0, 0.002)) for _ in range(N_KILLS)]
        n_finished = sum(zygote.life(seed, *moment) for seed, moment in enumerate(moments))
        assert zygote.life(99, 10**6, 0.0)
        assert process.stdin is not None
        process.stdin.close()
    assert n_finished < N_KILLS / 2
    assert dump(path) == dump(tmp_path / "undisturbed")


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_disk_at(tmp_path / "disk", "1m") as path:
        yield path


def test_a_full_disk_is_told_and_work_goes_on_when_there_is_room(
    small_disk: Path, tmp_path: Path, published: list[Publication]
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 700_000)
    n_failed = n_entered = 0
    with Store(small_disk / "history", clock=lambda: 1e9) as one:
        for publication in published:
            try:
                n_entered += one.publish([publication], OUTLETS)
            except StoreError as error:
                assert "the disk is full" in str(error)  # noqa: PT017 - how often is not known
                n_failed += 1
                assert sum(row.n_windows for row in one.monitors()) == n_entered
        assert 0 < n_failed < len(published)
        filler.unlink()
        assert one.publish(published, OUTLETS) == len(published) - n_entered
        assert one.n_conflicts == 0
    with Store(tmp_path / "undisturbed", clock=lambda: 1e9) as one:
        one.publish(published, OUTLETS)
    assert contents(small_disk / "history") == contents(tmp_path / "undisturbed")


def contents(path: Path) -> list[str]:
    """Return what is in a history but for the order in which its events came."""
    skipped = ('INSERT INTO "events"', 'INSERT INTO "deliveries"', 'INSERT INTO "sqlite_sequence"')
    lines = [line for line in dump(path) if not line.startswith(skipped)]
    with sqlite3.connect(path) as connection:
        events = connection.execute("SELECT id, type, document FROM events ORDER BY id")
        lines += [str(event) for event in events.fetchall()]
    connection.close()
    return lines


# Damage


@pytest.fixture
def written(tmp_path: Path, published: list[Publication]) -> Path:
    path = tmp_path / "history.sqlite"
    with Store(path, clock=lambda: 1e9) as one:
        one.publish(published, OUTLETS)
    return path


def spoil(path: Path, table: str) -> None:
    """Write over the first page of a table."""
    with sqlite3.connect(path) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


@pytest.mark.parametrize("damage", ["no database", "a page", "cut off"])
def test_a_damaged_file_is_set_aside_loudly_and_a_new_one_begun(
    written: Path, published: list[Publication], caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    if damage == "a page":
        spoil(written, "edges")
    elif damage == "cut off":
        os.truncate(written, written.stat().st_size // 2)
    else:
        written.write_bytes(b"no database at all" * 1000)
    spoiled = written.read_bytes()
    with Store(written) as one:
        assert one.monitors() == []
        assert one.publish(published, OUTLETS) == len(published)
    (message,) = errors_in(caplog)
    assert str(written) in message
    assert "kept as history.sqlite.corrupt" in message
    assert written.with_name("history.sqlite.corrupt").read_bytes() == spoiled
    with Store(written) as one:
        assert len(one.monitors()) == 3


def test_every_damaged_file_is_kept(written: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        written.write_bytes(b"no database at all" * 1000)
        Store(written).close()
    names = sorted(path.name for path in written.parent.glob("*corrupt*"))
    assert names == ["history.sqlite.corrupt", "history.sqlite.corrupt-2"]
    assert len(errors_in(caplog)) == 2


def test_damage_met_while_running_is_set_aside_and_the_next_call_works(
    written: Path,
    published: list[Publication],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(database, "CHECKED_BYTES", 0)  # as for a file too large to be checked
    spoil(written, "windows")
    with Store(written, clock=lambda: 1e9) as one:
        with pytest.raises(StoreError, match="malformed"):
            one.publish(windows_of("d", 40), OUTLETS)
        assert len(errors_in(caplog)) == 1
        assert one.monitors() == []
        assert one.publish(published, OUTLETS) == len(published)
    assert written.with_name("history.sqlite.corrupt").exists()
    with Store(written) as one:
        assert len(one.monitors()) == 3
    assert len(errors_in(caplog)) == 1


def test_two_processes_use_one_history(written: Path, published: list[Publication]) -> None:
    with Store(written) as first, Store(written) as second:
        second.publish(windows_of("d", 5), OUTLETS)
        first.publish(windows_of("e", 5), OUTLETS)
        assert len(first.monitors()) == len(second.monitors()) == 5
        (number, event) = second.pending("ends", None, 1)[0]
        second.delivered("ends", [number])
        assert event.id not in {one.id for _, one in first.pending("ends", None, 99)}


def test_a_history_locked_for_too_long_is_told(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with Store(written) as one:
        other = sqlite3.connect(written, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="the history cannot be written: database is locked"):
            one.publish(windows_of("d", 1))
        other.execute("ROLLBACK")
        other.close()
        assert one.publish(windows_of("d", 1)) == 1


# Flipped bits

N_FLIPS = 240


def answers(store: Store) -> Iterator[tuple[str, object]]:
    """Ask a history everything that it can be asked; a refusal is an answer."""
    monitors = [("orders", key) for key in "ab"]
    questions: dict[str, Callable[[], object]] = {
        "monitors": store.monitors,
        "events": store.events,
        "outlets": store.outlets,
    }
    for name, _ in OUTLETS:
        questions[f"pending {name}"] = partial(store.pending, name, None, 100)
        questions[f"waiting {name}"] = partial(store.n_pending, name)
    types = {event.type for key in "ab" for one in windows_of(key, 20) for event in one.events}
    questions["newest"] = partial(store.newest_events, "ends", None, types)
    for place in monitors:
        for ask in (store.monitor, store.windows, store.series, store.episodes):
            questions[f"{ask.__name__} {place}"] = partial(ask, *place)  # type: ignore[operator]
        questions[f"drifts {place}"] = partial(store.windows, *place, drift_only=True)
        questions[f"edge {place}"] = partial(store.edge_history, *place, "b", "c")
        for number in range(20):
            questions[f"window {place} {number}"] = partial(store.window, *place, number)
            questions[f"episode {place} {number}"] = partial(store.episode, *place, number)
    for name, question in questions.items():
        try:
            yield name, question()
        except StoreError as error:
            yield name, error


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_no_flipped_bit_changes_an_answer_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.sqlite"
    with Store(path, clock=lambda: 1e9) as one:
        one.publish([*windows_of("a", 20), *windows_of("b", 20)], OUTLETS)
        before = dict(answers(one))
    data = path.read_bytes()
    n_told = 0
    for bit in random.Random(1).sample(range(8 * len(data)), N_FLIPS):
        path.write_bytes(flipped(data, bit))
        caplog.clear()
        try:
            with Store(path, clock=lambda: 1e9) as one:
                after = dict(answers(one))
        except StoreError:
            n_told += 1
            continue
        differing = [name for name in before if after[name] != before[name]]
        told = errors_in(caplog)
        n_told += bool(told)
        assert told or all(isinstance(after[name], StoreError) for name in differing), differing
        for aside in tmp_path.glob("*.corrupt*"):
            aside.unlink()
    assert n_told > N_FLIPS / 4


def test_damage_met_while_reading_names_the_row_and_spares_the_others(written: Path) -> None:
    with Store(written, clock=lambda: 1e9) as one:
        damage(written, "windows SET rows = 11 WHERE key = 'a' AND window_index = 5")
        damage(written, "documents SET report = zeroblob(9) WHERE key = 'b' AND window_index = 6")
        damage(written, "episodes SET n_windows = 7 WHERE key = 'c' AND episode = 1")
        with pytest.raises(DamagedRowError, match="window 5 of monitor 'orders', key 'a' is dam"):
            one.windows("orders", "a")
        with pytest.raises(DamagedRowError, match="report of window 6 of monitor 'orders', key 'b"):
            one.window("orders", "b", 6)
        with pytest.raises(DamagedRowError, match="episode 1 of monitor 'orders', key 'c'"):
            one.episodes("orders", "c")
        assert one.window("orders", "a", 4) is not None
        assert len(one.windows("orders", "b")) == 100
        assert one.episode("orders", "c", 2) is not None


def test_damaged_rows_are_named_at_the_start(
    written: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(written, "windows SET hamming = 9 WHERE key = 'a' AND window_index = 5")
    with Store(written) as one:
        assert len(one.windows("orders", "b")) == 100
    (message,) = errors_in(caplog)
    assert "1 rows of windows in the history are damaged" in message
    assert "'orders' 'a' 5" in message


def test_publishing_goes_on_over_damaged_rows_and_hides_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.sqlite"
    windows = windows_of("a", 20)
    with Store(path, clock=lambda: 1e9) as one:
        one.publish(windows[:7], OUTLETS)  # in the middle of an episode
        damage(path, "monitors SET pruned_before = 1000000, n_windows = 3")
        damage(path, "episodes SET started_window = 1")
        damage(path, "windows SET rows = 3 WHERE window_index = 2")
        assert one.publish(windows[7:], OUTLETS) == 13
        monitor = one.monitor("orders", "a")
        assert monitor is not None
        assert (monitor.n_windows, monitor.last.window_index) == (20, 19)
        assert [row.started_window for row in one.episodes("orders", "a")] == [15, 5]
        with pytest.raises(DamagedRowError, match="window 2"):
            one.windows("orders", "a")
    assert "the counts of monitor 'orders', key 'a' were damaged" in caplog.text
    assert "episode 0 of monitor 'orders', key 'a' is damaged" in caplog.text


def test_a_damaged_event_is_named_and_what_comes_behind_it_can_be_had(
    written: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(written) as one:
        events = one.events()
        first = events[0][0]
        damage(written, f"events SET window_index = 999 WHERE sequence = {first}")
        assert one.events() == events[1:]
        assert f"event {first} is damaged" in caplog.text
        with pytest.raises(DamagedRowError, match=f"event {first} is damaged") as caught:
            one.pending("all", None, 100)
        assert caught.value.event == (first, "orders")
        one.delivered("all", [first])
        assert one.pending("all", None, 100) == events[1:]


def damage(path: Path, change: str) -> None:
    """Change a row and leave its checksum as it was, as a broken disk does."""
    table, _, rest = change.partition(" ")
    where = rest[rest.find("WHERE") :] if "WHERE" in rest else ""
    with sqlite3.connect(path) as connection:
        query = f"SELECT checksum FROM {table} {where}"
        (kept,) = connection.execute(query).fetchone()
        connection.create_function("row_checksum", -1, lambda *_: kept, deterministic=True)
        assert connection.execute(f"UPDATE {change}").rowcount == 1
    connection.close()
