r"""Text forms of graphs and networks: BIF, DOT and JSON; text in, text out, no files.

BIF is the interchange format of JavaBayes and the bnlearn repository.
A name is written bare if it consists of ASCII letters, digits and ``_ . + - < > = %`` and is no
keyword. Any other name stands in double quotes, in which a backslash, a quote, a line feed, a
carriage return and a tab are written ``\\``, ``\"``, ``\n``, ``\r`` and ``\t``. In reading, a
backslash before any other character stands for itself, and bare words may hold anything but
white space, quotes, marks and the start of a comment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from driftbn.errors import FormatError, GraphError
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn.graphs.network import MAX_CELLS, BayesianNetwork, FloatArray, checked_cpt

_KEYWORDS = frozenset(
    ("network", "variable", "probability", "property", "type", "discrete", "table", "default")
)
_BARE = re.compile(r"[A-Za-z0-9_.+<>=%-]+", re.ASCII)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {written: plain for plain, written in _ESCAPES.items()}
_MARKS = "{}()[]|,;"
_TOKEN = re.compile(
    r"""
    (?P<space>   \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<quoted>  "(?:[^"\\]|\\.)*" )
  | (?P<bare>    [{}()\[\]|,;] | (?: (?!//|/\*) [^\s{}()\[\]|,;"] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)


def read_bif(text: str) -> BayesianNetwork:
    """Read a network in BIF.

    Comments (``//`` and ``/* */``) and properties are passed over; commas between names or numbers
    are optional. Entries of a table may come in any order; what they leave out is filled by
    ``default``. The numbers of a ``table`` with parents are ordered as JavaBayes orders them: the
    states of the child change slowest, those of the last parent fastest. Nodes keep the order of
    their ``variable`` blocks.

    Raises FormatError if the text is not BIF or the network not sound; the message begins with the
    line, except for a cycle, which has none.

    >>> network = read_bif('''
    ... variable rain { type discrete [ 2 ] { no, yes }; }
    ... variable wet  { type discrete [ 2 ] { no, yes }; }
    ... probability ( rain ) { table 0.8, 0.2; }
    ... probability ( wet | rain ) { (yes) 0.1, 0.9; default 1.0, 0.0; }
    ... ''')
    >>> network.cpt("wet").tolist()
    [[1.0, 0.0], [0.1, 0.9]]
    """
    reader = _Reader(_tokens(text))
    reader.read()
    found = [reader.tables[name] for name in reader.states]
    parents, tables = [one[0] for one in found], [one[1] for one in found]
    try:
        return BayesianNetwork(reader.states, reader.states.values(), parents, tables)
    except GraphError as error:
        raise FormatError(str(error)) from error


def write_bif(network: BayesianNetwork) -> str:
    """Write a network in BIF; `read_bif` gives back an equal network.

    >>> coin = BayesianNetwork(["coin"], [["heads", "tails up"]], [[]], [[[0.5, 0.5]]])
    >>> print(write_bif(coin), end="")
    network unknown {
    }
    variable coin {
      type discrete [ 2 ] { heads, "tails up" };
    }
    probability ( coin ) {
      table 0.5, 0.5;
    }
    """
    lines = ["network unknown {", "}"]
    for node, names in zip(network.nodes, network.states, strict=True):
        listed = ", ".join(map(_written, names))
        lines += [
            f"variable {_written(node)} {{",
            f"  type discrete [ {len(names)} ] {{ {listed} }};",
            "}",
        ]
    for i in range(len(network.nodes)):
        lines += _probability_lines(network, i)
    return "\n".join(lines) + "\n"


def _probability_lines(network: BayesianNetwork, i: int) -> list[str]:
    node, parents, cpt = network.nodes[i], network.parents[i], network.cpts[i]
    rows = [", ".join(map(repr, row)) for row in cpt.tolist()]
    if not parents:
        return [f"probability ( {_written(node)} ) {{", f"  table {rows[0]};", "}"]
    choices = product(*(map(_written, network.states[network.index(p)]) for p in parents))
    entries = [f"  ({', '.join(choice)}) {row};" for choice, row in zip(choices, rows, strict=True)]
    given = ", ".join(map(_written, parents))
    return [f"probability ( {_written(node)} | {given} ) {{", *entries, "}"]


def _written(name: str) -> str:
    r"""Write a name so that it reads back as itself.

    >>> print(_written("LOW"), _written('5" disk\n'), _written("table"))
    LOW "5\" disk\n" "table"
    """
    if _BARE.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + "".join(_ESCAPES.get(char, char) for char in name) + '"'


class _Token(NamedTuple):
    """A name, number or mark, and its line, counted from 1; the empty bare word ends the text."""

    text: str
    line: int
    quoted: bool = False

    def is_bare(self, *texts: str) -> bool:
        """Whether this is one of these keywords or marks; a name in quotes never is."""
        return not self.quoted and self.text in texts

    def error(self, problem: str) -> FormatError:
        return FormatError(f"line {self.line}: {problem}")

    def unexpected(self, expected: str) -> FormatError:
        found = "the end of the text" if self.is_bare("") else repr(self.text[:60])
        return self.error(f"expected {expected}, found {found}")


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place, line = 0, 1
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            what = "quoted name" if text[place] == '"' else "comment"
            raise _Token("", line).error(f"a {what} begins here and is never closed")
        piece = found.group()
        if found.lastgroup == "quoted":
            plain = re.sub(r"(?s)\\.", lambda pair: _UNESCAPES.get(pair[0], pair[0]), piece[1:-1])
            tokens.append(_Token(plain, line, quoted=True))
        elif found.lastgroup == "bare":
            tokens.append(_Token(piece, line))
        line += piece.count("\n")
        place = found.end()
    return [*tokens, _Token("", line)]


class _Entry(NamedTuple):
    numbers: list[float]
    start: _Token

    def checked(self, expected: int) -> list[float]:
        if len(self.numbers) != expected:
            raise self.start.error(f"{len(self.numbers)} numbers where {expected} are needed")
        return self.numbers


_Rows = dict[tuple[str, ...], _Entry]


class _Reader:
    """Walks over the tokens once; has the states of variables, then their parents and tables."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self.states: dict[str, list[str]] = {}
        self.tables: dict[str, tuple[list[str], FloatArray]] = {}

    def read(self) -> None:
        blocks = {
            "network": self._read_network,
            "variable": self._read_variable,
            "probability": self._read_probability,
        }
        while self._next is not self._tokens[-1]:
            token = self._take()
            if not token.is_bare(*blocks):
                raise token.unexpected("'network', 'variable' or 'probability'")
            blocks[token.text]()
        for name in self.states:
            if name not in self.tables:
                raise self._next.error(f"variable {name!r} has no probability block")

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._next
        if token is not self._tokens[-1]:
            self._place += 1
        return token

    def _passes(self, *texts: str) -> bool:
        """Take the next token if it is one of these, and tell whether it was."""
        found = self._next.is_bare(*texts)
        if found:
            self._take()
        return found

    def _expect(self, mark: str) -> None:
        token = self._take()
        if not token.is_bare(mark):
            raise token.unexpected(repr(mark))

    def _name(self, what: str) -> _Token:
        token = self._take()
        if token.is_bare("", *_MARKS):
            raise token.unexpected(what)
        return token

    def _names(self, end: str, what: str) -> list[str]:
        """Read names, with or without commas between them, and the mark that ends them."""
        names: list[str] = []
        while not self._passes(end):
            if not self._passes(","):
                names.append(self._name(what).text)
        return names

    def _numbers(self) -> list[float]:
        numbers: list[float] = []
        while not self._passes(";"):
            if not self._passes(","):
                numbers.append(_number(self._take()))
        return numbers

    def _skip_property(self, otherwise: str) -> None:
        token = self._take()
        if not token.is_bare("property"):
            raise token.unexpected(f"'property' or {otherwise}")
        while not self._passes(";"):
            if self._take() is self._tokens[-1]:
                raise self._next.error("a property is not ended by ';'")

    def _read_network(self) -> None:
        if not self._passes("{"):
            self._name("the name of the network")
            self._expect("{")
        while not self._passes("}"):
            self._skip_property("'}'")

    def _read_variable(self) -> None:
        name = self._name("the name of a variable")
        if name.text in self.states:
            raise name.error(f"variable {name.text!r} is declared twice")
        self._expect("{")
        while not self._passes("}"):
            if name.text not in self.states and self._passes("type"):
                self.states[name.text] = self._read_type()
            else:
                self._skip_property("'type' once")
        if name.text not in self.states:
            raise name.error(f"variable {name.text!r} has no type")

    def _read_type(self) -> list[str]:
        kind = self._name("'discrete'")
        if not kind.is_bare("discrete"):
            raise kind.error(f"only 'discrete' variables are read, found {kind.text[:60]!r}")
        self._expect("[")
        count = self._name("the number of states")
        self._expect("]")
        self._expect("{")
        states = self._names("}", "the name of a state")
        self._expect(";")
        if count.text != str(len(states)):
            raise count.error(f"{count.text[:60]!r} states declared, {len(states)} listed")
        if not states or len(set(states)) != len(states):
            raise kind.error("a variable must have states, each named once")
        return states

    def _read_probability(self) -> None:
        self._expect("(")
        node = self._name("the name of a variable")
        self._passes("|", ",")
        parents = self._names(")", "the name of a parent")
        for name in (node.text, *parents):
            if name not in self.states:
                raise node.error(f"variable {name!r} is not declared above")
        if node.text in self.tables:
            raise node.error(f"variable {node.text!r} has two probability blocks")
        self.tables[node.text] = parents, self._read_table(node, parents)

    def _read_table(self, node: _Token, parents: Sequence[str]) -> FloatArray:
        rows, others = self._read_entries()
        card = len(self.states[node.text])
        n_rows = math.prod(len(self.states[parent]) for parent in parents)
        if n_rows * card > MAX_CELLS:
            raise node.error(f"a table of {n_rows * card} cells; at most {MAX_CELLS} are read")
        if "table" not in others:
            table = self._filled(node, parents, rows, others.get("default"))
        elif rows or "default" in others:
            raise others["table"].start.error("'table' stands beside other entries")
        else:
            table = np.array(others["table"].checked(n_rows * card)).reshape(card, n_rows).T
        try:
            return checked_cpt(node.text, table, (n_rows, card))
        except GraphError as error:
            raise node.error(str(error)) from error

    def _read_entries(self) -> tuple[_Rows, dict[str, _Entry]]:
        """Read the rows of a table by the states of the parents, and what is no such row."""
        self._expect("{")
        rows: _Rows = {}
        others: dict[str, _Entry] = {}
        while not self._passes("}"):
            start = self._next
            if self._passes("("):
                states = tuple(self._names(")", "the name of a state"))
                if states in rows:
                    raise start.error(f"a second entry for {states}")
                rows[states] = _Entry(self._numbers(), start)
            elif start.text not in others and self._passes("table", "default"):
                others[start.text] = _Entry(self._numbers(), start)
            else:
                self._skip_property("'table' or 'default' once, '(' or '}'")
        return rows, others

    def _filled(
        self, node: _Token, parents: Sequence[str], rows: _Rows, default: _Entry | None
    ) -> FloatArray:
        choices = [self.states[parent] for parent in parents]
        n_rows, card = math.prod(map(len, choices)), len(self.states[node.text])
        table = np.full((n_rows, card), math.nan if default is None else default.checked(card))
        for states, entry in rows.items():
            table[self._row(parents, states, entry.start)] = entry.checked(card)
        if default is None and len(rows) < n_rows:
            missing = next(states for states in product(*choices) if states not in rows)
            raise node.error(f"{node.text!r} has no entry for {missing} and no default")
        return table

    def _row(self, parents: Sequence[str], chosen: tuple[str, ...], start: _Token) -> int:
        if len(chosen) != len(parents):
            raise start.error(f"{len(chosen)} states for {len(parents)} parents")
        row = 0
        for parent, state in zip(parents, chosen, strict=True):
            states = self.states[parent]
            if state not in states:
                raise start.error(f"{parent!r} has no state {state!r}; it has {states}")
            row = row * len(states) + states.index(state)
        return row


def _number(token: _Token) -> float:
    try:
        number = math.nan if token.quoted else float(token.text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise token.unexpected("a number or ';'")
    return number


# Graphviz DOT, for drawing.

_DOT_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
# Graphviz reads "&lt;" and the like in labels, so the sign itself must be written as one.
_LABEL_ESCAPES = _DOT_ESCAPES | {ord("&"): "&amp;"}


def write_dot(graph: Dag | Pdag) -> str:
    r"""Write a graph in DOT: nodes, then arrows, then lines, each sorted by name.

    Names are quoted; a backslash, a quote and a line break in a name are escaped, and such a node
    gets a label of its own, because Graphviz would interpret the name.

    Undirected edges have ``dir=none``.

    >>> print(write_dot(Pdag("abc", [("a", "b")], [("c", "b")])), end="")
    digraph {
      "a";
      "b";
      "c";
      "a" -> "b";
      "b" -> "c" [dir=none];
    }
    """
    lines = [_node_line(node) for node in graph.nodes]
    lines += [f"  {_quoted(u)} -> {_quoted(v)};" for u, v in graph.directed_edges]
    lines += [f"  {_quoted(u)} -> {_quoted(v)} [dir=none];" for u, v in graph.undirected_edges]
    return "\n".join(("digraph {", *lines, "}")) + "\n"


def _node_line(node: str) -> str:
    label = node.translate(_LABEL_ESCAPES)
    return f"  {_quoted(node)};" if label == node else f'  {_quoted(node)} [label="{label}"];'


def _quoted(name: str) -> str:
    return f'"{name.translate(_DOT_ESCAPES)}"'


# Graphs as versioned JSON.

FORMAT = "driftbn-graph"
VERSION = 1


def graph_to_dict(graph: Dag | Pdag) -> dict[str, object]:
    """Return a graph as plain lists and strings, ready for JSON.

    >>> graph_to_dict(Pdag("ab", [], [("b", "a")]))["undirected"]
    [['a', 'b']]
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "nodes": list(graph.nodes),
        "directed": [list(edge) for edge in graph.directed_edges],
        "undirected": [list(edge) for edge in graph.undirected_edges],
    }


def graph_from_dict(data: object) -> Pdag:
    """Read what `graph_to_dict` returned; keys it does not know are ignored.

    It is a `Pdag` also if a `Dag` was written: ``Dag(graph.nodes, graph.directed_edges)`` gives it
    back.

    Raises FormatError if format, version or a field are not as expected, or the graph breaks a
    rule.

    >>> graph = Pdag("abc", [("a", "b")], [("b", "c")])
    >>> graph_from_dict(graph_to_dict(graph)) == graph
    True
    """
    if not isinstance(data, Mapping):
        raise FormatError(f"a graph must be a JSON object, not {type(data).__name__}")
    for key, expected in (("format", FORMAT), ("version", VERSION)):
        found = data.get(key)
        # True equals 1 in Python but is another value in JSON.
        if found != expected or isinstance(found, bool):
            raise FormatError(f"{key} is {found!r}; it must be {expected!r}")
    try:
        return Pdag(_names(data), _edges(data, "directed"), _edges(data, "undirected"))
    except GraphError as error:
        raise FormatError(f"the graph is not sound: {error}") from error


def _field(data: Mapping[str, object], key: str) -> list[object]:
    found = data.get(key)
    if not isinstance(found, list):
        raise FormatError(f"{key} must be a list, found {type(found).__name__}")
    return found


def _names(data: Mapping[str, object]) -> list[str]:
    names = []
    for name in _field(data, "nodes"):
        if not isinstance(name, str):
            raise FormatError(f"nodes must be strings, found {name!r}")
        names.append(name)
    return names


def _edges(data: Mapping[str, object], key: str) -> list[Edge]:
    edges = []
    for edge in _field(data, key):
        match edge:
            case [str(source), str(target)]:
                edges.append((source, target))
            case _:
                raise FormatError(f"{key} must hold pairs of names, found {edge!r}")
    return edges
