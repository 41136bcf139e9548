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
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftbn.decision.outcome import DriftDecision, DriftKind, DriftLevel, EpisodeEvent
from driftbn.diff import StructureDiff
from driftbn.graph import Dag
from driftbn.learning import SearchCost
from driftbn.report import WindowReport
from service.cloud_events import EventState, publication_of
from service.events import Publication
from service.store import Store, StoreError, database
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
from service.events import Publication
from service.store import Store

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
