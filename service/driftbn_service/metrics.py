"""What Prometheus is told: the one place that counts for it.

A stream has all of its series from the start, and each family keeps its text until one of its
series changes: a scrape of hundreds of streams joins texts and writes only what is new.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product
from time import time
from typing import Any, Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

import driftbn
from driftbn.config import DriftKind
from driftbn.drift.outcome import SEVERITIES, ChangeType, DriftLevel, Severity
from driftbn.drift.outcome import Family as FamilyOfTests
from driftbn.tables.schema import ExclusionReason
from driftbn_service.events import ARRIVED, EventType, Publication
from driftbn_service.records import RejectReason
from driftbn_service.state import EpisodeRow, Silences

Labels = tuple[str, ...]
Values = Mapping[Labels, float]

OTHER: Final = "other"
"""What stands for all names that have no series of their own."""
REASONS: Final = (*(reason.value for reason in RejectReason), OTHER)
ORDERS: Final = ("0", "1", "2", "3", "4+")
"""How many fields a test conditions on."""
STATES: Final = ("starting", "running", "waiting", "drained", "failed", "stopped")
PHASES: Final = ("learn", "decide")
BUCKETS: Final = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
SENT: Final = ("sent", "failed")
DELAYS: Final = (1.0, 2.5, 10.0, 60.0, 600.0, 3600.0, 86400.0)
ROUTES: Final = ("records", "api", "page", "metrics", "health")
STATUSES: Final = (
    "200", "201", "202", "304", "400", "401", "404", "405", "408", "409", "413", "415", "421",
    "422", "429", "500", "503", OTHER,
)  # fmt: skip
MATTERS: Final = ("drift", "schema", "stream")
"""What an outlet may tell Alertmanager of by itself."""

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
MAX_NAME_LENGTH: Final = 80
"""Characters of a name from the data in a label; what is longer is cut."""
_SMALLEST_P: Final = 1e-300
_UNNAMED: Final = DriftKind.ASSOCIATION
_UNKNOWN: Final = "relations"
"""What has changed where nothing is named."""
_EPISODES: Final = tuple(
    (kind.value, severity.value)
    for kind, severity in product(DriftKind, Severity)
    if severity is not Severity.NOTICE or SEVERITIES[kind] is not Severity.ALERT
)
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


# --- The families ---


@dataclass(frozen=True, eq=False)
class Family:
    """Series of one name, which stands without ``driftbn_`` in front and ``_total`` behind.

    >>> Family("counter", "records", "Records.").sample_name
    'driftbn_records_total'
    """

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    text: str
    labels: Labels = ()  # after ``stream``, which all have but those of the process
    of_process: bool = False
    buckets: tuple[float, ...] = BUCKETS  # of a histogram

    @property
    def full_name(self) -> str:
        return f"driftbn_{self.name}"

    @property
    def sample_name(self) -> str:
        return f"{self.full_name}_total" if self.kind == "counter" else self.full_name


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family("counter", name, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family("gauge", name, text, labels)


# What happens
RECORDS: Final = _counter("records", "Records by what became of them.", "source", "outcome")
REJECTED: Final = _counter("records_rejected", "Records set aside, by reason.", "reason")
WINDOWS: Final = _counter("windows", "Windows by what they were called.", "outcome")
CI_TESTS: Final = _counter(
    "ci_tests", "Independence tests of the search, by size of the set.", "order", "result"
)
ALERTS: Final = _counter("alerts", "Episodes that began, by kind.", "kind", "severity")
SCHEMA_CHANGES: Final = _counter(
    "schema_changes", "Windows in which fields or values were new or absent."
)
DEGRADED: Final = _counter("windows_degraded", "Windows whose search was stopped by a limit.")
SHADOW_WINDOWS: Final = _counter(
    "shadow_windows", "Windows permuted, so that nothing can have changed, and judged."
)
SHADOW_ALARMS: Final = _counter("shadow_alarms", "Permuted windows that raised an alarm.")
NOTIFY: Final = _counter("notify", "Events by what became of them.", "sink", "outcome")
CHECKPOINT_FAILURES: Final = _counter("checkpoint_failures", "Commits that could not be written.")
RELEARN: Final = Family(
    "histogram", "relearn_duration_seconds", "Time spent on one window.", ("phase", "start")
)
DELAY: Final = Family(
    "histogram",
    "report_delay_seconds",
    "Time from the last record of a window to its report: since its event time or its arrival.",
    ("since",),
    buckets=DELAYS,
)
HTTP_REQUESTS: Final = Family(
    "counter",
    "http_requests",
    "Requests that were answered, by kind of route and status.",
    ("route", "status"),
    of_process=True,
)

# What the stream does now
BUFFER: Final = _gauge("buffer_records", "Records that wait for their window to fill.")
LAG: Final = _gauge("source_lag_records", "What waits in the source, about.", "source", "partition")
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
STREAM_STATE: Final = _gauge("stream_state", "1 for what the stream does, else 0.", "state")
MONITORS: Final = _gauge("monitors", "Monitors of a stream, by where they are.", "place")
FAILED_MONITORS: Final = _gauge(
    "monitors_failed", "Monitors that take no more records because something in them is broken."
)
TAKEN_TIME: Final = _gauge(
    "record_taken_timestamp_seconds", "Time at which the newest record was taken; 0 if none was."
)
SILENCED: Final = _gauge(
    "episodes_silenced", "Open episodes that somebody has silenced.", "kind", "severity"
)
OUTLET_ALERTS: Final = _gauge(
    "outlet_alerts",
    "1 if an outlet tells Alertmanager of this by itself and gets through, else 0.",
    "matter",
)
BUILD_INFO: Final = Family(
    "gauge", "build_info", "1; the version is a label.", ("version",), of_process=True
)
LINKS_INFO: Final = Family(
    "gauge",
    "links_info",
    "1; the labels are the beginnings of links, as the settings have them.",
    ("page", "dashboards", "runbooks"),
    of_process=True,
)

# What the last window says
HAMMING: Final = _gauge(
    "structural_hamming_distance",
    "Edges that differ from the window before, as learned.",
    "part",
    "reference",
)
HAMMING_BAND: Final = _gauge(
    "structural_hamming_band",
    "What the distance of the DAG from the window before usually is: its range in calm windows.",
    "limit",
)
CONFIRMED: Final = _gauge("confirmed_hamming_distance", "Changed edges that a test has confirmed.")
P_VALUE: Final = _gauge(
    "drift_p_value", "Smallest p-value of a family of tests, corrected for all tests.", "family"
)
THRESHOLD: Final = _gauge(
    "drift_threshold", "P-value below which a window raises an alarm.", "family"
)
EDGES_CHANGED: Final = _gauge(
    "edges_changed", "Confirmed changes of edges, by what happened.", "change"
)
GRAPH_EDGES: Final = _gauge("graph_edges", "Edges of the graph of the last window.", "kind")
GRAPH_NODES: Final = _gauge("graph_nodes", "Fields in the graph of the last window.")
STATE: Final = _gauge(
    "state", "Monitors by what their last window was called, or that have failed.", "state"
)
EPISODES_OPEN: Final = _gauge(
    "episodes_open", "Episodes that have begun and not ended, by kind.", "kind", "severity"
)
EPISODE_BEGAN: Final = _gauge(
    "episode_start_timestamp_seconds",
    "Since when an episode is open, the oldest ten only; by key and what changed.",
    "key",
    "kind",
    "severity",
    "what",
)
UNDECIDED: Final = _gauge(
    "undecided_pairs", "Pairs of fields with too few records to tell a change."
)
EFFECT: Final = _gauge("drift_effect_nats", "Size of the change found, in nats per record.")
DISTANCE: Final = _gauge(
    "baseline_distance_nats", "How far the stream is from its baseline, in nats per record."
)
DISTANCE_LIMIT: Final = _gauge(
    "baseline_distance_limit_nats", "How far the stream may be from its baseline; NaN if no limit."
)
FIELD_DISTANCE: Final = _gauge(
    "baseline_distance_field_nats",
    "How far a field is from its baseline, the ten farthest only.",
    "variable",
)
DISAGREEMENT: Final = _gauge(
    "warm_cold_disagreement_edges",
    "Edges by which the last cold search differed from the warm-started one.",
)
EXCLUDED: Final = _gauge("variables_excluded", "Fields left out of the graph, by reason.", "reason")
MISSING_RATIO: Final = _gauge(
    "variable_missing_ratio", "Share of missing values, fields with the largest only.", "variable"
)
EDGE_SCORE: Final = _gauge(
    "edge_change_score",
    "-log10 of the p-value of an edge that changed in an open episode, the surest ten only.",
    "from",
    "to",
    "change",
)
TRUNCATED: Final = _gauge(
    "series_truncated", "Series left out because there are too many, by metric.", "metric"
)
WINDOW_END: Final = _gauge(
    "window_end_timestamp_seconds", "Event time at which the last window ended."
)

FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All of them, in the order in which they are shown."""


# --- The series of one family and one stream ---


class Series:
    r"""Series of one family and one stream; any thread may read and change them.

    ``start`` is there from the start, by the values of the labels; in ``stale`` it is noted that
    the text of the family has changed.

    >>> series = Series(REJECTED, "orders", {("not_json",): 0.0}, set())
    >>> series.add(("not_json",), 2)
    >>> series.text(rich=False)
    b'driftbn_records_rejected_total{stream="orders",reason="not_json"} 2.0\n'
    """

    def __init__(
        self, family: Family, stream: str | None, start: Values, stale: set[Family]
    ) -> None:
        self._family = family
        self._stream = stream
        self._stale = stale
        self._lock = threading.Lock()
        self._values = dict(start)
        self._exemplars: dict[Labels, Exemplar] = {}
        self._beginnings: dict[Labels, str] = {}
        self._text: tuple[bytes, bytes] | None = None

    def add(self, labels: Labels, amount: float = 1.0, exemplar: Exemplar | None = None) -> None:
        with self._lock:
            self._add(labels, amount, exemplar)
            self._changed()

    def replace(self, values: Values) -> None:
        """Have these series and no others."""
        with self._lock:
            if values == self._values:
                return
            self._values = dict(values)
            if len(self._beginnings) > len(values):
                self._beginnings.clear()  # names of fields that are gone
            self._changed()

    def observe(self, labels: Labels, value: float, exemplar: Exemplar) -> None:
        """Count a value in its buckets; the first that it fits shows it as an example."""
        limits = self._family.buckets
        ends = [_number(limit) for limit in limits if value <= limit] + ["+Inf"]
        with self._lock:
            for end in ends:
                self._add((*labels, end, "_bucket"), 1.0, exemplar if end is ends[0] else None)
            self._add((*labels, "_count"), 1.0)
            self._add((*labels, "_sum"), value)
            self._changed()

    def samples(self) -> list[Sample]:
        with self._lock:
            return [
                Sample(*self._named(labels), value, None, self._exemplars.get(labels))
                for labels, value in self._values.items()
            ]

    def text(self, *, rich: bool) -> bytes:
        """Return the lines, with exemplars where the format has them."""
        text = self._text
        if text is None:
            with self._lock:
                text = self._text = self._written()
        return text[rich]

    def _add(self, labels: Labels, amount: float, exemplar: Exemplar | None = None) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + amount
        if exemplar is not None:
            self._exemplars[labels] = exemplar

    def _changed(self) -> None:
        self._text = None
        self._stale.add(self._family)

    def _written(self) -> tuple[bytes, bytes]:
        begin = self._beginnings.get
        lines = [
            f"{begin(labels) or self._beginning(labels)}{_number(value)}\n"
            for labels, value in self._values.items()
        ]
        plain = "".join(lines).encode()
        if not self._exemplars:
            return plain, plain
        for place, labels in enumerate(self._values):
            if exemplar := self._exemplars.get(labels):
                lines[place] = f"{lines[place][:-1]}{_exemplar_text(exemplar)}\n"
        return plain, "".join(lines).encode()

    def _beginning(self, labels: Labels) -> str:
        """Return a line up to its value; kept, because only values change all the time."""
        name, named = self._named(labels)
        begin = self._beginnings[labels] = f"{name}{_labels_text(named)} "
        return begin

    def _named(self, labels: Labels) -> tuple[str, dict[str, str]]:
        """Return the name of a sample and its labels; a histogram's have the suffix behind."""
        name, names = self._family.sample_name, self._family.labels
        if self._family.kind == "histogram":
            name, labels = name + labels[-1], labels[:-1]
            names = (*names, "le")[: len(labels)]
        whose = {} if self._stream is None else {"stream": self._stream}
        return name, whose | dict(zip(names, labels, strict=True))


def label_of(name: str) -> str:
    r"""Return a name from the data as a label: not too long, on one line, and in UTF-8.

    >>> label_of("delay"), label_of("a\nb"), len(label_of("x" * 1000))
    ('delay', 'a?b', 80)
    """
    if len(name) > MAX_NAME_LENGTH:
        name = f"{name[: MAX_NAME_LENGTH - 1]}…"
    # Half a character, which JSON may hold and UTF-8 has not, cannot be printed either.
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in name)


def kind_and_severity(kind: str | None, severity: str | None) -> tuple[str, str]:
    """Return the labels of an episode; one that could not be named has changed associations.

    >>> kind_and_severity(None, None)
    ('association', 'alert')
    """
    return kind or _UNNAMED.value, severity or SEVERITIES[DriftKind(kind or _UNNAMED)].value


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _labels_text(labels: Mapping[str, str]) -> str:
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _exemplar_text(exemplar: Exemplar) -> str:
    text = f" # {_labels_text(exemplar.labels)} {_number(exemplar.value)}"
    return text if exemplar.timestamp is None else f"{text} {float(exemplar.timestamp)!r}"


# --- One stream ---


class Shown(NamedTuple):
    """An open episode as its series shows it."""

    kind: str
    severity: str
    since: float  # seconds since the epoch
    what: str  # changed, in a few words


class Stream:
    """The series of one stream, and what its gauges are made of.

    What the last window says is shown where there is one monitor only: with a ``keyed`` stream
    nobody could tell whose window it is. There the keys are counted by what they were called.
    """

    def __init__(
        self, name: str, source: str, outlets: Collection[str], stale: set[Family], *, keyed: bool
    ) -> None:
        self.source = source
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
        self._lags = {"0": 0}
        self.series = {
            family: Series(family, name, start, stale)
            for family, start in _starts(source, outlets).items()
        }
        self.show()

    def set(self, family: Family, value: float) -> None:
        self.series[family].replace({(): float(value)})

    def set_state(self, state: str) -> None:
        self.series[STREAM_STATE].replace({(known,): float(known == state) for known in STATES})
        self.failed = state == "failed"
        self.show()

    def set_lag(self, lane: str, n_records: int) -> None:
        self._lags[lane or "0"] = n_records
        ranked = sorted(self._lags.items(), key=lambda item: (len(item[0]), item[0]))
        values: dict[Labels, float] = {
            (self.source, name): float(n) for name, n in ranked[:MAX_PARTITIONS]
        }
        if rest := ranked[MAX_PARTITIONS:]:
            values[self.source, OTHER] = float(sum(n for _, n in rest))
        self.series[LAG].replace(values)

    def recall(
        self,
        report: Mapping[str, Any] | None,
        levels: Mapping[str, str],
        open_: Mapping[str, Shown],
    ) -> None:
        """Take in what was known before a restart: the last window, and what is open."""
        for key, level in levels.items():
            self._call(key, level)
        self.open.update(open_)
        if report is not None:
            self._keep_report("", report)
            if "" in open_:
                self._keep_edges("", report["decision"]["edges"])
        self.show()

    def window(self, publication: Publication, now: float) -> None:
        self._note(publication.key, publication.report, now)
        self._count(publication, now)
        self.set(PUBLISHED_TIME, now)
        self.show()

    def told(self, publication: Publication) -> None:
        """Note what was told without a window."""
        for event in publication.events:
            if event.type == EventType.DRIFT_ENDED:
                self._close(publication.key)
            elif event.type == EventType.MONITOR_FAILED:
                self._call(publication.key, "failed")
        self.show()

    def silence(self, silences: Silences) -> None:
        self.silences = silences
        for family in (SILENCED, EPISODE_BEGAN):
            self.series[family].replace(_GAUGES[family](self))

    def show(self) -> None:
        """Set the gauges, and write all texts here, so that a scrape finds them ready."""
        for family, values in _GAUGES.items():
            self.series[family].replace(values(self))
        for series in self.series.values():
            series.text(rich=False)

    def _call(self, key: str, level: str) -> None:
        self.n_levels[self.levels.get(key, "")] -= 1
        self.n_levels[level] += 1
        self.levels[key] = level

    def _keep_report(self, key: str, report: Mapping[str, Any]) -> None:
        distance, limit = (report["decision"][name] for name in ("distance", "max_distance"))
        self.far.pop(key, None)
        if (
            None not in (distance, limit)
            and distance > limit
            and len(self.far) < MAX_NAMED_EPISODES
        ):
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
            labels = kind_and_severity(decision["kind"], decision["severity"])
            self.open[key] = Shown(*labels, since, _what(decision))
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
        self._count_delay(publication, now)

    def _count_delay(self, publication: Publication, now: float) -> None:
        since = {"event": publication.report["end"], "arrival": publication.timings.get(ARRIVED)}
        for word, moment in since.items():
            if moment is not None:
                seconds = max(0.0, now - moment)
                about = {"window": str(publication.window)}
                self.series[DELAY].observe((word,), seconds, Exemplar(about, seconds, now))

    def _count_tests(self, tests: list[int], undecided: list[int]) -> None:
        for order, n_tests in enumerate(tests):
            shown = ORDERS[min(order, len(ORDERS) - 1)]
            n_undecided = undecided[order] if order < len(undecided) else 0
            self.series[CI_TESTS].add((shown, "undecided"), n_undecided)
            self.series[CI_TESTS].add((shown, "decided"), n_tests - n_undecided)


def _what(decision: Mapping[str, Any]) -> str:
    """Return in a few words what changed: the surest edge, or else fields.

    >>> edge = {"source": "a", "target": "b", "change": "added", "p_value": 0.001}
    >>> _what({"edges": [edge], "facts": [], "nodes": []})
    'a - b added'
    """
    edges = heapq.nsmallest(1, decision["edges"], key=_rank)
    named = [f"{edge['source']} - {edge['target']} {edge['change']}" for edge in edges]
    facts = [f"{fact['field']} {fact['kind'].replace('_', ' ')}" for fact in decision["facts"]]
    found = (*facts, *named) or tuple(node["name"] for node in decision["nodes"])
    n_all = len(facts) + len(decision["edges"]) or len(found)
    if not found:
        return _UNKNOWN
    return label_of(found[0]) + (f" and {n_all - 1} more" if n_all > 1 else "")


def shown_of(episode: EpisodeRow, stored: float) -> Shown:
    """Return an episode of the history that is still open; ``stored`` is when it was entered."""
    edges = [f"{edge.source} - {edge.target} {edge.change}" for edge in episode.edges]
    what = label_of(edges[0]) if edges else _UNKNOWN
    more = f" and {len(edges) - 1} more" if len(edges) > 1 else ""
    since = stored if episode.started_time is None else episode.started_time
    return Shown(*kind_and_severity(episode.kind, episode.severity), since, what + more)


def _rows(family: Family) -> list[Labels]:
    ends = [(_number(limit), "_bucket") for limit in family.buckets]
    return [*ends, ("+Inf", "_bucket"), ("_count",), ("_sum",)]


def _starts(source: str, outlets: Iterable[str]) -> dict[Family, dict[Labels, float]]:
    starts = product(PHASES, ("warm", "cold"))
    words: dict[Family, Iterable[Labels]] = {
        RECORDS: product((source,), ("taken", "rejected", "failed")),
        REJECTED: product(REASONS),
        WINDOWS: product(_words(DriftLevel)),
        ALERTS: _EPISODES,
        CI_TESTS: product(ORDERS, ("decided", "undecided")),
        NOTIFY: product(outlets, SENT),
        STREAM_STATE: product(STATES),
        MONITORS: product(("memory", "disk")),
        LAG: [(source, "0")],
        RELEARN: [(*start, *row) for start in starts for row in _rows(RELEARN)],
        DELAY: [(since, *row) for since in ("event", "arrival") for row in _rows(DELAY)],
        OUTLET_ALERTS: product(MATTERS),
    }
    found = {
        family: dict.fromkeys(words.get(family, [()]), 0.0)
        for family in FAMILIES
        if not family.of_process
    }
    found[STREAM_STATE]["starting",] = 1.0
    return found


# --- What the gauges show of the last window and of open episodes ---


def _missing(stream: Stream) -> Values:
    found = _listed(stream, "missing")
    by_share = heapq.nsmallest(MAX_VARIABLES, found, lambda m: (-(m["share"] or 0.0), m["name"]))
    return _first(((label_of(item["name"]),), _value(item["share"])) for item in by_share)


def _edge_scores(stream: Stream) -> Values:
    edges = (edge for found in stream.edges.values() for edge in found)
    return _first(
        (
            (label_of(edge["source"]), label_of(edge["target"]), edge["change"]),
            -math.log10(_p(edge)),
        )
        for edge in heapq.nsmallest(MAX_EDGES, edges, key=_rank)
    )


def _truncated(stream: Stream) -> Values:
    n_edges, n_missing = sum(stream.n_edges.values()), len(_listed(stream, "missing"))
    return {
        (EDGE_SCORE.name,): float(max(0, n_edges - MAX_EDGES)),
        (MISSING_RATIO.name,): float(max(0, n_missing - MAX_VARIABLES)),
        (EPISODE_BEGAN.name,): float(max(0, len(stream.open) - MAX_SHOWN_EPISODES)),
    }


def _states(stream: Stream) -> Values:
    words = (*_words(DriftLevel), "failed")
    if stream.keyed:
        return {(word,): float(stream.n_levels[word]) for word in words}
    return _tally(words, ["failed" if stream.failed else stream.levels.get("", "learning")])


def _open(shown: Iterable[Shown]) -> Values:
    counts = Counter((one.kind, one.severity) for one in shown)
    return {labels: float(counts[labels]) for labels in _EPISODES}


def _silenced(stream: Stream) -> Values:
    cover, found = stream.silences.cover, list(stream.open.items())
    return _open([one for key, one in found if cover(stream.name, key)])


def _began(stream: Stream) -> Values:
    cover, found = stream.silences.cover, list(stream.open.items())  # others may add to it
    told = ((one.since, key, one) for key, one in found if not cover(stream.name, key))
    return _first(
        ((label_of(key), one.kind, one.severity, one.what), since)
        for since, key, one in heapq.nsmallest(MAX_SHOWN_EPISODES, told)
    )


def _distance(stream: Stream, place: int) -> Values:
    """Return the distance, or its limit; of a keyed stream those of the farthest key beyond it."""
    if not stream.keyed:
        return {(): _at(stream, "decision", ("distance", "max_distance")[place])}
    return {(): max(list(stream.far.values()), default=(math.nan, math.nan))[place]}


def _p_values(stream: Stream) -> Values:
    families = _listed(stream, "decision", "families")
    found = {item["family"]: item["p_value"] for item in families}
    return {(family,): _value(found.get(family)) for family in _words(FamilyOfTests)}


def _graph_edges(stream: Stream) -> Values:
    directed = [edge["directed"] for edge in _listed(stream, "graph", "edges")]
    return {("directed",): directed.count(True), ("undirected",): directed.count(False)}


_GAUGES: Final[Mapping[Family, Callable[[Stream], Values]]] = {
    HAMMING: lambda stream: {
        ("dag", "previous"): _at(stream, "diff", "hamming"),
        ("skeleton", "previous"): _at(stream, "diff", "skeleton"),
        ("class", "previous"): _at(stream, "class_diff", "hamming"),
    },
    HAMMING_BAND: lambda stream: {
        ("lower",): _at(stream, "usual", "low"),
        ("upper",): _at(stream, "usual", "high"),
    },
    CONFIRMED: lambda stream: {(): _at(stream, "decision", "confirmed_hamming")},
    P_VALUE: _p_values,
    # One for all: p-values are corrected for all tests of all families.
    THRESHOLD: lambda stream: dict.fromkeys(
        product(_words(FamilyOfTests)), _at(stream, "decision", "alpha")
    ),
    EDGES_CHANGED: lambda stream: _tally(
        _words(ChangeType), [edge["change"] for edge in _listed(stream, "decision", "edges")]
    ),
    GRAPH_EDGES: _graph_edges,
    GRAPH_NODES: lambda stream: {(): len(_listed(stream, "graph", "nodes"))},
    STATE: _states,
    EPISODES_OPEN: lambda stream: _open(list(stream.open.values())),
    SILENCED: _silenced,
    EPISODE_BEGAN: _began,
    UNDECIDED: lambda stream: {(): _at(stream, "decision", "n_undecided")},
    EFFECT: lambda stream: {(): _at(stream, "decision", "effect")},
    DISTANCE: lambda stream: _distance(stream, 0),
    DISTANCE_LIMIT: lambda stream: _distance(stream, 1),
    FIELD_DISTANCE: lambda stream: _first(
        ((label_of(item["name"]),), _value(item["nats"]))
        for item in _listed(stream, "decision", "travelled")
    ),
    DISAGREEMENT: lambda stream: {(): stream.disagreement},
    EXCLUDED: lambda stream: _tally(
        _words(ExclusionReason), [item["reason"] for item in _listed(stream, "excluded")]
    ),
    MISSING_RATIO: _missing,
    EDGE_SCORE: _edge_scores,
    TRUNCATED: _truncated,
    WINDOW_END: lambda stream: {(): stream.end},
}


def _words(of: type[Enum]) -> list[str]:
    return [member.value for member in of]


def _tally(words: Iterable[str], found: list[str]) -> Values:
    return {(word,): float(found.count(word)) for word in words}


def _first(pairs: Iterable[tuple[Labels, float]]) -> Values:
    """Return the first value of each series: long names may look the same once cut."""
    values: dict[Labels, float] = {}
    for labels, value in pairs:
        values.setdefault(labels, value)
    return values


def _at(stream: Stream, *path: str) -> float:
    """Return a number of the last window; NaN where there is none."""
    return _value(_found(stream, path))


def _listed(stream: Stream, *path: str) -> list[Any]:
    """Return a list of the last window; empty where there is none."""
    return _found(stream, path) or []


def _found(stream: Stream, path: Iterable[str]) -> Any:
    value: Any = stream.report
    for name in path:
        value = None if value is None else value[name]
    return value


def _value(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _rank(edge: Mapping[str, Any]) -> tuple[float, str, str]:
    return _p(edge), edge["source"], edge["target"]


def _p(edge: Mapping[str, Any]) -> float:
    return max(edge["p_value"] or 0.0, _SMALLEST_P)


# --- All streams ---


class Metrics(Collector):
    """Counts what streams and outlets do; all may be called by any thread.

    Every series of a stream is there from ``add_stream`` on, and gone after ``drop_stream``; what
    is told of a stream that is not there is dropped. Labels are names from the settings and fixed
    words; only the four families that name fields or keys of a stream take words from the data, and
    all are bounded.

    >>> metrics = Metrics()
    >>> metrics.add_stream("orders", "files")
    >>> metrics.records("orders", "taken", 5)
    >>> metrics.registry.get_sample_value(
    ...     "driftbn_records_total", {"stream": "orders", "source": "files", "outcome": "taken"}
    ... )
    5.0
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, clock: Callable[[], float] = time
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._clock = clock
        self._streams: dict[str, Stream] = {}  # by name; replaced, never changed
        self._outlets: dict[str, None] = {}
        self._alerting: dict[str, frozenset[str]] = {}  # what outlets tell Alertmanager of
        self._silences = Silences()
        self._process = ProcessCollector(registry=None)
        self._scraping = threading.Lock()
        self._stale: set[Family] = set()
        self._texts: dict[tuple[Family, bool], bytes] = {}
        starts: dict[Family, dict[Labels, float]] = {
            BUILD_INFO: {(driftbn.__version__,): 1.0},
            LINKS_INFO: {("", "", ""): 1.0},
            HTTP_REQUESTS: dict.fromkeys(product(ROUTES, STATUSES), 0.0),
        }
        self._own = {
            family: Series(family, None, start, self._stale) for family, start in starts.items()
        }
        self.registry.register(self)

    # Streams and outlets come and go.

    def add_outlet(self, outlet: str) -> None:
        self._outlets[outlet] = None
        for stream, outcome in product(self._streams.values(), SENT):
            stream.series[NOTIFY].add((outlet, outcome), 0.0)

    def add_stream(self, stream: str, source: str, *, keyed: bool = False) -> None:
        """Have all series of a stream, at zero."""
        found = Stream(stream, source, self._outlets, self._stale, keyed=keyed)
        found.series[OUTLET_ALERTS].replace(self._outlet_alerts())
        found.silence(self._silences)
        self._use({**self._streams, stream: found})

    def drop_stream(self, stream: str) -> None:
        self._use({name: found for name, found in self._streams.items() if name != stream})

    def links(self, page: str, dashboards: str, runbooks: str) -> None:
        self._own[LINKS_INFO].replace({(page, dashboards, runbooks): 1.0})

    def recall(
        self,
        stream: str,
        report: Mapping[str, Any] | None,
        levels: Mapping[str, str],
        open_: Mapping[str, Shown],
    ) -> None:
        """Show what was known before a restart: the last window; levels and episodes by key."""
        if found := self._streams.get(stream):
            found.recall(report, levels, open_)

    def silence(self, silences: Silences) -> None:
        """Show which open episodes are silenced from now on."""
        self._silences = silences
        for found in self._streams.values():
            found.silence(silences)

    # What streams and outlets tell.

    def records(self, stream: str, outcome: str, n_records: int) -> None:
        """Count records by what became of them: taken, rejected, failed."""
        if found := self._streams.get(stream):
            found.series[RECORDS].add((found.source, outcome), n_records)
            if outcome == "taken":
                found.set(TAKEN_TIME, self._clock())

    def rejected(self, stream: str, reason: str, n_records: int) -> None:
        if found := self._streams.get(stream):
            found.series[REJECTED].add((reason if reason in REASONS else OTHER,), n_records)

    def window(self, publication: Publication) -> None:
        """Note a window, or events without one, published for the first time in this run."""
        if found := self._streams.get(publication.stream):
            if publication.report:
                found.window(publication, self._clock())
            else:
                found.told(publication)

    def buffered(self, stream: str, n_records: int) -> None:
        if found := self._streams.get(stream):
            found.set(BUFFER, n_records)

    def behind(self, stream: str, lane: str, n_records: int) -> None:
        if found := self._streams.get(stream):
            found.set_lag(lane, n_records)

    def monitors(self, stream: str, n_monitors: int, n_resident: int, n_failed: int) -> None:
        """Note how many monitors a stream has, are in memory, and have failed."""
        if found := self._streams.get(stream):
            places: Values = {
                ("memory",): float(n_resident),
                ("disk",): float(n_monitors - n_resident),
            }
            found.series[MONITORS].replace(places)
            found.set(FAILED_MONITORS, n_failed)

    def state(self, stream: str, state: str) -> None:
        if found := self._streams.get(stream):
            found.set_state(state)

    def committed(self, stream: str, seconds: float) -> None:
        if found := self._streams.get(stream):
            found.set(CHECKPOINT_TIME, self._clock())
            found.set(CHECKPOINT_DURATION, seconds)

    def commit_failed(self, stream: str) -> None:
        if found := self._streams.get(stream):
            found.series[CHECKPOINT_FAILURES].add(())

    def restored(self, stream: str, moment: float) -> None:
        """Note that the state was damaged and is as of a moment again."""
        if found := self._streams.get(stream):
            found.set(STATE_RESTORED, moment)

    def notified(self, outlet: str, stream: str, outcome: str, n_events: int) -> None:
        """Count events by what became of them: sent, failed."""
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

    def describe(self) -> Iterable[Metric]:
        return [Metric(family.full_name, family.text, family.kind) for family in FAMILIES]

    def collect(self) -> Iterator[Metric]:
        for family, metric in zip(FAMILIES, self.describe(), strict=True):
            samples = (series.samples() for series in self._series_of(family))
            metric.samples = [sample for found in samples for sample in found]
            yield metric

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that a scraper accepts, and its content type.

        Behind the series of the streams stand those of the process: memory, processor time, files.
        """
        encoder, content_type = choose_encoder(accept)
        # The names of all metrics are plain, so no kind of escaping that may be asked for matters.
        rich = content_type.startswith("application/openmetrics")
        with self._scraping:
            texts = [self._text_of(family, rich=rich) for family in FAMILIES]
        return b"".join((*texts, encoder(self._process))), content_type

    def _use(self, streams: dict[str, Stream]) -> None:
        """Have these streams, by name; whoever iterates goes on with the old ones."""
        self._streams = dict(sorted(streams.items()))
        self._stale.update(FAMILIES)

    def _outlet_alerts(self) -> Values:
        told = frozenset[str]().union(*self._alerting.values())
        return {(matter,): float(matter in told) for matter in MATTERS}

    def _series_of(self, family: Family) -> Iterable[Series]:
        if family.of_process:
            return (self._own[family],)
        return (stream.series[family] for stream in self._streams.values())

    def _text_of(self, family: Family, *, rich: bool) -> bytes:
        """Return a family of all streams as text, kept until one of its series changes."""
        if family in self._stale:
            self._stale.discard(family)  # first: what changes from here on is seen next time
            self._texts.pop((family, True), None)
            self._texts.pop((family, False), None)
        text = self._texts.get((family, rich))
        if text is None:
            name = family.full_name if rich else family.sample_name
            head = f"# HELP {name} {family.text}\n# TYPE {name} {family.kind}\n".encode()
            lines = (series.text(rich=rich) for series in self._series_of(family))
            text = self._texts[family, rich] = b"".join((head, *lines))
        return text
