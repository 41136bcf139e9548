"""One stream: what changed, how sure that is, and what it costs to know."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard, Row
from grafana_foundation_sdk.builders.nodegraph import Panel as NodeGraph
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from generator.parts import (
    API,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    PROMETHEUS,
    RED,
    STREAM,
    WIDTH,
    Panel,
    Query,
    Table,
    TimeSeries,
    add,
    api_variable,
    columns,
    fixed,
    graph,
    instance_variable,
    levels,
    log_scale,
    make_dashboard,
    number,
    page_link,
    plain_colors,
    rows,
    steps,
    stream_variable,
)

MINE = 'stream="$stream"'
_GRAPH = "/api/v1/streams/${stream}/graph"


def make_stream() -> Dashboard:
    """Return the dashboard."""
    found = make_dashboard(
        STREAM, "driftbn: one stream", "What changed in a stream, and since when."
    )
    found.with_variable(stream_variable()).with_variable(instance_variable())
    found.with_variable(api_variable()).link(page_link("Open the page", PAGE))
    found.annotation(_episodes())
    add(found, _numbers())
    found.with_panel(_hamming()).with_panel(_p_values())
    found.with_panel(_changed_edges()).with_panel(_node_graph())
    found.with_row(Row("Learning"))
    add(found, _learning())
    found.with_row(Row("Trust"))
    add(found, _trust())
    return found


def _episodes() -> AnnotationQuery:
    """Return drifts as coloured stretches of time: where the expression has values one is open."""
    found = AnnotationQuery().name("Drifts").datasource(PROMETHEUS).enable(True)
    found.icon_color(RED)
    return found.expr(f"sum by (stream, kind) (driftbn_episodes_open{{{MINE}}}) > 0")


def _numbers() -> Iterator[Panel]:
    state = number(
        "Last window",
        "What the last window was called: learning, stable, negligible, drift, settling (the window"
        " after a drift) or undecided (too few records, or an error).",
        Query(f"driftbn_state{{{MINE}}} > 0", "{{state}}"),
    )
    yield plain_colors(state).text_mode(common.BigValueTextMode.NAME)
    yield number(
        "Open drifts",
        "Drifts that have begun and not ended; a stream with a key may have several.",
        Query(f"sum(driftbn_episodes_open{{{MINE}}})"),
    ).thresholds(levels(GREEN, (1, RED)))
    yield number(
        "Last window published",
        "How long ago.",
        Query(f"time() - max(driftbn_window_published_timestamp_seconds{{{MINE}}} > 0)"),
        unit="s",
    ).decimals(0)
    for title, text, expr in (
        ("Wait for their window", "Records of a window that is not full yet.", "buffer_records"),
        ("Fields", "Fields in the graph.", "graph_nodes"),
        ("Edges", "Pairs of fields with a direct relation.", "graph_edges"),
    ):
        query = Query(f"sum(driftbn_{expr}{{{MINE}}})")
        yield plain_colors(number(title, text, query))


def _hamming() -> TimeSeries:
    panel = graph(
        "Changes of the graph",
        "Edges that differ from the window before as learned, most of them by chance, and those"
        " that a test confirms. One confirmed change is drift: the dashed line. The band is where"
        " the distance of the DAG was in the last calm windows of this stream.",
        Query(
            f'max by (part) (driftbn_structural_hamming_distance{{{MINE},reference="previous"}})',
            "raw, {{part}}",
        ),
        Query(f"max(driftbn_confirmed_hamming_distance{{{MINE}}})", "confirmed"),
        Query(f'max(driftbn_structural_hamming_band{{{MINE},limit="lower"}})', "band, lower"),
        Query(f'max(driftbn_structural_hamming_band{{{MINE},limit="upper"}})', "band, upper"),
    )
    band = [fixed(BLUE), DynamicConfigValue("custom.lineWidth", 0)]
    panel.override_by_name("band, lower", [*band, DynamicConfigValue("custom.fillOpacity", 0)])
    filled = DynamicConfigValue("custom.fillOpacity", 15)
    below = DynamicConfigValue("custom.fillBelowTo", "band, lower")
    panel.override_by_name("band, upper", [*band, filled, below])
    panel.override_by_regexp("raw.*", [fixed(GREY)])
    panel.override_by_name("confirmed", [fixed(RED), DynamicConfigValue("custom.lineWidth", 2)])
    dashed = common_builders.GraphThresholdsStyleConfig()
    panel.thresholds(levels("transparent", (1, RED)))
    panel.thresholds_style(dashed.mode(common.GraphThresholdsStyleMode.DASHED))
    return steps(panel).min(0)


def _p_values() -> TimeSeries:
    panel = graph(
        "How sure: p-values",
        "How likely the strongest sign of change would be if nothing had changed, corrected for the"
        " number of tests. Below the threshold a window is drift.",
        Query(f"min by (family) (clamp_min(driftbn_drift_p_value{{{MINE}}}, 1e-20))", "{{family}}"),
        Query(f"max(driftbn_drift_threshold{{{MINE}}})", "threshold"),
    )
    dashes = {"fill": "dash", "dash": [8, 6]}
    style = [fixed(RED), DynamicConfigValue("custom.lineStyle", dashes)]
    panel.override_by_name("threshold", [*style, DynamicConfigValue("custom.fillOpacity", 0)])
    return steps(log_scale(panel))


def _changed_edges() -> Table:
    panel = rows(
        "Relations that changed",
        "Pairs of fields whose direct relation was added, removed or reversed in the time shown,"
        " the surest first: a score of 6 means that chance does this once in a million times. Empty"
        " if none was. At most ten are shown at a time.",
        Query(
            "sort_desc(max by (from, to, change) ("
            f"max_over_time(driftbn_edge_change_score{{{MINE}}}[$__range])))"
        ),
    )
    headings = {"from": "from", "to": "to", "change": "what happened", "Value": "score"}
    panel.with_transformation(columns(headings, ["Time"]))
    panel.override_by_name("score", [DynamicConfigValue("decimals", 1)])
    return panel.span(8).height(14)


def _node_graph() -> NodeGraph:
    panel = NodeGraph().title("The graph of the last window").datasource(API)
    panel.description(
        "Fields and their direct relations. Grey: kept. Green: added. Red and dashed: removed."
        " Brown: reversed. Thick: confirmed by a test."
    )
    panel.with_target(_ApiQuery("nodes", f"{_GRAPH}/nodes", "node-graph-nodes"))
    panel.with_target(_ApiQuery("edges", f"{_GRAPH}/edges", "node-graph-edges"))
    return panel.span(16).height(14)


class _ApiQuery(Builder[UnknownDataquery]):
    """A question to the API of the daemon by the Infinity data source, which the SDK has not."""

    def __init__(self, name: str, url: str, form: str) -> None:
        self._data = {
            "refId": name,
            "datasource": API.to_json(),
            "type": "json",
            "parser": "backend",
            "source": "url",
            "url": url,
            "url_options": {"method": "GET", "data": ""},
            "format": form,
            "root_selector": "",
            "columns": [],
            "filters": [],
        }

    def build(self) -> UnknownDataquery:
        return UnknownDataquery(self._data)


def _learning() -> Iterator[Panel]:
    rate = "[$__rate_interval]"
    name = "driftbn_relearn_duration_seconds"
    parts = (
        f"sum by (phase, start) (rate({name}_{word}{{{MINE}}}{rate}))" for word in ("sum", "count")
    )
    yield graph(
        "Time for one window",
        "Warm: the search goes on from the graph before. Cold: it starts from nothing. Gaps:"
        " no window came.",
        Query(" / ".join(parts), "{{phase}}, {{start}}"),
        unit="s",
    ).min(0)
    yield graph(
        "Independence tests",
        "Tests a second by how many fields they hold fixed; the more, the dearer.",
        Query(f"sum by (order) (rate(driftbn_ci_tests_total{{{MINE}}}{rate}))", "{{order}} fixed"),
    ).min(0)
    yield steps(
        graph(
            "Warm against cold",
            "Edges by which the last search from nothing differed from the one that went on;"
            " and the pairs of fields with too few records to tell a change.",
            Query(
                f"max(driftbn_warm_cold_disagreement_edges{{{MINE}}})",
                "edges that differ",
            ),
            Query(f"max(driftbn_undecided_pairs{{{MINE}}})", "undecided pairs"),
        )
    ).min(0)
    yield steps(
        graph(
            "Size of the graph",
            "Fields, and edges by whether the data tell their direction.",
            Query(f"max(driftbn_graph_nodes{{{MINE}}})", "fields"),
            Query(f"sum by (kind) (driftbn_graph_edges{{{MINE}}})", "{{kind}} edges"),
        )
    ).min(0)


def _trust() -> Iterator[Panel]:
    range_ = "[$__range]"
    alarms = f"sum(increase(driftbn_shadow_alarms_total{{{MINE}}}{range_}))"
    looks = f"sum(increase(driftbn_shadow_windows_total{{{MINE}}}{range_}))"
    yield number(
        "False alarms seen",
        "Share of windows in which nothing can have changed that were called drift all the"
        " same, in the time shown; compare it with the threshold.",
        Query(f"{alarms} / ({looks} > 0) or on() vector(0)"),
        unit="percentunit",
    ).height(8)
    yield plain_colors(
        number(
            "Threshold",
            "Share of windows without change that may be called drift.",
            Query(f"max(driftbn_drift_threshold{{{MINE}}})"),
            unit="percentunit",
        )
    ).height(8)
    yield (
        number(
            "Not shown",
            "Fields and edges without a series of their own because there are too many.",
            Query(f"sum(driftbn_series_truncated{{{MINE}}})"),
        )
        .thresholds(levels(GREEN, (1, ORANGE)))
        .height(8)
    )
    yield (
        rows(
            "Columns left out",
            "Columns without part in the graph, by reason.",
            Query(f"sum by (reason) (driftbn_variables_excluded{{{MINE}}})"),
        )
        .with_transformation(columns({"reason": "reason", "Value": "columns"}, ["Time"]))
        .span(6)
    )
    yield (
        graph(
            "Missing values",
            "Share of missing values of the ten fields with the most; 0 if there are none.",
            Query(
                f"topk(10, max by (variable) (driftbn_variable_missing_ratio{{{MINE}}}))"
                " or on() vector(0)",
                "{{variable}}",
            ),
            unit="percentunit",
        )
        .min(0)
        .span(6)
    )
    yield (
        graph(
            "Size of the change",
            "How far the relations moved, in nats a record: 0.01 is slight, 0.3 very strong.",
            Query(f"max(driftbn_drift_effect_nats{{{MINE}}})", "effect"),
        )
        .min(0)
        .span(WIDTH)
        .override_by_name("effect", [fixed(BLUE)])
    )
    yield (
        graph(
            "Distance from the baseline",
            "How far the stream has travelled from its first regime, or from what was accepted"
            " last, in nats a record, and the fields that carry most of it. It wakes nobody.",
            Query(f"max(driftbn_baseline_distance_nats{{{MINE}}})", "all fields"),
            Query(
                f"max by (variable) (driftbn_baseline_distance_field_nats{{{MINE}}})",
                "{{variable}}",
            ),
        )
        .min(0)
        .span(WIDTH)
        .override_by_name("all fields", [fixed(RED)])
    )
