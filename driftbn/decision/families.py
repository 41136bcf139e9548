"""How well a field is explained by its parents in some windows (BIC)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftbn._kernels.evidence import Floats, Ints
from driftbn.learning.independence import Codes

Parents = dict[int, frozenset[int]]


class FamilyScores:
    """Scores of fields with their parents on the rows of some windows, each computed once.

    Parameters
    ----------
    windows
        The rows.
    cards
        Levels of each variable.
    """

    def __init__(self, windows: Sequence[Codes], cards: Ints) -> None:
        self._windows = windows
        self._cards = cards
        self._scores: dict[tuple[int, frozenset[int]], float] = {}

    def score(self, v: int, parents: frozenset[int]) -> float:
        """Return the log likelihood of a family less what its parameters cost, in nats."""
        key = v, parents
        if key not in self._scores:
            self._scores[key] = self._score(v, sorted(parents))
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

    def _score(self, v: int, members: list[int]) -> float:
        codes = [self._configuration(members, window) for window in self._windows]
        code = codes[0] if len(codes) == 1 else np.concatenate(codes)
        levels = np.concatenate([window[v] for window in self._windows])
        n_rows, card = len(code), int(self._cards[v])
        room = int(np.prod(self._cards[members], dtype=np.float64))
        if room > 4 * n_rows:
            seen, code = np.unique(code, return_inverse=True)
            room = len(seen)
        counts = np.bincount(code * card + levels, minlength=room * card)
        table = counts.reshape(room, card).astype(np.float64)
        rows = table.sum(axis=1)
        n_levels = int(np.count_nonzero(table.sum(axis=0)))
        n_parameters = int(np.count_nonzero(rows)) * max(n_levels - 1, 0)
        likelihood = _sum_n_log_n(table) - _sum_n_log_n(rows)
        return likelihood - 0.5 * n_parameters * float(np.log(n_rows))

    def _configuration(self, members: list[int], window: Codes) -> Ints:
        code = np.zeros(window.shape[1], np.int64)
        for z in members:
            code *= int(self._cards[z])
            code += window[z]
        return code


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
