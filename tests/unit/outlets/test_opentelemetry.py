"""Events and metrics as OTLP, over a real socket, read by the protocol's own messages.

The other side is a loopback server of ours, not a Collector: building one takes minutes.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from driftbn_service.metrics import Metrics
from driftbn_service.outlets import OutletError, make_outlet
from driftbn_service.outlets.opentelemetry import OpentelemetryOutlet
from driftbn_service.settings import OpentelemetryOutletSettings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from tests.outlet_parts import Receiver, answer, make_event, receiver

TIME = "2026-03-02T13:33:20.250000+00:00"


def outlet_to(url: str, metrics: Metrics | None = None) -> OpentelemetryOutlet:
    values = {"url": url, "token": "t0ken", "headers": {"X-Team": "data"}}
    settings = OpentelemetryOutletSettings.model_validate(values)
    return OpentelemetryOutlet(settings, (metrics or Metrics()).everything, timeout_seconds=0.2)


def attributes(found: list[KeyValue]) -> dict[str, object]:
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value")
        for one in found
    }


def sent_metrics(found: Receiver) -> dict[str, Metric]:
    (request,) = found.requests
    assert request.path == "/hook/secret-path/v1/metrics"
    (resource,) = ExportMetricsServiceRequest.FromString(request.body).resource_metrics
    assert attributes(list(resource.resource.attributes))["service.name"] == "driftbn"
    return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def test_events_are_log_records_with_the_headline_as_body() -> None:
    events = [make_event(1, time=TIME), make_event(2, time=TIME, headline="half \ud800")]
    with receiver() as found:
        outlet = outlet_to(found.url)
        outlet.send(events)
        outlet.close()
    (request,) = found.requests
    assert request.path == "/hook/secret-path/v1/logs"
    assert (request.headers["Authorization"], request.headers["X-Team"]) == ("Bearer t0ken", "data")
    (resource,) = ExportLogsServiceRequest.FromString(request.body).resource_logs
    first, second = resource.scope_logs[0].log_records
    assert first.body.string_value == events[0].document["data"]["headline"]
    assert (first.time_unix_nano, first.severity_text) == (1772458400250000000, "WARN")
    told = attributes(list(first.attributes))
    assert told["cloudevents.event_id"] == events[0].id
    assert (told["driftbn.stream"], told["driftbn.window"]) == ("orders", 1)
    assert told["driftbn.event"] == events[0].to_json().decode()
    assert second.body.string_value == "half ?"


def test_metrics_are_those_that_a_scraper_reads() -> None:
    metrics = Metrics()
    stream = metrics.add_stream("orders", "files")
    stream.records("taken", 5)
    with receiver() as found:
        outlet = outlet_to(found.url, metrics)
        outlet.refresh(())
        outlet.close()
    sent = sent_metrics(found)
    known = {metric.name: metric for metric in metrics.everything()}
    assert sent.keys() <= known.keys()
    shown = {
        name for name, metric in known.items() if any(s.value == s.value for s in metric.samples)
    }
    assert sent.keys() == shown
    records = sent["driftbn_records"].sum
    assert (records.is_monotonic, records.aggregation_temporality) == (
        True,
        AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE,
    )
    by_outcome = {
        attributes(list(point.attributes))["outcome"]: point.as_double
        for point in records.data_points
    }
    assert by_outcome["taken"] == 5.0


def test_buckets_of_a_histogram_count_by_themselves() -> None:
    metrics = Metrics()
    series = metrics.add_stream("orders", "files").series
    (delay,) = (one for family, one in series.items() if family.name == "report_delay_seconds")
    for seconds in (0.5, 2.0, 2.5, 1e9):
        delay.observe(("event",), seconds, None)  # type: ignore[arg-type]
    with receiver() as found:
        outlet_to(found.url, metrics).refresh(())
    points = sent_metrics(found)["driftbn_report_delay_seconds"].histogram.data_points
    (point,) = (p for p in points if attributes(list(p.attributes))["since"] == "event")
    assert list(point.explicit_bounds)[:2] == [1.0, 2.5]
    assert list(point.bucket_counts) == [1, 2, 0, 0, 0, 0, 0, 1]
    assert (point.count, point.sum) == (4, 1e9 + 5.0)


def test_what_is_not_taken_is_tried_again() -> None:
    with receiver([answer(503), answer(400)]) as found:
        outlet = outlet_to(found.url)
        with pytest.raises(OutletError, match="opentelemetry: log records are not taken"):
            outlet.send([make_event(1, time=TIME)])
        with pytest.raises(OutletError, match="opentelemetry: metrics are not taken"):
            outlet.refresh(())
        outlet.send([make_event(1, time=TIME)])
        outlet.close()
    assert [request.path.rpartition("/")[2] for request in found.requests] == [
        "logs",
        "metrics",
        "logs",
    ]


def test_settings_make_the_outlet_and_nothing_else_loads_the_sdk() -> None:
    made = make_outlet(OpentelemetryOutletSettings(url="http://127.0.0.1:4318"))
    assert isinstance(made, OpentelemetryOutlet)
    made.close()
    code = "import driftbn_service.daemon, sys; sys.exit('opentelemetry' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
