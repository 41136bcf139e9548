"""The blocks of a BIF text as written, before they are made into a network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from driftbn.formats.tokens import Kind, Token, at_line


@dataclass
class Entry:
    """One line of a table; ``states`` is ``None`` for ``default``."""

    states: tuple[str, ...] | None
    numbers: list[float]
    line: int


@dataclass
class Block:
    """One ``probability`` block as written."""

    node: str
    parents: list[str]
    line: int
    table: Entry | None = None
    default: Entry | None = None
    entries: list[Entry] = field(default_factory=list)


class BlockReader:
    """Walks over the tokens once and collects the blocks.

    Attributes
    ----------
    variables
        The states of each variable, in the order of declaration.
    blocks
        The probability block of each variable that has one.
    last_line
        Where the text ends.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self.variables: dict[str, list[str]] = {}
        self.blocks: dict[str, Block] = {}
        self.last_line = tokens[-1].line

    def read(self) -> None:
        """Read all blocks up to the end."""
        while self._peek().kind is not Kind.END:
            token = self._take()
            if token.is_word("network"):
                self._read_network()
            elif token.is_word("variable"):
                self._read_variable()
            elif token.is_word("probability"):
                self._read_probability()
            else:
                expected = "'network', 'variable' or 'probability'"
                raise at_line(token.line, f"expected {expected}, found {token.shown}")

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        if token.kind is not Kind.END:
            self._next += 1
        return token

    def _expect(self, mark: str) -> Token:
        token = self._take()
        if not token.is_mark(mark):
            raise at_line(token.line, f"expected {mark!r}, found {token.shown}")
        return token

    def _name(self, what: str) -> Token:
        token = self._take()
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            raise at_line(token.line, f"expected {what}, found {token.shown}")
        return token

    def _names_until(self, end: str, what: str) -> list[str]:
        """Read names, with or without commas between them, and the mark that ends them."""
        names: list[str] = []
        while not self._peek().is_mark(end):
            if self._peek().is_mark(","):
                self._take()
            else:
                names.append(self._name(what).text)
        self._take()
        return names

    def _skip_statement(self) -> None:
        """Pass over a property, up to and with its semicolon."""
        token = self._take()
        while not token.is_mark(";"):
            if token.kind is Kind.END:
                raise at_line(token.line, "a property is not ended by ';'")
            token = self._take()

    def _read_network(self) -> None:
        if not self._peek().is_mark("{"):
            self._name("the name of the network")
        self._expect("{")
        while not self._peek().is_mark("}"):
            self._read_property("'}'")
        self._take()

    def _read_property(self, otherwise: str) -> None:
        token = self._take()
        if not token.is_word("property"):
            raise at_line(token.line, f"expected 'property' or {otherwise}, found {token.shown}")
        self._skip_statement()

    def _read_variable(self) -> None:
        name = self._name("the name of a variable")
        if name.text in self.variables:
            raise at_line(name.line, f"variable {name.text!r} is declared twice")
        self._expect("{")
        states: list[str] | None = None
        while not self._peek().is_mark("}"):
            if self._peek().is_word("type") and states is None:
                states = self._read_type()
            else:
                self._read_property("'type' once")
        self._take()
        if states is None:
            raise at_line(name.line, f"variable {name.text!r} has no type")
        self.variables[name.text] = states

    def _read_type(self) -> list[str]:
        line = self._take().line
        kind = self._name("'discrete'")
        if not kind.is_word("discrete"):
            raise at_line(kind.line, f"only 'discrete' variables are read, found {kind.shown}")
        self._expect("[")
        count = self._name("the number of states")
        self._expect("]")
        self._expect("{")
        states = self._names_until("}", "the name of a state")
        self._expect(";")
        if count.text != str(len(states)):
            raise at_line(count.line, f"{count.shown} states declared, {len(states)} listed")
        if not states or len(set(states)) != len(states):
            raise at_line(line, "a variable must have states, each named once")
        return states

    def _read_probability(self) -> None:
        self._expect("(")
        node = self._name("the name of a variable")
        if self._peek().is_mark("|,"):
            self._take()
        parents = self._names_until(")", "the name of a parent")
        block = Block(node.text, parents, node.line)
        for name in (node.text, *parents):
            if name not in self.variables:
                raise at_line(node.line, f"variable {name!r} is not declared above")
        if node.text in self.blocks:
            raise at_line(node.line, f"variable {node.text!r} has two probability blocks")
        self._expect("{")
        while not self._peek().is_mark("}"):
            self._read_entry(block)
        self._take()
        self.blocks[node.text] = block

    def _read_entry(self, block: Block) -> None:
        token = self._peek()
        if token.is_mark("("):
            self._take()
            states = tuple(self._names_until(")", "the name of a state"))
            block.entries.append(Entry(states, self._numbers(), token.line))
        elif token.is_word("table") and block.table is None:
            self._take()
            block.table = Entry(None, self._numbers(), token.line)
        elif token.is_word("default") and block.default is None:
            self._take()
            block.default = Entry(None, self._numbers(), token.line)
        else:
            self._read_property("'table' or 'default' once, '(' or '}'")

    def _numbers(self) -> list[float]:
        numbers: list[float] = []
        while not self._peek().is_mark(";"):
            token = self._take()
            if not token.is_mark(","):
                numbers.append(_number(token))
        self._take()
        return numbers


def _number(token: Token) -> float:
    try:
        number = float(token.text) if token.kind is Kind.WORD else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise at_line(token.line, f"expected a number or ';', found {token.shown}")
    return number
