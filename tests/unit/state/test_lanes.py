"""Lanes: what was committed is there, all of it or nothing, and one process at a time commits."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from driftbn_service.state import (
    FILE,
    Checkpoint,
    DamagedRowError,
    LaneLostError,
    LockedError,
    Store,
    lanes,
)

from tests.services.process import wait_for

ROOT = Path(__file__).parents[3]


@pytest.fixture
def store(place: Path | str) -> Iterator[Store]:
    with Store(place) as made:
        yield made


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as made:
        yield made


# Committed or not


def test_what_was_committed_comes_back(store: Store) -> None:
    lane = store.lane("orders", "3")
    assert lane.checkpoint == Checkpoint()
    lane.put("a", b"one")
    lane.put("b", b"")
    lane.put("a", b"two")
    checkpoint = Checkpoint({"n": 2**80, "x": 0.1, "t": "\ud800"}, 7)
    lane.commit(checkpoint)
    again = store.lane("orders", "3")
    assert again.checkpoint == checkpoint
    assert sorted(again) == ["a", "b"]
    assert (again.get("a"), again.get("b")) == (b"two", b"")
    assert list(store.lane("orders", "4")) == []


def test_what_was_not_committed_is_gone(store: Store) -> None:
    lane = store.lane("orders", "")
    lane.put("a", b"one")
    lane.commit(Checkpoint({"n": 1}))
    lane.put("a", b"two")
    lane.put("b", b"new")
    assert (lane.get("a"), lane.get("b")) == (b"two", b"new")  # seen by itself alone
    lane.close()
    again = store.lane("orders", "")
    assert again.get("a") == b"one"
    assert "b" not in again
    with pytest.raises(KeyError):
        again.get("b")


def test_states_beyond_memory_wait_in_a_file_that_leaves_no_trace(
    file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "SPILL_BYTES", 1000)
    lane = file_store.lane("orders", "")
    before = sorted(file_store.path.parent.iterdir())
    for n in range(50):
        lane.put(str(n), b"%d" % n * 100)
    assert lane.get("7") == b"7" * 100
    assert sorted(file_store.path.parent.iterdir()) == before
    lane.commit(Checkpoint())
    again = file_store.lane("orders", "")
    assert all(again.get(str(n)) == b"%d" % n * 100 for n in range(50))


def test_a_damaged_state_is_told_when_it_is_read(file_store: Store) -> None:
    lane = file_store.lane("orders", "")
    lane.put("a", b"one")
    lane.put("b", b"two")
    lane.commit(Checkpoint())
    with sqlite3.connect(file_store.path) as connection:
        connection.execute("UPDATE states SET state = x'00' WHERE key = 'a'")
    connection.close()
    with pytest.raises(DamagedRowError, match="the state of stream 'orders', key 'a' is damaged"):
        lane.get("a")
    assert lane.get("b") == b"two"


def test_lanes_that_commit_at_once_share_transactions_and_fail_alone(file_store: Store) -> None:
    n_lanes, n_commits = 12, 5
    mine = [file_store.lane("orders", str(n)) for n in range(n_lanes)]
    file_store.lane("orders", "0")  # has taken it over from the first one
    begun: list[str] = []
    file_store._database._writer.set_trace_callback(
        lambda statement: begun.append(statement) if statement.startswith("BEGIN") else None
    )
    together = threading.Barrier(n_lanes)
    lost: list[int] = []

    def commit(number: int) -> None:
        for n in range(n_commits):
            together.wait()
            mine[number].put("", b"%d" % n)
            try:
                mine[number].commit(Checkpoint({"n": n}))
            except LaneLostError:
                lost.append(number)

    threads = [threading.Thread(target=commit, args=(n,)) for n in range(n_lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mine[0].close()
    assert lost == [0] * n_commits
    assert len(begun) < n_lanes * n_commits
    found = {lane.lane: lane.position for lane in file_store.lanes()}
    assert found == {"0": None} | {str(n): {"n": n_commits - 1} for n in range(1, n_lanes)}


# Whose lane it is


def test_a_lane_in_use_names_the_process_and_others_are_free(
    store: Store, place: Path | str
) -> None:
    store.lane("orders", "")
    with Store(place) as other:
        with pytest.raises(LockedError, match=f"process {os.getpid()} uses this state") as caught:
            other.lane("orders", "")
        assert caught.value.pid == os.getpid()
        other.lane("orders", "1").commit(Checkpoint({"n": 1}))
        with pytest.raises(LockedError):
            other.reset("orders")


def test_a_process_whose_lease_ran_out_loses_its_lane_and_commits_nothing_more(
    place: Path | str,
) -> None:
    now = 1e9
    with Store(place, clock=lambda: now) as hung, Store(place, clock=lambda: now) as other:
        old = hung.lane("orders", "")
        old.put("", b"old")
        now += lanes.LEASE_SECONDS / 2
        hung.renew_lease()
        now += lanes.LEASE_SECONDS / 2 + 1
        with pytest.raises(LockedError):
            other.lane("orders", "")
        now += lanes.LEASE_SECONDS / 2
        new = other.lane("orders", "")
        new.put("", b"new")
        new.commit(Checkpoint({"n": 1}))
        with pytest.raises(LaneLostError, match="another process has taken over lane ''"):
            old.commit(Checkpoint({"n": 2}))
        old.close()  # does not let go of what is another's
        new.commit(Checkpoint({"n": 3}))
        assert other.lane("orders", "").get("") == b"new"


def test_of_two_that_write_a_lane_at_once_the_newest_owner_has_the_last_word(
    place: Path | str,
) -> None:
    """Whoever is slow with a transaction must not undo what came after it was fenced off."""
    now = 1e9
    with Store(place, clock=lambda: now) as slow, Store(place, clock=lambda: now) as quick:
        old = slow.lane("orders", "")
        taken, written = threading.Event(), threading.Event()
        states = old._spill.states

        def states_when_another_has_begun() -> Iterator[tuple[str, bytes]]:
            taken.set()  # within the transaction, after the fencing number was compared
            written.wait(0.3)
            return states()

        old._spill.states = states_when_another_has_begun  # type: ignore[method-assign]
        old.put("", b"old")
        committing = threading.Thread(target=old.commit, args=(Checkpoint({"n": 1}),))
        committing.start()
        taken.wait(30)
        now += 2 * lanes.LEASE_SECONDS
        new = quick.lane("orders", "")  # waits for the transaction
        written.set()
        committing.join(30)
        assert (new.checkpoint.position, new.get("")) == ({"n": 1}, b"old")
        new.put("", b"new")
        new.commit(Checkpoint({"n": 2}))
        old._spill.states = states  # type: ignore[method-assign]
        with pytest.raises(LaneLostError):
            old.commit(Checkpoint({"n": 3}))
        assert quick.lane("orders", "").get("") == b"new"


_HOLDER = """
import sys
from driftbn_service.state import Checkpoint, Store
lane = Store(sys.argv[1]).lane("orders", "")
lane.put("", b"state")
lane.commit(Checkpoint({"n": 1}))
lane.put("", b"lost")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_the_lane_of_a_process_that_was_killed_is_free_at_once(place: Path | str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(place)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with Store(place) as store:
            with pytest.raises(LockedError, match=f"process {holder.pid}"):
                store.lane("orders", "")
            holder.send_signal(signal.SIGKILL)
            holder.wait(30)
            if store.shared:  # the server must notice that the connection is gone
                wait_for(lambda: store.lanes()[0].owner is None, "its lock is freed")
            lane = store.lane("orders", "")
            assert (lane.checkpoint.position, lane.get("")) == ({"n": 1}, b"state")


# Identity


def test_a_reset_gives_other_event_ids_and_forgets_the_lanes_of_one_stream(store: Store) -> None:
    for stream in ("orders", "clicks"):
        lane = store.lane(stream, "")
        lane.put("", b"state")
        lane.commit(Checkpoint({"n": 1}))
    before = {stream: store.origin(stream) for stream in ("orders", "clicks")}
    store.reset("orders")
    assert store.origin("orders") != before["orders"]
    assert store.origin("clicks") == before["clicks"]
    assert store.lane("orders", "").checkpoint == Checkpoint()
    assert "" not in store.lane("orders", "")
    assert store.lane("clicks", "").get("") == b"state"


_MAKER = """
import sys
from driftbn_service.state import Store
sys.stdin.readline()
print(Store(sys.argv[1]).origin("orders"))
"""


@pytest.mark.slow
def test_processes_that_begin_a_state_at_once_share_its_identity(place: Path | str) -> None:
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", _MAKER, str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for _ in range(4)
    ]  # fmt: skip
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("\n")
        maker.stdin.flush()
    said = {maker.communicate(timeout=120)[0] for maker in makers}
    with Store(place) as store:
        assert said == {f"{store.origin('orders')}\n"}
