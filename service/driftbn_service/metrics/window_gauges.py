"""What the gauges of a stream show: its last window, and the drifts that are open."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from driftbn.decision.outcome import ChangeType, DriftKind, DriftLevel, Family
from driftbn.schema import ExclusionReason
from driftbn_service.metrics import catalogue
from driftbn_service.metrics.blocks import Labels, label_of

MAX_EDGES: Final = 10
"""Changed edges of a stream that have a series, the surest first."""
MAX_VARIABLES: Final = 50
"""Fields of a stream whose share of missing values has a series, the largest first."""
MAX_NAMED_EPISODES: Final = 100
"""Open drifts of a stream whose edges are kept; each key may have one."""
_SMALLEST_P: Final = 1e-300
_UNNAMED: Final = DriftKind.ASSOCIATION.value

_Series = Iterator[tuple[Labels, float]]
_Edges = tuple[Mapping[str, Any], ...]


@dataclass
class StreamGauges:
    """What the gauges of one stream are made of.

    Parameters
    ----------
    report
        The last window that was published, of whatever key; ``None`` before the first.
    kinds
        Kind of the drift that is open, by key.
    edges
        The edges that it has changed, the surest, by key; not of more than ``MAX_NAMED_EPISODES``.
    n_edges
        How many there are in truth.
    disagreement
        Edges by which the last search from nothing differed.
    failed
        Whether the stream has.
    """

    report: Mapping[str, Any] | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    edges: dict[str, _Edges] = field(default_factory=dict)
    n_edges: dict[str, int] = field(default_factory=dict)
    disagreement: float = math.nan
    failed: bool = False

    def note(self, key: str, report: Mapping[str, Any]) -> None:
        """Take in a window."""
        self.report = report
        if report["audit"] is not None:
            self.disagreement = report["audit"]["disagreement"]
        decision = report["decision"]
        if decision["episode"] is None or decision["episode_event"] == "ended":
            self._close(key)
            return
        if decision["episode_event"] == "started":
            self._close(key)  # an episode may end without a word when another begins
        self.kinds[key] = decision["kind"] or self.kinds.get(key, _UNNAMED)
        self._name(key, decision["edges"])

    def recall(self, report: Mapping[str, Any] | None, kinds: Mapping[str, str]) -> None:
        """Take in what was known before a restart: the last window, and what is open."""
        self.report = report
        self.kinds.update(kinds)
        if report is not None and len(kinds) == 1 and report["decision"]["episode"] is not None:
            (key,) = kinds
            self._name(key, report["decision"]["edges"])

    def values(self) -> dict[str, dict[Labels, float]]:
        """Return the series of all gauges, by the name of the family."""
        found: dict[str, dict[Labels, float]] = {}
        for family, series in _GAUGES:
            values = found[family.name] = {}
            for labels, value in series(self):
                values.setdefault(labels, float(value))  # long names may look the same once cut
        return found

    def _name(self, key: str, edges: list[Mapping[str, Any]]) -> None:
        if edges and (key in self.edges or len(self.edges) < MAX_NAMED_EPISODES):
            self.edges[key] = tuple(heapq.nsmallest(MAX_EDGES, edges, key=_rank))
            self.n_edges[key] = len(edges)

    def _close(self, key: str) -> None:
        self.kinds.pop(key, None)
        self.edges.pop(key, None)
        self.n_edges.pop(key, None)


def _hamming(gauges: StreamGauges) -> _Series:
    report = gauges.report
    for part, group, name in (
        ("dag", "diff", "hamming"),
        ("skeleton", "diff", "skeleton"),
        ("class", "class_diff", "hamming"),
    ):
        yield (part, "previous"), math.nan if report is None else report[group][name]


def _p_values(gauges: StreamGauges) -> _Series:
    report = gauges.report
    families = () if report is None else report["decision"]["families"]
    found = {item["family"]: item["p_value"] for item in families}
    for family in Family:
        yield (family.value,), _number(found.get(family.value))


def _thresholds(gauges: StreamGauges) -> _Series:
    for family in Family:  # p-values are corrected for all tests of all families
        yield (family.value,), _decided(gauges, "alpha")


def _edges_changed(gauges: StreamGauges) -> _Series:
    edges = () if gauges.report is None else gauges.report["decision"]["edges"]
    for change in ChangeType:
        yield (change.value,), sum(edge["change"] == change.value for edge in edges)


def _graph_edges(gauges: StreamGauges) -> _Series:
    edges = () if gauges.report is None else gauges.report["graph"]["edges"]
    n_directed = sum(edge["directed"] for edge in edges)
    yield ("directed",), n_directed
    yield ("undirected",), len(edges) - n_directed


def _graph_nodes(gauges: StreamGauges) -> _Series:
    yield (), 0 if gauges.report is None else len(gauges.report["graph"]["nodes"])


def _states(gauges: StreamGauges) -> _Series:
    now = "learning" if gauges.report is None else gauges.report["decision"]["level"]
    for level in DriftLevel:
        yield (level.value,), now == level.value and not gauges.failed
    yield ("failed",), gauges.failed


def _open_episodes(gauges: StreamGauges) -> _Series:
    kinds = list(gauges.kinds.values())
    for kind in DriftKind:
        yield (kind.value,), kinds.count(kind.value)


def _disagreement(gauges: StreamGauges) -> _Series:
    yield (), gauges.disagreement


def _excluded(gauges: StreamGauges) -> _Series:
    excluded = () if gauges.report is None else gauges.report["excluded"]
    for reason in ExclusionReason:
        yield (reason.value,), sum(item["reason"] == reason.value for item in excluded)


def _missing(gauges: StreamGauges) -> _Series:
    found = [] if gauges.report is None else gauges.report["missing"]
    by_share = heapq.nsmallest(MAX_VARIABLES, found, lambda m: (-(m["share"] or 0.0), m["name"]))
    for item in by_share:
        yield (label_of(item["name"]),), _number(item["share"])


def _edge_scores(gauges: StreamGauges) -> _Series:
    edges = (edge for found in gauges.edges.values() for edge in found)
    for edge in heapq.nsmallest(MAX_EDGES, edges, key=_rank):
        labels = label_of(edge["source"]), label_of(edge["target"]), edge["change"]
        yield labels, -math.log10(_p(edge))


def _truncated(gauges: StreamGauges) -> _Series:
    n_missing = 0 if gauges.report is None else len(gauges.report["missing"])
    yield (catalogue.EDGE_SCORE.name,), max(0, sum(gauges.n_edges.values()) - MAX_EDGES)
    yield (catalogue.MISSING_RATIO.name,), max(0, n_missing - MAX_VARIABLES)


def _window_end(gauges: StreamGauges) -> _Series:
    yield (), math.nan if gauges.report is None else _number(gauges.report["end"])


def _of_decision(name: str) -> Callable[[StreamGauges], _Series]:
    def series(gauges: StreamGauges) -> _Series:
        yield (), _decided(gauges, name)

    return series


_GAUGES: Final[tuple[tuple[catalogue.Family, Callable[[StreamGauges], _Series]], ...]] = (
    (catalogue.HAMMING, _hamming),
    (catalogue.CONFIRMED, _of_decision("confirmed_hamming")),
    (catalogue.P_VALUE, _p_values),
    (catalogue.THRESHOLD, _thresholds),
    (catalogue.EDGES_CHANGED, _edges_changed),
    (catalogue.GRAPH_EDGES, _graph_edges),
    (catalogue.GRAPH_NODES, _graph_nodes),
    (catalogue.STATE, _states),
    (catalogue.EPISODES_OPEN, _open_episodes),
    (catalogue.UNDECIDED, _of_decision("n_undecided")),
    (catalogue.EFFECT, _of_decision("effect")),
    (catalogue.DISAGREEMENT, _disagreement),
    (catalogue.EXCLUDED, _excluded),
    (catalogue.MISSING_RATIO, _missing),
    (catalogue.EDGE_SCORE, _edge_scores),
    (catalogue.TRUNCATED, _truncated),
    (catalogue.WINDOW_END, _window_end),
)


def _rank(edge: Mapping[str, Any]) -> tuple[float, str, str]:
    return _p(edge), edge["source"], edge["target"]


def _p(edge: Mapping[str, Any]) -> float:
    return max(edge["p_value"] or 0.0, _SMALLEST_P)


def _decided(gauges: StreamGauges, name: str) -> float:
    return math.nan if gauges.report is None else _number(gauges.report["decision"][name])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
