"""The state under what happens to disks and processes."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from driftbn_service.events import Publication
from driftbn_service.state import (
    FILE,
    Checkpoint,
    DamagedError,
    DamagedRowError,
    Store,
    StoreError,
    sqlite,
)

from driftbn import Dag, DriftDecision, DriftLevel, StructureDiff
from driftbn.config import DriftKind
from tests.reports import EpisodeEvent, window_report
from tests.reports import published as publications_of
from tests.small_disk import small_disk_at
from tests.unit.state.conftest import dump, errors_in

N_KILLS = 40
ROOT = Path(__file__).parents[3]
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
    dag, added = Dag("abc", [("a", "b")]), StructureDiff(added=(("b", "c"),))
    reports = (
        window_report(
            decision_of(n), dag, index=n, rows=10, diff=added if n % 3 else StructureDiff()
        )
        for n in range(n_windows)
    )
    return publications_of(reports, key=key)


@pytest.fixture(scope="module")
def published() -> list[Publication]:
    """Three monitors whose windows come by turns."""
    return [
        one for turn in zip(*(windows_of(key, 100) for key in "abc"), strict=True) for one in turn
    ]


# Killed

_ZYGOTE = """
import json, os, pickle, random, signal, sys
from uuid import UUID
from driftbn_service.state import Store

path, publications, outlets = json.loads(sys.stdin.readline())
publications = pickle.loads(bytes.fromhex(publications))

def work(seed):
    rng = random.Random(seed)
    store = Store(path, clock=lambda: 1e9, new_id=lambda: UUID(int=1))
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
        """Have a process publish and kill it some time after so many calls."""
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


@pytest.mark.slow
def test_a_process_killed_again_and_again_leaves_the_same_history(
    tmp_path: Path, published: list[Publication]
) -> None:
    with Store(tmp_path / "undisturbed", clock=lambda: 1e9, new_id=lambda: UUID(int=1)) as one:
        assert one.publish(published, OUTLETS) == len(published)
    path = tmp_path / "disturbed"
    rng = random.Random(1)
    zygote = Zygote(str(path), pickle.dumps(published).hex(), OUTLETS)
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
    with small_disk_at(tmp_path / "disk", "4m") as path:
        yield path


@pytest.mark.slow
def test_a_full_disk_is_told_and_work_goes_on_when_there_is_room(
    small_disk: Path, tmp_path: Path, published: list[Publication]
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 3_300_000)
    n_failed = n_entered = 0
    with Store(small_disk / "history", clock=lambda: 1e9, new_id=lambda: UUID(int=1)) as one:
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
    with Store(tmp_path / "undisturbed", clock=lambda: 1e9, new_id=lambda: UUID(int=1)) as one:
        one.publish(published, OUTLETS)
    assert contents(small_disk / "history") == contents(tmp_path / "undisturbed")


def contents(path: Path) -> list[str]:
    """Return what is in a history but for the order in which its events came."""
    skipped = ('INSERT INTO "events"', 'INSERT INTO "deliveries"')
    lines = [line for line in dump(path) if not line.startswith(skipped)]
    with sqlite3.connect(path) as connection:
        events = connection.execute("SELECT id, type, document FROM events ORDER BY id")
        lines += [str(event) for event in events.fetchall()]
    connection.close()
    return lines


# Damage


@pytest.fixture
def written(tmp_path: Path, published: list[Publication]) -> Path:
    path = tmp_path / FILE
    with Store(path, clock=lambda: 1e9) as one:
        one.publish(published, OUTLETS)
    return path


@pytest.fixture
def copied(tmp_path: Path, published: list[Publication]) -> Path:
    """A state whose copy has a third of the windows, and a lane that is committed twice."""
    path = tmp_path / FILE
    with Store(path, clock=lambda: 1e9) as one:
        for windows, position in ((published[:100], 1), (published[100:], 2)):
            lane = one.lane("orders", "")
            lane.put("a", b"state %d" % position)
            lane.commit(Checkpoint({"n": position}), windows, OUTLETS)
            if position == 1:
                assert one.back_up()
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


def spoil_somehow(path: Path, how: str) -> None:
    if how == "a page":
        spoil(path, "edges")
    elif how == "a state":
        damage(path, "states SET state = x'00' WHERE key = 'a'")
    elif how == "a position":
        damage(path, "lanes SET position = '{}'")
    elif how == "cut off":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "emptied":
        os.truncate(path, 0)
    else:
        path.write_bytes(b"no database at all" * 1000)


KINDS = ("no database", "a page", "a state", "a position", "cut off", "emptied")


@pytest.mark.slow
@pytest.mark.parametrize("how", KINDS)
def test_a_damaged_state_is_replaced_by_its_copy_loudly(
    copied: Path, published: list[Publication], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    spoil_somehow(copied, how)
    spoiled = copied.read_bytes()
    with Store(copied) as one:
        assert one.restored_from is not None
        lane = one.lane("orders", "")
        assert (lane.checkpoint.position, lane.get("a")) == ({"n": 1}, b"state 1")
        assert sum(row.n_windows for row in one.monitors()) == 100
        lane.commit(Checkpoint({"n": 2}), published[100:], OUTLETS)
        assert sum(row.n_windows for row in one.monitors()) == len(published)
    (message,) = errors_in(caplog)
    assert f"from {copied}.copy" in message
    assert "kept as state.sqlite.corrupt" in message
    assert copied.with_name("state.sqlite.corrupt").read_bytes() == spoiled
    with Store(copied) as one:
        assert one.restored_from is None


def test_a_state_that_is_gone_comes_back_from_its_copy(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copied.unlink()
    with Store(copied) as one:
        assert sum(row.n_windows for row in one.monitors()) == 100
    assert "the state was damaged (it is gone)" in caplog.text


@pytest.mark.parametrize("how", ["no copy", "a damaged copy"])
def test_without_a_good_copy_nothing_is_begun_anew(copied: Path, how: str) -> None:
    copy = copied.with_name(f"{copied.name}.copy")
    copy.unlink() if how == "no copy" else spoil(copy, "lanes")
    spoil(copied, "lanes")
    before = copied.read_bytes()
    with pytest.raises(DamagedError, match="move both away to begin anew"):
        Store(copied)
    assert copied.read_bytes() == before


def test_no_other_process_loses_its_state_to_a_repair(copied: Path) -> None:
    with Store(copied) as one:
        one.lane("orders", "")
        one.publish([])
        spoil(copied, "edges")
        with pytest.raises(DamagedError, match="another process uses it"):
            Store(copied)


def test_every_damaged_file_is_kept(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        copied.write_bytes(b"no database at all" * 1000)
        Store(copied).close()
    names = sorted(path.name for path in copied.parent.glob("*corrupt*"))
    assert names == ["state.sqlite.corrupt", "state.sqlite.corrupt-2"]
    assert len(errors_in(caplog)) == 2


def test_a_damaged_state_does_not_replace_the_copy(
    copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = copied.with_name(f"{copied.name}.copy")
    before = copy.read_bytes()
    with Store(copied) as one:
        damage(copied, "states SET state = x'00' WHERE key = 'a'")
        assert not one.back_up()
    assert "the state of stream 'orders', key 'a' is damaged" in caplog.text
    assert copy.read_bytes() == before
    assert not list(copied.parent.glob("*.new"))


def test_damage_met_while_running_is_told_and_the_next_start_goes_back(
    copied: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(copied, clock=lambda: 1e9) as one:
        spoil(copied, "windows")
        with pytest.raises(DamagedError, match="restart, to go back to its copy"):
            one.publish(windows_of("d", 40), OUTLETS)
    Store(copied).close()
    assert "the state was damaged" in caplog.text


OLD_LAYOUTS = ("lanes", "history.sqlite", "journals", "identity.json")


@pytest.mark.parametrize("name", OLD_LAYOUTS)
def test_a_state_of_version_0_1_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError, match=r"driftbn 0\.1 .* move the directory away"):
        Store(tmp_path / FILE)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == [name]


def test_a_file_of_a_later_version_is_refused_and_stays(written: Path) -> None:
    with sqlite3.connect(written) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="has version 99 and this driftbn knows version 4"):
        Store(written)


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(StoreError, match="this is no state of driftbn"):
        Store(tmp_path / FILE)


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
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    with Store(written) as one:
        other = sqlite3.connect(written, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="the state cannot be written: database is locked"):
            one.publish(windows_of("d", 1))
        other.execute("ROLLBACK")
        other.close()
        assert one.publish(windows_of("d", 1)) == 1


# Flipped bits

N_FLIPS = 160


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


@pytest.mark.slow
def test_no_flipped_bit_changes_an_answer_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
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
        n_told += bool(told or differing)
        assert told or all(isinstance(after[name], StoreError) for name in differing), differing
    assert n_told > N_FLIPS / 4


def test_damage_met_while_reading_names_the_row_and_spares_the_others(written: Path) -> None:
    with Store(written, clock=lambda: 1e9) as one:
        damage(written, "windows SET rows = 11 WHERE key = 'a' AND window_index = 5")
        damage(written, "documents SET report = zeroblob(9) WHERE key = 'b' AND window_index = 6")
        damage(written, "episodes SET n_windows = 7 WHERE key = 'c' AND episode = 1")
        with pytest.raises(DamagedRowError, match="window 5 of stream 'orders', key 'a' is dam"):
            one.windows("orders", "a")
        with pytest.raises(DamagedRowError, match="report of window 6 of stream 'orders', key 'b"):
            one.window("orders", "b", 6)
        with pytest.raises(DamagedRowError, match="episode 1 of stream 'orders', key 'c'"):
            one.episodes("orders", "c")
        assert one.window("orders", "a", 4) is not None
        assert len(one.windows("orders", "b")) == 100
        assert one.episode("orders", "c", 2) is not None


def test_publishing_goes_on_over_damaged_rows_and_hides_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / FILE
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
    assert "the counts of stream 'orders', key 'a' were damaged" in caplog.text
    assert "episode 0 of stream 'orders', key 'a' is damaged" in caplog.text


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
    with sqlite3.connect(path) as connection:
        assert connection.execute(f"UPDATE {change}").rowcount == 1
    connection.close()
