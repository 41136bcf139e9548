"""What has changed, by name: only asked once a drift is certain (METHOD.md, 6).

The fewest changes of the reference graph that explain the newer windows are named. Removed edges
come first: an association that was present, and is absent now given the other parents. Then edges
are reversed or added one by one, the one that explains most first. An added edge must be seen in
both directions, given the parents of either end. After each step the parents include the edges
found so far, so an association that only runs through them is no longer seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from driftbn.config import DriftKind
from driftbn.drift.comparison import Comparison
from driftbn.drift.outcome import Association, ChangeType, EdgeChange, NodeChange
from driftbn.drift.plan import ROWS_PER_CELL, joint_codes, n_configurations, trimmed
from driftbn.drift.reference import Parents, Regime, parents_of
from driftbn.graphs.graph import Pdag
from driftbn.kernels.evidence import Floats, Ints
from driftbn.learning import LearnedStructure, LearnedWindow
from driftbn.learning.independence import Codes

MAX_EDITS = 16
PRESENT_LEVEL = 1e-3  # an association with a smaller p-value is present
ABSENT_SHARE = 0.25  # of the stronger association: what may remain of one that is absent
MIN_NATS = 0.002  # a weaker association is not worth a name
REVERSAL_MARGIN = 5.0  # nats by which a direction must fit better
PRIOR_COUNT = 0.5  # added to each count of an earlier table
CONFIDENCE = 1.96  # standard errors on each side of a 95 % interval

Pair = tuple[int, int]


@dataclass(frozen=True)
class MutualInformation:
    """How strongly two fields are associated given others, in some rows.

    ``raw``: conditional mutual information of the counts, in nats. ``spread``: variance of the
    contribution of one row.
    """

    raw: float
    spread: float
    dof: float
    n_rows: float

    @property
    def nats(self) -> float:
        """The information corrected for its bias under independence; not below 0."""
        return max(0.0, self.raw - self.dof / (2.0 * max(self.n_rows, 1.0)))

    def p_value(self, effect: float = 1.0) -> float:
        """Return the p-value of independence, corrected for a design effect."""
        from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

        if self.dof < 1.0:
            return 1.0
        return float(chdtrc(self.dof, max(0.0, 2.0 * self.n_rows * self.raw / effect)))

    @property
    def association(self) -> Association:
        if self.n_rows == 0:
            return Association(0.0, 0.0, float("inf"))
        variance = max(self.spread, 0.0) / self.n_rows + self.dof / (2.0 * self.n_rows**2)
        margin = CONFIDENCE * float(np.sqrt(variance))
        return Association(self.nats, max(0.0, self.nats - margin), self.nats + margin)


def information_in(table: npt.NDArray[np.int32] | Ints) -> MutualInformation:
    """Return the mutual information in a table of counts ``[strata, x, y]``."""
    counts = table.astype(np.float64)
    n = float(counts.sum())
    if n == 0.0:
        return MutualInformation(0.0, 0.0, 0.0, 0.0)
    strata = counts.sum((1, 2), keepdims=True)
    rows, columns = counts.sum(2, keepdims=True), counts.sum(1, keepdims=True)
    ratio = np.ones_like(counts)
    np.divide(counts * strata, rows * columns, out=ratio, where=counts > 0)
    logs = np.log(ratio)
    raw = float(np.sum(counts * logs)) / n
    spread = float(np.sum(counts * logs**2)) / n - raw**2
    free = [np.maximum((margin > 0).sum((1, 2)) - 1, 0) for margin in (rows, columns)]
    return MutualInformation(raw, spread, float(np.sum(free[0] * free[1])), n)


def information_given(
    windows: Sequence[Codes], cards: Ints, pair: Pair, given: Sequence[int]
) -> MutualInformation:
    """Return the mutual information of a pair in the rows of some windows, given other fields."""
    n_x, n_y = int(cards[pair[0]]), int(cards[pair[1]])
    n_strata = n_configurations(cards, given)
    counts = np.zeros(n_strata * n_x * n_y, np.int64)
    for codes in windows:
        cells = joint_codes(codes, cards, (*given, *pair))
        counts += np.bincount(cells, minlength=len(counts))
    return information_in(counts.reshape(n_strata, n_x, n_y))


class FamilyScores:
    """Scores of fields with their parents on the rows of some windows, each computed once.

    A family scores by its log likelihood less half a nat for each parameter, which is what chance
    alone adds to it. A larger penalty, as that of BIC, would decide between the directions of an
    edge by the sizes of the two tables. Where a table estimated on earlier windows predicts the
    rows better than that, the field still follows it, and its likelihood is the score.

    ``earlier``: earlier windows whose tables may still hold.
    """

    def __init__(
        self, windows: Sequence[Codes], cards: Ints, earlier: Sequence[Codes] = ()
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
        of_target = parents[target]
        return self.score(target, of_target | {source}) - self.score(target, of_target)

    def gain_of_reversing(self, parents: Parents, source: int, target: int) -> float:
        """Return the gain of reversing an edge, over keeping it and over removing it."""
        without = self.score(target, parents[target] - {source})
        removed = without - self.score(target, parents[target])
        reversed_ = self.gain_of_adding(parents, target, source) + removed
        return reversed_ - max(0.0, removed)

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
        shares = before + PRIOR_COUNT
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


def _sum_n_log_n(counts: Floats) -> float:
    return float(np.sum(counts * np.log(np.maximum(counts, 1.0))))


def reaches(parents: Parents, start: int, end: int) -> bool:
    waiting, seen = [end], {end}
    while waiting:
        here = waiting.pop()
        if here == start:
            return True
        more = parents[here] - seen
        seen |= more
        waiting.extend(more)
    return False


@dataclass(frozen=True)
class Edit:
    """One change: the edge as it is afterwards, or as it was if it is removed."""

    kind: ChangeType
    source: int
    target: int


@dataclass(frozen=True, eq=False)
class EditRows:
    earlier: Sequence[Codes]
    newer: Sequence[Codes]
    cards: Ints


@dataclass(frozen=True)
class Ambiguity:
    """Where the reference graph may mislead.

    ``unsure``: for each variable whether it has an edge without direction in the equivalence class.
    ``certain``: for each variable the parents that it has in every DAG of the class.
    ``separators``: for pairs, smaller first, what separates them in the newer windows.
    """

    unsure: Sequence[bool]
    certain: Parents
    separators: Mapping[Pair, tuple[int, ...]]


Move = tuple[float, Edit]  # with what it explains, in nats


def _order(move: Move) -> tuple[float, int, int]:
    """Order moves by what they explain, then by number, the first highest."""
    return move[0], -move[1].source, -move[1].target


class EditSearch:
    """Finds the changes.

    ``effects``: design effect of each variable.
    """

    def __init__(
        self, parents: Parents, rows: EditRows, effects: Floats, ambiguity: Ambiguity
    ) -> None:
        self._before = parents
        self._after = dict(parents)
        self._earlier = rows.earlier
        self._newer = rows.newer
        self._cards = rows.cards
        self._excess = np.sqrt(effects - 1.0)
        self._old_scores = FamilyScores(rows.earlier, rows.cards)
        self._new_scores = FamilyScores(rows.newer, rows.cards, rows.earlier)
        self._unsure = ambiguity.unsure
        self._certain = dict(ambiguity.certain)
        self._separators = ambiguity.separators
        self._changed: set[int] = set()
        self._done: dict[Pair, Edit] = {}

    def run(self, pairs: Iterable[Pair], changed: Iterable[int]) -> list[Edit]:
        """Return the changes, given the pairs whose tests reject and the nodes that changed."""
        suspects = sorted({(min(pair), max(pair)) for pair in pairs})
        self._changed = set(changed)
        self._remove_absent(suspects)
        while len(self._done) < MAX_EDITS:
            reversals, additions = self._reversals(), self._additions(suspects)
            if not reversals and not additions:
                break
            self._apply(self._best(reversals, additions))
        self._drop_explained()
        if not self._done and not self._changed:
            self._name_strongest(suspects)
        return list(self._done.values())

    def _remove_absent(self, suspects: list[Pair]) -> None:
        """Remove edges whose association is absent now, the strongest first."""
        found = []
        for target, parents in self._before.items():
            for source in parents:
                pair = min(source, target), max(source, target)
                if target in self._changed or pair in suspects:
                    before = self._information(self._earlier, source, target, parents - {source})
                    found.append((-before.nats, source, target))
        for _, source, target in sorted(found):
            if self._is_gone(source, target):
                self._apply(Edit(ChangeType.REMOVED, source, target))

    def _is_gone(self, source: int, target: int) -> bool:
        """Return whether a set separates the ends of an edge now that did not before.

        That is the target's other parents, or what separates the two in the window's own graph.
        The latter counts only if an end changed, and the former may mislead: where directions are
        open one of them may be a common child, and where next to nothing remains given them, that
        may be chance in a sparse table.
        """
        before, after = self._around(source, target, self._after[target] - {source})
        if self._is_cut(before, after, source, target):
            return True
        separator = self._separators.get((min(source, target), max(source, target)))
        if separator is None or not self._changed & {source, target}:
            return False
        if not (self._unsure[source] or self._unsure[target] or self._is_absent(after, before)):
            return False
        return self._is_cut(*self._around(source, target, frozenset(separator)), source, target)

    def _around(
        self, source: int, target: int, given: frozenset[int]
    ) -> tuple[MutualInformation, MutualInformation]:
        """Return the association of a pair in the reference and now."""
        before = self._information(self._earlier, source, target, given)
        return before, self._information(self._newer, source, target, given)

    def _is_cut(
        self, before: MutualInformation, after: MutualInformation, source: int, target: int
    ) -> bool:
        discount = self._discount(source, target)
        was_present = before.p_value(discount) < PRESENT_LEVEL
        is_present = after.p_value(discount) < PRESENT_LEVEL
        return was_present and not is_present and self._is_absent(after, before)

    @staticmethod
    def _is_absent(one: MutualInformation, other: MutualInformation) -> bool:
        """Return whether one association is next to nothing beside another."""
        return other.nats >= MIN_NATS and one.nats <= ABSENT_SHARE * other.nats

    def _additions(self, suspects: list[Pair]) -> list[Move]:
        found = []
        for x, y in suspects:
            if (x, y) in self._done or self._adjacent(x, y):
                continue
            weaker, stronger = self._both_directions(self._newer, x, y, self._after)
            if self._is_new(x, y, weaker):
                found.append((stronger.nats * stronger.n_rows, self._directed(x, y)))
        return found

    def _is_new(self, x: int, y: int, after: MutualInformation) -> bool:
        """Return whether an association is present now, and was not in the reference."""
        discount = self._discount(x, y)
        if after.nats < MIN_NATS or after.p_value(discount) >= PRESENT_LEVEL:
            return False
        if self._is_separated(x, y, after):
            return False
        return not any(
            before.p_value(discount) < PRESENT_LEVEL and before.nats > ABSENT_SHARE * after.nats
            for before in self._absent_before(x, y)
        )

    def _absent_before(self, x: int, y: int) -> list[MutualInformation]:
        """Return the associations that a pair without edge cannot have had in the reference.

        Given its parents a field is independent of its non-descendants, but not of its
        descendants. So if the table of an end has changed, only the directions in which the target
        is no ancestor of the source are looked at. If neither table has changed, the weaker of the
        two directions counts: the other may be due to a wrong direction in the graph.
        """
        if not self._changed & {x, y}:
            return [self._both_directions(self._earlier, x, y, self._before)[0]]
        return [
            self._information(self._earlier, source, target, self._before[target] - {source})
            for source, target in ((x, y), (y, x))
            if not reaches(self._before, target, source)
        ]

    def _is_separated(self, x: int, y: int, after: MutualInformation) -> bool:
        """Return whether the new graph separates a pair that the parents do not.

        Only where a parent may as well be a child: given a common child, fields are associated
        that have no edge.
        """
        separator = self._separators.get((x, y))
        if separator is None or not (self._unsure[x] or self._unsure[y]):
            return False
        separated = self._information(self._newer, x, y, frozenset(separator))
        return separated.nats <= ABSENT_SHARE * after.nats

    def _reversals(self) -> list[Move]:
        """Return the reversed edges of fields that do not follow their parents any more."""
        found = []
        for target in sorted(self._changed):
            for source in sorted(self._after[target]):
                found += self._reversal(source, target)
        return found

    def _reversal(self, source: int, target: int) -> list[Move]:
        """Return the reversal of an edge if only the newer windows want it."""
        pair = min(source, target), max(source, target)
        if pair in self._done or source not in self._before[target]:
            return []
        without = {v: parents & self._certain[v] for v, parents in self._after.items()}
        without[target] -= {source}
        if reaches(without, source, target):
            return []
        new = self._gain_of_reversing(self._new_scores, self._after, source, target)
        new /= self._discount(source, target)
        if new < REVERSAL_MARGIN:
            return []
        old = self._gain_of_reversing(self._old_scores, self._before, source, target)
        if old > -REVERSAL_MARGIN:
            return []
        departure = self._new_scores.departure(target, self._after[target] - {source})
        return [(new - departure, Edit(ChangeType.REVERSED, target, source))]

    def _gain_of_reversing(
        self, scores: FamilyScores, parents: Parents, source: int, target: int
    ) -> float:
        """Return the gain in the DAG of the equivalence class in which it is largest.

        An edge of the source without direction points at it or away from it; not away where it
        would lead to the target, which then closes a cycle.
        """
        free = {v for v in parents if v != target and self._is_free(source, v)}
        leading = {v for v in free if reaches(parents, v, target)}
        choices = {parents[source] | leading, parents[source] - free | leading}
        return max(
            scores.gain_of_reversing({**parents, source: own}, source, target) for own in choices
        )

    def _is_free(self, x: int, y: int) -> bool:
        """Return whether the reference has an edge without direction between two fields."""
        return (x in self._before[y] and x not in self._certain[y]) or (
            y in self._before[x] and y not in self._certain[x]
        )

    def _best(self, reversals: list[Move], additions: list[Move]) -> Edit:
        """Return what explains most; if a reversal explains the strongest addition, that one."""
        best = max([*reversals, *additions], key=_order)[1]
        if best.kind is ChangeType.ADDED:
            for _, reversal in sorted(reversals, key=_order, reverse=True):
                if self._explains(reversal, best):
                    return reversal
        return best

    def _explains(self, reversal: Edit, addition: Edit) -> bool:
        """Return whether an added edge is no longer seen once another is reversed."""
        x, y = addition.source, addition.target
        parents = {
            **self._after,
            reversal.target: self._after[reversal.target] | {reversal.source},
            reversal.source: self._after[reversal.source] - {reversal.target},
        }
        return not self._is_new(x, y, self._both_directions(self._newer, x, y, parents)[0])

    def _drop_explained(self) -> None:
        """Drop an added edge that those found after it explain."""
        for edit in list(self._done.values()):
            if edit.kind is not ChangeType.ADDED:
                continue
            source, target = edit.source, edit.target
            self._after[target] -= {source}
            weaker = self._both_directions(self._newer, source, target, self._after)[0]
            if weaker.p_value(self._discount(source, target)) >= PRESENT_LEVEL:
                del self._done[min(source, target), max(source, target)]
            else:
                self._after[target] |= {source}

    def _name_strongest(self, suspects: list[Pair]) -> None:
        """Name the pair without edge whose association came or went, the strongest of them."""
        found = []
        for x, y in suspects:
            if self._adjacent(x, y):
                continue
            after = self._both_directions(self._newer, x, y, self._after)[1]
            before = self._both_directions(self._earlier, x, y, self._before)[1]
            order = max(before.nats, after.nats), (-x, -y)
            if self._is_absent(before, after):
                found.append((order, self._directed(x, y)))
            elif self._is_absent(after, before):
                found.append((order, Edit(ChangeType.REMOVED, x, y)))
        if found:
            self._apply(max(found, key=lambda entry: entry[0])[1])

    def _directed(self, x: int, y: int) -> Edit:
        """Return the added edge in the direction that fits better and closes no cycle."""
        ways = [edge for edge in ((x, y), (y, x)) if not reaches(self._after, edge[1], edge[0])]
        source, target = max(
            ways or [(x, y)],  # reversed edges may have closed a cycle of free choices
            key=lambda edge: (self._new_scores.gain_of_adding(self._after, *edge), -edge[0]),
        )
        return Edit(ChangeType.ADDED, source, target)

    def _both_directions(
        self, windows: Sequence[Codes], x: int, y: int, parents: Parents
    ) -> tuple[MutualInformation, MutualInformation]:
        """Return the associations of a pair given the parents of either end, the weaker first."""
        discount = self._discount(x, y)
        weaker, stronger = sorted(
            (
                self._information(windows, x, y, parents[y] - {x}),
                self._information(windows, y, x, parents[x] - {y}),
            ),
            key=lambda information: (-information.p_value(discount), information.nats),
        )
        return weaker, stronger

    def _information(
        self, windows: Sequence[Codes], source: int, target: int, given: frozenset[int]
    ) -> MutualInformation:
        n_rows = sum(codes.shape[1] for codes in windows)
        room = n_rows // (ROWS_PER_CELL * int(self._cards[source] * self._cards[target]))
        kept = trimmed(sorted(given), self._cards, room)
        return information_given(windows, self._cards, (target, source), kept)

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


NAMING_LEVEL = 0.01
MAX_SUSPECTS = 64  # pairs between which an edge is tried, those with the strongest tests


@dataclass(frozen=True)
class Naming:
    """The named changes, the largest first, their kind, and the size of the largest in nats.

    ``given_only``: whether all that changed is how given fields come.
    """

    kind: DriftKind
    edges: tuple[EdgeChange, ...]
    nodes: tuple[NodeChange, ...]
    effect: float
    given_only: bool = False


def name_changes(comparison: Comparison, regime: Regime, window: LearnedWindow) -> Naming:
    """Name edges and nodes that changed between the reference and the compared windows.

    ``window``: the newest of these. Given fields are named only if nothing else is.
    """
    given = comparison.given
    reference, parents, learned = regime.learned.graph, regime.parents, window.learned
    nodes = _changed_nodes(comparison)
    pairs = [pair for pair in _suspect_pairs(comparison) if not all(given[v] for v in pair)]
    older, newer = comparison.older.windows, comparison.newer.windows
    rows = EditRows(older, newer, comparison.plan.tables.cards)
    search = EditSearch(parents, rows, window.effects, _ambiguity(pairs, reference, learned))
    place = {name: i for i, name in enumerate(comparison.plan.names)}
    changed = [place[change.name] for change in nodes]
    edits = [
        edit
        for edit in search.run(pairs, changed)
        if not (given[edit.source] and given[edit.target])
    ]
    root = None if edits else changed_root(comparison, reference, parents, changed)
    if root is not None:
        nodes = [root]
    blamed = [node for node in nodes if not given[place[node.name]]]
    given_only = bool(nodes) and not blamed and not edits
    nodes = nodes if given_only else blamed
    nodes.sort(key=lambda node: (-node.effect, node.name))
    found = [edge_change(comparison, edit) for edit in edits]
    edges = [_with_direction(edge, reference, learned.graph) for edge in found]
    edges.sort(key=lambda edge: (-edge.effect, edge.pair))
    sizes = [edge.effect for edge in edges] + [change.effect for change in nodes]
    effect = max(sizes or association_effects(comparison, pairs), default=0.0)
    return Naming(_kind(edges, nodes), tuple(edges), tuple(nodes), effect, given_only)


def holm(p_values: list[float], n_tests: int) -> list[float]:
    """Return Holm's adjusted p-values of the smallest of ``n_tests``.

    >>> holm([0.01, 0.001], 10)
    [0.09, 0.01]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (n_tests - rank)))
        adjusted[index] = largest
    return adjusted


def _changed_nodes(comparison: Comparison) -> list[NodeChange]:
    """Return the fields whose tables given their parents have changed, the surest first."""
    plan = comparison.plan
    suspects = np.flatnonzero(comparison.node_p_values <= NAMING_LEVEL).tolist()
    p_values = holm([comparison.node_p_value(v)[0] for v in suspects], plan.n_nodes)
    found = [
        NodeChange(
            plan.names[v],
            tuple(plan.names[u] for u in plan.conditioning_set(v)),
            p,
            float(comparison.node_effects[v]),
        )
        for v, p in zip(suspects, p_values, strict=True)
        if p <= NAMING_LEVEL
    ]
    return sorted(found, key=lambda change: (change.p_value, -change.effect, change.name))


def _suspect_pairs(comparison: Comparison) -> list[tuple[int, int]]:
    """Return the pairs whose tests reject, the strongest first."""
    plan = comparison.plan
    value, dof = comparison.pair_statistics
    low = np.flatnonzero(comparison.pair_p_values * plan.n_pair_tests <= NAMING_LEVEL)
    found: dict[tuple[int, int], None] = {}
    for test in low[np.argsort(-(value - dof)[low], kind="stable")].tolist():
        if len(found) == MAX_SUSPECTS:
            break
        if comparison.pair_p_value(test)[0] * plan.n_pair_tests <= NAMING_LEVEL:
            source, child = plan.pair_of(test)
            found[min(source, child), max(source, child)] = None
    return list(found)


def _ambiguity(
    pairs: list[tuple[int, int]], reference: Pdag, window: LearnedStructure
) -> Ambiguity:
    names = reference.nodes
    place = {name: i for i, name in enumerate(names)}
    free = {name for edge in reference.undirected_edges for name in edge}
    separators = {}
    edges = (*reference.directed_edges, *reference.undirected_edges)
    joined = [(min(place[x], place[y]), max(place[x], place[y])) for x, y in edges]
    for x, y in {*pairs, *joined}:
        found = window.separators.get((names[x], names[y]))
        if found is not None:
            separators[x, y] = tuple(place[name] for name in found)
    certain = parents_of(names, reference.directed_edges)
    return Ambiguity([name in free for name in names], certain, separators)


def edge_change(comparison: Comparison, edit: Edit) -> EdgeChange:
    """Return an edit as a change, with its p-value and the association before and after."""
    plan = comparison.plan
    tests = plan.tests_of_pair(edit.source, edit.target)
    test = min(tests, key=lambda test: (comparison.pair_p_value(test)[0], test))
    p = comparison.pair_p_value(test)[0] * plan.n_pair_tests
    if edit.kind is not ChangeType.ADDED:
        # Given the child's other parents: without them, some association may remain through these.
        child = edit.target if edit.kind is ChangeType.REMOVED else edit.source
        given_parents = (one for one in tests if plan.pair_of(one)[1] == child)
        shown = (one for one in given_parents if associations(comparison, one)[0].nats >= MIN_NATS)
        test = next(shown, test)
        ends = (comparison.node_p_value(v)[0] for v in (edit.source, edit.target))
        p = min(p, *(p_node * plan.n_nodes for p_node in ends))
    return EdgeChange(
        plan.names[edit.source],
        plan.names[edit.target],
        edit.kind,
        min(1.0, p),
        *associations(comparison, test),
        tuple(plan.names[z] for z in plan.conditioning_set(plan.n_nodes + test)),
    )


def associations(comparison: Comparison, test: int) -> tuple[Association, Association]:
    """Return the association of a pair before and after, given the set of its test."""
    before, after = (
        information_in(comparison.plan.pair_table(test, group.counts)).association
        for group in (comparison.older, comparison.newer)
    )
    return before, after


def association_effects(comparison: Comparison, pairs: Sequence[Pair]) -> list[float]:
    """Return by how much the associations of pairs have changed, each by its clearest test."""
    tests = [
        min(comparison.plan.tests_of_pair(*pair), key=lambda t: (comparison.pair_p_value(t)[0], t))
        for pair in pairs
    ]
    found = [associations(comparison, test) for test in tests]
    return [abs(after.nats - before.nats) for before, after in found]


def _with_direction(edge: EdgeChange, before: Pdag, after: Pdag) -> EdgeChange:
    """Say whether the data show the direction; if not, the smaller name comes first."""
    graph = before if edge.change is ChangeType.REMOVED else after
    if edge.change is ChangeType.REVERSED or (edge.source, edge.target) in graph.directed_edges:
        return edge
    if (edge.target, edge.source) in graph.directed_edges:
        return replace(edge, source=edge.target, target=edge.source)
    source, target = edge.pair
    return replace(edge, source=source, target=target, directed=False)


def _kind(edges: list[EdgeChange], nodes: list[NodeChange]) -> DriftKind:
    if edges:
        return DriftKind.STRUCTURAL
    if not nodes:
        return DriftKind.ASSOCIATION
    roots_only = all(not change.parents for change in nodes)
    return DriftKind.MARGINAL if roots_only else DriftKind.MECHANISM


def changed_root(
    comparison: Comparison, reference: Pdag, parents: Parents, changed: Sequence[int]
) -> NodeChange | None:
    """Return the field without parents whose change explains all others, if there is one.

    Where the data leave the direction of an edge open, the DAG of the reference may point at the
    true root. If the distribution of the root changes, the field that seems to be the root changes
    too, and so does the table of the true one given it. The equivalence class then has a DAG in
    which one field without parents has changed, and all others follow their parents as before:
    that is the simpler account.

    ``reference``, ``parents``: the graph of the reference, and the parents in its extension.
    ``changed``: fields that have changed given these parents, the surest first.
    """
    certain = parents_of(reference.nodes, reference.directed_edges)
    neighbours = _undirected_neighbours(reference)
    for root in changed:
        if len(changed) < 2 or certain[root]:
            continue
        incoming = _directed_from(root, neighbours)
        if not set(changed) <= set(incoming):
            continue
        redirected = {v: certain[v] | incoming[v] for v in incoming}
        asked = [v for v in redirected if v in changed or redirected[v] != parents[v]]
        found = {v: comparison.node_given(v, sorted(redirected[v])) for v in asked}
        p, effect = found.pop(root)
        p *= comparison.plan.n_nodes
        if p <= NAMING_LEVEL < min(p_other for p_other, _ in found.values()) * len(found):
            return NodeChange(reference.nodes[root], (), p, effect)
    return None


def _undirected_neighbours(graph: Pdag) -> dict[int, list[int]]:
    place = {name: i for i, name in enumerate(graph.nodes)}
    found: dict[int, list[int]] = {v: [] for v in range(len(graph.nodes))}
    for x, y in graph.undirected_edges:
        found[place[x]].append(place[y])
        found[place[y]].append(place[x])
    return found


def _directed_from(root: int, neighbours: dict[int, list[int]]) -> dict[int, frozenset[int]]:
    """Return for each field joined to the root which of its neighbours then point at it.

    Fields are taken in the order of maximum cardinality search, which makes no new collider in a
    chordal graph (Tarjan and Yannakakis 1984, section 2); the undirected parts of an equivalence
    class are chordal.
    """
    taken: dict[int, frozenset[int]] = {root: frozenset()}
    while True:
        reached = {w for v in taken for w in neighbours[v]} - taken.keys()
        if not reached:
            return taken
        incoming = {v: frozenset(neighbours[v]) & taken.keys() for v in reached}
        chosen = max(reached, key=lambda v: (len(incoming[v]), -v))
        taken[chosen] = incoming[chosen]
