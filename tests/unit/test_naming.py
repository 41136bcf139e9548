from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from driftbn_service.cli import main
from driftbn_service.events import naming_window
from driftbn_service.settings import EndpointSettings

from driftbn import Dag, DriftDecision, DriftLevel, EdgeChange, NodeChange
from driftbn.config import DriftKind
from tests.http_client import Client
from tests.http_service import FakeService, make_app
from tests.reports import STABLE, EpisodeEvent, edge_change, published, window_report

ALARM, SETTLING, CALM = 1, 2, 3
EPISODE = "/api/v1/streams/orders/episodes/0"
DAG = Dag("abcd", [("a", "b")])
EDGE = edge_change("a", "b")
RULE = NodeChange("b", ("a",), 1e-5, 0.2)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path) as service:
        yield service


def of_episode(
    level: DriftLevel,
    kind: DriftKind | None = None,
    edges: Sequence[EdgeChange] = (),
    event: EpisodeEvent | None = None,
) -> DriftDecision:
    """Return a decision in an episode that begins in the second window."""
    nodes = (RULE,) if kind is not None and not edges else ()
    return DriftDecision(
        level,
        0.01,
        0.4 if level is DriftLevel.STABLE else 0.0001,
        kind=kind,
        edges=tuple(edges),
        node_changes=nodes,
        episode=0,
        episode_event=event,
        since=ALARM,
    )


def alarm(kind: DriftKind | None = None, *edges: EdgeChange) -> DriftDecision:
    return of_episode(DriftLevel.DRIFT, kind, edges, EpisodeEvent.STARTED)


def settling(kind: DriftKind | None = None, *edges: EdgeChange) -> DriftDecision:
    return of_episode(DriftLevel.SETTLING, kind, edges, EpisodeEvent.UPDATED)


def negligible() -> DriftDecision:
    return of_episode(DriftLevel.NEGLIGIBLE, DriftKind.MECHANISM)


def publish(service: FakeService, *decisions: DriftDecision) -> None:
    """Publish a window before the episode, and those of it."""
    reports = [window_report(one, DAG, index=i) for i, one in enumerate((STABLE, *decisions))]
    service.publish(published(reports))


def told_by_report(history: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the window by which ``driftbn report`` tells the episode."""
    words = ["report", "--stream", "orders", "--history", str(history), "--episode", "0", "--json"]
    assert main(words) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["window"]
    return found


CASES = [
    pytest.param(
        alarm(DriftKind.STRUCTURAL, EDGE), settling(DriftKind.STRUCTURAL, EDGE), SETTLING,
        id="both name edges",
    ),
    pytest.param(
        alarm(DriftKind.STRUCTURAL, EDGE), settling(DriftKind.MECHANISM), ALARM,
        id="only the alarm names edges",
    ),
    pytest.param(
        alarm(DriftKind.MECHANISM), settling(DriftKind.MECHANISM), SETTLING,
        id="both name fields",
    ),
    pytest.param(alarm(DriftKind.MECHANISM), settling(), ALARM, id="only the alarm names fields"),
    pytest.param(alarm(), settling(DriftKind.MECHANISM), SETTLING, id="only what follows names"),
    pytest.param(alarm(DriftKind.MECHANISM), negligible(), ALARM, id="too small to name anything"),
    pytest.param(alarm(), settling(), ALARM, id="nothing is named"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "expected"), CASES)
def test_page_and_report_tell_an_episode_by_the_same_window(
    service: FakeService,
    capsys: pytest.CaptureFixture[str],
    first: DriftDecision,
    second: DriftDecision,
    expected: int,
) -> None:
    publish(service, first, second, of_episode(DriftLevel.STABLE))
    client = Client(make_app(service, EndpointSettings()))
    told = client.get(EPISODE).json()
    report = told_by_report(service.store.path, capsys)
    graph = client.get(f"/api/v1/streams/orders/graph?window={CALM}").json()
    assert told["explained_window"] == report["index"] == graph["confirmed_window"] == expected


def test_windows_that_come_later_do_not_name_an_earlier_one(service: FakeService) -> None:
    publish(service, alarm(DriftKind.MECHANISM), settling(DriftKind.MECHANISM))
    episode = service.store.episode("orders", "", 0)
    assert episode is not None
    assert naming_window(service.store, episode, ALARM) == ALARM
    assert naming_window(service.store, episode, SETTLING) == SETTLING
