"""``driftbn learn``: the graph of who depends on whom in a table."""

from __future__ import annotations

import argparse
import json
from typing import Any

from driftbn.explain.picture import picture_of, scene_of_graph
from driftbn.explain.svg import Drawing
from driftbn.explain.words import printable
from driftbn.graphs.files import write_bif, write_dot
from driftbn.graphs.network import ParameterMethod, check_sample_size
from driftbn.learning import Overrun
from driftbn_service.errors import UsageError, blamed_on
from driftbn_service.learned import LearnedFile, fitted_network, learn_input, learned_document
from driftbn_service.options import LearnOptions, add_learning_options
from driftbn_service.output import note, write_lines, write_picture, write_text
from driftbn_service.png import png_renderer
from driftbn_service.records.inputs import Input
from driftbn_service.replaying import check_target
from driftbn_service.text import Line, Style, edge_text, shown

FORMATS = ("text", "json", "dot", "bif", "png")

_OVERRUNS = {
    Overrun.DEADLINE: "the deadline was reached",
    Overrun.TESTS: "the tests were used up",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "learn",
        description="Learn who depends on whom in a table and print the graph with its cost.",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="CSV, NDJSON, JSON, Parquet or Arrow, also compressed; - for standard input",
    )
    add_learning_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=FORMATS, default="text")
    output.add_argument("--output", metavar="FILE", help="instead of standard output")
    output.add_argument("--target", metavar="COLUMN", help="tell its Markov blanket too")
    output.add_argument(
        "--bdeu",
        type=float,
        metavar="SIZE",
        help="bif: smooth probabilities with a prior worth so many rows",
    )
    output.add_argument("--quiet", action="store_true", help="text: only the edges")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out and return its exit code."""
    _check(arguments)
    render = png_renderer() if arguments.format == "png" else None
    options = LearnOptions.from_arguments(arguments)
    with Input(arguments.file, options.input_format) as source:
        learned = learn_input(source, options)
    blanket = None if arguments.target is None else _blanket(learned, arguments.target)
    match arguments.format:
        case "text":
            write_lines(_lines(learned, arguments, blanket), arguments.output)
        case "json":
            document = learned_document(learned, options)
            document |= _blanket_document(arguments.target, blanket)
            write_text(json.dumps(document, indent=1) + "\n", arguments.output)
        case "dot":
            write_text(write_dot(learned.structure.graph), arguments.output)
        case "bif":
            write_text(_bif(learned, arguments.bdeu), arguments.output)
    if render is not None:
        write_picture(render(_picture(learned)), arguments.output)
    if arguments.format != "text":
        for line in _warnings(learned):
            note(line.text)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.target is not None and arguments.format not in ("text", "json"):
        raise UsageError("--target goes with --format text or json only")
    if arguments.bdeu is not None:
        if arguments.format != "bif":
            raise UsageError("--bdeu goes with --format bif only")
        check_sample_size(arguments.bdeu)


def _picture(learned: LearnedFile) -> Drawing:
    return picture_of(_headline(learned).text, (), scene_of_graph(learned.structure.graph))


def _bif(learned: LearnedFile, bdeu: float | None) -> str:
    method = ParameterMethod.MAXIMUM_LIKELIHOOD if bdeu is None else ParameterMethod.BDEU
    network = fitted_network(learned, method, bdeu or 1.0)
    with blamed_on(learned.name):
        return write_bif(network)


def _blanket(learned: LearnedFile, target: str) -> tuple[str, ...]:
    with blamed_on(learned.name):
        check_target(learned.table.schema, target)
        return tuple(sorted(learned.structure.dag.markov_blanket(target)))


def _blanket_document(target: str, blanket: tuple[str, ...] | None) -> dict[str, Any]:
    return {} if blanket is None else {"target": target, "markov_blanket": list(blanket)}


def _lines(
    learned: LearnedFile, arguments: argparse.Namespace, blanket: tuple[str, ...] | None
) -> list[Line]:
    graph = learned.structure.graph
    edges = [(edge, True) for edge in graph.directed_edges]
    edges += [(edge, False) for edge in graph.undirected_edges]
    lines = [Line(edge_text(edge, directed)) for edge, directed in sorted(edges)]
    if blanket is not None:
        members = ", ".join(map(shown, blanket)) or "nothing"
        lines.append(Line(f"Markov blanket of {shown(arguments.target)}: {members}", Style.HEAD))
    if arguments.quiet:
        return lines
    return [_headline(learned), *lines, *_circumstances(learned), *_warnings(learned)]


def _headline(learned: LearnedFile) -> Line:
    graph = learned.structure.graph
    directed, undirected = len(graph.directed_edges), len(graph.undirected_edges)
    text = (
        f"{printable(learned.name)}: {learned.table.n_rows} rows, {len(graph.nodes)} variables,"
        f" {directed + undirected} edges ({directed} directed, {undirected} undirected)"
    )
    return Line(text, Style.HEAD)


def _circumstances(learned: LearnedFile) -> list[Line]:
    structure, cost = learned.structure, learned.structure.cost
    lines = [
        f"left out: {shown(column.name)} ({column.reason.value}: {printable(column.detail)})"
        for column in learned.table.schema.excluded
    ]
    lines += [f"conflict: {edge_text(edge, False)}" for edge in structure.conflicts]
    lines.append(
        f"cost: {sum(cost.tests)} tests (weighted {cost.weighted}),"
        f" {sum(cost.undecided)} undecided;"
        f" {sum(cost.orientation_tests)} more to direct edges"
        f" (weighted {cost.orientation_weighted})"
    )
    lines.append(
        f"time: reading {_milliseconds(learned.reading_seconds)},"
        f" encoding {_milliseconds(learned.encoding_seconds)},"
        f" learning {_milliseconds(cost.seconds)}"
    )
    return [Line(text, Style.NOTE) for text in lines]


def _warnings(learned: LearnedFile) -> list[Line]:
    overrun = learned.structure.overrun
    if overrun is None:
        return []
    text = (
        f"warning: {_OVERRUNS[overrun]} before the search ended; the graph has no directions"
        " and edges too many"
    )
    return [Line(text, Style.WARNING)]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
