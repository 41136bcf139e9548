"""``driftbn diff``: how two graphs, or the graphs of two tables, differ."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

from driftbn.explain.picture import picture_of, scene_of_graphs
from driftbn.explain.sentences import printable
from driftbn.explain.svg import Drawing
from driftbn.graphs.graph import Dag, Edge, Pdag, StructureDiff, compare, shd
from driftbn.learning import extend_to_dag
from driftbn.tables.encode import SchemaEvent, SchemaEventKind
from driftbn_service.commands import (
    LearnOptions,
    Line,
    Style,
    add_learning_options,
    edge_text,
    note,
    png_renderer,
    shown,
    write_lines,
    write_picture,
    write_text,
)
from driftbn_service.commands.learn import LearnedFile, is_graph, learn_input, read_graph
from driftbn_service.errors import ExitCode, UsageError, blamed_on
from driftbn_service.records.files import STDIN, Input

_KINDS = ("added", "removed", "reversed", "directed", "undirected")
_STYLES = {"added": Style.ADDED, "removed": Style.REMOVED}
_EVENTS = {
    SchemaEventKind.NEW_LEVEL: "has values that the first table has not",
    SchemaEventKind.NEW_COLUMN: "is not in the first table, or hardly, and was left out",
    SchemaEventKind.MISSING_COLUMN: "is only in the first table",
}


@dataclass(frozen=True)
class _Comparison:
    """Two graphs of one kind, their difference, and its numbers side by side."""

    names: tuple[str, str]
    previous: Dag | Pdag
    current: Dag | Pdag
    diff: StructureDiff
    hamming: dict[str, int]

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
        """Return the edges of one kind of change, and whether each is directed."""
        found: tuple[Edge, ...] = getattr(self.diff, kind)
        graph = self.previous if kind == "removed" else self.current
        directed = set(graph.directed_edges)
        return [(edge, edge in directed) for edge in found]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diff",
        description=(
            "Compare two graphs (JSON or BIF as written by learn) or the graphs of two"
            " tables. The second table is encoded like the first, and its search starts from what"
            " the first has found."
        ),
    )
    parser.add_argument("previous", metavar="A", help="graph or table before; - for standard input")
    parser.add_argument("current", metavar="B", help="graph or table now; - for standard input")
    add_learning_options(parser)
    parser.add_argument(
        "--cold", action="store_true", help="learn the second table without help from the first"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="write JSON instead of text")
    output.add_argument("--output", metavar="FILE", help="instead of standard output")
    output.add_argument("--png", metavar="FILE", help="draw the difference too")
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
    if arguments.png == STDIN:
        raise UsageError("--png needs a file; standard output carries the changes")
    render = None if arguments.png is None else png_renderer()
    comparison = _compared(arguments, LearnOptions.from_arguments(arguments))
    if render is not None:
        write_picture(render(_picture(comparison)), arguments.png)
    if arguments.json:
        write_text(json.dumps(_document(comparison), indent=1) + "\n", arguments.output)
    else:
        write_lines(_lines(comparison, quiet=arguments.quiet), arguments.output)
    return ExitCode.DIFFERENT if arguments.exit_code and comparison.differs else 0


def _compared(arguments: argparse.Namespace, options: LearnOptions) -> _Comparison:
    kind = options.input_format
    with Input(arguments.previous, kind) as first, Input(arguments.current, kind) as second:
        names = first.name, second.name
        previous = _loaded(first, options)
        learned = previous if isinstance(previous, LearnedFile) else None
        current = _loaded(second, options, learned, warm=not arguments.cold)
    for loaded in (previous, current):
        if isinstance(loaded, LearnedFile):
            _tell(loaded, quiet=arguments.quiet)
    graphs = [g.structure.graph if isinstance(g, LearnedFile) else g for g in (previous, current)]
    with blamed_on(" and ".join(names)):
        return _comparison(names, *graphs)


def _loaded(
    source: Input, options: LearnOptions, first: LearnedFile | None = None, *, warm: bool = True
) -> LearnedFile | Dag | Pdag:
    if is_graph(source):
        return read_graph(source)
    return learn_input(source, options, first, warm=warm)


def _tell(learned: LearnedFile, *, quiet: bool) -> None:
    if learned.structure.overrun is not None:
        note(f"{learned.name}: warning: the search was stopped early; the graph has no directions")
    if not quiet:
        for event in learned.table.events:
            note(f"{learned.name}: {_event_text(event)}")


def _event_text(event: SchemaEvent) -> str:
    levels = f" ({', '.join(map(shown, event.levels))})" if event.levels else ""
    return f"column {shown(event.column)} {_EVENTS[event.kind]}{levels}"


def _comparison(names: tuple[str, str], previous: Dag | Pdag, current: Dag | Pdag) -> _Comparison:
    """Compare DAGs as such and anything else as classes: a class has no more to compare."""
    dags = _dags(previous, current)
    if not (isinstance(previous, Dag) and isinstance(current, Dag)):
        previous = previous.cpdag() if isinstance(previous, Dag) else previous
        current = current.cpdag() if isinstance(current, Dag) else current
    diff = compare(previous, current)
    hamming = {
        "cpdag": shd(previous, current),
        "dag": compare(*dags).hamming,
        "skeleton": diff.skeleton,
        "contradictions": diff.contradictions,
    }
    return _Comparison(names, previous, current, diff, hamming)


def _dags(previous: Dag | Pdag, current: Dag | Pdag) -> tuple[Dag, Dag]:
    """Return a DAG of each, the second with the directions of the first wherever it may."""
    first = previous if isinstance(previous, Dag) else extend_to_dag(previous)
    if isinstance(current, Dag):
        return first, current
    anchor = first if set(first.nodes) & set(current.nodes) else None
    return first, extend_to_dag(current, anchor)


def _picture(comparison: _Comparison) -> Drawing:
    scene = scene_of_graphs(comparison.previous, comparison.current)
    return picture_of(comparison.title, [comparison.summary], scene)


def _lines(comparison: _Comparison, *, quiet: bool) -> list[Line]:
    diff = comparison.diff
    lines = [Line(f"node added {shown(name)}", Style.ADDED) for name in diff.nodes_added]
    lines += [Line(f"node removed {shown(name)}", Style.REMOVED) for name in diff.nodes_removed]
    for kind in _KINDS:
        style = _STYLES.get(kind, Style.REVERSED)
        for edge, directed in comparison.edges(kind):
            lines.append(Line(f"{kind} {edge_text(edge, directed)}", style))
    if quiet:
        return lines
    numbers = comparison.hamming
    return [
        Line(printable(comparison.title), Style.HEAD),
        *lines,
        Line(comparison.summary, Style.HEAD),
        Line(
            f"as classes {numbers['cpdag']}, as DAGs {numbers['dag']},"
            f" skeleton {numbers['skeleton']}, contradictions {numbers['contradictions']}",
            Style.NOTE,
        ),
    ]


def _document(comparison: _Comparison) -> dict[str, Any]:
    diff = comparison.diff
    changes = {
        kind: [
            {"source": source, "target": target, "directed": directed}
            for (source, target), directed in comparison.edges(kind)
        ]
        for kind in _KINDS
    }
    return {
        "format": "driftbn-diff",
        "version": 1,
        "previous": comparison.names[0],
        "current": comparison.names[1],
        **changes,
        "nodes_added": list(diff.nodes_added),
        "nodes_removed": list(diff.nodes_removed),
        "hamming": {"total": diff.hamming, **comparison.hamming},
    }
