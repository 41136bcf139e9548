"""What the dashboards have in common: data sources, variables, links, and panels by a few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    FieldColor,
    QueryVariable,
    ThresholdsConfig,
)
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

PROMETHEUS = DataSourceRef("prometheus", "${datasource}")
API_TYPE = "yesoreyeram-infinity-datasource"
API = DataSourceRef(API_TYPE, "${api}")

FLEET, STREAM, HEALTH = "driftbn-fleet", "driftbn-stream", "driftbn-health"
"""Uids, which links and bookmarks rely on."""
PAGE = "http://${instance}/#stream=${stream}"
"""The page of a stream, where the daemon that has it is scraped."""

WIDTH = 24
GREEN, BLUE, RED, GREY, ORANGE = "green", "blue", "red", "#8e8e8e", "orange"

TimeSeries = timeseries.Panel
Stat = stat.Panel
Table = table.Panel
Panel = TimeSeries | Stat | Table


@dataclass(frozen=True)
class Query:
    """A question to Prometheus.

    Parameters
    ----------
    expr
        PromQL; ``$stream``, ``$__rate_interval`` and ``$__range`` are filled in by Grafana.
    legend
        Name of each series.
    """

    expr: str
    legend: str = ""


def make_dashboard(uid: str, title: str, description: str) -> Dashboard:
    """Begin a dashboard: data source, times and links to the other ones."""
    found = (
        Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["driftbn"])
        .readonly()
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(
            DatasourceVariable("datasource")
            .label("Prometheus")
            .type("prometheus")
            .current(_option("driftbn-prometheus"))
            .hide(VariableHide.HIDE_VARIABLE)
        )
    )
    links = {FLEET: "All streams", STREAM: "One stream", HEALTH: "The daemon"}
    for other, name in links.items():
        if other != uid:
            link = DashboardLink(name).type(DashboardLinkType.LINK).url(f"/d/{other}")
            found.link(link.keep_time(True).include_vars(True))
    return found


def add(dashboard: Dashboard, panels: Iterable[Panel]) -> None:
    for panel in panels:
        dashboard.with_panel(panel)


def page_link(title: str, url: str) -> DashboardLink:
    """Return a link to the page, which opens beside the dashboard."""
    link = DashboardLink(title).type(DashboardLinkType.LINK).url(url)
    return link.icon("external link").target_blank(True)


def label_variable(name: str, label: str, query: str) -> QueryVariable:
    """Return a variable that takes its values from a label."""
    found = QueryVariable(name).label(label).datasource(PROMETHEUS).query(query)
    return found.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def stream_variable() -> QueryVariable:
    """Return the choice of a stream."""
    return label_variable("stream", "Stream", "label_values(driftbn_stream_state, stream)")


def instance_variable() -> QueryVariable:
    """Return the daemon that has the stream, for links; nobody has to see it."""
    query = 'label_values(driftbn_stream_state{stream="$stream"}, instance)'
    return label_variable("instance", "Daemon", query).hide(VariableHide.HIDE_VARIABLE)


def api_variable() -> DatasourceVariable:
    """Return the data source for the API of the daemon."""
    found = DatasourceVariable("api").label("API").type(API_TYPE)
    return found.current(_option("driftbn-api")).hide(VariableHide.HIDE_VARIABLE)


def graph(title: str, text: str, *queries: Query, unit: str = "short") -> TimeSeries:
    """Return lines over time."""
    panel = TimeSeries().title(title).description(text).datasource(PROMETHEUS).unit(unit)
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    panel.legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(True))
    panel.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    panel.line_width(1).fill_opacity(8).show_points(common.VisibilityMode.AUTO)
    for query, letter in zip(queries, "ABCDEFGH", strict=False):
        panel.with_target(target(query, letter).range())
    return panel.height(8).span(12)


def bars(title: str, text: str, *queries: Query, unit: str = "short") -> TimeSeries:
    """Return bars over time, on top of each other."""
    panel = graph(title, text, *queries, unit=unit).draw_style(common.GraphDrawStyle.BARS)
    stacked = common_builders.StackingConfig().mode(common.StackingMode.NORMAL)
    return panel.fill_opacity(60).line_width(0).stacking(stacked).min(0)


def steps(panel: TimeSeries) -> TimeSeries:
    """Draw a value that holds until the next window as steps."""
    return panel.line_interpolation(common.LineInterpolation.STEP_AFTER)


def log_scale(panel: TimeSeries) -> TimeSeries:
    """Have an axis on which each step is a tenth."""
    scale = common_builders.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10)
    return panel.scale_distribution(scale).max(1).unit("none")


def number(title: str, text: str, query: Query, unit: str = "short") -> Stat:
    """Return one number."""
    panel = Stat().title(title).description(text).datasource(PROMETHEUS).unit(unit)
    panel.with_target(target(query, "A").instant())
    panel.graph_mode(common.BigValueGraphMode.NONE).color_mode(common.BigValueColorMode.VALUE)
    panel.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    return panel.thresholds(levels(GREEN)).height(4).span(4)


def rows(title: str, text: str, *queries: Query) -> Table:
    """Return a table of the newest values; each question gives columns."""
    panel = Table().title(title).description(text).datasource(PROMETHEUS)
    for query, letter in zip(queries, "ABCDEFGH", strict=False):
        panel.with_target(target(query, letter).instant().format(PromQueryFormat.TABLE))
    return panel.height(8).span(12)


def levels(base: str, *others: tuple[float, str]) -> ThresholdsConfig:
    """Return colours by value: one below all levels, and one from each level on."""
    found = [Threshold(value=None, color=base)]
    found += [Threshold(value=value, color=color) for value, color in others]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def fixed(color: str) -> DynamicConfigValue:
    """Return a colour for an override."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})


def plain_colors(panel: Stat) -> Stat:
    """Show a number without judging it."""
    return panel.color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color(BLUE))


def columns(names: dict[str, str], hidden: Sequence[str]) -> DataTransformerConfig:
    """Return a change of a table: other headings in this order, and columns left out."""
    options = {
        "renameByName": names,
        "excludeByName": dict.fromkeys(hidden, True),
        "indexByName": {name: place for place, name in enumerate(names)},
    }
    return DataTransformerConfig(id_val="organize", options=options)


def merged() -> DataTransformerConfig:
    """Return a change of tables: one row for rows with the same labels."""
    return DataTransformerConfig(id_val="merge", options={})


def target(query: Query, letter: str) -> prometheus.Dataquery:
    """Return a question as the SDK has it."""
    found = prometheus.Dataquery().expr(query.expr).ref_id(letter).datasource(PROMETHEUS)
    return found.legend_format(query.legend or "__auto")


def _option(uid: str) -> VariableOption:
    return VariableOption(selected=True, text=uid, value=uid)
