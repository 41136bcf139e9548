"""Which values moved: counts of value combinations in the reference and in a window, for people.

They are no tests. Once a decision has named fields and pairs, the few combinations whose shares of
the records moved most say how. Of each field that was named its own values are looked at; of each
edge the values of one end among the records with a value of the other; of each field that follows
others differently its values among theirs. A combination counts by its difference times the root
of how many records it is about, which is what it adds to a deviance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from driftbn.drift.facts import FactKind
from driftbn.drift.outcome import DriftDecision, Family
from driftbn.drift.plan import joint_codes
from driftbn.kernels.counting import N_PARTS
from driftbn.kernels.evidence import Ints
from driftbn.learning.independence import Codes
from driftbn.tables.infer import Bins
from driftbn.tables.schema import Schema, Variable, VariableKind

MAX_MOVED = 16
"""Combinations of one report."""
MAX_SUBJECTS = 4  # fields, edges and changed fields, each, that are looked at
MAX_OF_FIELD, MAX_OF_PAIR = 3, 2
LEAST_OF_FIRST = 0.3  # of the weight of what moved most: what else is told of the same fields
MAX_GIVEN = 4  # fields that another one follows, of which combinations are looked at
LEAST_MOVED = 0.02  # a smaller difference of shares says nothing to anybody
LEAST_ROWS = 20  # of a share
MIDDLE = (0.25, 0.75)  # of the numbers of a field: where half of them are
ELSEWHERE = 0.4  # by which a share of numbers moves if they lie elsewhere than before
OF_RANGE = (FactKind.OUTSIDE, FactKind.UNUSUAL)
"""Facts of numbers that are told by where the middle half of them was and is."""


class Value(NamedTuple):
    """A value of a field, or a range of its numbers.

    ``level``: as the schema labels it, also ``__other__`` and ``__missing__``; ``None`` for numbers
    above ``low`` and up to ``high``, of which ``None`` is no limit.
    """

    field: str
    level: str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Moved:
    """Records with a value, of those ``among`` which they are counted: before, and now.

    ``before``, ``now``: how many records, in the reference and in the window; ``before_of``,
    ``now_of``: of how many.
    """

    value: Value
    among: tuple[Value, ...]
    before: int
    before_of: int
    now: int
    now_of: int

    @property
    def shares(self) -> tuple[float, float]:
        """Before and now; 0 of no records."""
        return self.before / max(self.before_of, 1), self.now / max(self.now_of, 1)


def moved_values(
    decision: DriftDecision, schema: Schema, bins: Bins, before: Sequence[Codes], now: Codes
) -> tuple[Moved, ...]:
    """Return the combinations of values that say how what a decision names has changed.

    ``before``, ``now``: rows as the schema codes them, of the reference's windows and of the new
    one. What facts are about comes first, then edges and fields in the order of the decision.
    """
    rows = _Rows(schema, bins, before, now)
    subjects = dict.fromkeys(fact.field for fact in decision.facts)
    found = [one for name in list(subjects)[:MAX_SUBJECTS] for one in rows.of_fact(name, decision)]
    for edge in decision.edges[:MAX_SUBJECTS]:
        ends = (edge.source, edge.target)
        source, target = ends if edge.target not in decision.given else ends[::-1]
        found += rows.of_pair(target, source, edge.given)
    for change in decision.node_changes[:MAX_SUBJECTS]:
        found += rows.of_node(change.name, change.parents)
    if not decision.edges and not decision.node_changes:
        for result in decision.families:
            if result.family is Family.ASSOCIATION and result.p_value <= decision.alpha:
                found += rows.of_pair(result.fields[1], result.fields[0], ())
    touched = (name for edge in decision.edges for name in edge.pair)
    others = dict.fromkeys((*touched, *(one.name for one in decision.node_changes)))
    own = [name for name in others if name not in subjects][: 2 * MAX_SUBJECTS]
    found += [one for name in own for one in rows.of_named(name)]
    return tuple(dict.fromkeys(found))[:MAX_MOVED]


class _Rows:
    def __init__(self, schema: Schema, bins: Bins, before: Sequence[Codes], now: Codes) -> None:
        self._variables = schema.variables
        self._place = {name: v for v, name in enumerate(schema.names)}
        self._cuts = bins.cuts
        self._cells = [np.concatenate(before, axis=1), now]
        self._codes = [bins.apply(cells) for cells in self._cells]

    def of_fact(self, name: str, decision: DriftDecision) -> list[Moved]:
        kinds = {fact.kind for fact in decision.facts if fact.field == name}
        if kinds & {*OF_RANGE} and self._variables[self._place[name]].scale:
            return self._middles(name)
        return self.of_field(name, MAX_OF_FIELD)

    def of_named(self, name: str) -> list[Moved]:
        """Return what moved most of a field's own values; of numbers where half of them are."""
        found = self.of_field(name, 1)
        away = [one for one in found if abs(one.shares[1] - one.shares[0]) >= ELSEWHERE]
        if away and self._variables[self._place[name]].scale and found[0].value.level is None:
            return self._middles(name)
        return found

    def of_field(self, name: str, most: int) -> list[Moved]:
        return [one for _, one in self._ranked(name, (), most)][:most]

    def of_pair(self, name: str, other: str, given: tuple[str, ...]) -> list[Moved]:
        """Look at all records, or if little moved there at those that agree in what was given."""
        plain = self._ranked(name, (other,), 1)
        held = self._ranked(name, (other, *given[: MAX_GIVEN - 1]), 1) if given else []
        best = plain if not held or (plain and plain[0][0] >= held[0][0] / 2) else held
        return _first(best)

    def of_node(self, name: str, parents: tuple[str, ...]) -> list[Moved]:
        """Look at the values of each field that it follows, and of each two of them."""
        some = parents[:MAX_GIVEN]
        sets = [(), *((one,) for one in some), *combinations(some, 2)] if some else [()]
        every = [self._ranked(name, others, 1) for others in sets]
        best = max(every, key=lambda ranked: ranked[0][0] if ranked else 0.0)
        return _first(best)

    def _ranked(self, name: str, others: tuple[str, ...], most: int) -> list[tuple[float, Moved]]:
        """Return what moved most, with its weight; ``most`` values for each of the others'."""
        v, places = self._place[name], [self._place[other] for other in others]
        tables, configurations = self._tables(v, places)
        rows = [table.sum(axis=1) for table in tables]
        shares = [
            table / np.maximum(of, 1)[:, None] for table, of in zip(tables, rows, strict=True)
        ]
        moved = shares[1] - shares[0]
        weight = sum(of / max(of.sum(), 1) for of in rows) / 2.0
        enough = (rows[0] >= LEAST_ROWS) & (rows[1] >= LEAST_ROWS)
        score = np.where(enough[:, None], np.abs(moved) * np.sqrt(weight)[:, None], 0.0)
        score[np.abs(moved) < LEAST_MOVED] = 0.0
        found = []
        for s, codes in enumerate(configurations):
            among = tuple(self._value(u, code) for u, code in zip(places, codes, strict=True))
            order = np.argsort(-score[s], kind="stable")[:most].tolist()
            for code in (code for code in order if score[s, code] > 0.0):
                counts = [
                    int(n) for of, t in zip(rows, tables, strict=True) for n in (t[s, code], of[s])
                ]
                found.append((float(score[s, code]), Moved(self._value(v, code), among, *counts)))
        return sorted(found, key=lambda item: -item[0])

    def _tables(self, v: int, places: list[int]) -> tuple[list[Ints], Iterable[tuple[int, ...]]]:
        """Return counts ``[configurations, codes]``, before and now, and the configurations."""
        n_before = self._codes[0].shape[1]
        every = [np.concatenate([codes[u] for codes in self._codes]) for u in (*places, v)]
        card = int(every[-1].max()) + 1
        cards = np.array([int(row.max()) + 1 for row in every[:-1]], np.int64)
        rows = np.array(every, np.uint8)
        present, joint = np.unique(
            joint_codes(rows, cards, range(len(places))), return_inverse=True
        )
        cells = joint * card + every[-1]
        size = len(present) * card
        halves = (cells[:n_before], cells[n_before:])
        tables = [np.bincount(half, minlength=size).reshape(-1, card) for half in halves]
        shape = tuple(cards.tolist())
        unpacked = np.unravel_index(present, shape) if shape else ()
        configurations = list(zip(*(one.tolist() for one in unpacked), strict=True)) or [()]
        return tables, configurations

    def _middles(self, name: str) -> list[Moved]:
        """Return where the middle half of the numbers was before, and where it is now."""
        v = self._place[name]
        variable = self._variables[v]
        rows = [cells[v].astype(np.int64) // N_PARTS for cells in self._cells]
        n_cells = len(variable.edges) + 1
        counts = [np.bincount(cells, minlength=n_cells)[:n_cells] for cells in rows]
        found = []
        for half in counts:
            if not half.sum():
                continue
            first, last = np.searchsorted(np.cumsum(half) / half.sum(), MIDDLE).tolist()
            inside = [
                n
                for one, row in zip(counts, rows, strict=True)
                for n in (int(one[first : last + 1].sum()), len(row))
            ]
            found.append(Moved(_range(variable, first, last), (), *inside))
        return found

    def _value(self, v: int, code: int) -> Value:
        variable, cuts = self._variables[v], self._cuts[v]
        if variable.scale:
            if code > len(cuts):
                return Value(
                    variable.name, variable.labels[len(variable.levels) + code - len(cuts) - 1]
                )
            ends = (-1, *cuts, len(variable.edges))
            return _range(variable, ends[code] + 1, ends[code + 1])
        if variable.kind is VariableKind.NUMERIC and code < len(variable.levels):
            return _range(variable, code, code)
        return Value(variable.name, variable.labels[code])


def _first(ranked: Sequence[tuple[float, Moved]]) -> list[Moved]:
    """Return what moved most, and what moved nearly as much."""
    enough = [one for score, one in ranked if score >= LEAST_OF_FIRST * ranked[0][0]]
    return enough[:MAX_OF_PAIR]


def _range(variable: Variable, first: int, last: int) -> Value:
    """Return the numbers from one cell to another."""
    edges = variable.edges
    low = edges[first - 1] if first else None
    return Value(variable.name, None, low, edges[last] if last < len(edges) else None)
