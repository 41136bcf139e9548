"""Events and metrics sent to an OpenTelemetry Collector, or what else takes OTLP over HTTP."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from time import time_ns
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric

import driftbn
from driftbn_service.events import Event
from driftbn_service.outlets.base import ENDS, Outlet, OutletError
from driftbn_service.settings import OpentelemetryOutletSettings

TIMEOUT_SECONDS: Final = 10.0
"""How long an answer may take, tries of the exporter included."""
_SCOPE: Final = InstrumentationScope("driftbn", driftbn.__version__)


class OpentelemetryOutlet(Outlet):
    """Sends each event as a log record, and every so often all that ``/metrics`` shows.

    ``collect`` returns what ``/metrics`` is made of, so names, labels and values are the same. An
    event may come twice after a crash, with the same ``cloudevents.event_id``.
    """

    refresh_seconds = 60.0

    def __init__(
        self,
        settings: OpentelemetryOutletSettings,
        collect: Callable[[], Iterable[Metric]],
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(settings.name)
        headers = dict(settings.headers)
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        base = settings.url.rstrip("/")
        self._logs = OTLPLogExporter(f"{base}/v1/logs", headers=headers, timeout=timeout_seconds)
        self._metrics = OTLPMetricExporter(
            f"{base}/v1/metrics", headers=headers, timeout=timeout_seconds
        )
        named = Resource({"service.name": "driftbn", "service.version": driftbn.__version__})
        self._resource = named.merge(OTELResourceDetector().detect())
        self._collect = collect
        self._began = time_ns()

    def send(self, events: Sequence[Event]) -> None:
        """Send events as one batch, which is taken whole or tried again."""
        records = [
            ReadableLogRecord(_log_record(event), self._resource, _SCOPE) for event in events
        ]
        if self._logs.export(records) is not LogRecordExportResult.SUCCESS:
            raise OutletError(self.name, "log records are not taken; the log says why")

    def refresh(self, events: Sequence[Event]) -> None:
        """Send all metrics as they are now."""
        now = time_ns()
        metrics = [self._metric(metric, now) for metric in self._collect()]
        scope = sdk.ScopeMetrics(_SCOPE, [metric for metric in metrics if metric], "")
        data = sdk.MetricsData([sdk.ResourceMetrics(self._resource, [scope], "")])
        if self._metrics.export(data) is not sdk.MetricExportResult.SUCCESS:
            raise OutletError(self.name, "metrics are not taken; the log says why")

    def close(self) -> None:
        self._logs.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()

    def _metric(self, metric: Metric, now: int) -> sdk.Metric | None:
        """Return a metric in the form of the SDK; ``None`` if it has no value now."""
        points: list[Any] = (
            [
                _histogram_point(labels, values, self._began, now)
                for labels, values in _by_labels(metric)
            ]
            if metric.type == "histogram"
            else [
                sdk.NumberDataPoint(sample.labels, self._began, now, sample.value)
                for sample in metric.samples
                if not math.isnan(sample.value) and not sample.name.endswith("_created")
            ]
        )
        cumulative = sdk.AggregationTemporality.CUMULATIVE
        data: Any = sdk.Gauge(points)
        if metric.type == "histogram":
            data = sdk.Histogram(points, cumulative)
        elif metric.type == "counter":
            data = sdk.Sum(points, cumulative, is_monotonic=True)
        return sdk.Metric(metric.name, metric.documentation, "", data) if points else None


def _log_record(event: Event) -> LogRecord:
    document = event.document
    calm = event.type in ENDS
    told = {
        "cloudevents.event_id": event.id,
        "cloudevents.event_type": event.type,
        "cloudevents.event_source": document.get("source"),
        "driftbn.stream": event.stream,
        "driftbn.key": event.key,
        "driftbn.window": event.window,
        "driftbn.event": event.to_json().decode(),
    }
    moment = datetime.fromisoformat(document["time"])
    return LogRecord(
        timestamp=round(moment.timestamp() * 1e6) * 1000,
        observed_timestamp=time_ns(),
        severity_text="INFO" if calm else "WARN",
        severity_number=SeverityNumber.INFO if calm else SeverityNumber.WARN,
        body=_utf8(document["data"]["headline"]),
        attributes={name: _utf8(value) for name, value in told.items() if value is not None},
        event_name=event.type,
    )


def _utf8(value: Any) -> Any:
    """Return a text without half characters, which JSON may hold and UTF-8 has not."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _by_labels(metric: Metric) -> Iterator[tuple[dict[str, str], dict[str, float]]]:
    """Return the samples of each histogram by the ends of its buckets, ``count`` and ``sum``."""
    found: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for sample in metric.samples:
        labels = {name: text for name, text in sample.labels.items() if name != "le"}
        part = sample.labels.get("le", sample.name.rpartition("_")[2])
        found.setdefault(tuple(labels.items()), {})[part] = sample.value
    return ((dict(labels), values) for labels, values in found.items())


def _histogram_point(
    labels: Mapping[str, str], values: Mapping[str, float], began: int, now: int
) -> sdk.HistogramDataPoint:
    """Return a histogram with what each bucket has by itself: Prometheus adds them up."""
    ends = sorted((float(part), n) for part, n in values.items() if part not in ("count", "sum"))
    below = [0.0, *(n for _, n in ends)]
    counts = [int(n - m) for m, n in pairwise(below)]
    limits = [end for end, _ in ends if math.isfinite(end)]
    smallest: Any = None  # and largest: not known
    return sdk.HistogramDataPoint(
        labels, began, now, int(values["count"]), values["sum"], counts, limits, smallest, smallest
    )
