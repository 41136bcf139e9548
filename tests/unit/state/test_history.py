from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from driftbn_service.events import Event, Publication
from driftbn_service.state import FILE, EpisodeEdge, Store
from driftbn_service.state import history as state_history

from driftbn.config import MonitorConfig
from driftbn.datasets import asia, labelled, remove_edge
from driftbn.monitor import DriftMonitor
from tests.clock import Clock
from tests.drift_streams import Abrupt, DriftStream
from tests.reports import published as publications_of
from tests.unit.state.conftest import dump, errors_in

WINDOW, N_BEFORE, N_WINDOWS = 1000, 5, 12
OUTLETS: list[tuple[str, tuple[str, ...] | None]] = [
    ("all", None),
    ("ends", ("io.driftbn.drift.ended.v1",)),
]


@pytest.fixture(scope="module")
def published() -> list[Publication]:
    """Twelve windows of Asia, of which an edge is removed after five."""
    after = remove_edge(asia(), "smoke", "bronc").network
    stream = DriftStream(asia(), after, Abrupt(N_BEFORE * WINDOW), seed=1)
    rows = labelled(asia(), next(stream.batches(N_WINDOWS * WINDOW)))
    found = publications_of(DriftMonitor(MonitorConfig(window=WINDOW)).update(rows), lane="3")
    assert [p.window for p in found if p.report["decision"]["drift"]] == [N_BEFORE]
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(place: Path | str, clock: Clock) -> Iterator[Store]:
    with Store(place, clock=clock) as one:
        yield one


@pytest.fixture
def file_history(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store(tmp_path / "state" / FILE, clock=clock) as one:
        yield one


def of_key(publication: Publication, key: str, window: int | None = None) -> Publication:
    """Return the same window as one of another monitor."""
    window = publication.window if window is None else window
    events = tuple(
        replace(event, id=f"{event.id} {key} {window}", key=key, window=window)
        for event in publication.events
    )
    return replace(publication, key=key, window=window, events=events)


def event(number: int, *, key: str = "", type_: str = "a.v1", **document: Any) -> Event:
    return Event(f"{type_} {key} {number}", type_, "orders", key, number, document)


def with_event(publication: Publication, number: int, **kind: Any) -> Publication:
    """Return a window with just one event."""
    plain = of_key(replace(publication, events=()), kind.get("key", ""), number)
    return replace(plain, events=(event(number, **kind),))


def decided(publication: Publication, window: int, **changes: Any) -> Publication:
    """Return a window of which something else was decided."""
    decision = publication.report["decision"] | changes
    report = publication.report | {"decision": decision}
    return replace(publication, window=window, report=report, events=())


# Published once


def test_what_is_published_is_there(history: Store, published: list[Publication]) -> None:
    assert history.publish(published, OUTLETS) == N_WINDOWS
    rows = history.windows("orders", "")
    assert [row.window_index for row in rows] == list(range(N_WINDOWS))[::-1]
    for publication in published:
        report = publication.report
        found = history.window("orders", "", publication.window)
        assert found is not None
        assert found.report == report
        assert found.explanation == publication.explanation
        row = found.row
        assert row in rows
        assert (row.lane, row.rows, row.last_record) == ("3", WINDOW, report["last_record"])
        assert row.hamming == report["diff"]["hamming"]
        assert (row.n_nodes, row.n_edges) == (8, len(report["dag"]["edges"]))
        assert row.p_value == report["decision"]["p_value"]
        assert row.headline == publication.explanation["headline"]
        assert row.learn_seconds == publication.timings["learn"]
        assert row.stored == 1e9
    drift = rows[N_WINDOWS - 1 - N_BEFORE]
    assert (drift.drift, drift.kind, drift.level) == (True, "structural", "drift")
    assert drift.alpha is not None
    assert min(drift.p_mechanism or 1, drift.p_association or 1) == drift.p_value < drift.alpha


def test_publishing_again_in_any_grouping_changes_nothing(
    tmp_path: Path, published: list[Publication], clock: Clock
) -> None:
    groupings: dict[str, Sequence[Sequence[Publication]]] = {
        "at once": [published],
        "one by one": [[one] for one in published],
        "twice": [published, published],
        "overlapping": [published[:4], published[2:7], published[5:], published[:1]],
    }
    dumps = {}
    for name, groups in groupings.items():
        with Store(tmp_path / name, clock=clock, new_id=lambda: UUID(int=1)) as one:
            assert sum(one.publish(group, OUTLETS) for group in groups) == N_WINDOWS
        dumps[name] = dump(tmp_path / name)
    assert all(found == dumps["at once"] for found in dumps.values())
    assert len(dumps["at once"]) > 50


def test_a_publication_that_fails_takes_the_others_with_it(
    file_history: Store, published: list[Publication]
) -> None:
    before = dump(file_history.path)
    with pytest.raises(KeyError):
        file_history.publish([*published, replace(published[0], window=50, report={"rows": 1})])
    assert dump(file_history.path) == before
    assert file_history.publish(published) == N_WINDOWS


def test_an_event_without_time_gets_that_of_its_first_writing(
    history: Store, published: list[Publication], clock: Clock
) -> None:
    windows = [
        with_event(published[0], 0),
        with_event(published[0], 1, time="2001-02-03T04:05:06Z"),
    ]
    history.publish(windows)
    clock.now += 3600
    history.publish(windows)
    times = [one.document["time"] for _, one in history.events()]
    assert times == ["2001-09-09T01:46:40.000Z", "2001-02-03T04:05:06Z"]
    assert windows[0].events[0].document == {}


# Edges and episodes


def test_edges_have_their_origin_and_strength(history: Store, published: list[Publication]) -> None:
    history.publish(published)
    found = history.window("orders", "", N_BEFORE)
    assert found is not None
    confirmed = [edge for edge in found.edges if edge.origin == "confirmed"]
    edges = published[N_BEFORE].report["decision"]["edges"]
    assert [(e.source, e.target, e.change, e.p_value) for e in confirmed] == [
        (e["source"], e["target"], e["change"], e["p_value"]) for e in edges
    ]
    assert confirmed[0].before == edges[0]["before"]["nats"]
    assert confirmed[0].after == edges[0]["after"]["nats"]
    raw = {(e.source, e.target, e.change) for e in found.edges if e.origin == "raw"}
    diff = published[N_BEFORE].report["diff"]
    assert raw == {
        (e["source"], e["target"], name)
        for name in ("added", "removed", "reversed")
        for e in diff[name]
    }
    assert len(raw) == diff["hamming"] > 0


def test_an_episode_begins_goes_on_and_ends(history: Store, published: list[Publication]) -> None:
    history.publish(published[:N_BEFORE])
    assert history.episodes("orders", "") == []
    history.publish(published[: N_BEFORE + 1])
    (begun,) = history.episodes("orders", "")
    assert begun.is_open
    assert (begun.started_window, begun.started_record) == (N_BEFORE, N_BEFORE * WINDOW)
    assert (begun.n_windows, begun.last_window, begun.ended_window) == (1, N_BEFORE, None)
    assert begun.headline == published[N_BEFORE].explanation["headline"]
    assert not begun.edges[0].settled
    history.publish(published)
    ended = history.episode("orders", "", 0)
    assert ended is not None
    assert (ended.state, ended.kind) == ("ended", "structural")
    assert ended.ended_window == ended.last_window > N_BEFORE
    assert ended.n_windows == ended.last_window - N_BEFORE + 1
    (edge,) = ended.edges
    assert ({edge.source, edge.target}, edge.change) == ({"smoke", "bronc"}, "removed")
    assert (edge.settled, edge.window_index) == (True, N_BEFORE + 1)
    assert history.episode("orders", "", 1) is None


def named(*pairs: str) -> list[dict[str, Any]]:
    strength = {"nats": 0.1, "low": 0.0, "high": 0.2}
    return [
        {
            "source": pair[0],
            "target": pair[1],
            "change": "added",
            "p_value": 0.001,
            "before": strength,
            "after": strength,
        }
        for pair in pairs
    ]


def test_a_window_after_an_alarm_replaces_what_the_alarm_named(
    history: Store, published: list[Publication]
) -> None:
    calm = published[1]
    alarm = {"drift": True, "level": "drift", "kind": "structural", "episode": 0, "since": 0}
    settle = alarm | {"drift": False, "level": "settling", "episode_event": "updated"}
    windows = [
        decided(calm, 0, **alarm, episode_event="started", edges=named("ab", "cd")),
        decided(calm, 1, **settle, edges=named("ba")),
        decided(calm, 2, **alarm, episode_event="updated", edges=named("ef")),
        decided(calm, 3, **settle | {"kind": None}, edges=[]),
    ]
    history.publish(windows)
    found = history.episode("orders", "", 0)
    assert found is not None
    assert found.edges == (
        EpisodeEdge("b", "a", "added", 1, True),
        EpisodeEdge("e", "f", "added", 2, False),
    )
    assert (found.n_windows, found.last_window, found.kind) == (4, 3, "structural")


def test_an_episode_that_is_left_without_a_word_ends(
    history: Store, published: list[Publication]
) -> None:
    calm = published[1]
    alarm = {"drift": True, "kind": "mechanism", "episode_event": "started"}
    history.publish(
        [
            decided(calm, 4, **alarm, episode=0, since=4),
            decided(calm, 5, episode=None),
            decided(calm, 6, **alarm, episode=1, since=6),
            decided(calm, 7, **alarm, episode=2, since=7),
        ]
    )
    ends = [(one.episode, one.ended_window) for one in history.episodes("orders", "")]
    assert ends == [(2, None), (1, 7), (0, 5)]


# Monitors and pages


def test_monitors_have_counts_last_window_and_open_episode(
    history: Store, published: list[Publication]
) -> None:
    history.publish(published)
    history.publish([of_key(one, "b") for one in published[: N_BEFORE + 1]])
    history.publish([of_key(one, "a") for one in published[:2]])
    plain, a, b = history.monitors()
    assert [(one.key, one.n_windows, one.n_drifts, one.n_episodes) for one in (plain, a, b)] == [
        ("", N_WINDOWS, 1, 1),
        ("a", 2, 0, 0),
        ("b", N_BEFORE + 1, 1, 1),
    ]
    assert plain.last == history.windows("orders", "")[0]
    assert (plain.open_episode, a.open_episode) == (None, None)
    assert b.open_episode == history.episode("orders", "b", 0)
    assert b.lane == "3"
    assert history.monitor("orders", "b") == b
    assert history.monitor("orders", "c") is None
    assert history.monitors(after=("orders", ""), limit=1) == [a]
    assert history.monitors("orders", after=("orders", "a")) == [b]
    assert history.monitors("other") == []


def test_windows_come_in_pages(history: Store, published: list[Publication]) -> None:
    history.publish(published[:10])
    pages = []
    before = None
    while page := history.windows("orders", "", before=before, limit=4):
        pages.append([row.window_index for row in page])
        before = page[-1].window_index
    assert pages == [[9, 8, 7, 6], [5, 4, 3, 2], [1, 0]]
    between = history.windows("orders", "", after=2, before=5)
    assert [row.window_index for row in between] == [4, 3]
    drifts = history.windows("orders", "", drift_only=True)
    assert [row.window_index for row in drifts] == [N_BEFORE]
    assert history.windows("orders", "other") == []
    assert history.window("orders", "", 99) is None


def test_a_series_has_the_last_windows_in_their_order(
    history: Store, published: list[Publication]
) -> None:
    assert history.series("orders", "").window_index == ()
    history.publish(published[:10])
    series = history.series("orders", "", limit=6)
    assert series.window_index == (4, 5, 6, 7, 8, 9)
    assert series.level[1] == "drift"
    assert series.hamming == tuple(p.report["diff"]["hamming"] for p in published[4:10])
    assert series.confirmed_hamming[1] == 1
    assert series.last_record[-1] == 10 * WINDOW - 1


def test_any_text_is_a_key(history: Store, published: list[Publication]) -> None:
    keys = ["", "'", '"; DROP TABLE windows', "ä\n", "%", "x" * 5000]
    for key in keys:
        history.publish([of_key(published[0], key)])
    assert sorted(one.key for one in history.monitors()) == sorted(keys)
    for key in keys:
        assert history.windows("orders", key)[0].key == key


# Deliveries


def test_each_outlet_gets_the_events_it_wants_once(
    history: Store, published: list[Publication]
) -> None:
    history.publish(published, OUTLETS)
    told = [one for publication in published for one in publication.events]
    pending = history.pending("all", None, 100)
    assert [(one.id, one.type, one.window) for _, one in pending] == [
        (one.id, one.type, one.window) for one in told
    ]
    assert [one.type.split(".")[3] for _, one in history.pending("ends", None, 9)] == ["ended"]
    assert history.pending("all", None, 1) == pending[:1]
    history.delivered("all", [pending[0][0]])
    assert history.pending("all", None, 100) == pending[1:]
    assert history.n_pending("all") == len(told) - 1
    history.delivered("all", [])
    history.delivered("all", [number for number, _ in pending])
    history.publish(published, OUTLETS)
    assert history.n_pending("all") == 0
    assert history.n_pending("ends") == 1
    assert history.outlets() == ["ends"]
    assert [number for number, _ in history.events()] == [number for number, _ in pending]
    assert history.events(pending[0][0], limit=1) == pending[1:2]


def test_only_events_of_some_lanes_are_pending_for_a_process(
    history: Store, published: list[Publication]
) -> None:
    for n, lane in enumerate(["0", "1", "2"]):
        history.publish([replace(with_event(published[0], n, key=lane), lane=lane)], OUTLETS)
    found = history.pending("all", [("orders", "2"), ("orders", "0"), ("other", "1")], 9)
    assert [one.key for _, one in found] == ["0", "2"]
    assert history.pending("all", [], 9) == []
    many = {("orders", str(n)) for n in range(1, 50_000)}
    assert len(history.pending("all", many, 9)) == 2


def test_the_newest_event_that_an_outlet_has_got_can_be_told_again(
    history: Store, published: list[Publication]
) -> None:
    for n, (key, type_) in enumerate([("x", "a.v1"), ("y", "a.v1"), ("x", "b.v1"), ("x", "a.v1")]):
        history.publish([with_event(published[0], n, key=key, type_=type_)], OUTLETS)
    assert history.newest_events("all", None, {"a.v1", "b.v1"}) == []
    pending = history.pending("all", None, 9)
    history.delivered("all", [number for number, _ in pending[:3]])
    both = history.newest_events("all", None, {"a.v1", "b.v1"})
    assert [(one.key, one.window) for one in both] == [("x", 2), ("y", 1)]
    assert [one.window for one in history.newest_events("all", None, {"a.v1"})] == [0, 1]
    assert history.newest_events("all", [("orders", "other lane")], {"a.v1"}) == []
    history.delivered("all", [pending[3][0]])
    assert [one.window for one in history.newest_events("all", None, {"a.v1"})] == [3, 1]


# Retention


def test_only_so_many_windows_are_kept(file_history: Store, published: list[Publication]) -> None:
    file_history.publish(published[:10], OUTLETS)
    file_history.publish([of_key(one, "short") for one in published[:3]])
    assert file_history.prune(9, 30.0) == 1
    assert file_history.episode("orders", "", 0) is not None
    assert [file_history.prune(2, 30.0) for _ in range(2)] == [7 + 1, 0]
    assert [row.window_index for row in file_history.windows("orders", "")] == [9, 8]
    assert [row.window_index for row in file_history.windows("orders", "short")] == [2, 1]
    assert file_history.window("orders", "", 7) is None
    with sqlite3.connect(file_history.path) as connection:
        for table in ("edges", "documents"):
            query = f"SELECT count(*) FROM {table} WHERE key = '' AND window_index < 8"
            assert connection.execute(query).fetchone() == (0,)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    assert file_history.monitors()[0].n_windows == 10


def test_a_call_deletes_a_bounded_number_of_windows(
    history: Store, published: list[Publication], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_history, "PRUNED_WINDOWS", 4)
    history.publish(published[:10])
    history.publish([of_key(one, "other") for one in published[:10]])
    monkeypatch.setattr("driftbn_service.state.PRUNE_SECONDS", 0.0)
    steps = [history.prune(3, 30.0) for _ in range(5)]
    assert steps == [4, 4, 4, 2, 0]
    assert [len(history.windows("orders", key)) for key in ("", "other")] == [3, 3]


def test_an_open_episode_is_kept_however_old(history: Store, published: list[Publication]) -> None:
    history.publish(
        [
            decided(published[1], 0, episode=0, since=0, drift=True),
            decided(published[1], 1, episode=0, since=0),
        ]
    )
    history.publish([decided(published[1], n, episode=0, since=0) for n in range(2, 9)])
    history.prune(1, 30.0)
    found = history.episode("orders", "", 0)
    assert found is not None
    assert (found.is_open, found.n_windows) == (True, 9)


def test_old_events_go_but_not_those_that_wait_nor_the_newest_of_a_type(
    history: Store, published: list[Publication], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.publish([with_event(published[0], n) for n in range(4)], OUTLETS)
    history.publish([with_event(published[0], 4, type_="b.v1")], OUTLETS)
    numbers = [number for number, _ in history.pending("all", None, 9)]
    history.delivered("all", [numbers[0], *numbers[2:]])
    clock.now += 31 * 86_400
    history.publish([with_event(published[0], 5, type_="b.v1")], OUTLETS)
    clock.now -= 2 * 86_400
    assert history.prune(99, 30.0) == 0
    clock.now += 2 * 86_400
    monkeypatch.setattr(state_history, "PRUNED_EVENTS", 2)
    monkeypatch.setattr("driftbn_service.state.PRUNE_SECONDS", 0.0)
    assert [history.prune(99, 30.0) for _ in range(3)] == [2, 1, 0]
    assert [one.window for _, one in history.events()] == [1, 3, 5]
    history.delivered("all", [numbers[1]])
    assert history.prune(99, 30.0) == 1


def test_events_beyond_the_cap_are_given_up_loudly(
    history: Store,
    published: list[Publication],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("driftbn_service.state.MAX_PENDING", 3)
    history.publish([with_event(published[0], n) for n in range(5)], [("down", None)])
    history.prune(99, 30.0)
    assert [one.window for _, one in history.pending("down", None, 9)] == [2, 3, 4]
    (message,) = errors_in(caplog)
    assert "2 events were never delivered and are given up" in message
    history.prune(99, 30.0)
    assert len(errors_in(caplog)) == 1


# The file


def test_threads_that_write_at_once_lose_nothing(
    history: Store, published: list[Publication]
) -> None:
    def write(key: str) -> None:
        for publication in published:
            history.publish([of_key(publication, key)], OUTLETS)

    threads = [threading.Thread(target=write, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.n_windows for row in history.monitors()] == [N_WINDOWS] * 4


def test_tables_have_the_names_that_the_manual_gives(
    file_history: Store, published: list[Publication]
) -> None:
    file_history.publish(published, OUTLETS)
    with sqlite3.connect(file_history.path) as connection:
        (row,) = connection.execute(
            "SELECT stream, key, last_record, hamming, confirmed_hamming, p_value FROM windows"
            " WHERE drift"
        ).fetchall()
        assert row[:3] == ("orders", "", (N_BEFORE + 1) * WINDOW - 1)
        edges = connection.execute("SELECT edges FROM episodes WHERE state = 'ended'").fetchone()
        assert json.loads(edges[0])[0]["change"] == "removed"
    connection.close()


def test_the_file_is_written_as_safely_as_sqlite_can(file_history: Store) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    writer = file_history._database._writer
    found = [writer.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    assert found == ["wal", 2, 1, 10_000]
