"""From a table to a structure by PC, FSBN or SSBN: the learner that puts the parts together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from driftbn.config import Algorithm, Knowledge, LearnerConfig, SchemaConfig, WarmStart, choice
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn.graphs.network import BayesianNetwork, fit_parameters
from driftbn.kernels.evidence import Floats
from driftbn.learning.independence import (
    ChiSquareTest,
    Codes,
    IndependenceTest,
    PackedTable,
    SearchCost,
    design_effects,
)
from driftbn.learning.orientation import (
    extend_to_dag,
    is_repaired,
    orient,
    orient_like,
    repair,
    unoriented,
)
from driftbn.learning.search import (
    Limits,
    Overrun,
    RdsaTally,
    SeparatorMap,
    apply_knowledge,
    find_skeleton,
    make_search,
)
from driftbn.tables.encode import EncodedTable
from driftbn.tables.infer import Bins, find_duplicates, infer_and_encode
from driftbn.tables.schema import Schema

__all__ = [
    "ChiSquareTest",
    "IndependenceTest",
    "LearnedStructure",
    "LearnedWindow",
    "MakeTest",
    "Overrun",
    "PackedTable",
    "RdsaTally",
    "SearchCost",
    "SeparatorMap",
    "StructureLearner",
    "extend_to_dag",
    "fit_network",
    "learn_structure",
]

MAX_SETS = 50  # tried for a pair and size at most, in the order of the tallies
CENSUS_SIZE = 2  # of the largest set around a triple that finds colliders; 1 before a repair


@dataclass(frozen=True, eq=False)
class LearnedStructure:
    """What was learned, and what it cost.

    After an ``overrun``, a limit that has stopped the search, ``graph`` is the skeleton so far
    without directions: it misses nothing that was found dependent, and has edges too many.
    """

    graph: Pdag  # the learned equivalence class (CPDAG)
    separators: SeparatorMap  # of the pairs without an edge; the next search may start from them
    tallies: RdsaTally  # and from these
    conflicts: tuple[Edge, ...]  # undirected in ``graph``: the data demand both directions
    cost: SearchCost
    overrun: Overrun | None = None
    schema: Schema | None = field(default=None, repr=False)  # ``None`` if codes were given

    @cached_property
    def dag(self) -> Dag:
        """A DAG of the learned class; free choices go by the order of names."""
        return extend_to_dag(self.graph)


MakeTest = Callable[[PackedTable, LearnerConfig, Mapping[str, float]], IndependenceTest]
"""Makes the independence test of a table: a subclass of ``IndependenceTest``, or any function.

It is called with the table, the settings (which have ``alpha``) and design effects by name, as far
as they are known.
"""


@dataclass(frozen=True, eq=False)
class LearnedWindow:
    """Rows and what was learned of them.

    ``codes``: rows, ``[variables, rows]``, variables sorted by name. ``twins``: for each variable
    that says the same as an earlier one, that one. ``cells``: the rows before ``bins`` were made of
    their codes.
    """

    codes: Codes
    table: PackedTable
    learned: LearnedStructure
    effects: Floats
    cells: Codes
    bins: Bins
    twins: dict[int, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names


class StructureLearner:
    """Learns structures with one configuration.

    ``clock``: returns seconds, for the deadline and the reported time. ``independence_test``: makes
    the test that is asked; by default chi-square or G, as ``config`` says. ``max_sets``: sets tried
    for a pair and size at most, in their order; ``None`` lifts the cap. ``census_size``: largest
    set of the census that finds colliders, 1 to 10.
    """

    def __init__(  # noqa: PLR0913 - what tests with an oracle vary stands behind the star
        self,
        config: LearnerConfig | None = None,
        knowledge: Knowledge | None = None,
        clock: Callable[[], float] = time.perf_counter,
        independence_test: MakeTest = ChiSquareTest.of_table,
        *,
        max_sets: int | None = MAX_SETS,
        census_size: int = CENSUS_SIZE,
    ) -> None:
        self.config = config or LearnerConfig()
        self.knowledge = knowledge or Knowledge()
        self._clock = clock
        self._make_test = independence_test
        self.max_sets, self.census_size = max_sets, census_size

    def with_config(self, config: LearnerConfig) -> StructureLearner:
        other = copy(self)
        other.config = config
        return other

    def learn(
        self,
        table: EncodedTable,
        previous: LearnedStructure | None = None,
        design_effects: Mapping[str, float] | None = None,
    ) -> LearnedStructure:
        """Learn from an encoded table, warm if an earlier structure is given."""
        started = self._clock()
        packed = PackedTable(table.codes, table.schema.names)
        test = self._make_test(packed, self.config, design_effects or {})
        excluded = [column.name for column in table.schema.excluded]
        return self._learn(test, previous, started, table.schema, excluded)

    def learn_window(
        self,
        codes: Codes,
        names: Sequence[str],
        previous: LearnedStructure | None = None,
        *,
        bins: Bins | None = None,
        dependent_rows: bool = True,
    ) -> LearnedWindow:
        """Learn from rows of a stream, corrected for dependence between neighbouring rows.

        ``bins``: to be made of the codes before; ``None`` if they are to stay as they are.

        A variable that says the same as an earlier one has no part in the search: it hangs on that
        one by an edge without direction, and nothing else can be said of it.
        """
        cells, bins = codes, bins or Bins.as_they_are(len(codes))
        codes = bins.apply(cells)
        table = PackedTable(codes, names)
        effects = design_effects(table) if dependent_rows else np.ones(len(names))
        twins = find_duplicates(codes)
        single, single_effects = table, effects
        if twins:
            kept = [v for v in range(len(names)) if v not in twins]
            single = PackedTable(codes[kept], [names[v] for v in kept])
            single_effects = effects[kept]
        test = self._make_test(
            single, self.config, dict(zip(single.names, single_effects.tolist(), strict=True))
        )
        learned = self.learn_from(test, previous, [names[v] for v in twins])
        if twins:
            learned = replace(learned, graph=_with_twins(learned.graph, names, twins))
        return LearnedWindow(codes, table, learned, effects, cells, bins, twins)

    def learn_from(
        self,
        test: IndependenceTest,
        previous: LearnedStructure | None = None,
        excluded: Sequence[str] = (),
    ) -> LearnedStructure:
        """Learn by asking an independence test, such as a d-separation oracle.

        What is known of ``excluded`` variables is left aside: the test does not have them.
        """
        return self._learn(test, previous, self._clock(), None, excluded)

    def _learn(
        self,
        test: IndependenceTest,
        previous: LearnedStructure | None,
        started: float,
        schema: Schema | None,
        excluded: Sequence[str] = (),
    ) -> LearnedStructure:
        config = self.config
        test = test.ordered_by_data()
        known = apply_knowledge(self.knowledge, test.names, excluded)
        seconds = config.deadline_seconds
        stop_at = None if seconds is None else started + seconds
        limits = Limits(self._clock, stop_at, config.max_tests)
        earlier = None if config.warm is WarmStart.NONE else previous
        scored = test if is_repaired(test, config) else None
        census_size = self.census_size if scored is None else 1
        test.begin(max(config.max_conditioning, census_size))
        tallies = separators = None
        if earlier is not None:
            tallies = earlier.tallies
            recalls = config.warm is WarmStart.TALLIES_AND_SEPARATORS
            separators = earlier.separators if recalls else None
        search = make_search(test, config, known, self.max_sets, census_size, tallies, separators)
        skeleton = find_skeleton(test, search, limits)
        asked = test.tests.copy()
        if not skeleton.finished:
            oriented = unoriented(skeleton)
        elif earlier is not None and scored and earlier.overrun is None:
            oriented = orient_like(skeleton, earlier.graph, known)
        else:
            oriented = orient(skeleton, test, config, known, limits)
        directed = test.tests.copy()
        n_tables = 0
        if scored is not None and oriented.finished:
            oriented, skeleton, n_tables = repair(oriented, skeleton, scored, known, limits)
        return LearnedStructure(
            graph=oriented.graph,
            separators=skeleton.separators,
            tallies=skeleton.tallies,
            conflicts=oriented.conflicts,
            cost=SearchCost(
                tests=tuple(asked[:, 0].tolist()),
                undecided=tuple(asked[:, 1].tolist()),
                orientation_tests=tuple((directed - asked)[:, 0].tolist()),
                repair_tables=n_tables,
                seconds=self._clock() - started,
                warm=earlier is not None,
            ),
            overrun=None if oriented.finished else limits.overrun(test),
            schema=schema,
        )


def _with_twins(graph: Pdag, names: Sequence[str], twins: Mapping[int, int]) -> Pdag:
    joined = ((names[first], names[copy]) for copy, first in twins.items())
    return Pdag(names, graph.directed_edges, (*graph.undirected_edges, *joined))


def learn_structure(  # noqa: PLR0913 - one call for every kind of table
    data: object,
    algorithm: Algorithm | str | None = None,
    alpha: float | None = None,
    *,
    config: LearnerConfig | None = None,
    knowledge: Knowledge | None = None,
    previous: LearnedStructure | None = None,
    design_effects: Mapping[str, float] | None = None,
    schema: SchemaConfig | None = None,
    names: Sequence[str] | None = None,
    independence_test: MakeTest = ChiSquareTest.of_table,
) -> LearnedStructure:
    """Learn who depends on whom in a table.

    ``data``: DataFrame of pandas or polars, Arrow table or anything with ``__arrow_c_stream__``,
    list of dicts, dict of columns, or a 2-D array with ``names``. ``algorithm``: ``"ssbn"``
    (default), ``"fsbn"``, ``"pc"`` or ``"pc-original"``. ``alpha``: level of the independence
    tests; 0.01 by default. Both go before ``config``, all settings of the learner. ``knowledge``:
    edges required or forbidden, and tiers. ``previous``: an earlier structure to start from.
    ``design_effects``: by variable, how much the rows repeat themselves; see ``ChiSquareTest``.
    ``schema``: how columns become codes. ``independence_test``: makes the test that is asked; by
    default chi-square or G, as ``config`` says.

    Raises DataError if the table cannot be read, ConfigError if a setting is not allowed.

    >>> from driftbn import datasets, learn_structure
    >>> table = datasets.sample(datasets.asia(), 5000, 1)
    >>> learned = learn_structure(table, algorithm="ssbn", alpha=0.01)
    >>> learned.graph.directed_edges[:2]
    (('bronc', 'dysp'), ('either', 'dysp'))
    >>> learned.graph.undirected_edges
    (('asia', 'tub'), ('bronc', 'smoke'), ('lung', 'smoke'))
    >>> learned.cost.weighted
    369
    """
    settings = config or LearnerConfig()
    if algorithm is not None:
        settings = replace(settings, algorithm=choice(Algorithm, "algorithm", algorithm))
    if alpha is not None:
        settings = replace(settings, alpha=alpha)
    learner = StructureLearner(settings, knowledge, independence_test=independence_test)
    return learner.learn(infer_and_encode(data, schema, names=names), previous, design_effects)


def fit_network(
    dag: Dag, table: EncodedTable, equivalent_sample_size: float | None = None
) -> BayesianNetwork:
    """Fit probabilities to a learned DAG; levels that no row has are no states.

    See ``driftbn.graphs.network.fit_parameters``; ``query`` asks the network.

    >>> from driftbn import datasets, learn_structure
    >>> from driftbn.tables.encode import encode
    >>> rows = datasets.sample(datasets.asia(), 5000, 1)
    >>> learned = learn_structure(rows)
    >>> fit_network(learned.dag, encode(rows, learned.schema))
    <BayesianNetwork: 8 nodes, 8 arcs>
    """
    place = {name: i for i, name in enumerate(table.schema.names)}
    states, codes = [], np.empty((len(dag.nodes), table.n_rows), np.uint8)
    for row, name in enumerate(dag.nodes):
        observed, codes[row] = np.unique(table.codes[place[name]], return_inverse=True)
        states.append([table.schema[name].labels[code] for code in observed.tolist()])
    return fit_parameters(dag, codes, dag.nodes, states, equivalent_sample_size)
