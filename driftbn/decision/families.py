"""How well a field is explained by its parents in some windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from driftbn.decision.cells import joint_codes, n_configurations
from driftbn.graphs.graph import Edge
from driftbn.kernels.evidence import Floats, Ints
from driftbn.learning.independence import Codes

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
