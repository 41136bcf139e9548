"""The Bayesian interchange format, as JavaBayes and the bnlearn repository write it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from driftbn.errors import FormatError, GraphError
from driftbn.formats.blocks import Block, BlockReader, Entry
from driftbn.formats.tokens import at_line, quoted, tokenize
from driftbn.network import MAX_CELLS, BayesianNetwork, FloatArray, checked_cpt


def read_bif(text: str) -> BayesianNetwork:
    """Read a network in BIF.

    Comments (``//`` and ``/* */``) and properties are passed over; commas between names or numbers
    are optional. Entries of a table may come in any order; what they leave out is filled by
    ``default``. The numbers of a ``table`` with parents are ordered as JavaBayes orders them: the
    states of the child change slowest, those of the last parent fastest.

    Parameters
    ----------
    text
        The whole file.

    Returns
    -------
    BayesianNetwork
        Nodes in the order of their ``variable`` blocks.

    Raises
    ------
    FormatError
        If the text is not BIF or the network not sound; the message begins with the
        line, except for a cycle, which has none.

    Examples
    --------
    >>> network = read_bif('''
    ... variable rain { type discrete [ 2 ] { no, yes }; }
    ... variable wet  { type discrete [ 2 ] { no, yes }; }
    ... probability ( rain ) { table 0.8, 0.2; }
    ... probability ( wet | rain ) { (yes) 0.1, 0.9; default 1.0, 0.0; }
    ... ''')
    >>> network.cpt("wet").tolist()
    [[1.0, 0.0], [0.1, 0.9]]
    """
    reader = BlockReader(tokenize(text))
    reader.read()
    variables = reader.variables
    tables = [_table(variables, _block_of(reader, name)) for name in variables]
    try:
        return BayesianNetwork(
            variables,
            variables.values(),
            [reader.blocks[name].parents for name in variables],
            tables,
        )
    except GraphError as error:
        raise FormatError(str(error)) from error


def write_bif(network: BayesianNetwork) -> str:
    """Write a network in BIF; `read_bif` gives back an equal network.

    Names that are not plain words are quoted; see `driftbn.formats.tokens` for the rule.

    Examples
    --------
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
        listed = ", ".join(map(quoted, names))
        lines += [
            f"variable {quoted(node)} {{",
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
        return [f"probability ( {quoted(node)} ) {{", f"  table {rows[0]};", "}"]
    choices = product(*(map(quoted, network.states[network.index(p)]) for p in parents))
    entries = [f"  ({', '.join(choice)}) {row};" for choice, row in zip(choices, rows, strict=True)]
    given = ", ".join(map(quoted, parents))
    return [f"probability ( {quoted(node)} | {given} ) {{", *entries, "}"]


def _block_of(reader: BlockReader, name: str) -> Block:
    if name not in reader.blocks:
        raise at_line(reader.last_line, f"variable {name!r} has no probability block")
    return reader.blocks[name]


def _table(variables: dict[str, list[str]], block: Block) -> FloatArray:
    """Turn a block into a table ``[configurations, states]``."""
    card = len(variables[block.node])
    radix = [len(variables[parent]) for parent in block.parents]
    n_rows = math.prod(radix)
    if n_rows * card > MAX_CELLS:
        raise at_line(block.line, f"a table of {n_rows * card} cells; at most {MAX_CELLS} are read")
    if block.table is not None:
        if block.entries or block.default is not None:
            raise at_line(block.table.line, "'table' stands beside other entries")
        _check_count(block.table, n_rows * card)
        table = np.array(block.table.numbers).reshape(card, n_rows).T
    else:
        table = _filled(variables, block, np.full((n_rows, card), math.nan))
    try:
        return checked_cpt(block.node, table, (n_rows, card))
    except GraphError as error:
        raise at_line(block.line, str(error)) from error


def _filled(variables: dict[str, list[str]], block: Block, table: FloatArray) -> FloatArray:
    """Put the entries of a block at their rows and the default at the rest."""
    n_rows, card = table.shape
    digits = [{name: i for i, name in enumerate(variables[parent])} for parent in block.parents]
    seen = np.zeros(n_rows, dtype=bool)
    for entry in block.entries:
        row = _row_number(entry, block.parents, digits)
        _check_count(entry, card)
        if seen[row]:
            raise at_line(entry.line, f"a second entry for {entry.states}")
        seen[row] = True
        table[row] = entry.numbers
    if block.default is not None:
        _check_count(block.default, card)
        table[~seen] = block.default.numbers
    elif not seen.all():
        missing = int(seen.argmin())
        chosen = _states_of_row(missing, [variables[parent] for parent in block.parents])
        raise at_line(block.line, f"{block.node!r} has no entry for {chosen} and no default")
    return table


def _row_number(entry: Entry, parents: Sequence[str], digits: list[dict[str, int]]) -> int:
    states = entry.states or ()
    if len(states) != len(parents):
        raise at_line(entry.line, f"{len(states)} states for {len(parents)} parents")
    row = 0
    for state, parent, numbers in zip(states, parents, digits, strict=True):
        if state not in numbers:
            raise at_line(entry.line, f"{parent!r} has no state {state!r}; it has {list(numbers)}")
        row = row * len(numbers) + numbers[state]
    return row


def _states_of_row(row: int, states: Sequence[Sequence[str]]) -> tuple[str, ...]:
    chosen: list[str] = []
    for names in reversed(states):
        row, digit = divmod(row, len(names))
        chosen.append(names[digit])
    return tuple(reversed(chosen))


def _check_count(entry: Entry, expected: int) -> None:
    if len(entry.numbers) != expected:
        raise at_line(entry.line, f"{len(entry.numbers)} numbers where {expected} are needed")
