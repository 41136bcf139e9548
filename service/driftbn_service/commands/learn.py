"""``driftbn learn``: the structure of a table."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from driftbn.errors import ConfigError, FormatError
from driftbn.explain.picture import picture_of, scene_of_graph
from driftbn.explain.sentences import printable
from driftbn.graphs.files import graph_from_dict, graph_to_dict, read_bif, write_bif, write_dot
from driftbn.graphs.graph import Dag, Pdag
from driftbn.graphs.network import BayesianNetwork, check_sample_size
from driftbn.learning import (
    LearnedStructure,
    Overrun,
    StructureLearner,
    extend_to_dag,
    fit_network,
    learn_structure,
)
from driftbn.tables.encode import EncodedTable, encode
from driftbn.tables.infer import infer_and_encode
from driftbn_service.commands import (
    LearnOptions,
    Line,
    Style,
    add_learning_options,
    edge_text,
    listed_names,
    note,
    png_renderer,
    save,
    shown,
    write_lines,
    write_text,
)
from driftbn_service.commands.replay import check_target
from driftbn_service.errors import InputError, UsageError, blamed_on
from driftbn_service.records.files import STDIN, Input
from driftbn_service.records.formats import suffix_and_codec
from driftbn_service.records.rows import one_table

LEARNED_FORMAT = "driftbn-learned"
"""Marks the JSON that ``learn`` writes; it holds the graph and what it cost."""
LEARNED_VERSION = 1

_N_PROBED_BYTES = 200  # the mark is the first thing in the JSON


def is_graph(source: Input) -> bool:
    """Whether the input holds a graph rather than a table; a compressed one is a table."""
    start = source.start()[:_N_PROBED_BYTES].lstrip()
    return _is_bif(source) or (start.startswith(b"{") and b'"driftbn-' in start)


def _is_bif(source: Input) -> bool:
    return suffix_and_codec(source.name, b"")[0] == ".bif"


def read_graph(source: Input) -> Dag | Pdag:
    """Read a graph; from BIF only the structure is taken."""
    with blamed_on(source.name):
        text = source.read_all().decode("utf-8-sig")
        if _is_bif(source):
            return read_bif(text).dag
        return graph_from_dict(_graph_in(text))


def _graph_in(text: str) -> object:
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != LEARNED_FORMAT:
        return data
    if data.get("version") != LEARNED_VERSION:
        found = data.get("version")
        raise FormatError(f"version is {found!r}; it must be {LEARNED_VERSION}")
    return data.get("graph")


# What was learned from a file: structure, timings, and its form as JSON or as a network.


@dataclass(frozen=True, eq=False)
class LearnedFile:
    name: str
    table: EncodedTable
    structure: LearnedStructure
    reading_seconds: float  # from bytes to columns
    encoding_seconds: float  # from columns to codes


def warm_up() -> None:
    """Learn a tiny table and direct its graph; the library says so if it has to compile."""
    rows = range(20)
    text = pa.array([str(row // 2 % 2) for row in rows]).dictionary_encode()
    columns = {"x": [row % 2 for row in rows], "y": text, "z": [row // 4 % 2 == 0 for row in rows]}
    extend_to_dag(learn_structure(pa.table(columns)).graph)


def learn_input(
    source: Input,
    options: LearnOptions,
    previous: LearnedFile | None = None,
    *,
    warm: bool = True,
) -> LearnedFile:
    """Read a table and learn its structure.

    The schema of ``previous``, an earlier file, is used, so that codes mean the same in both; with
    ``warm`` the search starts from it too, unless that was stopped early.
    """
    if is_graph(source):
        raise InputError(source.name, "holds a learned graph where a table is needed")
    warm_up()
    times = [time.perf_counter()]
    with blamed_on(source.name):
        data = one_table([batch.data for batch in source.batches(options.columns)])
        times.append(time.perf_counter())
        knowledge = options.knowledge(data.column_names)
        table = _encoded(data, previous)
        times.append(time.perf_counter())
        start = previous.structure if previous and warm and not previous.structure.overrun else None
        structure = StructureLearner(options.config, knowledge).learn(table, start)
    return LearnedFile(source.name, table, structure, times[1] - times[0], times[2] - times[1])


def _encoded(data: pa.Table, previous: LearnedFile | None) -> EncodedTable:
    if previous is None:
        return infer_and_encode(data)
    # Without the mark of records: a column that a whole file lacks is worth a word.
    return encode(data.replace_schema_metadata(), previous.table.schema)


@dataclass(frozen=True)
class Answer:
    """How likely the values of a field are where others are known, by network."""

    field: str
    given: dict[str, str]
    chances: dict[str, dict[str, float]]

    @classmethod
    def of(cls, query: str, networks: dict[str, BayesianNetwork]) -> Answer:
        """Ask networks of the same fields ``FIELD | FIELD=VALUE, …``."""
        names = next(iter(networks.values())).nodes
        field, _, rest = query.partition("|")
        given = {}
        for part in map(str.strip, listed_names("query", rest) if rest.strip() else ()):
            found = [name for name in names if part.startswith(f"{name}=")]
            if not found:
                raise ConfigError("query", query, "FIELD | FIELD=VALUE, … with fields of the graph")
            name = max(found, key=len)
            given[name] = part.removeprefix(f"{name}=")
        field = field.strip()
        asked = {label: network.query(field, given) for label, network in networks.items()}
        return cls(field, given, asked)

    def lines(self) -> list[Line]:
        known = ", ".join(f"{shown(name)}={shown(value)}" for name, value in self.given.items())
        lines = [Line(shown(self.field) + (f" | {known}" if known else ""), Style.HEAD)]
        for value in dict.fromkeys(value for found in self.chances.values() for value in found):
            numbers = (f"{found.get(value, 0.0):.3f}" for found in self.chances.values())
            lines.append(Line(f"  {' -> '.join(numbers)}  {shown(value)}"))
        return lines

    def document(self) -> dict[str, Any]:
        return {"query": {"field": self.field, "given": self.given, **self.chances}}


def learned_document(learned: LearnedFile, options: LearnOptions) -> dict[str, Any]:
    config, schema = options.config, learned.table.schema
    structure, cost = learned.structure, learned.structure.cost
    canonical = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return {
        "format": LEARNED_FORMAT,
        "version": LEARNED_VERSION,
        "source": learned.name,
        "rows": learned.table.n_rows,
        "settings": {
            "algorithm": config.algorithm.value,
            "alpha": config.alpha,
            "statistic": config.statistic.value,
            "collider_rule": config.collider_rule.value,
            "repair": config.repair,
            "max_conditioning": config.max_conditioning,
        },
        "graph": graph_to_dict(structure.graph),
        "conflicts": [list(edge) for edge in structure.conflicts],
        "excluded": [
            {"name": column.name, "reason": column.reason.value, "detail": column.detail}
            for column in schema.excluded
        ],
        "overrun": structure.overrun.value if structure.overrun else None,
        "schema_sha256": hashlib.sha256(canonical.encode()).hexdigest(),
        "cost": {
            "tests": list(cost.tests),
            "weighted": cost.weighted,
            "undecided": list(cost.undecided),
            "orientation_tests": list(cost.orientation_tests),
            "orientation_weighted": cost.orientation_weighted,
            "repair_tables": cost.repair_tables,
        },
        "seconds": {
            "reading": learned.reading_seconds,
            "encoding": learned.encoding_seconds,
            "learning": cost.seconds,
        },
    }


# ``driftbn learn``: the graph of who depends on whom in a table.

QUERY_HELP = (
    "how likely the values of a field are, given others: 'FIELD | FIELD=VALUE, …'; as in CSV"
    " where a name or value holds a comma; needs the extra pyagrum or pgmpy"
)
FORMATS = ("text", "json", "dot", "bif", "png")

_OVERRUNS = {
    Overrun.DEADLINE: "the deadline was reached",
    Overrun.TESTS: "the tests were used up",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    output.add_argument("--query", metavar="QUERY", help=QUERY_HELP)
    output.add_argument("--quiet", action="store_true", help="text: only the edges")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    render = png_renderer(arguments.output) if arguments.format == "png" else None
    options = LearnOptions.from_arguments(arguments)
    with Input(arguments.file, options.input_format) as source:
        learned = learn_input(source, options)
    with blamed_on(learned.name):
        blanket, answer = _asked(learned, arguments)
    match arguments.format:
        case "text":
            lines = _lines(learned, arguments, blanket) + (answer.lines() if answer else [])
            write_lines(lines, arguments.output)
        case "json":
            document = learned_document(learned, options)
            about = {"target": arguments.target, "markov_blanket": list(blanket or ())}
            document |= {} if blanket is None else about
            document |= answer.document() if answer else {}
            write_text(json.dumps(document, indent=1) + "\n", arguments.output)
        case "dot":
            write_text(write_dot(learned.structure.graph), arguments.output)
        case "bif":
            with blamed_on(learned.name):
                network = fit_network(learned.structure.dag, learned.table, arguments.bdeu)
                text = write_bif(network)
            write_text(text, arguments.output)
    if render is not None:
        drawing = picture_of(_headline(learned).text, (), scene_of_graph(learned.structure.graph))
        save([(arguments.output or STDIN, render(drawing))])
    if arguments.format != "text":
        for line in _warnings(learned):
            note(line.text)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    for option in ("target", "query"):
        if getattr(arguments, option) is not None and arguments.format not in ("text", "json"):
            raise UsageError(f"--{option} goes with --format text or json only")
    if arguments.bdeu is not None:
        if arguments.format != "bif":
            raise UsageError("--bdeu goes with --format bif only")
        check_sample_size(arguments.bdeu)


def _asked(
    learned: LearnedFile, arguments: argparse.Namespace
) -> tuple[tuple[str, ...] | None, Answer | None]:
    """Return the Markov blanket of the target, and the answer to the query, as far as asked."""
    dag, blanket, answer = learned.structure.dag, None, None
    if arguments.target is not None:
        check_target(learned.table.schema, arguments.target)
        blanket = tuple(sorted(dag.markov_blanket(arguments.target)))
    if arguments.query is not None:
        network = fit_network(dag, learned.table, None)
        answer = Answer.of(arguments.query, {"probabilities": network})
    return blanket, answer


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
        f"cost: {cost.n_tests} tests (weighted {cost.weighted}),"
        f" {sum(cost.undecided)} undecided;"
        f" {sum(cost.orientation_tests)} of them to direct edges"
        f" (weighted {cost.orientation_weighted}),"
        f" {cost.repair_tables} tables to repair them"
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
