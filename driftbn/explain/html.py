"""Reports as web pages that need nothing else: one window, or a whole replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from driftbn.drift.outcome import Association
from driftbn.explain import Explanation, explain, state_of
from driftbn.explain.changes import Change
from driftbn.explain.picture import Scene, drawing_of, legend_of, scene_of, scene_of_graph
from driftbn.explain.sentences import (
    counted,
    decimal,
    event_sentence,
    moment,
    printable,
    size_words,
    strength,
    windows_between,
)
from driftbn.explain.svg import (
    DARK,
    LIGHT,
    STYLE,
    Drawing,
    Moment,
    moments_of,
    timeline_of,
    windows_per_bar,
)
from driftbn.graphs.graph import Dag, Pdag, StructureDiff

if TYPE_CHECKING:
    from driftbn.report import WindowReport

MAX_PICTURES = 40
"""Alarms of a replay that are drawn; a page with more would be slow to open."""
NARROW_NODES = 16
"""Nodes that a narrow screen shows at once; of a larger graph it gets what is around changes."""

_NO_NUMBER = "–"  # noqa: RUF001 - a dash, as tables have it
_PAGE_STYLE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.45rem;line-height:1.3;margin:.2em 0 .6em}
h2{font-size:1.15rem;margin:1.8em 0 .5em}
h3{font-size:1rem;margin:1.3em 0 .4em}
h1,h2,h3,p,li,dd{overflow-wrap:anywhere}
td{overflow-wrap:break-word}
p{margin:.5em 0}
.level{display:inline-block;padding:1px 10px;border-radius:99px;border:2px solid var(--soft);
font-size:.85rem;font-weight:600}
.level.changed,.level.failed{border-color:var(--removed);color:var(--removed)}
.level.cannot_tell{border-color:var(--reversed);color:var(--reversed)}
.text{max-width:46rem;padding-left:1.2em}
.text li{margin:.35em 0}
.soft{color:var(--soft)}
.panel{background:var(--panel);border:1px solid var(--rule);border-radius:10px;padding:12px;
margin:.6em 0}
.wide{overflow-x:auto}
.narrow,.for-narrow{display:none}
.narrow{font-size:.85rem}
section.episode{border-top:1px solid var(--rule);margin-top:1.6em}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;vertical-align:top;padding:6px 10px 6px 0;border-bottom:1px solid var(--rule)}
th{color:var(--soft);font-weight:600}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(135px,1fr));gap:8px 16px;margin:0}
dt{color:var(--soft);font-size:.82rem}
dd{margin:0}
svg{display:block;height:auto}
.graph,.timeline{max-width:100%;margin:0 auto}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;list-style:none;margin:10px 0 0;padding:0;
font-size:.88rem}
.legend li{display:flex;align-items:center;gap:8px}
.legend svg{flex:none}
@media(max-width:640px){
h1{font-size:1.2rem}
.narrow,.for-narrow{display:block}
.for-wide{display:none}
table.stack thead{display:none}
table.stack tr{display:block;border-bottom:1px solid var(--rule);padding:8px 0}
table.stack td{display:grid;grid-template-columns:6.5rem 1fr;gap:8px;border:0;padding:2px 0;
overflow-wrap:anywhere}
table.stack td::before{content:attr(data-name);color:var(--soft)}}
@media print{.panel{break-inside:avoid}}
"""


def report_to_html(report: WindowReport) -> str:
    """Return a page on one window: words, picture, tables and numbers.

    The page is one file without scripts and without references to anything outside. Everything
    that comes from data is escaped.

    >>> from driftbn.drift.outcome import DriftDecision, DriftLevel
    >>> from driftbn.graphs.graph import Dag, StructureDiff
    >>> from driftbn.learning import SearchCost
    >>> from driftbn.report import WindowReport
    >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
    >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
    >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, SearchCost((1,)))
    >>> report_to_html(report).startswith("<!doctype html>")
    True
    """
    body = [*_told(report, explain(report)), *tables_of(report, numbers(report))]
    return page(f"driftbn: window {report.index}", body)


def comparison_to_html(explanation: Explanation, report: WindowReport) -> str:
    """Return a page on two tables: words, picture and tables."""
    return page("driftbn: two tables", [*_told(report, explanation), *tables_of(report)])


def _told(report: WindowReport, explanation: Explanation) -> list[str]:
    state = state_of(report.decision)
    return [*told(explanation, state), section("Picture", [figure_of(report)])]


def told(explanation: Explanation, state: str, about: str = "") -> list[str]:
    """Return the beginning of a page: a badge with the state and whose it is, and the words."""
    about = about and f' <span class="soft">{shown(about)}</span>'
    kind = state.replace(" ", "_")
    return [
        f'<p><span class="level {kind}">{state}</span>{about}</p>',
        f"<h1>{shown(explanation.headline)}</h1>",
        _words(explanation),
    ]


def tables_of(report: WindowReport, facts: str = "") -> list[str]:
    """Return the tables on a window, ``facts`` above those of the tests."""
    return [
        section("Changed dependencies", [edge_table(report)]),
        section("Changed fields", [node_table(report)]),
        section("Numbers" if facts else "Tests", [facts, family_table(report)]),
        section(
            "Columns and values", [bullets([event_sentence(event) for event in report.events])]
        ),
        section("Too small to tell", [undecided_table(report)]),
        section("Left out", [excluded_table(report)]),
    ]


def monitor_to_html(title: str, moments: Sequence[Moment], last: WindowReport | None) -> str:
    """Return a page on a monitor: what it is, its newest windows, and the last one in words."""
    body = [f"<h1>{shown(title)}</h1>"]
    if moments:
        body.append(timeline_panel(moments))
    if last is not None:
        explanation = explain(last)
        body += [f"<h2>{shown(explanation.headline)}</h2>", _words(explanation)]
    return page("driftbn: monitor", body)


def graph_to_html(graph: Dag | Pdag) -> str:
    """Return a page with the picture of a graph."""
    return page("driftbn: graph", [_figure(scene_of_graph(graph))])


def diff_to_html(diff: StructureDiff) -> str:
    """Return the difference of two graphs as a table."""
    kinds = ("added", "removed", "reversed", "directed", "undirected")
    rows = [(kind, *edge) for kind in kinds for edge in getattr(diff, kind)]
    edges = table(("Change", "From", "To"), rows)
    return f"<p>Hamming distance {diff.hamming:,}</p>{edges}"


def framed(document: str) -> str:
    """Return a page as part of another, a notebook, whose style it must not touch."""
    return (
        f'<iframe srcdoc="{escape(document)}" style="width:100%;height:36rem;border:0"'
        ' title="driftbn"></iframe>'
    )


def html_of(reports: Sequence[WindowReport]) -> str:
    """Return a page on many windows: a timeline, then each episode with words and pictures.

    >>> "There is no window yet." in html_of([])
    True
    """
    n_alarms = sum(report.decision.drift for report in reports)
    heading = f"{counted(len(reports), 'window')}, {counted(n_alarms, 'alarm')}"
    if not reports:
        return page("driftbn: replay", [f"<h1>{heading}</h1><p>There is no window yet.</p>"])
    body = [f"<h1>{heading}</h1>", timeline_panel(moments_of(reports))]
    groups = episodes_of(reports)
    if not groups:
        body.append(f"<p>{shown('No window raised an alarm.')}</p>")
    n_drawn = 0
    for group in groups:
        body.append(_episode(group, MAX_PICTURES - n_drawn))
        n_drawn += sum(report.decision.drift for report in group)
    return page("driftbn: replay", body)


def _words(explanation: Explanation) -> str:
    advice = bullets(explanation.advice)
    advice = advice and f"<h3>What to do</h3>{advice}"
    more = folded("How strong, how sure, and what the words mean", bullets(explanation.details))
    return bullets(explanation.sentences) + advice + more


def timeline_panel(moments: Sequence[Moment], chosen: range = range(0)) -> str:
    """Return a timeline with what is to be known to read it."""
    size = windows_per_bar(len(moments))
    shared = f" Each bar shows the largest of {size} windows." if size > 1 else ""
    return (
        f'<div class="panel">{_scrolling(timeline_of(moments, chosen))}</div>'
        '<p class="soft">Raw differences between neighbouring windows come by chance as well; an'
        f" alarm (▼) needs a change that a test confirms.{shared}</p>"
    )


def episodes_of(reports: Iterable[WindowReport]) -> list[list[WindowReport]]:
    """Return the windows of each episode; an alarm outside of any is one of its own."""
    found: dict[tuple[int, int], list[WindowReport]] = {}
    for report in reports:
        episode = report.decision.episode
        if episode is not None:
            found.setdefault((0, episode), []).append(report)
        elif report.decision.drift:
            found[1, report.index] = [report]
    return sorted(found.values(), key=lambda group: group[0].index)


def _episode(group: Sequence[WindowReport], n_pictures: int) -> str:
    first, last = group[0], group[-1]
    number = first.decision.episode
    name = "Alarm outside of any episode" if number is None else f"Episode {number}"
    where = windows_between(first.index, last.index)
    parts = []
    for report in group:
        if report.decision.drift or report.decision.edges:
            parts.append(_alarm(report, n_pictures > 0))
            n_pictures -= 1
        else:
            parts.append(f'<p class="soft">{shown(explain(report).headline)}</p>')
    return f'<section class="episode"><h2>{name}: {where}</h2>{"".join(parts)}</section>'


def _alarm(report: WindowReport, drawn: bool) -> str:
    explanation = explain(report)
    picture = figure_of(report) if drawn else ""
    if not drawn:
        picture = f'<p class="soft">Only the first {MAX_PICTURES} alarms are drawn.</p>'
    return (
        f'<h3 id="window-{report.index}">{shown(explanation.headline)}</h3>'
        f"{_words(explanation)}{picture}"
    )


def figure_of(report: WindowReport) -> str:
    """Return the picture of a report; narrow screens get one that is cut closer."""
    whole, close = scene_of(report), scene_of(report, NARROW_NODES)
    if not close.nodes or close == whole:
        return _figure(whole)
    wide = f'<div class="for-wide">{_figure(whole)}</div>'
    return f'{wide}<div class="for-narrow">{_figure(close)}</div>'


def _figure(scene: Scene) -> str:
    note = f'<p class="soft">{shown(scene.note)}</p>' if scene.note else ""
    if not scene.nodes:
        return note
    keys = "".join(f"<li>{_sample(key.line())}{shown(key.text)}</li>" for key in legend_of(scene))
    legend = f'<ul class="legend">{keys}</ul>'
    return f'<div class="panel">{_scrolling(drawing_of(scene))}{legend}</div>{note}'


def _sample(line: str) -> str:
    return line and f'<svg width="40" height="12" aria-hidden="true">{line}</svg>'


def _scrolling(drawing: Drawing) -> str:
    hint = '<p class="soft narrow">A picture wider than the screen moves sideways.</p>'
    return f'<div class="wide">{drawing.inline()}</div>{hint}'


def edge_table(report: WindowReport) -> str:
    """Return the changes of edges that a test confirms, with strengths before and now."""
    names = ("Change", "From", "To", "Before", "Now", "Among records equal in", "p-value")
    rows = [
        (
            edge.change.value + ("" if edge.directed else ", direction unknown"),
            edge.source,
            edge.target,
            _strength(edge.before),
            _strength(edge.after),
            ", ".join(edge.given) or _NO_NUMBER,
            decimal(edge.p_value),
        )
        for edge in Change(report).edges
    ]
    return table(names, rows)


def _strength(association: Association) -> str:
    low, high = decimal(association.low), decimal(association.high)
    return f"{strength(association.nats)}: {decimal(association.nats)} nats ({low} to {high})"


def node_table(report: WindowReport) -> str:
    rows = [
        (
            change.name,
            ", ".join(change.parents) or _NO_NUMBER,
            f"{strength(change.effect)}: {decimal(change.effect)} nats per record",
            decimal(change.p_value),
        )
        for change in Change(report).told_decision.node_changes
    ]
    return table(("Field", "Among records equal in", "Difference", "p-value"), rows)


def _band(report: WindowReport) -> str:
    return "" if report.usual is None else f" (usual: {report.usual.low} to {report.usual.high})"


def numbers(report: WindowReport) -> str:
    decision, cost = report.decision, report.cost
    pairs = [
        ("Window", f"{report.index:,}"),
        ("Records", f"{report.rows:,}"),
        ("Record numbers", f"{report.first_record:,} to {report.last_record:,}"),
        ("First event", _NO_NUMBER if report.start is None else moment(report.start)),
        ("Last event", _NO_NUMBER if report.end is None else moment(report.end)),
        ("Hamming distance, raw", f"{report.diff.hamming:,}{_band(report)}"),
        ("Hamming distance, confirmed", f"{decision.confirmed_hamming:,}"),
        ("p-value", decimal(decision.p_value)),
        ("Level of an alarm", f"{decision.alpha:g}"),
        ("Windows put together", _NO_NUMBER if decision.scale is None else f"{decision.scale}"),
        ("Windows of the reference", f"{decision.reference_windows:,}"),
        ("Regime", f"{decision.regime}"),
        ("Episode", _NO_NUMBER if decision.episode is None else f"{decision.episode}"),
        ("Design effect", decimal(decision.design_effect)),
        ("Tests of the search", f"{cost.n_tests:,} ({'warm' if cost.warm else 'cold'} start)"),
        ("Weighted cost of the search", f"{cost.weighted:,}"),
        ("Dependencies in the graph", f"{len(report.dag.edges):,}"),
        ("Pairs with conflicting directions", f"{len(report.conflicts):,}"),
    ]
    if report.relearned is not None:
        weighted = f"{report.relearned.cost.weighted:,}"
        pairs.append(("Weighted cost of learning the reference again", weighted))
    if report.audit is not None:
        pairs.append(("Edges a cold search differs in", f"{report.audit.disagreement:,}"))
    return facts(pairs)


def family_table(report: WindowReport) -> str:
    rows = [
        (
            result.family.value,
            " – ".join(result.fields),  # noqa: RUF001 - a dash between two fields
            decimal(result.p_value),
            f"{result.scale}",
            f"{result.n_tests:,}",
            decimal(result.design_effect),
        )
        for result in report.decision.families
    ]
    names = ("Tests", "Strongest sign", "p-value", "Windows", "Number of tests", "Design effect")
    return table(names, rows)


def undecided_table(report: WindowReport) -> str:
    decision = report.decision
    rows = [
        (
            pair.source,
            pair.target,
            "no change would show"
            if pair.visible_change == float("inf")
            else size_words(pair.visible_change),
        )
        for pair in decision.undecided
    ]
    n_more = decision.n_undecided - len(rows)
    more = f'<p class="soft">And {counted(n_more, "more pair")}.</p>' if n_more > 0 else ""
    return table(("Field", "Field", "Smallest change that would show"), rows) + more


def excluded_table(report: WindowReport) -> str:
    same = [(name, f"always says the same as {other}") for name, other in report.twins]
    twins = {name for name, _ in report.twins}
    rest = [(name, str(reason)) for name, reason in report.excluded if name not in twins]
    return table(("Column", "Why"), sorted([*same, *rest]))


def shown(text: object) -> str:
    r"""Return what comes from data as text of a page, whatever it holds.

    >>> shown("<b>\n")
    '&lt;b&gt;\\n'
    """
    return escape(printable(str(text)))


def _style() -> str:
    colours = f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
    dark = f"@media(prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f"\n{colours}\n{dark}{STYLE}{_PAGE_STYLE}"


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in colours.items())


def page(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{shown(title)}</title>\n<style>{_style()}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def bullets(texts: Sequence[str]) -> str:
    """Return texts as a list; nothing if there are none."""
    items = "".join(f"<li>{shown(text)}</li>" for text in texts)
    return f'<ul class="text">{items}</ul>' if items else ""


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts, which becomes a list on narrow screens; nothing without rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{shown(name)}</th>" for name in names)
    lines = []
    for row in rows:
        cells = zip(names, row, strict=True)
        lines.append(
            "".join(f'<td data-name="{shown(name)}">{shown(cell)}</td>' for name, cell in cells)
        )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="wide"><table class="stack"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f"<div><dt>{shown(name)}</dt><dd>{shown(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="panel">{items}</dl>'


def folded(heading: str, inner: str) -> str:
    """Return a part that is opened on demand; nothing if it is empty."""
    return inner and f"<details><summary>{shown(heading)}</summary>{inner}</details>"


def section(heading: str, parts: Iterable[str]) -> str:
    """Return parts below a heading; nothing if all are empty."""
    inner = "".join(parts)
    return f"<h2>{shown(heading)}</h2>{inner}" if inner else ""
