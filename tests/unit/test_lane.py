from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from driftbn_service.events import Publication
from driftbn_service.lane import MAX_TRIES, ChangedSettingsError, Committer, Lane, Taken
from driftbn_service.metrics import Metrics
from driftbn_service.settings import CheckpointSettings, StreamSettings
from driftbn_service.state import FILE, ActionKind, LaneLostError, Store, Wish
from driftbn_service.stream import FIRST_ROWS, Pace

from driftbn import DriftMonitor, datasets
from tests.clock import Clock
from tests.decoding import tables_of
from tests.services.daemon import break_monitors
from tests.small_disk import limit_pages

WINDOW = 200


def stream(**changes: Any) -> StreamSettings:
    values = {"name": "orders", "window": WINDOW, "source": {"kind": "stdin"}, **changes}
    return StreamSettings.model_validate(values)


OpenLane = Callable[[Path, StreamSettings], Lane]


@pytest.fixture
def open_lane() -> Iterator[OpenLane]:
    """Open the one lane of a state directory, as often as need be."""
    with ExitStack() as stack:
        stores: dict[Path, Store] = {}

        def call(path: Path, settings: StreamSettings) -> Lane:
            if path not in stores:
                stores[path] = stack.enter_context(Store(path / FILE))
            return Lane(settings, stores[path].lane("orders", ""))

        yield call


def take(lane: Lane, rows: Any, position: Any) -> Taken:
    """Give a batch to a lane, of which some rows may have been taken before a restart."""
    unseen = lane.unseen([tables_of(rows)[0] if isinstance(rows, list) else rows])
    taken = next((lane.take(part) for part in unseen), Taken())
    lane.advance(position)
    return taken


def refused(taken: Taken) -> dict[str, int]:
    """Return how many rows were set aside, by reason."""
    counts: Counter[str] = Counter()
    for item in taken.rejected:
        counts[item.reason.value] += item.n_records
    return dict(counts)


def keep_one_batch(open_lane: OpenLane, path: Path) -> None:
    """Have a state of a stream with the usual settings."""
    lane = open_lane(path, stream())
    take(lane, [{"x": "a"}, {"x": "b"}], {})
    lane.commit()
    lane.close()


def keyed_rows(n_keys: int, n_rows: int, seed: int = 1) -> pa.Table:
    table = pa.Table.from_pandas(datasets.sample(datasets.asia(), n_keys * n_rows, seed))
    return table.append_column("k", pa.array([f"k{i % n_keys}" for i in range(n_keys * n_rows)]))


def test_nothing_is_published_before_the_commit(open_lane: OpenLane, tmp_path: Path) -> None:
    lane = open_lane(tmp_path, stream())
    rows = datasets.sample(datasets.asia(), 2 * WINDOW + 50, 1)
    taken = take(lane, pa.Table.from_pandas(rows), {"bytes": 7})
    assert [publication.window for publication in taken.publications] == [0, 1]
    assert taken.n_rows == lane.n_uncommitted == 450
    assert lane.has_reports
    assert lane.commit() == tuple(taken.publications)
    assert lane.n_uncommitted == 0
    assert not lane.has_reports
    assert lane.commit() == ()
    lane.close()


def test_a_lane_that_is_opened_again_goes_on(
    open_lane: OpenLane,
    tmp_path: Path,
) -> None:
    table = pa.Table.from_pandas(datasets.sample(datasets.asia(), 4 * WINDOW, 1))
    whole = open_lane(tmp_path / "whole", stream())
    expected = take(whole, table, {"n": 800}).publications

    lane = open_lane(tmp_path / "parts", stream())
    take(lane, table.slice(0, 500), {"n": 500})
    published = lane.commit()
    lane.close()
    lane = open_lane(tmp_path / "parts", stream())
    assert lane.position == {"n": 500}
    assert published == tuple(expected[:2])
    assert not lane.has_reports
    assert take(lane, table.slice(500), {"n": 800}).publications == expected[2:]
    lane.close()
    whole.close()


def test_monitors_moved_to_disk_and_back_leave_no_trace(
    open_lane: OpenLane, tmp_path: Path
) -> None:
    table = keyed_rows(n_keys=7, n_rows=2 * WINDOW)
    reports = {}
    for resident in (2, 100):
        lane = open_lane(tmp_path / str(resident), stream(key="k", resident=resident))
        found = []
        for start in range(0, len(table), 700):
            found += take(lane, table.slice(start, 700), {"n": start}).publications
            assert lane.monitors.n_resident <= resident
        assert len(lane.monitors) == 7
        reports[resident] = sorted(found, key=lambda item: (item.key, item.window))
        lane.close()
    assert reports[2] == reports[100]
    assert len(reports[2]) == 14


def test_rows_without_a_key_or_room_are_counted(open_lane: OpenLane, tmp_path: Path) -> None:
    lane = open_lane(tmp_path, stream(key="k", max_keys=2))
    rows = [{"k": key, "x": "a", "y": "b"} for key in ("a", "b", None, "c", "a")]
    taken = take(lane, rows, {})
    assert taken.n_rows == 3
    assert refused(taken) == {"no_key": 1, "too_many_keys": 1}
    lane.close()


def test_keys_that_nobody_thought_of_cost_their_rows(
    open_lane: OpenLane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = open_lane(tmp_path, stream(key="k"))

    def fail(*_: object) -> None:
        raise OverflowError

    with monkeypatch.context() as patch:
        patch.setattr("driftbn_service.lane.part_by_key", fail)
        assert refused(take(lane, keyed_rows(2, 10), {"n": 1})) == {"bad_table": 20}
    assert take(lane, keyed_rows(2, 10), {"n": 2}).n_rows == 20
    lane.close()


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have monitors fail over rows with a field 'poison', after these have changed them."""
    monkeypatch.setattr(DriftMonitor, "update", DriftMonitor.update)  # put back in the end
    break_monitors()


def poisoned(table: pa.Table) -> pa.Table:
    return table.append_column("poison", pa.array(["x"] * len(table)))


def test_a_monitor_that_fails_takes_no_other_with_it_and_goes_on_without_the_batch(
    open_lane: OpenLane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch)
    table = keyed_rows(n_keys=3, n_rows=4 * WINDOW)
    parts = [table.slice(start, WINDOW) for start in range(0, len(table), WINDOW)]
    one_key = table.filter(pa.compute.equal(table["k"], "k1"))
    spoilt = open_lane(tmp_path / "spoilt", stream(key="k"))
    whole = open_lane(tmp_path / "whole", stream(key="k"))
    found, expected = [], []
    for number, part in enumerate(parts):
        if number in (2, 7):  # before the first commit, and after some
            taken = take(spoilt, poisoned(one_key.slice(0, 150)), {"n": number})
            assert taken.n_rows == 0
            assert refused(taken) == {"monitor_failed": 150}
            assert taken.rejected[0].detail == "ZeroDivisionError: poison"
        found += take(spoilt, part, {"n": number}).publications
        expected += take(whole, part, {"n": number}).publications
        if number == 4:
            spoilt.commit()
    assert found == expected
    assert len(found) == 12
    assert spoilt.failed == {}
    spoilt.close()
    whole.close()


def test_a_monitor_that_fails_again_and_again_is_given_up_and_tried_again_after_a_restart(
    open_lane: OpenLane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch)
    table = pa.Table.from_pandas(datasets.sample(datasets.asia(), 3 * WINDOW, 1))
    lane = open_lane(tmp_path, stream())
    take(lane, table.slice(0, WINDOW), {"n": 1})
    for _ in range(MAX_TRIES):
        assert not lane.failed
        taken = take(lane, poisoned(table), {"n": 2})
    assert lane.failed == {"": "ZeroDivisionError: poison"}
    (told,) = taken.publications[0].events
    assert told.type == "io.driftbn.monitor.failed.v1"
    assert told.window == 1
    assert "ZeroDivisionError: poison" in told.document["data"]["sentences"][0]
    taken = take(lane, table.slice(WINDOW, WINDOW), {"n": 3})
    assert refused(taken) == {"monitor_failed": WINDOW}
    assert lane.has_moved
    lane.commit()
    lane.close()
    lane = open_lane(tmp_path, stream())
    assert lane.position == {"n": 3}
    (published,) = take(lane, table.slice(2 * WINDOW), {"n": 4}).publications
    assert published.window == 1
    assert [event.type for event in published.events] == ["io.driftbn.monitor.recovered.v1"]
    lane.close()


def test_rows_of_a_chunk_that_a_commit_amid_it_has_are_not_taken_again(
    open_lane: OpenLane, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(datasets.sample(datasets.asia(), 4 * WINDOW, 1))
    whole = open_lane(tmp_path / "whole", stream())
    expected = take(whole, table, {"n": 9}).publications
    lane = open_lane(tmp_path / "parts", stream())
    lane.begin({"n": 0})
    found = lane.take(table.slice(0, 500)).publications
    lane.commit()
    lane.close()
    lane = open_lane(tmp_path / "parts", stream())
    assert lane.position == {"n": 0}
    for start in range(0, len(table), 150):  # cut otherwise than before
        lane.begin({"n": start})
        found += take(lane, table.slice(start, 150), {"n": start + 150}).publications
        lane.commit()
    assert found == expected
    lane.close()
    whole.close()


def test_rows_that_were_taken_before_a_restart_make_no_part_longer(
    open_lane: OpenLane, tmp_path: Path
) -> None:
    """Else the commits of a long body would come ever more rarely, the more often it is begun."""
    table = pa.table({"x": ["a", "b"] * 10_000})
    lane = open_lane(tmp_path, stream(window=50_000))
    lane.begin({"n": 0})
    lane.take(table.slice(0, 15_000))
    lane.commit()
    lane.close()
    again = open_lane(tmp_path, stream(window=50_000))
    parts = [len(part) for part in Pace(Clock()).parts(again.unseen([table]))]
    assert parts == [FIRST_ROWS, 20_000 - 15_000 - FIRST_ROWS]
    again.close()


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"window": 300}, "window.size was 200 and is 300"),
    ({"target": "x"}, 'target was not set and is "x"'),
    ({"learner": {"algorithm": "pc"}}, 'learner.algorithm was "ssbn" and is "pc"'),
    ({"alpha": 0.5}, "alpha was not set and is 0.5"),
    ({"alpha": 0.5}, ": alpha was not set and is 0.5"),
    ({"knowledge": {"forbidden": [["x", "y"]]}}, 'was [] and is [["x", "y"]]'),
]


@pytest.mark.parametrize(("settings", "words"), CHANGES)
def test_each_changed_setting_is_told_with_its_old_and_new_value(
    open_lane: OpenLane, tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    keep_one_batch(open_lane, tmp_path)
    with pytest.raises(ChangedSettingsError) as caught:
        open_lane(tmp_path, stream(**settings))
    assert words in str(caught.value)
    assert str(caught.value).count(" was ") == 1


# When to commit


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / FILE) as made:
        yield made


@pytest.fixture
def lane(store: Store) -> Iterator[Lane]:
    made = Lane(stream(), store.lane("orders", ""))
    yield made
    made.close()


def make_committer(clock: Clock, wake: Callable[[], None] = lambda: None) -> Committer:
    metrics = Metrics().add_stream("orders", "stdin")
    return Committer(CheckpointSettings(), [("file", None)], metrics, wake, clock=clock)


def take_rows(lane: Lane, n_rows: int) -> tuple[Publication, ...]:
    taken = lane.take(pa.Table.from_pandas(datasets.sample(datasets.asia(), n_rows, 1)))
    lane.advance({"n": n_rows})
    return tuple(taken.publications)


def test_windows_are_due_sooner_than_records_alone(lane: Lane) -> None:
    clock = Clock()
    committer = make_committer(clock)
    assert committer.due_in(lane) is None
    take_rows(lane, 10)
    assert committer.due_in(lane) == 10.0
    take_rows(lane, WINDOW)
    assert committer.due_in(lane) == 1.0
    clock.now += 0.4
    assert committer.due_in(lane) == pytest.approx(0.6)
    clock.now += 5
    assert committer.due_in(lane) == 0.0
    assert committer.commit(lane)
    assert committer.due_in(lane) is None


def test_what_is_committed_is_in_the_history_and_told(lane: Lane, store: Store) -> None:
    woken = threading.Event()
    committer = make_committer(Clock(), woken.set)
    take_rows(lane, 2 * WINDOW)
    assert committer.commit(lane)
    assert woken.is_set()
    monitor = store.monitor("orders", "")
    assert monitor is not None
    assert monitor.n_windows == 2


def test_a_full_disk_is_waited_for(
    lane: Lane, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftbn_service.lane.FIRST_WAIT_SECONDS", 0.001)
    committer = make_committer(Clock())
    limit_pages(store, 0)
    retry, troubles = committer.abandoned.wait, []

    def wait(seconds: float) -> bool:
        troubles.append(committer.trouble)
        if len(troubles) == 2:
            limit_pages(store, 1 << 30)
        return retry(seconds)

    monkeypatch.setattr(committer.abandoned, "wait", wait)
    take_rows(lane, 8 * WINDOW)  # more than fits the pages that there are
    assert committer.commit(lane)
    assert troubles == [f"{store.path}: the state cannot be written: the disk is full"] * 2
    assert committer.trouble is None
    assert store.monitor("orders", "") is not None


def test_a_wait_can_be_abandoned_and_nothing_has_happened(lane: Lane, store: Store) -> None:
    committer = make_committer(Clock())
    limit_pages(store, 0)
    committer.abandoned.set()
    take_rows(lane, 8 * WINDOW)  # more than fits the pages that there are
    assert not committer.commit(lane)
    assert store.monitor("orders", "") is None
    assert store.lane("orders", "").checkpoint.position is None


def test_a_lane_that_another_process_has_taken_over_is_not_committed(
    lane: Lane, store: Store
) -> None:
    take_rows(lane, WINDOW)
    store.lane("orders", "")  # its fencing number is larger
    with pytest.raises(LaneLostError, match="another process has taken over"):
        make_committer(Clock()).commit(lane)
    assert store.monitor("orders", "") is None


# What people want


def drifting_rows() -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return five calm windows, one after a change, and one more."""
    before = datasets.asia()
    after = datasets.remove_edge(before, "smoke", "bronc").network
    samples = ((before, 5000, 1), (after, 1000, 2), (after, 1000, 3))
    calm, drifted, later = (pa.Table.from_pandas(datasets.sample(*one)) for one in samples)
    return calm, drifted, later


def test_an_accept_holds_with_the_commit_and_is_done_once(
    open_lane: OpenLane, tmp_path: Path
) -> None:
    calm, drifted, later = drifting_rows()
    settings = stream(window=1000)
    lane = open_lane(tmp_path, settings)
    take(lane, calm, {"n": 1})
    take(lane, drifted, {"n": 2})
    lane.commit([("hook", None)])
    lane.close()
    with Store(tmp_path / FILE) as store:
        (episode,) = store.episodes("orders", "")
        assert episode.is_open
        wanted = store.act(Wish(ActionKind.ACCEPT, "orders", author="ada", comment="a release"))

        lost = Lane(settings, store.lane("orders", ""))
        assert lost.accept(store.wanted())
        lost.close()  # as by a kill: nothing was committed
        assert store.wanted() == [wanted]
        assert store.episodes("orders", "")[0].is_open

        lane = Lane(settings, store.lane("orders", ""))
        assert lane.accept(store.wanted())
        assert not lane.accept([wanted]), "one that is known already, read before the commit"
        (told,) = lane.commit([("hook", None)])
        assert store.wanted() == []
        (done,) = store.actions("orders", "")
        assert (done.window_index, done.episode) == (5, episode.episode)
        (ended,) = store.episodes("orders", "")
        assert (ended.state, ended.ended_window) == ("ended", 6)
        (event,) = told.events
        assert event.document["data"]["accepted"] == {"author": "ada", "comment": "a release"}
        assert "ada" in event.document["data"]["headline"]
        types = [one.type for _, one in store.pending("hook", None, 10)]
        assert types == ["io.driftbn.drift.started.v1", "io.driftbn.drift.ended.v1"]
        (next_window,) = take(lane, later, {"n": 3}).publications
        assert next_window.report["decision"]["level"] == "learning"
        assert next_window.events == ()
        lane.close()
