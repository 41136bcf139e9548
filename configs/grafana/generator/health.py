"""The daemon: does it keep up, does it write, does it deliver."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from generator.parts import (
    GREEN,
    HEALTH,
    ORANGE,
    RED,
    Panel,
    Query,
    add,
    bars,
    columns,
    graph,
    label_variable,
    levels,
    make_dashboard,
    number,
    page_link,
    plain_colors,
    rows,
)

RATE = "[$__rate_interval]"
MINE = 'instance="$instance",stream=~"$stream"'
ITS = 'job="driftbn",instance="$instance"'


def make_health() -> Dashboard:
    """Return the dashboard."""
    found = make_dashboard(HEALTH, "driftbn: the daemon", "Does it keep up, write and deliver?")
    found.with_variable(
        label_variable("instance", "Daemon", "label_values(driftbn_build_info, instance)")
    )
    streams = 'label_values(driftbn_stream_state{instance="$instance"}, stream)'
    choice = label_variable("stream", "Streams", streams).multi(True).include_all(True)
    found.with_variable(choice.all_value(".*"))
    found.link(page_link("Open the page", "http://${instance}/"))
    add(found, _numbers())
    found.with_row(Row("Records"))
    add(found, _records())
    found.with_row(Row("Work"))
    add(found, _work())
    found.with_row(Row("State and process"))
    add(found, _state())
    return found


def _numbers() -> Iterator[Panel]:
    up = number("Up", "Whether the daemon answers.", Query(f"sum(up{{{ITS}}})"))
    yield up.thresholds(levels(RED, (1, GREEN)))
    for title, text, expr, unit in (
        (
            "Oldest checkpoint",
            "After a crash, as much is read again; only streams that have one.",
            f"max(time() - (driftbn_checkpoint_timestamp_seconds{{{MINE}}} > 0))",
            "s",
        ),
        (
            "Waiting in sources",
            "What has not been read yet.",
            f"sum(driftbn_source_lag_records{{{MINE}}})",
            "short",
        ),
        (
            "Monitors in memory",
            "A stream with a key has one for each of its values.",
            f'sum(driftbn_monitors{{{MINE},place="memory"}})',
            "short",
        ),
    ):
        yield plain_colors(number(title, text, Query(expr), unit))
    for title, text, expr in (
        (
            "Writes that failed",
            "Checkpoints and history that could not be written, in the time shown.",
            f"sum(increase(driftbn_checkpoint_failures_total{{{MINE}}}[$__range]))",
        ),
        (
            "Stopped searches",
            "Windows whose search was stopped by a limit, in the time shown.",
            f"sum(increase(driftbn_windows_degraded_total{{{MINE}}}[$__range]))",
        ),
    ):
        panel = number(title, text, Query(expr)).decimals(0)
        yield panel.thresholds(levels(GREEN, (1, ORANGE)))


def _records() -> Iterator[Panel]:
    yield graph(
        "Throughput",
        "Records a second by what became of them.",
        Query(
            f"sum by (stream, outcome) (rate(driftbn_records_total{{{MINE}}}{RATE}))",
            "{{stream}}, {{outcome}}",
        ),
        unit="reqps",
    ).min(0)
    yield graph(
        "Waiting in the source",
        "It should go back to 0; if it grows, the daemon does not keep up.",
        Query(f"sum by (stream) (driftbn_source_lag_records{{{MINE}}})", "{{stream}}"),
    ).min(0)
    yield bars(
        "Rejected records",
        "Records a second that were set aside, by reason.",
        Query(
            f"sum by (reason) (rate(driftbn_records_rejected_total{{{MINE}}}{RATE}))",
            "{{reason}}",
        ),
        unit="reqps",
    )
    yield graph(
        "Waiting for their window",
        "Records of windows that are not full yet.",
        Query(f"sum by (stream) (driftbn_buffer_records{{{MINE}}})", "{{stream}}"),
    ).min(0)

    yield graph(
        "Age of the newest record",
        "How long ago a record was taken last.",
        Query(
            f"max by (stream) (time() - (driftbn_record_taken_timestamp_seconds{{{MINE}}} > 0))",
            "{{stream}}",
        ),
        unit="s",
    ).min(0)
    yield bars(
        "Requests",
        "Requests a second over HTTP, by kind of route and status.",
        Query(
            f"sum by (route, status) (rate(driftbn_http_requests_total{{{ITS}}}{RATE})) > 0",
            "{{route}} {{status}}",
        ),
        unit="reqps",
    )


def _work() -> Iterator[Panel]:
    bucket = f"rate(driftbn_relearn_duration_seconds_bucket{{{MINE}}}{RATE})"
    yield graph(
        "Time to relearn",
        "Half of the windows, and 95 in 100, took at most so long. Gaps: no window came.",
        Query(f"histogram_quantile(0.5, sum by (phase, le) ({bucket}))", "{{phase}}, half"),
        Query(f"histogram_quantile(0.95, sum by (phase, le) ({bucket}))", "{{phase}}, 95 %"),
        unit="s",
    ).min(0)
    delay = f"rate(driftbn_report_delay_seconds_bucket{{{MINE}}}{RATE})"
    yield graph(
        "Delay of reports",
        "From the last record of a window to its report, for 95 in 100 windows: since the time"
        " of the event, where records have one, and since the record was read.",
        Query(f"histogram_quantile(0.95, sum by (since, le) ({delay}))", "{{since}}, 95 %"),
        unit="s",
    ).min(0)
    yield bars(
        "Windows",
        "Windows a second by what they were called.",
        Query(f"sum by (outcome) (rate(driftbn_windows_total{{{MINE}}}{RATE}))", "{{outcome}}"),
    )
    yield bars(
        "Deliveries",
        "Events a second by outlet and outcome; 0 if there is no outlet.",
        Query(
            f"sum by (sink, outcome) (rate(driftbn_notify_total{{{MINE}}}{RATE}))"
            " or on() vector(0)",
            "{{sink}} {{outcome}}",
        ),
    )
    yield rows(
        "What streams do",
        "Running is well; drained is at its end; waiting and failed need a look.",
        Query(f"max by (stream, state) (driftbn_stream_state{{{MINE}}} == 1)"),
    ).with_transformation(columns({"stream": "stream", "state": "state"}, ["Time", "Value"]))


def _state() -> Iterator[Panel]:
    yield graph(
        "Age of the checkpoint",
        "It grows while nothing is new, and must not while records come.",
        Query(
            f"max by (stream) (time() - (driftbn_checkpoint_timestamp_seconds{{{MINE}}} > 0))",
            "{{stream}}",
        ),
        unit="s",
    ).min(0)
    yield graph(
        "Time to write a checkpoint",
        "How long the last one took.",
        Query(f"max by (stream) (driftbn_checkpoint_duration_seconds{{{MINE}}})", "{{stream}}"),
        unit="s",
    ).min(0)
    yield graph(
        "Memory",
        "What the process holds.",
        Query(f"process_resident_memory_bytes{{{ITS}}}", "{{instance}}"),
        unit="bytes",
    ).min(0)
    yield graph(
        "Processor",
        "Processors in use; 1 is one whole core.",
        Query(f"rate(process_cpu_seconds_total{{{ITS}}}{RATE})", "{{instance}}"),
    ).min(0)
    yield graph(
        "Scrapes",
        "How long it takes to read all metrics.",
        Query(f"scrape_duration_seconds{{{ITS}}}", "{{instance}}"),
        unit="s",
    ).min(0)
    yield graph(
        "Series",
        "How many metrics there are; each stream has a bound of its own.",
        Query(f"scrape_samples_scraped{{{ITS}}}", "{{instance}}"),
    ).min(0)
