"""Independence tests: the seam that every search asks, its cost, and chi-square and G on codes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from driftbn.config import LearnerConfig, Statistic
from driftbn.errors import ConfigError, DataError, VariableMismatchError
from driftbn.kernels.chi_square import ROWS_PER_DOF, SEPARATED, judge, measure_pairs
from driftbn.kernels.chi_square import test_conditional as run_test
from driftbn.kernels.counting import count_pairs
from driftbn.kernels.evidence import (
    ARENA_BYTES,
    CODES_PER_SET,
    MASKS_PER_SET,
    N_ENTRIES,
    Evidence,
    Floats,
    Workspace,
)
from driftbn.kernels.orientation import MAX_PARENTS, Repair, pursue_repair
from driftbn.kernels.search import (
    BEGIN,
    END,
    OVER,
    PAUSED,
    PHASE,
    READY,
    STRENGTH_MAX,
    WIDTH,
    Question,
    Search,
    ask,
    pursue_census,
    pursue_search,
    tell,
)

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_N = TypeVar("_N", bound=np.generic)
_EMPTY_SET = np.empty((1, 0), np.int64)


def places(mask: Mask) -> tuple[Ints, Ints]:
    """Return rows and columns of the true entries; nine times as fast as ``nonzero`` if few are."""
    rows, columns = divmod(mask.ravel().nonzero()[0], mask.shape[1])
    return rows, columns


@lru_cache(maxsize=8)
def _upper(n_nodes: int) -> Mask:
    return np.triu(np.ones((n_nodes, n_nodes), np.bool_))


def upper(mask: Mask) -> Mask:
    """Return the upper triangle, where each pair is once; a third of the time of ``np.triu``."""
    once: Mask = mask & _upper(len(mask))
    return once


class IndependenceTest(ABC):
    """Answers which of several sets separates two variables; all that a search asks for.

    A subclass must set ``names`` and implement ``first_separator``. The other methods are
    built on it and may be replaced by faster ones. A test that can tell that a set says nothing
    about a pair, as one on data can, may leave such sets out of a census.
    """

    names: tuple[str, ...]

    @abstractmethod
    def first_separator(self, x: int, y: int, sets: Sequence[Sequence[int]] | Ints) -> int | None:
        """Return the index of the first set given which x and y are independent, if any.

        Called many thousand times in a search; variables are given by their place in ``names``.
        """

    def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
        """Return how well independence of x and y given ``members`` fits; 0 or 1 if exact."""
        return 0.0 if self.first_separator(x, y, [tuple(members)]) is None else 1.0

    @property
    def strength(self) -> Ints:
        """How strongly each two variables depend on each other, to order a search by."""
        return np.zeros((len(self.names), len(self.names)), np.int64)

    def ordered_by_data(self) -> IndependenceTest:
        """Return the test with its variables in an order that their names have no part in.

        The same test if it knows of none: an exact one finds the same in any order.
        """
        return self

    def begin(self, max_size: int) -> None:
        """Start counting tests; called once before a search with sets of at most this size."""
        self.tests = np.zeros((max_size + 1, 2), np.int64)

    def remove_independent(self, adjacent: Mask) -> None:
        """Take from ``adjacent`` all pairs that are independent without condition."""
        for x, y in np.argwhere(upper(adjacent)).tolist():
            self.tests[0, 0] += 1
            if self.first_separator(x, y, _EMPTY_SET) is not None:
                adjacent[x, y] = adjacent[y, x] = False

    def pursue_search(self, search: Search, n_tests: int) -> int:
        """Answer what search or census asks for about ``n_tests`` tests; return their state."""
        limit = self.tests[:, 0].sum() + n_tests
        while self.tests[:, 0].sum() < limit:
            state = ask(search)
            if state != READY:
                return int(state)
            tell(search, self._answer(search.question))
        return PAUSED

    def _answer(self, question: Question) -> int:
        begin, end, size = (int(question.span[i]) for i in (BEGIN, END, WIDTH))
        x, y = int(question.pair[0]), int(question.pair[1])
        found = self.first_separator(x, y, question.sets[begin:end, :size])
        self.tests[size, 0] += end - begin if found is None else found + 1
        return -1 if found is None else begin + found


@dataclass(frozen=True)
class SearchCost:
    """What it cost to learn a structure; tests are counted by size of the conditioning set.

    >>> SearchCost(tests=(10, 5), undecided=(0, 1), orientation_tests=(0, 2)).weighted
    41
    """

    tests: tuple[int, ...]  # of the search for the skeleton
    undecided: tuple[int, ...] = ()  # of these, too few rows to tell; taken for independent
    orientation_tests: tuple[int, ...] = ()  # asked to direct edges
    repair_tables: int = 0  # counted to repair the graph by its score
    seconds: float = field(default=0.0, compare=False)  # from codes to graph
    warm: bool = False  # whether the search started from an earlier structure

    @property
    def weighted(self) -> int:
        """Sum of 2 + size over all tests, the cost measure of the paper's section V."""
        return _weighted(self.tests) + self.orientation_weighted

    @property
    def orientation_weighted(self) -> int:
        """The same sum over only the tests asked to direct edges."""
        return _weighted(self.orientation_tests)

    @property
    def n_tests(self) -> int:
        """Number of all tests."""
        return sum(self.tests) + sum(self.orientation_tests)


def _weighted(tests: tuple[int, ...]) -> int:
    return sum((2 + size) * count for size, count in enumerate(tests))


# Independence tests on a table of codes: Pearson's chi-square and G.

Codes = npt.NDArray[np.uint8]

WORD_BITS = 64
WORDS_STEP = 4  # bit sets are padded to whole vectors of four words, so no loop has a tail
JOINT_LEVELS_MAX = 8192  # levels of all variables; the counts of their pairs then take 256 MB
STRENGTH_STEPS = 16  # of one critical value
EXACT_DOF_MAX = 2048  # beyond, Wilson and Hilferty's cube is right to five digits

# A block of neighbouring rows is one word of a bit set, or several.
BLOCK_ROWS = WORD_BITS
BLOCK_ROWS_MAX = 512
BLOCKS_PER_EFFECT = 4  # blocks grow until they are this many times as long as the design effect


def _read_only(array: npt.NDArray[_N]) -> npt.NDArray[_N]:
    """Return a view that cannot be written: kernels are compiled for that, and anew for others."""
    view = array.view()
    view.setflags(write=False)
    return view


_NO_VALUES: Floats = _read_only(np.zeros(0))


class PackedTable:
    """A table of codes as bit sets, with the counts of every two levels.

    ``codes``: small integers, shape [variables, rows]. ``names``: names of the variables, in the
    order of ``codes``; the table is in the order of names.

    Raises DataError if codes and names do not fit together or there are no rows.
    """

    def __init__(self, codes: Codes, names: Sequence[str]) -> None:
        order = _checked_order(codes, names)
        self.names = tuple(names[i] for i in order)
        in_order = bool(np.all(np.diff(order) > 0))
        self.evidence, self.level_codes = _pack(codes if in_order else codes[order])

    @property
    def codes(self) -> Codes:
        """The rows, shape [variables, rows]: all codes from 0 to a variable's largest occur."""
        return self.evidence.codes

    @property
    def n_rows(self) -> int:
        return int(self.evidence.codes.shape[1])

    @cached_property
    def level_variables(self) -> Ints:
        """The variable of each level; ``level_codes`` has the code that it was given as."""
        first = self.evidence.first
        return np.repeat(np.arange(len(first) - 1), np.diff(first))


class ChiSquareTest(IndependenceTest):
    """Independence tests on a table, by compiled kernels over bit sets.

    ``codes``: small integers, shape [variables, rows]. ``names``: names of the variables, in the
    order of ``codes``; the test works in the order of names. ``design_effects``: by name, how much
    more the counts of a variable vary than those of independent rows (1 or more). A pair's
    statistic is divided by ``1 + sqrt((a - 1) * (b - 1))``.

    Raises DataError if codes and names do not fit together or there are no rows. Raises ConfigError
    if a design effect is less than 1.

    >>> import numpy as np
    >>> x = np.tile([0, 1], 200).astype(np.uint8)
    >>> z = np.repeat([0, 1], 200).astype(np.uint8)
    >>> test = ChiSquareTest(np.stack([x, x ^ z, z]), ["x", "y", "z"])
    >>> test.first_separator(0, 1, [(2,), ()])
    1
    >>> test.p_value(0, 1, [])
    1.0
    >>> test.statistic(0, 1, [2])
    (400.0, 2)
    """

    def __init__(
        self,
        codes: Codes,
        names: Sequence[str],
        alpha: float = 0.01,
        statistic: Statistic = Statistic.CHI_SQUARE,
        design_effects: Mapping[str, float] | None = None,
    ) -> None:
        self._open(PackedTable(codes, names), alpha, statistic, design_effects or {})

    @classmethod
    def of_table(
        cls, table: PackedTable, config: LearnerConfig, design_effects: Mapping[str, float]
    ) -> ChiSquareTest:
        test = cls.__new__(cls)
        test._open(table, config.alpha, config.statistic, design_effects)
        return test

    def _open(
        self,
        table: PackedTable,
        alpha: float,
        statistic: Statistic,
        design_effects: Mapping[str, float],
    ) -> None:
        self.names = table.names
        self.alpha = alpha
        largest = int(np.diff(table.evidence.first).max(initial=1))
        max_dof = max(table.n_rows // ROWS_PER_DOF, (largest - 1) ** 2, 1)
        self._evidence = table.evidence._replace(
            critical=critical_values(alpha, max_dof),
            excess=_excess(self.names, design_effects),
            entropy=n_log_n_table(table.n_rows) if statistic is Statistic.G else np.zeros(0),
        )
        self.tests = np.zeros((0, 2), np.int64)  # a search, or the first question, makes buffers

    @property
    def evidence(self) -> Evidence:
        return self._evidence

    @property
    def n_rows(self) -> int:
        return int(self._evidence.codes.shape[1])

    def begin(self, max_size: int) -> None:
        self._work = _make_workspace(self._evidence, max(max_size, 1))
        self.tests = self._work.tests

    def first_separator(self, x: int, y: int, sets: Sequence[Sequence[int]] | Ints) -> int | None:
        pair = np.array([x, y], np.int64)
        for index, members in enumerate(sets):
            given = np.array(sorted(members), np.int64)
            if len(given) >= len(self.tests):
                self.begin(len(given))
            if judge(self._evidence, self._work, pair, given) == SEPARATED:
                return index
        return None

    def statistic(self, x: int, y: int, members: Sequence[int]) -> tuple[float, int]:
        """Return the statistic, corrected for the design effect, and its degrees of freedom."""
        given = np.array(sorted(members), np.int64)
        if len(given) >= len(self.tests):
            self.begin(len(given))
        _, value, dof = run_test(self._evidence, self._work, x, y, given, np.inf)
        excess = self._evidence.excess
        return float(value / (1.0 + excess[x] * excess[y])), int(dof)

    def p_value(self, x: int, y: int, members: Sequence[int]) -> float:
        """Return the p-value of independence; 1 where the table cannot tell."""
        value, dof = self.statistic(x, y, members)
        if dof == 0 or (len(members) > 0 and self.n_rows < ROWS_PER_DOF * dof):
            return 1.0
        from scipy.special import chdtrc  # noqa: PLC0415 - a fifth of a second to import

        return float(chdtrc(dof, value))

    @cached_property
    def _by_content(self) -> Ints:
        """The variables in the order of their columns, which no name has a part in."""
        columns = [column.tobytes() for column in self._evidence.codes]
        return np.array(sorted(range(len(columns)), key=columns.__getitem__), np.int64)

    @cached_property
    def _ratios(self) -> Floats:
        """By pair, the statistic without condition over its critical value; -1 if undecided."""
        ratios = np.zeros((len(self.names), len(self.names)))
        # Whole buffers, as in a repair: without them pages are returned after each window and
        # fetched anew, a tenth of the time that 200 variables take.
        room = _make_workspace(self._evidence, 1)
        measure_pairs(self._evidence, room.cells, room.column, self._by_content, ratios)
        return ratios

    @property
    def strength(self) -> Ints:
        return np.clip(STRENGTH_STEPS * self._ratios, 0, STRENGTH_MAX).astype(np.int64)

    def ordered_by_data(self) -> ChiSquareTest:
        """Return the test with the weakest variables first, by the sum of what depends on them.

        Equal sums, as of variables that nothing depends on, go by the columns themselves. Only two
        equal columns then keep the order of their names, and what is found of one holds for both.
        """
        content = self._by_content
        ratios = _permuted(self._ratios, content)  # so that sums are made in one order
        by_sum = np.argsort(np.sum(ratios, axis=1, where=ratios > 1.0), kind="stable")
        order = content[by_sum]
        if np.array_equal(order, np.arange(len(order))):
            return self
        ordered = copy(self)
        ordered.names = tuple(self.names[v] for v in order)
        ordered._evidence = _reordered(self._evidence, order)
        ordered._ratios = _permuted(ratios, by_sum)
        ordered._by_content = np.argsort(by_sum)
        return ordered

    def remove_independent(self, adjacent: Mask) -> None:
        asked = upper(adjacent)
        self.tests[0, 0] += np.count_nonzero(asked)
        self.tests[0, 1] += np.count_nonzero(asked & (self._ratios < 0.0))
        adjacent &= self._ratios > 1.0

    def pursue_search(self, search: Search, n_tests: int) -> int:
        pursue = pursue_census if search.cursor[PHASE] == OVER else pursue_search
        return int(pursue(search, self._evidence, self._work, n_tests))

    def pursue_repair(self, repair: Repair, n_tables: int) -> int:
        """Improve a DAG by the extended BIC (Chen and Chen 2008), move by move; return the state.

        The score of a child is its log-likelihood less ln(rows)/2 for each degree of freedom and
        ln(variables) for each parent. Degrees of freedom are cells less configurations, of those
        that occur: equivalent DAGs have equal scores, and cells that cannot occur cost nothing.
        """
        price = math.log(max(len(self.names), 1))
        scored = self._evidence._replace(entropy=penalized_entropy(self.n_rows))
        room = _make_workspace(self._evidence, MAX_PARENTS)
        return int(pursue_repair(repair, scored, room, price, n_tables))


def _permuted(matrix: npt.NDArray[_N], order: Ints) -> npt.NDArray[_N]:
    """Return rows and columns in another order; five times as fast as by ``np.ix_``."""
    return matrix.take(order, axis=0).take(order, axis=1)


def _reordered(evidence: Evidence, order: Ints) -> Evidence:
    n_levels = np.diff(evidence.first)[order]
    first = np.concatenate(([0], np.cumsum(n_levels)))
    levels = np.arange(first[-1]) + np.repeat(evidence.first[order] - first[:-1], n_levels)
    return evidence._replace(
        codes=_read_only(evidence.codes[order]),
        bits=evidence.bits[levels],
        first=first,
        totals=evidence.totals[levels],
        joint=_permuted(evidence.joint, levels) if len(evidence.joint) else evidence.joint,
        excess=evidence.excess[order],
    )


def design_effects(table: PackedTable) -> Floats:
    """Return for each variable how much more its counts vary than those of independent rows.

    Blocks of neighbouring rows are doubled until they are long enough for the effect that they
    show. It is 1 unless it is two standard errors above 1.
    """
    evidence, n_rows = table.evidence, table.n_rows
    n_words = -(-n_rows // BLOCK_ROWS)
    first = evidence.first[:-1]
    n_levels = np.diff(evidence.first)
    counts = np.bitwise_count(evidence.bits[:, :n_words]).astype(np.float64)
    rows = np.full(n_words, float(BLOCK_ROWS))
    rows[-1] = n_rows - BLOCK_ROWS * (n_words - 1)
    share = evidence.totals[:, None] / n_rows
    scores = (counts - rows * share) / np.sqrt(evidence.totals[:, None])
    expected = np.maximum(n_levels - 1, 1)
    effects = np.ones(len(n_levels))
    growing = n_levels > 1
    length = BLOCK_ROWS
    while True:
        n_blocks = scores.shape[1]
        total = np.add.reduceat(np.sum(scores * scores, axis=1), first)
        now = total / expected * n_blocks / max(n_blocks - 2, 1)
        error = np.sqrt(2.0 / (n_blocks * expected))
        found = np.where(now > 1.0 + 2.0 * error, now * (1.0 + (now - 1.0) / (2.0 * length)), 1.0)
        effects = np.where(growing, np.maximum(found, 1.0), effects)
        growing &= length < BLOCKS_PER_EFFECT * now
        if length >= BLOCK_ROWS_MAX or not growing.any() or n_blocks < 8:
            return effects
        scores = np.add.reduceat(scores, np.arange(0, n_blocks, 2), axis=1)
        length *= 2


@lru_cache(maxsize=32)
def critical_values(alpha: float, max_dof: int) -> Floats:
    """Return by degrees of freedom the value that chi-square exceeds with probability alpha."""
    from scipy.special import chdtri, ndtri  # noqa: PLC0415 - a fifth of a second to import

    dof = np.arange(1, max_dof + 1, dtype=np.float64)
    exact = chdtri(dof[:EXACT_DOF_MAX], alpha)
    spread = 2.0 / (9.0 * dof[EXACT_DOF_MAX:])
    cube = 1.0 - spread - ndtri(alpha) * np.sqrt(spread)
    values = np.concatenate(([np.inf], exact, dof[EXACT_DOF_MAX:] * cube**3))
    values.setflags(write=False)
    return values


def _checked_order(codes: Codes, names: Sequence[str]) -> npt.NDArray[np.intp]:
    if codes.ndim != 2 or codes.shape[0] != len(names):
        problem = f"codes of shape {codes.shape} do not fit {len(names)} names"
        raise DataError(problem)
    if codes.shape[1] == 0:
        raise DataError("a table without rows has nothing to test")
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.intp)
    if len(set(names)) < len(names):
        twice = next(names[i] for i in order if list(names).count(names[i]) > 1)
        raise DataError("two columns have this name", column=twice)
    return order


def _excess(names: tuple[str, ...], design_effects: Mapping[str, float]) -> Floats:
    unknown = sorted(set(design_effects) - set(names))
    if unknown:
        raise VariableMismatchError(names, (*names, *unknown))
    effects = np.array([design_effects.get(name, 1.0) for name in names], np.float64)
    wrong = [name for name, e in zip(names, effects, strict=True) if not 1.0 <= e < np.inf]
    if wrong:
        value = {wrong[0]: design_effects[wrong[0]]}
        raise ConfigError("design_effects", value, "finite numbers of at least 1")
    return np.sqrt(effects - 1.0)


def _pack(codes: Codes) -> tuple[Evidence, Codes]:
    """Return the packed table and for each of its levels the code that it was given as."""
    n_levels = codes.max(axis=1).astype(np.int64) + 1
    first = np.concatenate(([0], np.cumsum(n_levels)))
    bits = _pack_levels(codes, n_levels, first)
    totals = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    level_codes = (np.arange(len(totals)) - np.repeat(first[:-1], n_levels)).astype(np.uint8)
    if not np.all(totals):
        dense = _without_gaps(codes, totals, first)
        evidence, dense_codes = _pack(dense)
        begin = np.repeat(evidence.first[:-1], np.diff(evidence.first))
        return evidence, level_codes[totals > 0][begin + dense_codes]
    order = np.lexsort((-totals, np.repeat(np.arange(len(codes)), n_levels)))
    bits, totals = bits[order], totals[order]
    n_joint = len(totals) if len(totals) <= JOINT_LEVELS_MAX else 0
    evidence = Evidence(
        codes=_read_only(np.ascontiguousarray(codes)),
        bits=bits,
        first=first,
        totals=totals,
        joint=np.zeros((n_joint, n_joint), np.int32),
        critical=_NO_VALUES,
        excess=np.zeros(len(codes)),
        entropy=np.zeros(0),
    )
    if n_joint:
        count_pairs(evidence)
    return evidence, level_codes[order]


def _pack_levels(codes: Codes, n_levels: Ints, first: Ints) -> npt.NDArray[np.uint64]:
    """Return a bit set of rows for each level; the last level has what the others leave."""
    n_rows = codes.shape[1]
    n_words = -(-n_rows // (WORD_BITS * WORDS_STEP)) * WORDS_STEP
    n_bytes = -(-n_rows // 8)
    bits = np.zeros((int(first[-1]), n_words), np.uint64)
    as_bytes = bits.view(np.uint8)
    rest = np.zeros((len(codes), n_words), np.uint64)
    rest.view(np.uint8)[:, :n_bytes] = np.packbits(np.ones(n_rows, np.bool_), bitorder="little")
    for level in range(int(n_levels.max(initial=1)) - 1):
        having = np.flatnonzero(n_levels - 1 > level)
        rows = codes if len(having) == len(codes) else codes[having]
        packed = np.packbits(rows == level, axis=1, bitorder="little")
        as_bytes[first[having] + level, :n_bytes] = packed
        rest[having] &= ~bits[first[having] + level]
    bits[first[1:] - 1] = rest
    return bits


def _without_gaps(codes: Codes, totals: Ints, first: Ints) -> Codes:
    """Renumber the codes so that every code below a variable's maximum occurs."""
    dense = codes.copy()
    for v in range(len(codes)):
        present = totals[first[v] : first[v + 1]] > 0
        if not np.all(present):
            dense[v] = (np.cumsum(present) - 1).astype(np.uint8)[codes[v]]
    return dense


@lru_cache(maxsize=8)
def penalized_entropy(n_rows: int) -> Floats:
    """Return n ln n less half of ln(rows) for each n above 0.

    G made of it, twice the sum over cells less margins plus total, is G less ln(rows) for each
    degree of freedom that occurs.
    """
    entropy = n_log_n_table(n_rows)
    entropy[1:] -= 0.5 * np.log(n_rows)
    return entropy


def n_log_n_table(n_rows: int) -> Floats:
    n = np.arange(n_rows + 1, dtype=np.float64)
    return n * np.log(np.maximum(n, 1.0))


def _make_workspace(evidence: Evidence, max_size: int) -> Workspace:
    """Make the buffers: 3 MB, or what four sets of masks and two of each other form take."""
    n_rows = evidence.codes.shape[1]
    n_words = evidence.bits.shape[1]
    largest = int(np.diff(evidence.first).max(initial=1))
    n_masks = max(4 * MASKS_PER_SET, ARENA_BYTES // max(8 * n_words, 1))
    n_codes = max(2, ARENA_BYTES // (2 * n_rows))
    n_slots = max(2, ARENA_BYTES // (13 * n_rows))
    return Workspace(
        cells=np.empty(largest * largest, np.int64),
        rest=np.empty(largest * largest, np.int64),
        column=np.empty(largest, np.float64),
        given=np.empty(max_size, np.int64),
        masks=np.empty((n_masks, n_words), np.uint64),
        mask_stratum=np.empty(n_masks, np.int64),
        mask_total=np.empty(n_masks, np.int64),
        scratch=np.empty(n_words, np.uint64),
        row_code=np.empty((n_codes, n_rows), np.uint16),
        histogram=np.empty(CODES_PER_SET * largest, np.int32),
        row_index=np.empty((n_slots, n_rows), np.int32),
        row_level=np.empty((n_slots, n_rows), np.uint8),
        row_strata=np.empty((n_slots, n_rows + 1), np.int32),
        row_levels=np.empty((n_slots, n_rows), np.int32),
        rows_a=np.empty(n_rows, np.int32),
        rows_b=np.empty(n_rows, np.int32),
        place=np.empty(largest, np.int64),
        entry_set=np.empty((N_ENTRIES, max_size), np.int64),
        entry_place=np.empty((N_ENTRIES, 9), np.int64),
        entry_hash=np.full(2 * N_ENTRIES, -1, np.int64),
        cursor=np.array([-1, 0, 0, 0, 0], np.int64),
        tests=np.zeros((max_size + 1, 2), np.int64),
    )
