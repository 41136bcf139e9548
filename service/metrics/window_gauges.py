"""Gauges of the last window of each stream, made anew for every scrape so that none is stale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from driftbn.decision.outcome import ChangeType, DriftKind, DriftLevel, Family
from driftbn.schema import ExclusionReason

MAX_EDGES: Final = 10
"""Changed edges of a stream that have a series, the surest first."""
MAX_VARIABLES: Final = 50
"""Fields of a stream whose share of missing values has a series, the largest first."""
MAX_NAME_LENGTH: Final = 80
"""Characters of a field's name in a label; what is longer is cut."""
_SMALLEST_P: Final = 1e-300

_Series = tuple[dict[str, str], float]


@dataclass
class StreamGauges:
    """What the gauges of one stream are made of.

    Parameters
    ----------
    report
        The last window that was published; ``None`` before the first.
    open_episodes
        Kind of the episode that is open, by key.
    """

    report: Mapping[str, Any] | None = None
    open_episodes: dict[str, str] = field(default_factory=dict)

    def note(self, key: str, report: Mapping[str, Any]) -> None:
        """Take in a window."""
        self.report = report
        decision = report["decision"]
        if decision["episode_event"] == "ended" or decision["episode"] is None:
            self.open_episodes.pop(key, None)
        elif decision["kind"] is not None:
            self.open_episodes[key] = decision["kind"]


class WindowGauges(Collector):
    """Collects the gauges of all streams.

    Every series is there from the first scrape on; what is not known yet is NaN.
    """

    def __init__(self) -> None:
        self.streams: dict[str, StreamGauges] = {}

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the names without values, as a registry asks for."""
        return [GaugeMetricFamily(f"driftbn_{name}", text) for name, text, _ in _GAUGES]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the families with the values of now."""
        streams = sorted(self.streams.items())
        for name, text, series in _GAUGES:
            family: GaugeMetricFamily | None = None
            for stream, gauges in streams:
                for labels, value in series(gauges):
                    if family is None:
                        names = ["monitor", *labels]
                        family = GaugeMetricFamily(f"driftbn_{name}", text, labels=names)
                    family.add_metric([stream, *labels.values()], value)
            if family is not None:
                yield family


def _hamming(gauges: StreamGauges) -> Iterator[_Series]:
    report = gauges.report
    for part, group, name in (
        ("dag", "diff", "hamming"),
        ("skeleton", "diff", "skeleton"),
        ("class", "class_diff", "hamming"),
    ):
        value = math.nan if report is None else report[group][name]
        yield {"part": part, "reference": "previous"}, value


def _confirmed(gauges: StreamGauges) -> Iterator[_Series]:
    yield {}, _decided(gauges, "confirmed_hamming")


def _p_values(gauges: StreamGauges) -> Iterator[_Series]:
    found = {} if gauges.report is None else _families(gauges.report)
    for family in Family:
        yield {"family": family.value}, _number(found.get(family.value))


def _thresholds(gauges: StreamGauges) -> Iterator[_Series]:
    for family in Family:  # p-values are corrected for all tests of all families
        yield {"family": family.value}, _decided(gauges, "alpha")


def _edges_changed(gauges: StreamGauges) -> Iterator[_Series]:
    edges = [] if gauges.report is None else gauges.report["decision"]["edges"]
    for change in ChangeType:
        yield {"change": change.value}, sum(edge["change"] == change.value for edge in edges)


def _graph_edges(gauges: StreamGauges) -> Iterator[_Series]:
    edges = [] if gauges.report is None else gauges.report["graph"]["edges"]
    n_directed = sum(edge["directed"] for edge in edges)
    yield {"kind": "directed"}, n_directed
    yield {"kind": "undirected"}, len(edges) - n_directed


def _graph_nodes(gauges: StreamGauges) -> Iterator[_Series]:
    yield {}, 0 if gauges.report is None else len(gauges.report["graph"]["nodes"])


def _states(gauges: StreamGauges) -> Iterator[_Series]:
    now = "learning" if gauges.report is None else gauges.report["decision"]["level"]
    for level in DriftLevel:
        yield {"state": level.value}, float(now == level.value)


def _open_episodes(gauges: StreamGauges) -> Iterator[_Series]:
    kinds = list(gauges.open_episodes.values())
    for kind in DriftKind:
        yield {"kind": kind.value}, kinds.count(kind.value)


def _undecided(gauges: StreamGauges) -> Iterator[_Series]:
    yield {}, _decided(gauges, "n_undecided")


def _effect(gauges: StreamGauges) -> Iterator[_Series]:
    yield {}, _decided(gauges, "effect")


def _disagreement(gauges: StreamGauges) -> Iterator[_Series]:
    audit = None if gauges.report is None else gauges.report["audit"]
    yield {}, math.nan if audit is None else audit["disagreement"]


def _excluded(gauges: StreamGauges) -> Iterator[_Series]:
    excluded = [] if gauges.report is None else gauges.report["excluded"]
    for reason in ExclusionReason:
        yield {"reason": reason.value}, sum(item["reason"] == reason.value for item in excluded)


def _missing(gauges: StreamGauges) -> Iterator[_Series]:
    for item in _ranked_missing(gauges)[:MAX_VARIABLES]:
        yield {"variable": item["name"][:MAX_NAME_LENGTH]}, item["share"]


def _edge_scores(gauges: StreamGauges) -> Iterator[_Series]:
    for edge in _ranked_edges(gauges)[:MAX_EDGES]:
        labels = {
            "from": edge["source"][:MAX_NAME_LENGTH],
            "to": edge["target"][:MAX_NAME_LENGTH],
            "change": edge["change"],
        }
        yield labels, -math.log10(max(edge["p_value"] or 0.0, _SMALLEST_P))


def _truncated(gauges: StreamGauges) -> Iterator[_Series]:
    n_edges, n_variables = len(_ranked_edges(gauges)), len(_ranked_missing(gauges))
    yield {"metric": "edge_change_score"}, max(0, n_edges - MAX_EDGES)
    yield {"metric": "variable_missing_ratio"}, max(0, n_variables - MAX_VARIABLES)


def _window_end(gauges: StreamGauges) -> Iterator[_Series]:
    yield {}, math.nan if gauges.report is None else _number(gauges.report["end"])


_GAUGES: Final = (
    ("structural_hamming_distance", "Edges that differ from the window before, as learned.",
     _hamming),
    ("confirmed_hamming_distance", "Changed edges that a test has confirmed.", _confirmed),
    ("drift_p_value", "Smallest p-value of a family of tests, corrected for all tests.",
     _p_values),
    ("drift_threshold", "P-value below which a window is called drift.", _thresholds),
    ("edges_changed", "Confirmed changes of edges, by what happened.", _edges_changed),
    ("graph_edges", "Edges of the graph learned on the last window.", _graph_edges),
    ("graph_nodes", "Fields in the graph.", _graph_nodes),
    ("state", "1 for what the last window was called, else 0.", _states),
    ("episodes_open", "Drifts that have begun and not ended, by kind.", _open_episodes),
    ("undecided_pairs", "Pairs of fields with too few records to tell a change.", _undecided),
    ("drift_effect_nats", "Size of the change found, in nats per record.", _effect),
    ("warm_cold_disagreement_edges", "Edges by which a search from nothing differs.",
     _disagreement),
    ("variables_excluded", "Columns without part in the graph, by reason.", _excluded),
    ("variable_missing_ratio", "Share of missing values, fields with the largest only.",
     _missing),
    ("edge_change_score", "-log10 of the p-value of a changed edge, the surest ten only.",
     _edge_scores),
    ("series_truncated", "Series left out because there are too many.", _truncated),
    ("window_end_timestamp_seconds", "Event time at which the last window ended.", _window_end),
)  # fmt: skip


def _decided(gauges: StreamGauges, name: str) -> float:
    return math.nan if gauges.report is None else _number(gauges.report["decision"][name])


def _families(report: Mapping[str, Any]) -> dict[str, float | None]:
    return {item["family"]: item["p_value"] for item in report["decision"]["families"]}


def _ranked_edges(gauges: StreamGauges) -> list[dict[str, Any]]:
    edges = [] if gauges.report is None else gauges.report["decision"]["edges"]
    return sorted(edges, key=lambda e: (e["p_value"] or 0.0, e["source"], e["target"]))


def _ranked_missing(gauges: StreamGauges) -> list[dict[str, Any]]:
    missing = [] if gauges.report is None else gauges.report["missing"]
    return sorted(missing, key=lambda item: (-item["share"], item["name"]))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
