"""What a monitor says of one window."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftbn.drift.outcome import DriftDecision
from driftbn.explain.documents import report_to_dict
from driftbn.explain.explanation import Explanation, explain
from driftbn.explain.html import report_to_html
from driftbn.graphs.diff import StructureDiff
from driftbn.graphs.graph import Dag, Edge, Pdag
from driftbn.learning import SearchCost
from driftbn.learning.search import Overrun
from driftbn.records import SchemaEvent


@dataclass(frozen=True)
class Timings:
    """Seconds spent on one window, by the clock that the monitor was given.

    Parameters
    ----------
    learn
        Packing the rows and learning the graph.
    decide
        Comparing with the reference, naming, and what the reference needs.
    """

    learn: float = 0.0
    decide: float = 0.0


@dataclass(frozen=True)
class WarmAudit:
    """A window learned a second time from nothing.

    Parameters
    ----------
    disagreement
        Edges on which the two graphs differ.
    cost
        What the second search cost.
    """

    disagreement: int
    cost: SearchCost


@dataclass(frozen=True)
class ShadowLook:
    """A decision on rows in which nothing can have changed, to see how often it cries wolf.

    Parameters
    ----------
    alarm
        Whether it was called drift.
    """

    alarm: bool


@dataclass(frozen=True)
class WindowReport:
    """What a monitor says of one window.

    Parameters
    ----------
    index
        Running number of the window, from 0.
    rows
        Rows of the window.
    first_record, last_record
        Smallest and largest running number of its records, both inclusive.
    start, end
        Smallest and largest event time in seconds since the epoch, if there are any.
    graph
        The equivalence class (CPDAG) learned on this window; the previous one if the search was
        stopped by a limit or the window could not be judged.
    dag
        A DAG of it that keeps the previous window's directions where the class allows.
    diff
        How ``dag`` differs from that of the previous window.
    class_diff
        How ``graph`` differs from that of the previous window.
    decision
        Whether the relations changed, and in what.
    cost
        Tests and time of the search.
    timings
        Where the time went.
    conflicts
        Pairs for which the data demand both directions.
    events
        Differences from the schema met since the previous window.
    excluded
        Columns without part in the graph, with the reason.
    twins
        For a field that always says the same as another one, that other one.
    overrun
        The limit that stopped the search, if one has.
    audit
        The comparison with a search from nothing, if there was one.
    shadow
        The look at rows dealt out anew, if there was one.
    missing
        Share of missing values of each field that has any.
    target
        The field that the user cares for, if one was named.
    blanket
        The fields that ``target`` depends on directly (its Markov blanket) in ``dag``.
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
    excluded: tuple[tuple[str, str], ...] = ()
    twins: tuple[tuple[str, str], ...] = ()
    overrun: Overrun | None = None
    audit: WarmAudit | None = None
    shadow: ShadowLook | None = None
    missing: tuple[tuple[str, float], ...] = ()
    target: str | None = None
    blanket: tuple[str, ...] = ()

    @property
    def degraded(self) -> bool:
        """Whether a limit stopped the search, so that ``graph`` is an old one."""
        return self.overrun is not None

    def explain(self) -> Explanation:
        """Say in plain words what changed, since when, how strongly and how surely."""
        return explain(self)

    def to_dict(self, *, timings: bool = False) -> dict[str, object]:
        """Return everything as plain dicts and lists, ready for JSON.

        Parameters
        ----------
        timings
            Whether to add how long things took; without, equal reports give equal dicts.
        """
        return report_to_dict(self, timings=timings)

    def to_html(self) -> str:
        """Return a page with words, picture and tables, as one file that needs nothing else."""
        return report_to_html(self)
