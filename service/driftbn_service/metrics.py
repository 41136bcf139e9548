"""What Prometheus is told: every metric there is, and what streams and outlets say for them."""

from __future__ import annotations

import heapq
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from itertools import product
from time import time
from typing import Any, Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

import driftbn
from driftbn.config import DriftKind
from driftbn.drift.outcome import SEVERITIES, ChangeType, DriftLevel, Severity
from driftbn.drift.outcome import Family as FamilyOfTests
from driftbn.tables.schema import ExclusionReason
from driftbn_service.events import ARRIVED, EventType, Publication
from driftbn_service.records import RejectReason
from driftbn_service.series import Family, Labels, Page, Values, label_of
from driftbn_service.state import EpisodeRow, Silences


def _words(of: type[Enum]) -> tuple[str, ...]:
    return tuple(member.value for member in of)


OTHER: Final = "other"
"""What stands for all names that have no series of their own."""
REASONS: Final = (*_words(RejectReason), OTHER)
ORDERS: Final = ("0", "1", "2", "3", "4+")
"""How many fields a test conditions on."""
STATES: Final = ("starting", "running", "waiting", "drained", "failed", "stopped")
PHASES: Final = ("learn", "decide")
SENT: Final = ("sent", "failed")
DELAYS: Final = (1.0, 2.5, 10.0, 60.0, 600.0, 3600.0, 86400.0)
ROUTES: Final = ("records", "api", "page", "metrics", "health")
STATUSES: Final = (
    "200", "201", "202", "304", "400", "401", "404", "405", "408", "409", "413", "415", "421",
    "422", "429", "500", "503", OTHER,
)  # fmt: skip
MATTERS: Final = ("drift", "schema", "stream")
"""What an outlet may tell Alertmanager of by itself."""
LEVELS: Final = _words(DriftLevel)
TESTS: Final = _words(FamilyOfTests)
EPISODES: Final = tuple(
    (kind.value, severity.value)
    for kind, severity in product(DriftKind, Severity)
    if severity is not Severity.NOTICE or SEVERITIES[kind] is not Severity.ALERT
)

MAX_PARTITIONS: Final = 64
"""Partitions of a stream that have a series; the others are added up."""
MAX_EDGES: Final = 10
"""Changed edges of a stream that have a series, the surest first."""
MAX_VARIABLES: Final = 50
"""Fields of a stream whose share of missing values has a series, the largest first."""
MAX_NAMED_EPISODES: Final = 100
"""Open episodes of a stream whose edges are kept; each key may have one."""
MAX_SHOWN_EPISODES: Final = 10
"""Open episodes of a stream that have a series of their own, the oldest first."""
_SMALLEST_P: Final = 1e-300
_UNNAMED: Final = DriftKind.ASSOCIATION
_UNKNOWN: Final = "relations"
"""What has changed where nothing is named."""


# --- What happens, and what a stream does now ---


def _counter(name: str, text: str, *labels: str, starts: Iterable[Labels] = ((),)) -> Family:
    return Family("counter", name, text, labels, starts=tuple(starts))


def _gauge(name: str, text: str, *labels: str, starts: Iterable[Labels] = ((),)) -> Family:
    return Family("gauge", name, text, labels, starts=tuple(starts))


RECORDS: Final = _counter(
    "records", "Records by what became of them.", "source", "outcome", starts=()
)
REJECTED: Final = _counter(
    "records_rejected", "Records set aside, by reason.", "reason", starts=product(REASONS)
)
WINDOWS: Final = _counter(
    "windows", "Windows by what they were called.", "outcome", starts=product(LEVELS)
)
_BY_SIZE: Final = "Independence tests of the search, by size of the set."
CI_TESTS: Final = _counter(
    "ci_tests", _BY_SIZE, "order", "result", starts=product(ORDERS, ("decided", "undecided"))
)
ALERTS: Final = _counter(
    "alerts", "Episodes that began, by kind.", "kind", "severity", starts=EPISODES
)
SCHEMA_CHANGES: Final = _counter(
    "schema_changes", "Windows in which fields or values were new or absent."
)
DEGRADED: Final = _counter("windows_degraded", "Windows whose search was stopped by a limit.")
SHADOW_WINDOWS: Final = _counter(
    "shadow_windows", "Windows permuted, so that nothing can have changed, and judged."
)
SHADOW_ALARMS: Final = _counter("shadow_alarms", "Permuted windows that raised an alarm.")
NOTIFY: Final = _counter("notify", "Events by what became of them.", "sink", "outcome", starts=())
CHECKPOINT_FAILURES: Final = _counter("checkpoint_failures", "Commits that could not be written.")
RELEARN: Final = Family(
    "histogram", "relearn_duration_seconds", "Time spent on one window.", ("phase", "start"),
    starts=tuple(product(PHASES, ("warm", "cold"))),
)  # fmt: skip
DELAY: Final = Family(
    "histogram", "report_delay_seconds",
    "Time from the last record of a window to its report: since its event time or its arrival.",
    ("since",), starts=(("event",), ("arrival",)), buckets=DELAYS,
)  # fmt: skip
HTTP_REQUESTS: Final = Family(
    "counter", "http_requests", "Requests that were answered, by kind of route and status.",
    ("route", "status"), of_process=True, starts=tuple(product(ROUTES, STATUSES)),
)  # fmt: skip
BUFFER: Final = _gauge("buffer_records", "Records that wait for their window to fill.")
LAG: Final = _gauge(
    "source_lag_records", "What waits in the source, about.", "source", "partition", starts=()
)
CHECKPOINT_TIME: Final = _gauge("checkpoint_timestamp_seconds", "Time of the last commit.")
CHECKPOINT_DURATION: Final = _gauge(
    "checkpoint_duration_seconds", "Time that the last commit took."
)
STATE_RESTORED: Final = _gauge(
    "state_restored_timestamp_seconds",
    "Time of the copy that a damaged state was replaced by at the last start; 0 if none was.",
)
PUBLISHED_TIME: Final = _gauge(
    "window_published_timestamp_seconds", "Time at which the last window was published."
)
STREAM_STATE: Final = _gauge(
    "stream_state", "1 for what the stream does, else 0.", "state", starts=product(STATES)
)
MONITORS: Final = _gauge(
    "monitors", "Monitors of a stream, by where they are.", "place", starts=[("memory",), ("disk",)]
)
FAILED_MONITORS: Final = _gauge(
    "monitors_failed", "Monitors that take no more records because something in them is broken."
)
TAKEN_TIME: Final = _gauge(
    "record_taken_timestamp_seconds", "Time at which the newest record was taken; 0 if none was."
)
_TELLS: Final = "1 if an outlet tells Alertmanager of this by itself and gets through, else 0."
OUTLET_ALERTS: Final = _gauge("outlet_alerts", _TELLS, "matter", starts=product(MATTERS))
BUILD_INFO: Final = Family(
    "gauge", "build_info", "1; the version is a label.", ("version",), of_process=True, starts=()
)
LINKS_INFO: Final = Family(
    "gauge", "links_info", "1; the labels are the beginnings of links, as the settings have them.",
    ("page", "dashboards", "runbooks"), of_process=True, starts=(),
)  # fmt: skip


# --- What the last window and open episodes show, each with how it follows from them ---


def _at(stream: StreamMetrics, *path: str) -> Any:
    """Return a part of the last window; ``None`` where there is none."""
    value: Any = stream.report
    for name in path:
        value = None if value is None else value[name]
    return value


def _listed(stream: StreamMetrics, *path: str) -> list[Any]:
    return _at(stream, *path) or []


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _shown(
    name: str, text: str, *labels: str
) -> Callable[[Callable[[StreamMetrics], Values]], Family]:
    """Make a function the family of what it returns, by the values of the labels."""
    return lambda shown: Family("gauge", name, text, labels, starts=(), shown=shown)


def _of_decision(name: str, text: str, field: str) -> Family:
    return _shown(name, text)(lambda stream: {(): _number(_at(stream, "decision", field))})


def _tally(words: Iterable[str], found: Iterable[str]) -> Values:
    counts = Counter(found)
    return {(word,): float(counts[word]) for word in words}


def _first(pairs: Iterable[tuple[Labels, float]]) -> Values:
    """Return the first value of each series: long names may look the same once cut."""
    values: dict[Labels, float] = {}
    for labels, value in pairs:
        values.setdefault(labels, value)
    return values


def _open(shown: Iterable[Shown]) -> Values:
    counts = Counter((one.kind, one.severity) for one in shown)
    return {labels: float(counts[labels]) for labels in EPISODES}


def _p(edge: Mapping[str, Any]) -> float:
    return max(edge["p_value"] or 0.0, _SMALLEST_P)


def _rank(edge: Mapping[str, Any]) -> tuple[float, str, str]:
    return _p(edge), edge["source"], edge["target"]


@_shown(
    "structural_hamming_distance",
    "Edges that differ from the window before, as learned.",
    "part",
    "reference",
)
def hamming(stream: StreamMetrics) -> Values:
    return {
        ("dag", "previous"): _number(_at(stream, "diff", "hamming")),
        ("skeleton", "previous"): _number(_at(stream, "diff", "skeleton")),
        ("class", "previous"): _number(_at(stream, "class_diff", "hamming")),
    }


@_shown(
    "structural_hamming_band",
    "What the distance of the DAG from the window before usually is: its range in calm windows.",
    "limit",
)
def hamming_band(stream: StreamMetrics) -> Values:
    limits = {"lower": "low", "upper": "high"}
    return {(limit,): _number(_at(stream, "usual", name)) for limit, name in limits.items()}


confirmed = _of_decision(
    "confirmed_hamming_distance", "Changed edges that a test has confirmed.", "confirmed_hamming"
)


@_shown(
    "drift_p_value", "Smallest p-value of a family of tests, corrected for all tests.", "family"
)
def p_values(stream: StreamMetrics) -> Values:
    families = _listed(stream, "decision", "families")
    found = {item["family"]: item["p_value"] for item in families}
    return {(family,): _number(found.get(family)) for family in TESTS}


@_shown("drift_threshold", "P-value below which a window raises an alarm.", "family")
def thresholds(stream: StreamMetrics) -> Values:
    """Return one for all: p-values are corrected for all tests of all families."""
    return dict.fromkeys(product(TESTS), _number(_at(stream, "decision", "alpha")))


@_shown("edges_changed", "Confirmed changes of edges, by what happened.", "change")
def edges_changed(stream: StreamMetrics) -> Values:
    edges = _listed(stream, "decision", "edges")
    return _tally(_words(ChangeType), (edge["change"] for edge in edges))


@_shown("graph_edges", "Edges of the graph of the last window.", "kind")
def graph_edges(stream: StreamMetrics) -> Values:
    directed = [edge["directed"] for edge in _listed(stream, "graph", "edges")]
    return {("directed",): directed.count(True), ("undirected",): directed.count(False)}


@_shown("graph_nodes", "Fields in the graph of the last window.")
def graph_nodes(stream: StreamMetrics) -> Values:
    return {(): len(_listed(stream, "graph", "nodes"))}


@_shown("state", "Monitors by what their last window was called, or that have failed.", "state")
def states(stream: StreamMetrics) -> Values:
    words = (*LEVELS, "failed")
    if stream.keyed:
        return {(word,): float(stream.n_levels[word]) for word in words}
    return _tally(words, ["failed" if stream.failed else stream.levels.get("", "learning")])


@_shown("episodes_open", "Episodes that have begun and not ended, by kind.", "kind", "severity")
def episodes_open(stream: StreamMetrics) -> Values:
    return _open(list(stream.open.values()))


@_shown("episodes_silenced", "Open episodes that somebody has silenced.", "kind", "severity")
def episodes_silenced(stream: StreamMetrics) -> Values:
    cover, found = stream.silences.cover, list(stream.open.items())  # others may add to it
    return _open([one for key, one in found if cover(stream.name, key)])


@_shown(
    "episode_start_timestamp_seconds",
    "Since when an episode is open, the oldest ten only; by key and what changed.",
    "key",
    "kind",
    "severity",
    "what",
)
def episodes_began(stream: StreamMetrics) -> Values:
    cover, found = stream.silences.cover, list(stream.open.items())
    told = ((one.since, key, one) for key, one in found if not cover(stream.name, key))
    return _first(
        ((label_of(key), one.kind, one.severity, one.what), since)
        for since, key, one in heapq.nsmallest(MAX_SHOWN_EPISODES, told)
    )


undecided = _of_decision(
    "undecided_pairs", "Pairs of fields with too few records to tell a change.", "n_undecided"
)
effect = _of_decision(
    "drift_effect_nats", "Size of the change found, in nats per record.", "effect"
)


def _farthest(stream: StreamMetrics) -> tuple[float, float]:
    """Return the distance and its limit; of a keyed stream those of the farthest key beyond it."""
    if stream.keyed:
        return max(list(stream.far.values()), default=(math.nan, math.nan))
    distance, limit = (_at(stream, "decision", name) for name in ("distance", "max_distance"))
    return _number(distance), _number(limit)


@_shown("baseline_distance_nats", "How far the stream is from its baseline, in nats per record.")
def distance(stream: StreamMetrics) -> Values:
    return {(): _farthest(stream)[0]}


@_shown(
    "baseline_distance_limit_nats", "How far the stream may be from its baseline; NaN if no limit."
)
def distance_limit(stream: StreamMetrics) -> Values:
    return {(): _farthest(stream)[1]}


@_shown(
    "baseline_distance_field_nats",
    "How far a field is from its baseline, the ten farthest only.",
    "variable",
)
def field_distances(stream: StreamMetrics) -> Values:
    fields = _listed(stream, "decision", "travelled")
    return _first(((label_of(item["name"]),), _number(item["nats"])) for item in fields)


@_shown(
    "warm_cold_disagreement_edges",
    "Edges by which the last cold search differed from the warm-started one.",
)
def disagreement(stream: StreamMetrics) -> Values:
    return {(): stream.disagreement}


@_shown("variables_excluded", "Fields left out of the graph, by reason.", "reason")
def excluded(stream: StreamMetrics) -> Values:
    reasons = (item["reason"] for item in _listed(stream, "excluded"))
    return _tally(_words(ExclusionReason), reasons)


@_shown(
    "variable_missing_ratio", "Share of missing values, fields with the largest only.", "variable"
)
def missing_ratios(stream: StreamMetrics) -> Values:
    found = _listed(stream, "missing")
    by_share = heapq.nsmallest(MAX_VARIABLES, found, lambda m: (-(m["share"] or 0.0), m["name"]))
    return _first(((label_of(item["name"]),), _number(item["share"])) for item in by_share)


@_shown(
    "edge_change_score",
    "-log10 of the p-value of an edge that changed in an open episode, the surest ten only.",
    "from",
    "to",
    "change",
)
def edge_scores(stream: StreamMetrics) -> Values:
    edges = (edge for found in stream.edges.values() for edge in found)
    surest = heapq.nsmallest(MAX_EDGES, edges, key=_rank)
    return _first(
        ((label_of(one["source"]), label_of(one["target"]), one["change"]), -math.log10(_p(one)))
        for one in surest
    )


@_shown("series_truncated", "Series left out because there are too many, by metric.", "metric")
def truncated(stream: StreamMetrics) -> Values:
    n_edges, n_missing = sum(stream.n_edges.values()), len(_listed(stream, "missing"))
    return {
        (edge_scores.name,): float(max(0, n_edges - MAX_EDGES)),
        (missing_ratios.name,): float(max(0, n_missing - MAX_VARIABLES)),
        (episodes_began.name,): float(max(0, len(stream.open) - MAX_SHOWN_EPISODES)),
    }


@_shown("window_end_timestamp_seconds", "Event time at which the last window ended.")
def window_end(stream: StreamMetrics) -> Values:
    return {(): stream.end}


FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All of them, in the order in which they are shown."""


# --- One stream ---


class Shown(NamedTuple):
    """An open episode as its series shows it."""

    kind: str
    severity: str
    since: float  # seconds since the epoch
    what: str  # changed, in a few words

    @classmethod
    def named(
        cls, kind: str | None, severity: str | None, since: float, changes: list[str]
    ) -> Shown:
        """Return an episode by all that is known to have changed, the surest first.

        >>> Shown.named(None, None, 0.0, ["a - b added", "b - c removed"])
        Shown(kind='association', severity='alert', since=0.0, what='a - b added and 1 more')
        """
        what = label_of(changes[0]) if changes else _UNKNOWN
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        return cls(*kind_and_severity(kind, severity), since, what + more)

    @classmethod
    def stored(cls, episode: EpisodeRow, stored: float) -> Shown:
        """Return an episode of the history; ``stored`` is when it was entered."""
        changes = [f"{edge.source} - {edge.target} {edge.change}" for edge in episode.edges]
        since = stored if episode.started_time is None else episode.started_time
        return cls.named(episode.kind, episode.severity, since, changes)


def kind_and_severity(kind: str | None, severity: str | None) -> tuple[str, str]:
    """Return the labels of an episode; one that could not be named has changed associations."""
    return kind or _UNNAMED.value, severity or SEVERITIES[DriftKind(kind or _UNNAMED)].value


Known: TypeAlias = tuple[Mapping[str, Any] | None, Mapping[str, str], Mapping[str, Shown]]
"""What was known before a restart: the last report; levels and open episodes by key."""


class StreamMetrics:
    """What one stream tells, and what its gauges are made of; any thread may tell it.

    What the last window says is shown where there is one monitor only: with a ``keyed`` stream
    nobody could tell whose window it is. There the keys are counted by what they were called.
    """

    def __init__(
        self,
        name: str,
        source: str,
        pages: Mapping[Family, Page],
        *,
        keyed: bool,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self.keyed = keyed
        self.report: Mapping[str, Any] | None = None  # the last window, unless keyed
        self.levels: dict[str, str] = {}  # of the last window, by key
        self.n_levels: Counter[str] = Counter()
        self.far: dict[str, tuple[float, float]] = {}  # distance and its limit where beyond it
        self.end = math.nan  # newest event time
        self.open: dict[str, Shown] = {}  # episodes, by key
        self.silences = Silences()
        self.edges: dict[str, tuple[Mapping[str, Any], ...]] = {}  # of open episodes, the surest
        self.n_edges: dict[str, int] = {}
        self.disagreement = math.nan
        self.failed = False
        self._source = source
        self._clock = clock
        self._lags = {"0": 0}
        self.series = {
            family: page.begin(name) for family, page in pages.items() if not family.of_process
        }
        for outcome in ("taken", "rejected", "failed"):
            self.series[RECORDS].add((source, outcome), 0.0)
        self.behind("0", 0)
        self.state("starting")

    # What the stream tells of itself.

    def records(self, outcome: str, n_records: int) -> None:
        """Count records by what became of them: taken, rejected, failed."""
        self.series[RECORDS].add((self._source, outcome), n_records)
        if outcome == "taken":
            self._set(TAKEN_TIME, self._clock())

    def rejected(self, reason: str, n_records: int) -> None:
        self.series[REJECTED].add((reason if reason in REASONS else OTHER,), n_records)

    def buffered(self, n_records: int) -> None:
        self._set(BUFFER, n_records)

    def behind(self, lane: str, n_records: int) -> None:
        self._lags[lane or "0"] = n_records
        ranked = sorted(self._lags.items(), key=lambda item: (len(item[0]), item[0]))
        values: dict[Labels, float] = {
            (self._source, name): float(n) for name, n in ranked[:MAX_PARTITIONS]
        }
        if rest := ranked[MAX_PARTITIONS:]:
            values[self._source, OTHER] = float(sum(n for _, n in rest))
        self.series[LAG].replace(values)

    def monitors(self, n_monitors: int, n_resident: int, n_failed: int) -> None:
        """Note how many monitors there are, are in memory, and have failed."""
        places: Values = {("memory",): float(n_resident), ("disk",): float(n_monitors - n_resident)}
        self.series[MONITORS].replace(places)
        self._set(FAILED_MONITORS, n_failed)

    def state(self, state: str) -> None:
        self.series[STREAM_STATE].replace(_tally(STATES, [state]))
        self.failed = state == "failed"
        self._show()

    def committed(self, seconds: float) -> None:
        self._set(CHECKPOINT_TIME, self._clock())
        self._set(CHECKPOINT_DURATION, seconds)

    def commit_failed(self) -> None:
        self.series[CHECKPOINT_FAILURES].add(())

    def restored(self, moment: float) -> None:
        """Note that the state was damaged and is as of a moment again."""
        self._set(STATE_RESTORED, moment)

    def silence(self, silences: Silences) -> None:
        """Show which open episodes are silenced from now on."""
        self.silences = silences
        self._show(episodes_silenced, episodes_began)

    # What its windows tell.

    def recall(
        self,
        report: Mapping[str, Any] | None,
        levels: Mapping[str, str],
        open_: Mapping[str, Shown],
    ) -> None:
        """Show what was known before a restart: the last window; levels and episodes by key."""
        for key, level in levels.items():
            self._call(key, level)
        self.open.update(open_)
        if report is not None:
            self._keep_report("", report)
            if "" in open_:
                self._keep_edges("", report["decision"]["edges"])
        self._show()

    def window(self, publication: Publication) -> None:
        """Note a window, or events without one, published for the first time in this run."""
        if publication.report:
            now = self._clock()
            self._note(publication.key, publication.report, now)
            self._count(publication, now)
            self._set(PUBLISHED_TIME, now)
        for event in () if publication.report else publication.events:
            if event.type == EventType.DRIFT_ENDED:
                self._close(publication.key)
            elif event.type == EventType.MONITOR_FAILED:
                self._call(publication.key, "failed")
        self._show()

    def _set(self, family: Family, value: float) -> None:
        self.series[family].replace({(): float(value)})

    def _show(self, *families: Family) -> None:
        """Set gauges, and write all texts here, so that a scrape finds them ready."""
        for family in families or self.series:
            if family.shown is not None:
                self.series[family].replace(family.shown(self))
        for series in self.series.values():
            series.write()

    def _call(self, key: str, level: str) -> None:
        self.n_levels[self.levels.get(key, "")] -= 1
        self.n_levels[level] += 1
        self.levels[key] = level

    def _keep_report(self, key: str, report: Mapping[str, Any]) -> None:
        distance, limit = (report["decision"][name] for name in ("distance", "max_distance"))
        self.far.pop(key, None)
        is_far = None not in (distance, limit) and distance > limit
        if is_far and len(self.far) < MAX_NAMED_EPISODES:
            self.far[key] = distance, limit
        if report["end"] is not None:
            self.end = max(report["end"], -math.inf if math.isnan(self.end) else self.end)
        if self.keyed:
            return
        self.report = report
        if report["audit"] is not None:
            self.disagreement = report["audit"]["disagreement"]

    def _note(self, key: str, report: Mapping[str, Any], now: float) -> None:
        self._keep_report(key, report)
        decision = report["decision"]
        self._call(key, decision["level"])
        if decision["episode"] is None or decision["episode_event"] == "ended":
            self._close(key)
            return
        if decision["episode_event"] == "started":
            self._close(key)  # an episode may end without a word when another begins
        if decision["kind"] or key not in self.open:
            began = now if report["start"] is None else report["start"]
            since = self.open[key].since if key in self.open else began
            named = decision["kind"], decision["severity"]
            self.open[key] = Shown.named(*named, since, _changes(decision))
        self._keep_edges(key, decision["edges"])

    def _keep_edges(self, key: str, edges: list[Mapping[str, Any]]) -> None:
        if edges and (key in self.edges or len(self.edges) < MAX_NAMED_EPISODES):
            self.edges[key] = tuple(heapq.nsmallest(MAX_EDGES, edges, key=_rank))
            self.n_edges[key] = len(edges)

    def _close(self, key: str) -> None:
        for of_key in (self.open, self.edges, self.n_edges):
            of_key.pop(key, None)

    def _count(self, publication: Publication, now: float) -> None:
        report, series = publication.report, self.series
        decision, cost, about = report["decision"], report["cost"], {"window": str(report["index"])}
        series[WINDOWS].add((decision["level"],))
        if decision["episode_event"] == "started":
            exemplar = Exemplar({**about, "episode": str(decision["episode"])}, 1.0, now)
            labels = kind_and_severity(decision["kind"], decision["severity"])
            series[ALERTS].add(labels, 1.0, exemplar)
        series[SCHEMA_CHANGES].add((), float(bool(report["events"])))
        series[DEGRADED].add((), float(bool(report["degraded"])))
        if report["shadow"] is not None:
            series[SHADOW_WINDOWS].add(())
            series[SHADOW_ALARMS].add((), float(report["shadow"]["alarm"]))
        self._count_tests(cost["tests"], cost["undecided"])
        for phase in PHASES:
            seconds = publication.timings.get(phase, 0.0)
            start = "warm" if cost["warm"] else "cold"
            series[RELEARN].observe((phase, start), seconds, Exemplar(about, seconds, now))
        moments = {"event": report["end"], "arrival": publication.timings.get(ARRIVED)}
        for since, moment in moments.items():
            if moment is not None:
                seconds = max(0.0, now - moment)
                series[DELAY].observe((since,), seconds, Exemplar(about, seconds, now))

    def _count_tests(self, tests: list[int], undecided: list[int]) -> None:
        for order, n_tests in enumerate(tests):
            shown = ORDERS[min(order, len(ORDERS) - 1)]
            n_undecided = undecided[order] if order < len(undecided) else 0
            self.series[CI_TESTS].add((shown, "undecided"), n_undecided)
            self.series[CI_TESTS].add((shown, "decided"), n_tests - n_undecided)


def _changes(decision: Mapping[str, Any]) -> list[str]:
    """Return what a window names: facts and edges, the surest first, or else fields.

    >>> edge = {"source": "a", "target": "b", "change": "added", "p_value": 0.001}
    >>> _changes({"edges": [edge], "facts": [], "nodes": []})
    ['a - b added']
    """
    facts = [f"{fact['field']} {fact['kind'].replace('_', ' ')}" for fact in decision["facts"]]
    edges = sorted(decision["edges"], key=_rank)
    named = [f"{edge['source']} - {edge['target']} {edge['change']}" for edge in edges]
    return [*facts, *named] or [node["name"] for node in decision["nodes"]]


# --- All streams ---


class Metrics(Collector):
    """The metrics of all streams and of the process; all may be called by any thread.

    Every series of a stream is there from ``add_stream`` on, and gone after ``drop_stream``. Labels
    are names from the settings and fixed words; only the four families that name fields or keys of
    a stream take words from the data, and all are bounded.

    >>> metrics = Metrics()
    >>> metrics.add_stream("orders", "files").records("taken", 5)
    >>> metrics.registry.get_sample_value(
    ...     "driftbn_records_total", {"stream": "orders", "source": "files", "outcome": "taken"}
    ... )
    5.0
    """

    def __init__(self, *, clock: Callable[[], float] = time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._streams: dict[str, StreamMetrics] = {}  # by name; replaced, never changed
        self._outlets: dict[str, None] = {}
        self._alerting: dict[str, frozenset[str]] = {}  # what outlets tell Alertmanager of
        self._silences = Silences()
        self._process = ProcessCollector(registry=None)
        self._scraping = threading.Lock()  # and none begins or ends meanwhile
        self._pages = {family: Page(family) for family in FAMILIES}
        self._own = {
            family: page.begin("") for family, page in self._pages.items() if family.of_process
        }
        self._own[BUILD_INFO].replace({(driftbn.__version__,): 1.0})
        self.links("", "", "")
        self.registry.register(self)

    def add_outlet(self, outlet: str) -> None:
        self._outlets[outlet] = None
        for stream in self._streams.values():
            self._begin_outlet(stream, outlet)

    def add_stream(
        self, stream: str, source: str, *, keyed: bool = False, known: Known | None = None
    ) -> StreamMetrics:
        """Have all series of a stream and return what it is to tell them to.

        They are at zero but for what is ``known`` from before a restart: no scrape comes between,
        which would end an alert that goes on.
        """
        with self._scraping:
            found = StreamMetrics(stream, source, self._pages, keyed=keyed, clock=self._clock)
            for outlet in self._outlets:
                self._begin_outlet(found, outlet)
            found.series[OUTLET_ALERTS].replace(self._outlet_alerts())
            found.silence(self._silences)
            if known is not None:
                found.recall(*known)
            self._streams = {**self._streams, stream: found}
        return found

    def drop_stream(self, stream: str) -> None:
        with self._scraping:
            self._streams = {name: one for name, one in self._streams.items() if name != stream}
            for page in self._pages.values():
                page.end(stream)

    def links(self, page: str, dashboards: str, runbooks: str) -> None:
        self._own[LINKS_INFO].replace({(page, dashboards, runbooks): 1.0})

    def silence(self, silences: Silences) -> None:
        """Show which open episodes are silenced from now on."""
        self._silences = silences
        for found in self._streams.values():
            found.silence(silences)

    def notified(self, outlet: str, stream: str, outcome: str, n_events: int) -> None:
        """Count events by what became of them, sent or failed; of a stream that is still there."""
        if found := self._streams.get(stream):
            found.series[NOTIFY].add((outlet, outcome), n_events)

    def alerting(self, outlet: str, matters: Collection[str]) -> None:
        """Note of what an outlet tells Alertmanager by itself, as far as it gets through."""
        self._alerting[outlet] = frozenset(matters)
        for found in self._streams.values():
            found.series[OUTLET_ALERTS].replace(self._outlet_alerts())

    def answered(self, route: str, status: int) -> None:
        """Count a request by the kind of its route and the status of its answer."""
        word = str(status)
        self._own[HTTP_REQUESTS].add((route, word if word in STATUSES else OTHER))

    # What a scraper reads.

    def collect(self) -> Iterator[Metric]:
        return (page.metric() for page in self._pages.values())

    def everything(self) -> Iterator[Metric]:
        """Return what a scraper reads: all families, then those of the process."""
        yield from self.collect()
        yield from self._process.collect()

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that a scraper accepts, and its content type.

        Behind the series of the streams stand those of the process: memory, processor time, files.
        """
        encoder, content_type = choose_encoder(accept)
        # The names of all metrics are plain, so no kind of escaping that may be asked for matters.
        rich = content_type.startswith("application/openmetrics")
        with self._scraping:
            texts = [page.text(rich=rich) for page in self._pages.values()]
        return b"".join((*texts, encoder(self._process))), content_type

    def _begin_outlet(self, stream: StreamMetrics, outlet: str) -> None:
        for outcome in SENT:
            stream.series[NOTIFY].add((outlet, outcome), 0.0)

    def _outlet_alerts(self) -> Values:
        told = frozenset[str]().union(*self._alerting.values())
        return {(matter,): float(matter in told) for matter in MATTERS}
