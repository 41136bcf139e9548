"""The fewest changes of the reference graph that explain the new windows.

Edges that are gone are taken out first: what was there and is not there any more, given the
other parents. Then edges are turned or added one by one, the one that explains most first. An
edge that has come must be seen both ways, given the parents of either end; after each step these
include the edges found so far, so what only echoes through them is no more seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn.drift.outcome import Association, ChangeType
from driftbn.drift.plan import joint_codes, n_configurations, trimmed
from driftbn.graphs.graph import Edge
from driftbn.kernels.evidence import Floats, Ints
from driftbn.learning.independence import Codes

MAX_EDITS = 16
THERE_LEVEL = 1e-3  # a tie with a smaller p-value is there
GONE = 0.25  # of the larger association: what may be left of one that is not there
MIN_NATS = 0.002  # a weaker association is not worth a name
TURN_MARGIN = 5.0  # nats by which a direction must fit better
ROWS_PER_CELL = 5

Pair = tuple[int, int]


@dataclass(frozen=True)
class Edit:
    """One change: the edge as it is afterwards, or as it was if it is removed."""

    kind: ChangeType
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class Rows:
    """The windows of the reference and the ones to explain, with the levels of each variable."""

    earlier: Sequence[Codes]
    newer: Sequence[Codes]
    cards: Ints


@dataclass(frozen=True)
class Doubts:
    """Where the graph may mislead.

    Parameters
    ----------
    unsure
        For each variable whether the direction of an edge to it is a free choice.
    certain
        For each variable the parents whose direction is no free choice.
    separators
        For pairs, smaller first, what separates them in the new windows.
    """

    unsure: Sequence[bool]
    certain: Parents
    separators: Mapping[Pair, tuple[int, ...]]


Move = tuple[float, Edit]


def _order(move: Move) -> tuple[float, int, int]:
    """Return the place of a move: what it explains, in nats, then the first by number."""
    return move[0], -move[1].source, -move[1].target


class EditSearch:
    """Finds the changes.

    Parameters
    ----------
    parents
        The graph of the reference.
    rows
        The windows of the reference, and the ones to explain.
    effects
        Design effect of each variable.
    doubts
        Where directions are not certain, and what separates pairs in the new windows.
    """

    def __init__(
        self,
        parents: Parents,
        rows: Rows,
        effects: Floats,
        doubts: Doubts,
    ) -> None:
        self._before = parents
        self._after = dict(parents)
        self._earlier = rows.earlier
        self._newer = rows.newer
        self._cards = rows.cards
        self._excess = np.sqrt(effects - 1.0)
        self._old_scores = FamilyScores(rows.earlier, rows.cards)
        self._new_scores = FamilyScores(rows.newer, rows.cards, rows.earlier)
        self._unsure = doubts.unsure
        self._certain = dict(doubts.certain)
        self._separators = doubts.separators
        self._blamed: set[int] = set()
        self._done: dict[Pair, Edit] = {}

    def run(self, pairs: Iterable[Pair], touched: Iterable[int]) -> list[Edit]:
        """Return the changes, given the pairs whose tests reject and the nodes that changed."""
        suspects = sorted({(min(pair), max(pair)) for pair in pairs})
        blamed = self._blamed = set(touched)
        self._remove_gone(suspects, blamed)
        while len(self._done) < MAX_EDITS:
            turns, additions = self._turns(blamed), self._additions(suspects)
            if not turns and not additions:
                break
            self._apply(self._best(turns, additions))
        self._take_back()
        if not self._done and not blamed:
            self._name_strongest(suspects)
        return list(self._done.values())

    def _name_strongest(self, suspects: list[Pair]) -> None:
        """Name the pair without edge that came together, or apart, most."""
        found = []
        for x, y in suspects:
            if self._adjacent(x, y):
                continue
            after = self._both_ways(self._newer, x, y, self._after)[1]
            before = self._both_ways(self._earlier, x, y, self._before)[1]
            order = max(before.nats, after.nats), (-x, -y)
            if self._is_gone(after, before):
                found.append((order, self._directed(x, y)))
            elif self._is_gone(before, after):
                found.append((order, Edit(ChangeType.REMOVED, x, y)))
        if found:
            self._apply(max(found, key=lambda entry: entry[0])[1])

    def _remove_gone(self, suspects: list[Pair], blamed: set[int]) -> None:
        """Take out what is not there any more, the strongest first."""
        found = []
        for target, parents in self._before.items():
            for source in parents:
                pair = min(source, target), max(source, target)
                if target in blamed or pair in suspects:
                    before = self._tie(self._earlier, source, target, parents - {source})
                    found.append((-before.nats, source, target, before))
        for _, source, target, before in sorted(found, key=lambda entry: entry[:3]):
            after = self._tie(self._newer, source, target, self._after[target] - {source})
            discount = self._discount(source, target)
            was_there = before.p_value(discount) < THERE_LEVEL
            is_there = after.p_value(discount) < THERE_LEVEL
            if was_there and not is_there and self._is_gone(before, after):
                self._apply(Edit(ChangeType.REMOVED, source, target))

    @staticmethod
    def _is_gone(before: Tie, after: Tie) -> bool:
        return before.nats >= MIN_NATS and after.nats <= GONE * before.nats

    def _additions(self, suspects: list[Pair]) -> list[Move]:
        found = []
        for x, y in suspects:
            if (x, y) in self._done or self._adjacent(x, y):
                continue
            after = self._both_ways(self._newer, x, y, self._after)
            if not self._has_come(x, y, after[0]):
                continue
            found.append((after[1].nats * after[1].n_rows, self._directed(x, y)))
        return found

    def _has_come(self, x: int, y: int, after: Tie) -> bool:
        discount = self._discount(x, y)
        if after.nats < MIN_NATS or after.p_value(discount) >= THERE_LEVEL:
            return False
        if self._is_separated(x, y, after):
            return False
        return not any(
            before.p_value(discount) < THERE_LEVEL and before.nats > GONE * after.nats
            for before in self._ties_before(x, y)
        )

    def _ties_before(self, x: int, y: int) -> list[Tie]:
        """Return the ties that a pair without edge did not have in the reference.

        Given its parents, a field goes together only with what comes of it: given those of an
        ancestor, a descendant may depend on it. If it did, one of the two has had another table
        since, and that shows; where neither has changed, one tie may come of a wrong direction.
        """
        if not self._blamed & {x, y}:
            return [self._both_ways(self._earlier, x, y, self._before)[0]]
        return [
            self._tie(self._earlier, source, target, self._before[target] - {source})
            for source, target in ((x, y), (y, x))
            if not reaches(self._before, target, source)
        ]

    def _is_separated(self, x: int, y: int, after: Tie) -> bool:
        """Return whether the new graph separates a pair that the parents do not.

        Only where a parent may as well be a child: given a common child, fields depend on each
        other that have no edge.
        """
        separator = self._separators.get((x, y))
        if separator is None or not (self._unsure[x] or self._unsure[y]):
            return False
        tie = self._tie(self._newer, x, y, frozenset(separator))
        return tie.nats <= GONE * after.nats

    def _take_back(self) -> None:
        """Take back an edge that those found after it explain."""
        for edit in list(self._done.values()):
            if edit.kind is not ChangeType.ADDED:
                continue
            source, target = edit.source, edit.target
            self._after[target] -= {source}
            weaker = self._both_ways(self._newer, source, target, self._after)[0]
            if weaker.p_value(self._discount(source, target)) >= THERE_LEVEL:
                del self._done[min(source, target), max(source, target)]
            else:
                self._after[target] |= {source}

    def _both_ways(
        self, windows: Sequence[Codes], x: int, y: int, parents: Parents
    ) -> tuple[Tie, Tie]:
        """Return the ties of a pair given the parents of either end, the weaker first."""
        discount = self._discount(x, y)
        weaker, stronger = sorted(
            (
                self._tie(windows, x, y, parents[y] - {x}),
                self._tie(windows, y, x, parents[x] - {y}),
            ),
            key=lambda tie: (-tie.p_value(discount), tie.nats),
        )
        return weaker, stronger

    def _directed(self, x: int, y: int) -> Edit:
        ways = [edge for edge in ((x, y), (y, x)) if not reaches(self._after, edge[1], edge[0])]
        source, target = max(
            ways or [(x, y)],  # turned edges may have closed a circle of free choices
            key=lambda edge: (self._new_scores.gain_of_adding(self._after, *edge), -edge[0]),
        )
        return Edit(ChangeType.ADDED, source, target)

    def _best(self, turns: list[Move], additions: list[Move]) -> Edit:
        """Return what explains most; if a turn explains the strongest addition, that turn."""
        found = max([*turns, *additions], key=_order)[1]
        if found.kind is ChangeType.ADDED:
            for _, turn in sorted(turns, key=_order, reverse=True):
                if self._explains(turn, found):
                    return turn
        return found

    def _explains(self, turn: Edit, addition: Edit) -> bool:
        """Return whether an edge that has come is not seen any more once another is turned."""
        x, y = addition.source, addition.target
        turned = {
            **self._after,
            turn.target: self._after[turn.target] | {turn.source},
            turn.source: self._after[turn.source] - {turn.target},
        }
        weaker = self._both_ways(self._newer, x, y, turned)[0]
        return not self._has_come(x, y, weaker)

    def _turns(self, blamed: set[int]) -> list[Move]:
        """Return the turned edges of fields that do not follow their parents any more."""
        found = []
        for target in sorted(blamed):
            for source in sorted(self._after[target]):
                found += self._turn(source, target)
        return found

    def _turn(self, source: int, target: int) -> list[Move]:
        """Return the turning of an edge if only the new windows want it."""
        pair = min(source, target), max(source, target)
        if pair in self._done or source not in self._before[target]:
            return []
        without = {v: parents & self._certain[v] for v, parents in self._after.items()}
        without[target] -= {source}
        if reaches(without, source, target):
            return []
        new = self._gain_of_turning(self._new_scores, self._after, source, target)
        new /= self._discount(source, target)
        if new < TURN_MARGIN:
            return []
        if self._gain_of_turning(self._old_scores, self._before, source, target) > -TURN_MARGIN:
            return []
        departure = self._new_scores.departure(target, self._after[target] - {source})
        return [(new - departure, Edit(ChangeType.REVERSED, target, source))]

    def _gain_of_turning(
        self, scores: FamilyScores, parents: Parents, source: int, target: int
    ) -> float:
        """Return what turning an edge gains in the DAG of the class in which it gains most.

        A free edge of the source points at it or away from it; not away where it would lead to
        the target, which then closes a circle.
        """
        free = {v for v in parents if v != target and self._is_free(source, v)}
        leading = {v for v in free if reaches(parents, v, target)}
        ways = {parents[source] | leading, parents[source] - free | leading}
        return max(scores.gain_of_turning({**parents, source: own}, source, target) for own in ways)

    def _is_free(self, x: int, y: int) -> bool:
        """Return whether the reference has an edge whose direction is a free choice."""
        return (x in self._before[y] and x not in self._certain[y]) or (
            y in self._before[x] and y not in self._certain[x]
        )

    def _tie(
        self, windows: Sequence[Codes], source: int, target: int, given: frozenset[int]
    ) -> Tie:
        n_rows = sum(codes.shape[1] for codes in windows)
        room = n_rows // (ROWS_PER_CELL * int(self._cards[source] * self._cards[target]))
        kept = trimmed(sorted(given), self._cards, room)
        return measure_tie(windows, self._cards, (target, source), kept)

    def _discount(self, x: int, y: int) -> float:
        return 1.0 + float(self._excess[x] * self._excess[y])

    def _adjacent(self, x: int, y: int) -> bool:
        return x in self._after[y] or y in self._after[x]

    def _apply(self, edit: Edit) -> None:
        source, target = edit.source, edit.target
        self._done[min(source, target), max(source, target)] = edit
        if edit.kind is ChangeType.REMOVED:
            self._after[target] -= {source}
            return
        self._after[target] |= {source}
        self._after[source] -= {target}
        self._certain[target] |= {source}
        self._certain[source] -= {target}


# How well a field is explained by its parents in some windows.

Parents = dict[int, frozenset[int]]

UNSEEN = 0.5  # added to each count of an earlier table


class FamilyScores:
    """Scores of fields with their parents on the rows of some windows, each computed once.

    A family scores by its log likelihood less what chance alone adds to it, half a nat for each
    parameter. What a parameter more costs beyond that (BIC) would decide between the directions of
    an edge by the sizes of the two tables. Where earlier windows tell how a field follows these
    parents, and it still does, the table known from there counts.

    Parameters
    ----------
    windows
        The rows.
    cards
        Levels of each variable.
    earlier
        Earlier windows whose tables may still hold.
    """

    def __init__(
        self,
        windows: Sequence[Codes],
        cards: Ints,
        earlier: Sequence[Codes] = (),
    ) -> None:
        self._windows = windows
        self._cards = cards
        self._earlier = earlier
        self._scores: dict[tuple[int, frozenset[int]], float] = {}

    def score(self, v: int, parents: frozenset[int]) -> float:
        """Return how well a family explains the rows, in nats."""
        key = v, parents
        if key not in self._scores:
            members = sorted(parents)
            score = self._own(v, members)
            if self._earlier:
                score = max(score, self._unchanged(v, members))
            self._scores[key] = score
        return self._scores[key]

    def gain_of_adding(self, parents: Parents, source: int, target: int) -> float:
        """Return what an edge more would gain."""
        of_target = parents[target]
        return self.score(target, of_target | {source}) - self.score(target, of_target)

    def gain_of_turning(self, parents: Parents, source: int, target: int) -> float:
        """Return what turning an edge would gain over leaving it and over taking it out."""
        out = self.score(target, parents[target] - {source})
        taken = out - self.score(target, parents[target])
        turned = self.gain_of_adding(parents, target, source) + taken
        return turned - max(0.0, taken)

    def departure(self, v: int, parents: frozenset[int]) -> float:
        """Return how much better a table of its own explains a field than the earlier one."""
        members = sorted(parents)
        return max(0.0, self._own(v, members) - self._unchanged(v, members))

    def _own(self, v: int, members: list[int]) -> float:
        (table,) = self._tables(v, members, [self._windows])
        rows = table.sum(axis=1)
        n_levels = int(np.count_nonzero(table.sum(axis=0)))
        n_parameters = int(np.count_nonzero(rows)) * max(n_levels - 1, 0)
        likelihood = _sum_n_log_n(table) - _sum_n_log_n(rows)
        return likelihood - 0.5 * n_parameters

    def _unchanged(self, v: int, members: list[int]) -> float:
        now, before = self._tables(v, members, [self._windows, self._earlier])
        shares = before + UNSEEN
        shares /= shares.sum(axis=1, keepdims=True)
        return float(np.sum(now * np.log(shares)))

    def _tables(
        self, v: int, members: list[int], groups: Sequence[Sequence[Codes]]
    ) -> list[Floats]:
        """Return counts ``[configurations, levels]`` of each group, of the same configurations."""
        family = [*members, v]
        rows = np.concatenate([window[family] for group in groups for window in group], axis=1)
        code = joint_codes(rows, self._cards[members], range(len(members)))
        room, card = n_configurations(self._cards, members), int(self._cards[v])
        if room > 4 * len(code):
            seen, code = np.unique(code, return_inverse=True)
            room = len(seen)
        ends = np.cumsum([sum(window.shape[1] for window in group) for group in groups])
        return [
            np.bincount(cells, minlength=room * card).reshape(room, card).astype(np.float64)
            for cells in np.split(code * card + rows[-1], ends[:-1])
        ]


def parents_of(nodes: Sequence[str], edges: Iterable[Edge]) -> Parents:
    """Return the parents of each node by their places."""
    place = {name: i for i, name in enumerate(nodes)}
    found: Parents = {v: frozenset() for v in range(len(nodes))}
    for source, target in edges:
        found[place[target]] |= {place[source]}
    return found


def reaches(parents: Parents, start: int, end: int) -> bool:
    """Return whether there is a directed way from ``start`` to ``end``."""
    waiting, seen = [end], {end}
    while waiting:
        here = waiting.pop()
        if here == start:
            return True
        more = parents[here] - seen
        seen |= more
        waiting.extend(more)
    return False


def _sum_n_log_n(counts: Floats) -> float:
    return float(np.sum(counts * np.log(np.maximum(counts, 1.0))))


# How strongly two fields go together, measured on counts or on rows.

CONFIDENCE = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True)
class Tie:
    """Two fields given others, in some rows.

    Parameters
    ----------
    raw
        Conditional mutual information of the counts, in nats.
    spread
        Variance of what one row adds to it.
    dof
        Degrees of freedom.
    n_rows
        Number of rows.
    """

    raw: float
    spread: float
    dof: float
    n_rows: float

    @property
    def nats(self) -> float:
        """The information less what independent fields would show; not below 0."""
        return max(0.0, self.raw - self.dof / (2.0 * max(self.n_rows, 1.0)))

    def p_value(self, effect: float = 1.0) -> float:
        """Return the p-value of independence, with a design effect taken out."""
        from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

        if self.dof < 1.0:
            return 1.0
        return float(chdtrc(self.dof, max(0.0, 2.0 * self.n_rows * self.raw / effect)))

    @property
    def association(self) -> Association:
        """The information with its interval."""
        if self.n_rows == 0:
            return Association(0.0, 0.0, float("inf"))
        variance = max(self.spread, 0.0) / self.n_rows + self.dof / (2.0 * self.n_rows**2)
        margin = CONFIDENCE * float(np.sqrt(variance))
        return Association(self.nats, max(0.0, self.nats - margin), self.nats + margin)


def tie_of(table: npt.NDArray[np.int32] | Ints) -> Tie:
    """Return the tie in a table of counts ``[strata, x, y]``."""
    counts = table.astype(np.float64)
    n = float(counts.sum())
    if n == 0.0:
        return Tie(0.0, 0.0, 0.0, 0.0)
    strata = counts.sum((1, 2), keepdims=True)
    rows, columns = counts.sum(2, keepdims=True), counts.sum(1, keepdims=True)
    ratio = np.ones_like(counts)
    np.divide(counts * strata, rows * columns, out=ratio, where=counts > 0)
    logs = np.log(ratio)
    raw = float(np.sum(counts * logs)) / n
    spread = float(np.sum(counts * logs**2)) / n - raw**2
    met = [np.maximum((margin > 0).sum((1, 2)) - 1, 0) for margin in (rows, columns)]
    return Tie(raw, spread, float(np.sum(met[0] * met[1])), n)


def measure_tie(
    windows: Sequence[Codes], cards: Ints, pair: tuple[int, int], given: Sequence[int]
) -> Tie:
    """Return the tie of a pair in the rows of some windows, given other fields."""
    n_x, n_y = int(cards[pair[0]]), int(cards[pair[1]])
    n_strata = n_configurations(cards, given)
    counts = np.zeros(n_strata * n_x * n_y, np.int64)
    for codes in windows:
        cells = joint_codes(codes, cards, (*given, *pair))
        counts += np.bincount(cells, minlength=len(counts))
    return tie_of(counts.reshape(n_strata, n_x, n_y))
