"""What a decision says: the level, the kind, the edges and nodes, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from driftbn.codec import INFINITE
from driftbn.config import DriftKind
from driftbn.drift.facts import Fact
from driftbn.graphs.graph import Edge

TOO_FEW_ROWS = "there are too few records for any test"


class DriftLevel(StrEnum):
    """What the decision on one window comes to."""

    LEARNING = "learning"
    """There is nothing yet to compare with."""
    STABLE = "stable"
    """No test rejects."""
    NEGLIGIBLE = "negligible"
    """A change is significant and smaller than ``min_effect``."""
    NOTICE = "notice"
    """A change is of no kind in ``alarm_on``."""
    DRIFT = "drift"
    """The window differs from the reference."""
    SETTLING = "settling"
    """The window after a drift: it refines the naming and starts the new reference."""
    UNDECIDED = "undecided"
    """The window cannot be judged, for the reason given."""


class Severity(StrEnum):
    """How much an alarm matters, the most first."""

    ALERT = "alert"
    """Something is broken or works in another way: look now."""
    WARNING = "warning"
    """Models built on earlier records may be wrong: look today."""
    NOTICE = "notice"
    """The stream has moved on: nobody need be woken."""


SEVERITIES = {
    DriftKind.DATA: Severity.ALERT,
    DriftKind.STRUCTURAL: Severity.ALERT,
    DriftKind.ASSOCIATION: Severity.ALERT,
    DriftKind.MECHANISM: Severity.WARNING,
    DriftKind.MARGINAL: Severity.NOTICE,
}
"""Of a change of usual size; a weak one is a step less severe, a very strong one a step more."""
WEAK_EFFECT, VERY_STRONG_EFFECT = 0.01, 0.3  # nats: below, and from here on


class ChangeType(StrEnum):
    """What has happened to an edge."""

    ADDED = "added"
    REMOVED = "removed"
    REVERSED = "reversed"


class Family(StrEnum):
    MECHANISM = "mechanism"
    """One test for each field: its values given its parents."""
    ASSOCIATION = "association"
    """One or two tests for each pair of fields: their association given the parents of an end."""


class EpisodeEvent(StrEnum):
    STARTED = "started"
    """A change was found. An episode that was open is over: this one is another change."""
    UPDATED = "updated"
    """More is known of the change, or it continues."""
    ENDED = "ended"
    """Nothing has changed any further for some windows."""


@dataclass(frozen=True)
class Association:
    """How strongly two fields are associated, in nats, with a 95 % interval.

    Parameters
    ----------
    nats
        Conditional mutual information, corrected for the bias of small samples; not below 0.
    low, high
        Limits of the interval.
    """

    nats: float
    low: float
    high: float


@dataclass(frozen=True)
class EdgeChange:
    """A change of one edge, confirmed by a test.

    Parameters
    ----------
    source, target
        The edge: as it points now if it was added or reversed, as it pointed if it was removed.
        If the data do not show the direction, the smaller name comes first.
    change
        What happened to it.
    p_value
        Of the test that confirmed it, corrected for all tests of its family (Bonferroni).
    before, after
        The association of the two fields in the reference and now, given ``given``.
    given
        The fields held fixed.
    directed
        Whether the data show the direction.
    """

    source: str
    target: str
    change: ChangeType
    p_value: float
    before: Association
    after: Association
    given: tuple[str, ...] = ()
    directed: bool = True

    @property
    def effect(self) -> float:
        """By how much the association grew or fell, in nats; all of it if the edge is reversed."""
        if self.change is ChangeType.REVERSED:
            return self.after.nats
        return abs(self.after.nats - self.before.nats)

    @property
    def pair(self) -> Edge:
        """The two fields, smaller name first."""
        return min(self.source, self.target), max(self.source, self.target)


@dataclass(frozen=True)
class NodeChange:
    """A field that follows its parents by another table than before.

    Parameters
    ----------
    name
        The field.
    parents
        The parents given which it was compared.
    p_value
        After Holm's correction.
    effect
        How far apart the two tables are, in nats per record.
    """

    name: str
    parents: tuple[str, ...]
    p_value: float
    effect: float


@dataclass(frozen=True)
class FamilyResult:
    """The strongest sign of change in one family of tests.

    ``p_value``: the smallest p-value, corrected for all tests of all families and scales.
    ``fields``: the field, or the pair of fields, of that test. ``scale``: how many windows were
    pooled in that test. ``design_effect``: the design effect that this test was corrected for; 1 if
    none.
    """

    family: Family
    p_value: float
    fields: tuple[str, ...]
    scale: int
    n_tests: int
    design_effect: float = field(default=1.0, metadata=INFINITE)


@dataclass(frozen=True)
class Wander:
    """A field that moves by itself: so many times as far as chance and bursts explain."""

    name: str
    factor: float


@dataclass(frozen=True)
class Travelled:
    """A field that no longer comes as in the baseline: how far its tables are apart, in nats."""

    name: str
    nats: float


@dataclass(frozen=True)
class UndecidedPair:
    """A pair of fields on which the window is too small to tell.

    ``source``, ``target``: the fields, smaller name first. ``visible_change``: the smallest change
    of their association, in nats, that this window size shows in nine of ten cases; infinite if
    there is no test at all.
    """

    source: str
    target: str
    visible_change: float = field(metadata=INFINITE)


@dataclass(frozen=True)
class DriftDecision:
    """The decision on one window.

    Parameters
    ----------
    level
        What it comes to.
    alpha
        The share of stationary windows that may be called drift.
    p_value
        Corrected for everything that was tested: a drift is ``p_value <= alpha``, or a fact. 1 if
        there was no test.
    facts
        What is plain to see of single fields and was never so before; the plainest first.
    families
        The strongest sign in each family.
    kind
        What has changed; ``None`` if nothing has.
    scale
        How many windows had to be pooled to see it; ``None`` if nothing was seen.
    edges, node_changes
        What could be named, strongest first.
    effect
        Size of the largest named change, in nats: by how much an association grew or fell, or how
        far two tables are apart. Of a change that could not be named, that of the clearest pair.
    min_effect
        What it has to reach to be an alarm.
    undecided
        Pairs without power, the worst first; at most ``MAX_UNDECIDED`` of ``n_undecided``.
    n_undecided
        How many there are.
    episode
        Number of the episode that the window belongs to; ``None`` outside of any.
    episode_event
        What the window means for that episode.
    since
        Number of the window in which the episode began.
    regime
        Number of the regime that the window belongs to or was compared with, from 0.
    recurring
        Whether an earlier regime has come back.
    design_effect
        The largest design effect among the fields of the window.
    wander
        Fields that move by themselves, as far as the windows so far show: the farthest first.
    given
        Fields that are not blamed: declared as given, or recognised as clocks or counters.
    distance
        How far the stream is from its baseline, its first regime or what was accepted last: nats
        per record, summed over all fields.
    max_distance
        How far it may be; ``None`` if there is no limit.
    travelled
        The fields that carry it, the farthest first; at most ``MAX_TRAVELLED``.
    reference_windows
        How many windows the reference held.
    reason
        Why the window is undecided: ``TOO_FEW_ROWS``, or type and message of the error that came
        up. ``None`` if it is not.
    """

    level: DriftLevel
    alpha: float
    p_value: float = 1.0
    families: tuple[FamilyResult, ...] = ()
    kind: DriftKind | None = None
    scale: int | None = None
    edges: tuple[EdgeChange, ...] = ()
    node_changes: tuple[NodeChange, ...] = ()
    effect: float = 0.0
    min_effect: float = 0.0
    undecided: tuple[UndecidedPair, ...] = ()
    n_undecided: int = 0
    episode: int | None = None
    episode_event: EpisodeEvent | None = None
    since: int | None = None
    regime: int = 0
    recurring: bool = False
    design_effect: float = field(default=1.0, metadata=INFINITE)
    facts: tuple[Fact, ...] = ()
    wander: tuple[Wander, ...] = ()
    given: tuple[str, ...] = ()
    distance: float = 0.0
    max_distance: float | None = None
    travelled: tuple[Travelled, ...] = ()
    reference_windows: int = 0
    reason: str | None = None

    @property
    def failed(self) -> bool:
        """Whether an error came up, so that nothing of the window was taken in."""
        return self.reason not in (None, TOO_FEW_ROWS)

    @property
    def drift(self) -> bool:
        """Whether this window raises an alarm."""
        return self.level is DriftLevel.DRIFT

    @property
    def calm(self) -> bool:
        """Whether the window was judged and raises no alarm."""
        return self.level in (DriftLevel.STABLE, DriftLevel.NEGLIGIBLE, DriftLevel.NOTICE)

    @property
    def severity(self) -> Severity | None:
        """How much the change matters, by its kind and size; ``None`` if there is none."""
        if self.kind is None:
            return None
        if self.calm:
            return Severity.NOTICE
        if self.facts:
            return Severity.ALERT
        steps = list(Severity)
        size = (self.effect < WEAK_EFFECT) - (self.effect >= VERY_STRONG_EFFECT)
        place = steps.index(SEVERITIES[self.kind]) + size
        return steps[min(max(place, 0), len(steps) - 1)]

    @property
    def settling(self) -> bool:
        """Whether this is the window after a drift."""
        return self.level is DriftLevel.SETTLING

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the fields whose own tables changed: by their tests, or by an edge to them."""
        found = [change.name for change in self.node_changes]
        found += [edge.target for edge in self.edges if edge.change is ChangeType.ADDED]
        return tuple(dict.fromkeys(found))

    @property
    def confirmed_hamming(self) -> int:
        """Number of confirmed changes of edges."""
        return len(self.edges)
