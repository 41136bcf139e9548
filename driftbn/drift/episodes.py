"""Episodes: one for each change, however many windows it takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from driftbn.drift.outcome import DriftDecision, EpisodeEvent

QUIET_WINDOWS = 4  # without drift, after which an episode has ended
SURELY_THE_SAME = 2  # with fewer quiet windows before it, an alarm is due to the same change

Changed = tuple[tuple[str, ...], ...]  # fields, and pairs of them


@dataclass
class Episodes:
    """Numbers episodes and says what each window means for the present one.

    A slow change raises several alarms, with quiet windows between. An alarm after some of them
    continues the episode if it names the same; otherwise it starts another, and the one before it
    is over.

    ``number``, ``since``: the present episode and the window in which it began; ``None`` outside of
    any. ``n_quiet``: windows without drift since its last one.
    """

    count: int = 0
    number: int | None = None
    since: int | None = None
    n_quiet: int = 0
    changed: Changed = ()

    def __post_init__(self) -> None:
        self.changed = tuple(tuple(fields) for fields in self.changed)  # JSON has lists only

    @property
    def in_doubt(self) -> bool:
        """Whether an alarm now may be due to another change than that of the present episode."""
        return self.number is not None and self.n_quiet >= SURELY_THE_SAME

    def alarm(self, index: int, decision: DriftDecision, *, back: bool = False) -> DriftDecision:
        """Start an episode, or continue the present one unless things are ``back`` as before."""
        changed = _changed_fields(decision)
        if self.in_doubt and (back or not _overlap(changed, self.changed)):
            self.close()
        self.n_quiet = 0
        self.changed = changed
        if self.number is not None:
            return self._stamped(decision, EpisodeEvent.UPDATED)
        self.number, self.since = self.count, index
        self.count += 1
        return self._stamped(decision, EpisodeEvent.STARTED)

    def settle(self, decision: DriftDecision) -> DriftDecision:
        """Continue the present episode with the window after an alarm."""
        self.changed += _changed_fields(decision)
        return self._stamped(decision, EpisodeEvent.UPDATED)

    def quiet(self, decision: DriftDecision) -> DriftDecision:
        """Count a window without drift; the last of several in a row ends the episode."""
        if self.number is None:
            return decision
        self.n_quiet += 1
        if self.n_quiet < QUIET_WINDOWS:
            return self.carry_on(decision)
        decision = self._stamped(decision, EpisodeEvent.ENDED)
        self.close()
        return decision

    def carry_on(self, decision: DriftDecision) -> DriftDecision:
        """Leave the present episode as it is, by a window that says nothing of it."""
        return self._stamped(decision, None)

    def close(self) -> None:
        self.number = self.since = None
        self.n_quiet = 0
        self.changed = ()

    def _stamped(self, decision: DriftDecision, event: EpisodeEvent | None) -> DriftDecision:
        return replace(decision, episode=self.number, episode_event=event, since=self.since)


def _changed_fields(decision: DriftDecision) -> Changed:
    """Return the fields and pairs that a decision names, or if none those whose tests reject."""
    found: Iterable[tuple[str, ...]] = (
        *((change.name,) for change in decision.node_changes),
        *(edge.pair for edge in decision.edges),
    )
    rejecting = (r.fields for r in decision.families if r.p_value <= decision.alpha)
    return tuple(found) or tuple(rejecting)


def _overlap(some: Changed, others: Changed) -> bool:
    sets = [set(fields) for fields in others]
    return any(here >= there or here <= there for here in map(set, some) for there in sets)
