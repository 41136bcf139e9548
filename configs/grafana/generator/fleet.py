"""All streams at a glance."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.statetimeline import Panel as StateTimeline
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from generator.parts import (
    FLEET,
    GREEN,
    ORANGE,
    PROMETHEUS,
    RED,
    STREAM,
    WIDTH,
    Panel,
    Query,
    Table,
    add,
    bars,
    columns,
    graph,
    levels,
    log_scale,
    make_dashboard,
    merged,
    number,
    plain_colors,
    rows,
    steps,
    target,
)


def make_fleet() -> Dashboard:
    """Return the dashboard."""
    found = make_dashboard(
        FLEET, "driftbn: all streams", "Which streams drift, and which stand still."
    )
    add(found, _numbers())
    found.with_panel(_timeline())
    found.with_panel(_streams())
    found.with_panel(
        bars(
            "Drifts that began",
            "By kind: structural and association are about which fields depend on each"
            " other, mechanism and marginal about how a field comes out, data about a field that"
            " looks broken.",
            Query("sum by (kind) (increase(driftbn_alerts_total[$__rate_interval]))", "{{kind}}"),
        )
    )
    found.with_panel(
        steps(
            graph(
                "Confirmed changes of edges",
                "Edges that changed in the last window of each stream, confirmed by a test.",
                Query("sum by (stream) (driftbn_confirmed_hamming_distance)", "{{stream}}"),
            )
        ).min(0)
    )
    found.with_panel(
        graph(
            "Records",
            "Records of each stream a second.",
            Query("sum by (stream) (rate(driftbn_records_total[$__rate_interval]))", "{{stream}}"),
            unit="reqps",
        ).min(0)
    )
    p_values = graph(
        "Smallest p-value",
        "The strongest sign of change in each stream; below its threshold a window is drift.",
        Query("min by (stream) (clamp_min(driftbn_drift_p_value, 1e-20))", "{{stream}}"),
    )
    found.with_panel(steps(log_scale(p_values)))
    return found


def _numbers() -> Iterator[Panel]:
    yield plain_colors(
        number(
            "Streams",
            "Streams that are watched.",
            Query('count(driftbn_stream_state{state="running"})'),
        )
    )
    yield number(
        "With an open drift",
        "Streams whose relations have changed and have not settled yet.",
        Query("count(sum by (stream) (driftbn_episodes_open) > 0) or on() vector(0)"),
    ).thresholds(levels(GREEN, (1, RED)))
    yield (
        number(
            "Drifts in this time",
            "Drifts that began in the time shown.",
            Query("sum(increase(driftbn_alerts_total[$__range]))"),
        )
        .decimals(0)
        .thresholds(levels(GREEN, (1, ORANGE)))
    )
    yield number(
        "Not running",
        "Streams that have failed or cannot reach their source.",
        Query('count(driftbn_stream_state{state=~"failed|waiting"} == 1) or on() vector(0)'),
    ).thresholds(levels(GREEN, (1, RED)))
    yield number(
        "Alerts",
        "Alerts of driftbn that fire now.",
        Query('count(ALERTS{alertname=~"Driftbn.*",alertstate="firing"}) or on() vector(0)'),
    ).thresholds(levels(GREEN, (1, RED)))
    yield plain_colors(
        number(
            "Records",
            "Records of all streams a second.",
            Query("sum(rate(driftbn_records_total[$__rate_interval]))"),
            unit="reqps",
        )
    )


def _timeline() -> StateTimeline:
    panel = StateTimeline().title("Open drifts").datasource(PROMETHEUS)
    panel.description("Green: the relations are as they were. Red: a drift is open.")
    query = Query("sum by (stream) (driftbn_episodes_open)", "{{stream}}")
    panel.with_target(target(query, "A").range())
    panel.thresholds(levels(GREEN, (1, RED))).show_value(common.VisibilityMode.NEVER)
    return panel.merge_values(True).row_height(0.8).height(8).span(WIDTH)


def _streams() -> Table:
    by = "by (stream, instance)"
    panel = rows(
        "Streams",
        "The newest values of each stream. Click a stream to see more of it.",
        Query(f"sum {by} (driftbn_episodes_open)"),
        Query(f"min {by} (driftbn_drift_p_value)"),
        Query(f"sum {by} (rate(driftbn_records_total[5m]))"),
        Query(f"sum {by} (driftbn_source_lag_records)"),
        Query(f"time() - max {by} (driftbn_window_published_timestamp_seconds > 0)"),
    )
    headings = {
        "stream": "stream",
        "Value #A": "open drifts",
        "Value #B": "p-value",
        "Value #C": "records/s",
        "Value #D": "waiting",
        "Value #E": "last window",
        "instance": "daemon",
    }
    panel.with_transformation(merged()).with_transformation(columns(headings, ["Time"]))
    stream = {"title": "Show the stream", "url": f"/d/{STREAM}?var-stream=${{__value.text}}"}
    page = {
        "title": "Open the page",
        "url": "http://${__data.fields.daemon}/#stream=${__data.fields.stream}",
        "targetBlank": True,
    }
    panel.override_by_name("stream", [DynamicConfigValue("links", [stream, page])])
    seconds = [DynamicConfigValue("unit", "s"), DynamicConfigValue("decimals", 0)]
    panel.override_by_name("last window", seconds)
    panel.override_by_name("records/s", [DynamicConfigValue("decimals", 1)])
    return panel.span(WIDTH)
