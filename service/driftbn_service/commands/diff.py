"""``driftbn diff``: how two graphs differ, or whether two tables do."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from typing import Any

from driftbn.config import MonitorConfig, WarmStart
from driftbn.drift.outcome import EdgeChange
from driftbn.explain.picture import picture_of, scene_of, scene_of_graphs
from driftbn.explain.sentences import decimal, printable
from driftbn.explain.svg import Drawing
from driftbn.graphs.graph import Dag, Edge, Pdag, StructureDiff, compare, shd
from driftbn.learning import extend_to_dag, fit_network
from driftbn.monitor import compare_data
from driftbn.report import DataComparison
from driftbn.tables.encode import SchemaEvent, SchemaEventKind, encode
from driftbn.tables.infer import infer_and_encode
from driftbn_service.commands import (
    LearnOptions,
    Line,
    Style,
    add_learning_options,
    add_setting_options,
    check_names,
    edge_text,
    note,
    png_renderer,
    save,
    shown,
    write_lines,
    write_text,
)
from driftbn_service.commands.learn import (
    QUERY_HELP,
    Answer,
    LearnedFile,
    is_graph,
    learn_input,
    read_graph,
    warm_up,
)
from driftbn_service.errors import ExitCode, UsageError, blamed_on
from driftbn_service.records.files import STDIN, Input
from driftbn_service.records.rows import one_table

_KINDS = ("added", "removed", "reversed", "directed", "undirected")
_STYLES = {"added": Style.ADDED, "removed": Style.REMOVED}
_DECISION = ("min_effect", "given", "target")
_STOPPED = "warning: the search was stopped early; the graph has no directions"
_EVENTS = {
    SchemaEventKind.NEW_LEVEL: "has values that the first table has not",
    SchemaEventKind.NEW_COLUMN: "is not in the first table, or hardly, and was left out",
    SchemaEventKind.MISSING_COLUMN: "is only in the first table",
}


class _TwoGraphs:
    """Two graphs of one kind, their difference, and its numbers side by side.

    DAGs are compared as such and anything else as classes: a class has no more to compare.
    """

    def __init__(self, names: tuple[str, str], previous: Dag | Pdag, current: Dag | Pdag) -> None:
        dags = _dags(previous, current)
        if not (isinstance(previous, Dag) and isinstance(current, Dag)):
            previous = previous.cpdag() if isinstance(previous, Dag) else previous
            current = current.cpdag() if isinstance(current, Dag) else current
        self.names, self.previous, self.current = names, previous, current
        self.diff = compare(previous, current)
        self.hamming = {
            "cpdag": shd(previous, current),
            "dag": compare(*dags).hamming,
            "skeleton": self.diff.skeleton,
            "contradictions": self.diff.contradictions,
        }

    @property
    def differs(self) -> bool:
        return self.diff != StructureDiff()

    @property
    def title(self) -> str:
        return " -> ".join(self.names)

    @property
    def summary(self) -> str:
        parts = ", ".join(f"{len(getattr(self.diff, kind))} {kind}" for kind in _KINDS)
        return f"Hamming distance {self.diff.hamming}: {parts}"

    def edges(self, kind: str) -> list[tuple[Edge, bool]]:
        found: tuple[Edge, ...] = getattr(self.diff, kind)
        graph = self.previous if kind == "removed" else self.current
        directed = set(graph.directed_edges)
        return [(edge, edge in directed) for edge in found]

    def html(self) -> str:
        raise UsageError("--html is for two tables; graphs have --png")

    def picture(self) -> Drawing:
        scene = scene_of_graphs(self.previous, self.current)
        return picture_of(self.title, [self.summary], scene)

    def lines(self, *, quiet: bool) -> list[Line]:
        diff = self.diff
        lines = [Line(f"node added {shown(name)}", Style.ADDED) for name in diff.nodes_added]
        lines += [Line(f"node removed {shown(name)}", Style.REMOVED) for name in diff.nodes_removed]
        for kind in _KINDS:
            for edge, directed in self.edges(kind):
                lines.append(Line(f"{kind} {edge_text(edge, directed)}", _style(kind)))
        if quiet:
            return lines
        numbers = self.hamming
        return [
            Line(printable(self.title), Style.HEAD),
            *lines,
            Line(self.summary, Style.HEAD),
            Line(
                f"as classes {numbers['cpdag']}, as DAGs {numbers['dag']},"
                f" skeleton {numbers['skeleton']}, contradictions {numbers['contradictions']}",
                Style.NOTE,
            ),
        ]

    def document(self) -> dict[str, Any]:
        diff = self.diff
        changes = {
            kind: [
                {"source": source, "target": target, "directed": directed}
                for (source, target), directed in self.edges(kind)
            ]
            for kind in _KINDS
        }
        return {
            "format": "driftbn-diff",
            "version": 1,
            "previous": self.names[0],
            "current": self.names[1],
            **changes,
            "nodes_added": list(diff.nodes_added),
            "nodes_removed": list(diff.nodes_removed),
            "hamming": {"total": diff.hamming, **self.hamming},
        }


@dataclass(frozen=True)
class _TwoTables:
    """Two tables as the library compares them."""

    found: DataComparison
    answer: Answer | None = None

    @property
    def differs(self) -> bool:
        return self.found.drift

    def html(self) -> str:
        return self.found.to_html()

    def document(self) -> dict[str, Any]:
        return self.found.to_dict() | (self.answer.document() if self.answer else {})

    def picture(self) -> Drawing:
        words = self.found.explain()
        return picture_of(
            " -> ".join(self.found.names), [words.headline], scene_of(self.found.picture)
        )

    def lines(self, *, quiet: bool) -> list[Line]:
        decision = self.found.decision
        changes = [Line(_change_text(edge), _style(edge.change)) for edge in decision.edges]
        changes += [
            Line(
                f"changed {shown(one.name)} ({decimal(one.effect)} nats, p {decimal(one.p_value)})"
            )
            for one in decision.node_changes
        ]
        changes += self.answer.lines() if self.answer else []
        if quiet:
            return changes
        words = self.found.explain()
        return [
            Line(" -> ".join(self.found.names), Style.HEAD),
            Line(words.headline, Style.HEAD),
            *(Line(text, Style.NOTE) for text in words.sentences),
            *changes,
        ]


def _change_text(edge: EdgeChange) -> str:
    strengths = f"{decimal(edge.before.nats)} -> {decimal(edge.after.nats)} nats"
    what = f"{edge.change} {edge_text((edge.source, edge.target), edge.directed)}"
    return f"{what} ({strengths}, p {decimal(edge.p_value)})"


def _style(kind: str) -> Style:
    return _STYLES.get(kind, Style.REVERSED)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diff",
        description=(
            "Compare two graphs (JSON or BIF as written by learn) edge by edge, or two tables by"
            " the tests of a monitor: what is told of tables is more than chance. The second table"
            " is encoded like the first, and its search starts from what the first has found. A"
            " graph and a table are compared as graphs."
        ),
    )
    parser.add_argument("previous", metavar="A", help="graph or table before; - for standard input")
    parser.add_argument("current", metavar="B", help="graph or table now; - for standard input")
    add_learning_options(parser)
    parser.add_argument(
        "--cold", action="store_true", help="learn the second table without help from the first"
    )
    decision = parser.add_argument_group("decision on two tables")
    decision.add_argument(
        "--level",
        type=float,
        metavar="X",
        help="share of pairs of tables from one source that may be told apart (0.01)",
    )
    add_setting_options(decision, MonitorConfig, _DECISION)
    decision.add_argument("--query", metavar="QUERY", help=f"on both tables: {QUERY_HELP}")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="write JSON instead of text")
    output.add_argument("--output", metavar="FILE", help="instead of standard output")
    output.add_argument("--png", metavar="FILE", help="draw the difference too")
    output.add_argument("--html", metavar="FILE", help="two tables: a page on the difference too")
    output.add_argument("--quiet", action="store_true", help="text: only the changes")
    output.add_argument(
        "--exit-code",
        action="store_true",
        help=f"exit with {ExitCode.DIFFERENT} if there is a difference",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.previous == arguments.current == STDIN:
        raise UsageError("only one of the two can come from standard input")
    drawn = [name for name in (arguments.png, arguments.html) if name is not None]
    if STDIN in drawn:
        option = "--png" if arguments.png == STDIN else "--html"
        raise UsageError(f"{option} needs a file; standard output carries the changes")
    check_names([*drawn, arguments.output or STDIN])
    render = None if arguments.png is None else png_renderer(arguments.png)
    options = LearnOptions.from_arguments(arguments)
    kind = options.input_format
    with Input(arguments.previous, kind) as first, Input(arguments.current, kind) as second:
        found: _TwoGraphs | _TwoTables
        if is_graph(first) or is_graph(second):
            if arguments.query is not None:
                raise UsageError("--query is for two tables; a graph has no probabilities")
            found = _compared(arguments, options, first, second)
        else:
            found = _compared_tables(arguments, options, first, second)
    outputs = [(arguments.html, found.html().encode())] if arguments.html is not None else []
    outputs += [(arguments.png, render(found.picture()))] if render is not None else []
    save(outputs)
    if arguments.json:
        write_text(json.dumps(found.document(), indent=1) + "\n", arguments.output)
    else:
        write_lines(found.lines(quiet=arguments.quiet), arguments.output)
    return ExitCode.DIFFERENT if arguments.exit_code and found.differs else 0


def _compared(
    arguments: argparse.Namespace, options: LearnOptions, first: Input, second: Input
) -> _TwoGraphs:
    previous = _loaded(first, options)
    learned = previous if isinstance(previous, LearnedFile) else None
    current = _loaded(second, options, learned, warm=not arguments.cold)
    for loaded in (previous, current):
        if isinstance(loaded, LearnedFile) and loaded.structure.overrun is not None:
            note(f"{loaded.name}: {_STOPPED}")
    graphs = [g.structure.graph if isinstance(g, LearnedFile) else g for g in (previous, current)]
    names = first.name, second.name
    with blamed_on(" and ".join(names)):
        return _TwoGraphs(names, *graphs)


def _compared_tables(
    arguments: argparse.Namespace, options: LearnOptions, first: Input, second: Input
) -> _TwoTables:
    """Judge the second table by the first, and say on standard error what limits the answer."""
    warm_up()
    tables = []
    for source in (first, second):
        with blamed_on(source.name):
            tables.append(one_table([batch.data for batch in source.batches(options.columns)]))
    # Without the mark of records: a column that a whole file lacks is worth a word.
    rows = tables[1].replace_schema_metadata()
    values = {"alpha": arguments.level} | {name: getattr(arguments, name) for name in _DECISION}
    learner = options.config
    with blamed_on(f"{first.name} and {second.name}"):
        found = compare_data(
            tables[0],
            rows,
            names=(shown(first.name), shown(second.name)),
            learner=replace(learner, warm=WarmStart.NONE) if arguments.cold else learner,
            knowledge=options.knowledge(tables[0].column_names),
            **{name: value for name, value in values.items() if value is not None},
        )
    for name, report in zip(found.names, (found.reference, found.current), strict=True):
        if report.overrun is not None:
            note(f"{name}: {_STOPPED}")
    for event in () if arguments.quiet else found.current.events:
        note(f"{second.name}: {_event_text(event)}")
    if arguments.query is None:
        return _TwoTables(found)
    before = infer_and_encode(tables[0])
    now = encode(rows, before.schema)
    with blamed_on(f"{first.name} and {second.name}"):
        networks = {
            "before": fit_network(found.reference.dag, before),
            "now": fit_network(found.current.dag, now),
        }
        return _TwoTables(found, Answer.of(arguments.query, networks))


def _loaded(
    source: Input, options: LearnOptions, first: LearnedFile | None = None, *, warm: bool = True
) -> LearnedFile | Dag | Pdag:
    if is_graph(source):
        return read_graph(source)
    return learn_input(source, options, first, warm=warm)


def _event_text(event: SchemaEvent) -> str:
    levels = f" ({', '.join(map(shown, event.levels))})" if event.levels else ""
    return f"column {shown(event.column)} {_EVENTS[event.kind]}{levels}"


def _dags(previous: Dag | Pdag, current: Dag | Pdag) -> tuple[Dag, Dag]:
    """Return a DAG of each, the second with the directions of the first wherever it may."""
    first = previous if isinstance(previous, Dag) else extend_to_dag(previous)
    if isinstance(current, Dag):
        return first, current
    anchor = first if set(first.nodes) & set(current.nodes) else None
    return first, extend_to_dag(current, anchor)
