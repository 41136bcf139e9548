"""All metrics of the daemon; the only module that counts for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import Any, Final

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

import driftbn
from driftbn.decision.outcome import DriftKind, DriftLevel
from service.decoding import RejectReason
from service.events import Publication
from service.metrics.window_gauges import StreamGauges, WindowGauges

OUTCOMES: Final = ("taken", "rejected", "failed")
REFUSALS: Final = ("no_key", "too_many_keys")
"""Why rows that could be read go to no monitor."""
SHOWN_ORDERS: Final = 4
"""Sizes of conditioning sets that have a series from the start."""
_BUCKETS: Final = (0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0)
_PHASES: Final = ("learn", "decide")
_STARTS: Final = ("warm", "cold")
_STATES: Final = ("starting", "running", "waiting", "drained", "failed", "stopped")


class Metrics:
    """Counts what streams and outlets do.

    Every series of a stream is there from ``add_stream`` on, and gone after ``drop_stream``. Labels
    are names from the settings and fixed words; only the two series families that name fields of a
    stream take words from the data, and both are bounded.

    Parameters
    ----------
    registry
        Where the metrics are registered; one of its own if not given.
    clock
        Returns seconds since the epoch.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.add_stream("orders", "files")
    >>> metrics.records("orders", "taken", 5)
    >>> metrics.registry.get_sample_value(
    ...     "driftbn_records_total", {"monitor": "orders", "source": "files", "outcome": "taken"}
    ... )
    5.0
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, clock: Callable[[], float] = time
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._clock = clock
        self._sources: dict[str, str] = {}
        self._sinks: list[str] = []
        self._windows = WindowGauges()
        self.registry.register(self._windows)
        self._make_counters()
        self._make_gauges()
        self._relearn = Histogram(
            "driftbn_relearn_duration_seconds",
            "Time spent on one window.",
            ["monitor", "phase", "start"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._info = self._gauge("build_info", "1; the version is a label.", "version")
        self._info.labels(driftbn.__version__).set(1)

    def _make_counters(self) -> None:
        counter = self._counter
        self._records = counter("records", "Records by what became of them.", "source", "outcome")
        self._rejected = counter("records_rejected", "Records set aside, by reason.", "reason")
        self._published = counter("windows", "Windows by what they were called.", "outcome")
        self._tests = counter("ci_tests", "Independence tests of the search.", "order", "result")
        self._alerts = counter("alerts", "Drifts that began, by kind.", "kind")
        self._schema = counter("schema_changes", "Windows with a change of the schema.")
        self._degraded = counter("windows_degraded", "Windows whose search hit a limit.")
        self._shadow = counter("shadow_windows", "Windows dealt out anew to test the decision.")
        self._shadow_alarms = counter("shadow_alarms", "Those of them that were called drift.")
        self._notified = counter("notify", "Events by what became of them.", "sink", "outcome")
        self._failures = counter("checkpoint_failures", "Checkpoints that could not be written.")

    def _make_gauges(self) -> None:
        gauge = self._stream_gauge
        self._buffer = gauge("buffer_records", "Records that wait for their window to fill.")
        self._lag = gauge("source_lag_records", "What waits in the source.", "source", "partition")
        self._checkpoint = gauge("checkpoint_timestamp_seconds", "Time of the last checkpoint.")
        self._checkpoint_time = gauge("checkpoint_duration_seconds", "Time it took.")
        self._window_time = gauge(
            "window_published_timestamp_seconds", "Time at which the last window was published."
        )
        self._stream_state = gauge("stream_state", "1 for what the stream does, else 0.", "state")
        self._n_monitors = gauge("monitors", "Monitors of a stream, by where they are.", "place")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        names = ["monitor", *labels]
        return Counter(f"driftbn_{name}", text, names, registry=self.registry)

    def _stream_gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return self._gauge(name, text, "monitor", *labels)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"driftbn_{name}", text, labels, registry=self.registry)

    # --- Streams come and go ---

    def add_sink(self, outlet: str) -> None:
        """Have the series of an outlet."""
        if outlet not in self._sinks:
            self._sinks.append(outlet)
        for stream in self._sources:
            self._add_notified(stream, outlet)

    def add_stream(self, stream: str, source: str) -> None:
        """Have all series of a stream, at zero."""
        self._sources[stream] = source
        self._windows.streams[stream] = StreamGauges()
        for outcome in OUTCOMES:
            self._records.labels(stream, source, outcome)
        for reason in (*(reason.value for reason in RejectReason), *REFUSALS):
            self._rejected.labels(stream, reason)
        for level in DriftLevel:
            self._published.labels(stream, level.value)
        for kind in DriftKind:
            self._alerts.labels(stream, kind.value)
        for order in range(SHOWN_ORDERS):
            for result in ("decided", "undecided"):
                self._tests.labels(stream, str(order), result)
        for phase in _PHASES:
            for start in _STARTS:
                self._relearn.labels(stream, phase, start)
        for outlet in self._sinks:
            self._add_notified(stream, outlet)
        for metric in (
            self._schema, self._degraded, self._shadow, self._shadow_alarms, self._failures,
            self._buffer, self._checkpoint, self._checkpoint_time, self._window_time,
        ):  # fmt: skip
            metric.labels(stream)
        for place in ("memory", "disk"):
            self._n_monitors.labels(stream, place)
        self._lag.labels(stream, source, "0")
        self.state(stream, "starting")

    def drop_stream(self, stream: str) -> None:
        """Let all series of a stream vanish."""
        self._sources.pop(stream, None)
        self._windows.streams.pop(stream, None)
        for metric in list(vars(self).values()):
            if isinstance(metric, Counter | Gauge | Histogram) and metric is not self._info:
                metric.remove_by_labels({"monitor": stream})

    def recall(self, stream: str, report: Mapping[str, Any] | None, kinds: Mapping[str, str]) -> None:
        """Show what was known before a restart.

        Parameters
        ----------
        stream
            Its name.
        report
            Its last window.
        kinds
            Kinds of the episodes that are open, by key.
        """
        gauges = self._windows.streams[stream]
        gauges.report = report
        gauges.open_episodes.update(kinds)

    # --- What an observer is told ---

    def records(self, stream: str, outcome: str, n_records: int) -> None:
        """Count records by what became of them."""
        self._records.labels(stream, self._sources[stream], outcome).inc(n_records)

    def rejected(self, stream: str, reason: str, n_records: int) -> None:
        """Count rejected records by reason."""
        self._rejected.labels(stream, reason).inc(n_records)

    def window(self, publication: Publication) -> None:
        """Note a window that was published."""
        stream, report = publication.monitor, publication.report
        gauges = self._windows.streams.get(stream)
        if gauges is None:
            return
        gauges.note(publication.key, report)
        decision = report["decision"]
        self._published.labels(stream, decision["level"]).inc()
        if decision["episode_event"] == "started" and decision["kind"] is not None:
            about = {"window": str(report["index"]), "episode": str(decision["episode"])}
            self._alerts.labels(stream, decision["kind"]).inc(exemplar=about)
        self._count_if(self._schema, stream, bool(report["events"]))
        self._count_if(self._degraded, stream, report["degraded"])
        shadow = report["shadow"]
        self._count_if(self._shadow, stream, shadow is not None)
        self._count_if(self._shadow_alarms, stream, shadow is not None and shadow["alarm"])
        self._count_tests(stream, report["cost"])
        start = "warm" if report["cost"]["warm"] else "cold"
        for phase in _PHASES:
            seconds = publication.timings.get(phase, 0.0)
            about = {"window": str(report["index"])}
            self._relearn.labels(stream, phase, start).observe(seconds, about)
        self._window_time.labels(stream).set(self._clock())

    def buffered(self, stream: str, n_records: int) -> None:
        """Note how many records wait for their window to fill."""
        self._buffer.labels(stream).set(n_records)

    def behind(self, stream: str, lane: str, n_records: int) -> None:
        """Note how much waits in the source."""
        self._lag.labels(stream, self._sources[stream], lane or "0").set(n_records)

    def monitors(self, stream: str, n_monitors: int, n_resident: int) -> None:
        """Note how many monitors a stream has, and how many of them are in memory."""
        self._n_monitors.labels(stream, "memory").set(n_resident)
        self._n_monitors.labels(stream, "disk").set(n_monitors - n_resident)

    def state(self, stream: str, state: str) -> None:
        """Note what a stream is doing."""
        for known in _STATES:
            self._stream_state.labels(stream, known).set(known == state)

    def committed(self, stream: str, seconds: float) -> None:
        """Note a checkpoint and how long it took."""
        self._checkpoint.labels(stream).set(self._clock())
        self._checkpoint_time.labels(stream).set(seconds)

    def commit_failed(self, stream: str) -> None:
        """Count a checkpoint that could not be written."""
        self._failures.labels(stream).inc()

    def notified(self, outlet: str, monitor: str, outcome: str, n_events: int) -> None:
        """Count events by what became of them."""
        self._notified.labels(monitor, outlet, outcome).inc(n_events)

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that a scraper accepts, and its content type."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type

    def _add_notified(self, stream: str, outlet: str) -> None:
        for outcome in ("sent", "failed"):
            self._notified.labels(stream, outlet, outcome)

    def _count_tests(self, stream: str, cost: Mapping[str, Any]) -> None:
        undecided = cost["undecided"]
        for order, n_tests in enumerate(cost["tests"]):
            n_undecided = undecided[order] if order < len(undecided) else 0
            self._tests.labels(stream, str(order), "undecided").inc(n_undecided)
            self._tests.labels(stream, str(order), "decided").inc(n_tests - n_undecided)

    def _count_if(self, counter: prometheus.Counter, stream: str, happened: bool) -> None:
        if happened:
            counter.labels(stream).inc()
