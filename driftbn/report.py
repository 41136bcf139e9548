"""What a monitor says of one window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from driftbn.codec import Codec, StandIn
from driftbn.drift.facts import Fact
from driftbn.drift.outcome import DriftDecision
from driftbn.drift.shares import Moved
from driftbn.errors import FormatError
from driftbn.explain import Explanation, explain, explain_tables
from driftbn.explain.changes import Change
from driftbn.explain.html import comparison_to_html, framed, report_to_html
from driftbn.graphs.graph import Dag, Edge, Pdag, StructureDiff
from driftbn.learning import SearchCost
from driftbn.learning.search import Overrun
from driftbn.tables.encode import SchemaEvent

FORMAT: Final = "driftbn.report"
VERSION: Final = 1
"""Of the document; a new field that has a default needs no new version."""

BAND_WINDOWS: Final = 32
"""Newest calm windows that say what a Hamming distance usually is."""
BAND_MIN_WINDOWS: Final = 8


class Excluded(NamedTuple):
    """A column without part in the graph."""

    name: str
    reason: str


class Twin(NamedTuple):
    """A field that always says the same as another one."""

    name: str
    same_as: str


class MissingShare(NamedTuple):
    """A field with missing values, and their share of its rows."""

    name: str
    share: float


class HammingBand(NamedTuple):
    """What the Hamming distance from the window before usually is.

    ``low``, ``high``: its smallest and largest value in the newest ``n_windows`` calm windows.
    """

    low: int
    high: int
    n_windows: int

    @classmethod
    def of(cls, distances: Sequence[int]) -> HammingBand | None:
        """Return the band of some windows; ``None`` while they are too few.

        >>> HammingBand.of([3, 1, 4, 1, 5, 9, 2, 6]), HammingBand.of([3, 1])
        (HammingBand(low=1, high=9, n_windows=8), None)
        """
        if len(distances) < BAND_MIN_WINDOWS:
            return None
        return cls(min(distances), max(distances), len(distances))


@dataclass(frozen=True)
class Timings:
    """Seconds spent on one window, by the clock that the monitor was given.

    ``learn``: packing the rows and learning the graph. ``decide``: comparing with the reference,
    naming, and what the reference needs.
    """

    learn: float = 0.0
    decide: float = 0.0


@dataclass(frozen=True)
class WarmAudit:
    """A window learned a second time from nothing.

    ``disagreement``: edges on which the two graphs differ.
    """

    disagreement: int
    cost: SearchCost


@dataclass(frozen=True)
class Relearned:
    """The graph of the reference, learned again on all its windows.

    ``overrun``: the limit that stopped the search, if one has: the reference then keeps its graph.
    """

    cost: SearchCost
    overrun: Overrun | None = None


@dataclass(frozen=True)
class ShadowLook:
    """A decision on rows in which nothing can have changed, to see how often it cries wolf."""

    alarm: bool


class Sample(NamedTuple):
    """What a window had, where only some of its records were judged.

    ``visible_change``: the smallest change of an association, in nats, that those judged show in
    nine of ten pairs of fields; ``None`` if there is none, or nothing to compare with yet.
    """

    records: int
    visible_change: float | None = None


@dataclass(frozen=True)
class WindowReport:
    """What a monitor says of one window.

    ``index``: running number of the window, from 0. ``first_record``, ``last_record``: smallest and
    largest running number of its records. ``start``, ``end``: smallest and largest event time in
    seconds since the epoch, if there are any. ``graph``: the equivalence class (CPDAG) learned on
    this window; the previous one if the search was stopped by a limit or the window could not be
    judged. ``dag``: a DAG of it that keeps the previous window's directions where the class allows.
    ``diff``, ``class_diff``: how ``dag`` and ``graph`` differ from those of the previous window.
    ``usual``: what ``diff.hamming`` usually is on this stream, once that is known.
    ``decision``: whether the relations changed, and in what. ``conflicts``: pairs for which the
    data demand both directions. ``events``: differences from the schema met since the previous
    window. ``overrun``: the limit that stopped the search, if one has. ``audit``: the comparison
    with a search from nothing, if there was one. ``relearned``: what it cost to learn the graph of
    the reference again, if it was time. ``shadow``: the decision on permuted rows, if there was
    one. ``target``: the field that the user cares for, if one was named. ``blanket``: the
    fields that ``target`` depends on directly (its Markov blanket) in ``dag``.
    ``moved``: the few combinations of values whose shares of the records moved most, where
    something changed. ``sample``: how many records the window had, where ``rows`` of them were
    judged and no more.
    """

    index: int
    rows: int
    first_record: int
    last_record: int
    graph: Pdag = field(repr=False)
    dag: Dag = field(repr=False)
    diff: StructureDiff = field(repr=False)
    class_diff: StructureDiff = field(repr=False)
    decision: DriftDecision
    cost: SearchCost = field(repr=False)
    timings: Timings = field(default=Timings(), repr=False, compare=False)
    start: float | None = None
    end: float | None = None
    conflicts: tuple[Edge, ...] = field(default=(), repr=False)
    events: tuple[SchemaEvent, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    twins: tuple[Twin, ...] = ()
    overrun: Overrun | None = None
    audit: WarmAudit | None = None
    shadow: ShadowLook | None = None
    missing: tuple[MissingShare, ...] = ()
    target: str | None = None
    blanket: tuple[str, ...] = ()
    usual: HammingBand | None = None
    relearned: Relearned | None = None
    moved: tuple[Moved, ...] = ()
    sample: Sample | None = None

    def __bool__(self) -> bool:
        """Whether this window raises an alarm, so that ``if report:`` asks for drift."""
        return self.drift

    @property
    def format(self) -> str:
        """What tells the document of a report from others."""
        return FORMAT

    @property
    def version(self) -> int:
        """Of the document."""
        return VERSION

    @property
    def drift(self) -> bool:
        """Whether this window raises an alarm."""
        return self.decision.drift

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What is plain to see of single fields and was never so before; the plainest first."""
        return self.decision.facts

    @property
    def degraded(self) -> bool:
        """Whether a limit stopped the search, so that ``graph`` is an old one."""
        return self.overrun is not None

    def explain(self) -> Explanation:
        """Say in plain words what changed, since when, how strongly and how surely."""
        return explain(self)

    def to_dict(self, *, timings: bool = False) -> dict[str, object]:
        """Return everything as plain dicts and lists, ready for JSON.

        Keys always come in the same order, and a number that is not finite is ``None``, so equal
        reports give equal JSON. ``timings`` adds how long things took, which differs from run to
        run.

        >>> from driftbn.drift.outcome import DriftLevel
        >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
        >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
        >>> cost = SearchCost((1,))
        >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, cost)
        >>> report.to_dict()["dag"]
        {'nodes': ['a', 'b'], 'edges': [{'source': 'a', 'target': 'b', 'directed': True}]}
        >>> WindowReport.from_dict(report.to_dict()) == report
        True
        """
        found: dict[str, object] = REPORTS.encode(self, uncompared=timings)
        return found

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> WindowReport:
        """Return the report that ``to_dict`` was called on.

        A document of an earlier version may lack fields, which then have their defaults.

        Raises FormatError if it is no report, of a later version, or a part is not allowed.
        """
        found = document.get("format"), document.get("version")
        if found[0] != FORMAT or found[1] not in range(1, VERSION + 1):
            raise FormatError(
                f"a report of format {found[0]!r}, version {found[1]!r}; this driftbn reads"
                f" {FORMAT!r}, version {VERSION} and earlier"
            )
        return REPORTS.decode(cls, document)

    def to_html(self) -> str:
        """Return a page with words, picture and tables, as one file that needs nothing else."""
        return report_to_html(self)

    def _repr_html_(self) -> str:
        return framed(self.to_html())


class WindowRow(NamedTuple):
    """A window as one row of a table."""

    window: int
    rows: int
    first_record: int
    last_record: int
    start: float | None
    end: float | None
    level: str
    p_value: float
    effect: float
    changed: str  # in words; empty if nothing
    hamming: int  # from the window before, most of it by chance
    confirmed: int
    episode: int | None

    @classmethod
    def of(cls, report: WindowReport) -> WindowRow:
        decision = report.decision
        return cls(
            report.index,
            report.rows,
            report.first_record,
            report.last_record,
            report.start,
            report.end,
            decision.level.value,
            decision.p_value,
            decision.effect,
            "" if decision.kind is None else Change(report).summary,
            report.diff.hamming,
            decision.confirmed_hamming,
            decision.episode,
        )


@dataclass(frozen=True)
class DataComparison:
    """Two tables, the second judged as a monitor judges a window by its reference.

    ``reference``, ``current``: what was learned of each; the decision is in ``current``.
    ``names``: of the tables, for people.
    """

    reference: WindowReport
    current: WindowReport
    names: tuple[str, str]

    @property
    def decision(self) -> DriftDecision:
        """Whether the relations differ, in what, and how sure that is."""
        return self.current.decision

    @property
    def drift(self) -> bool:
        """Whether the tables differ by more than chance and ``min_effect``."""
        return self.current.drift

    def __bool__(self) -> bool:
        """Whether the tables differ, so that ``if compare_data(...):`` asks for drift."""
        return self.drift

    def explain(self) -> Explanation:
        """Say in plain words what differs, how strongly and how surely."""
        return explain_tables(self.names, self.reference.rows, self.current)

    def __str__(self) -> str:
        return str(self.explain())

    def to_dict(self) -> dict[str, object]:
        """Return names, rows and the decision as plain dicts and lists, ready for JSON."""
        tables = zip(self.names, (self.reference.rows, self.current.rows), strict=True)
        return {
            "format": "driftbn.comparison",
            "version": 1,
            "tables": [{"name": name, "rows": rows} for name, rows in tables],
            "decision": self.current.to_dict()["decision"],
        }

    @property
    def picture(self) -> WindowReport:
        """What is drawn: the graph of the second table with what a test confirms, and no more."""
        return replace(self.current, diff=StructureDiff())

    def to_html(self) -> str:
        """Return a page with words, picture and tables, as one file that needs nothing else."""
        return comparison_to_html(self.explain(), self.picture)

    def _repr_html_(self) -> str:
        return framed(self.to_html())


# --- The document, where it departs from the fields ---


class EdgeEnds(NamedTuple):
    source: str
    target: str


class GraphEdge(NamedTuple):
    source: str
    target: str
    directed: bool


class Graph(NamedTuple):
    nodes: tuple[str, ...]
    edges: tuple[GraphEdge, ...]


def _graph(graph: Dag | Pdag) -> tuple[tuple[str, ...], list[tuple[str, str, bool]]]:
    edges = [(source, target, True) for source, target in graph.directed_edges]
    free = [(source, target, False) for source, target in graph.undirected_edges]
    return graph.nodes, sorted(edges + free) if free else edges  # sorted each


def _pdag(graph: Graph) -> Pdag:
    ends = {
        directed: [edge[:2] for edge in graph.edges if edge.directed is directed]
        for directed in (True, False)
    }
    return Pdag(graph.nodes, ends[True], ends[False])


def _dag(graph: Graph) -> Dag:
    return Dag(graph.nodes, [edge[:2] for edge in graph.edges])


REPORTS: Final = Codec(
    derived={
        WindowReport: ("format", "version", "degraded"),
        DriftDecision: ("drift", "severity", "confirmed_hamming"),
        StructureDiff: ("hamming", "skeleton", "contradictions"),
        SearchCost: ("weighted", "n_tests"),
    },
    renamed={DriftDecision: {"node_changes": "nodes"}},
    stand_ins={
        Edge: StandIn(EdgeEnds, tuple, tuple),
        Pdag: StandIn(Graph, _graph, _pdag),
        Dag: StandIn(Graph, _graph, _dag),
    },
)
"""How reports and their parts are written and read."""
