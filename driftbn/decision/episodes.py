"""Episodes: one for each change, however many windows it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from driftbn.decision.outcome import DriftDecision, EpisodeEvent

QUIET_WINDOWS = 2  # without drift, after which an episode has ended


@dataclass
class Episodes:
    """Numbers episodes and says what each window means for the present one.

    Parameters
    ----------
    count
        Episodes so far.
    number, since
        The present episode and the window in which it began; ``None`` outside of any.
    n_quiet
        Windows without drift since its last one.
    """

    count: int = 0
    number: int | None = None
    since: int | None = None
    n_quiet: int = 0

    def alarm(self, index: int, decision: DriftDecision) -> DriftDecision:
        """Start an episode, or go on with the present one."""
        self.n_quiet = 0
        if self.number is not None:
            return self._part(decision, EpisodeEvent.UPDATED)
        self.number, self.since = self.count, index
        self.count += 1
        return self._part(decision, EpisodeEvent.STARTED)

    def settle(self, decision: DriftDecision) -> DriftDecision:
        """Go on with the present episode by the window after an alarm."""
        return self._part(decision, EpisodeEvent.UPDATED)

    def quiet(self, decision: DriftDecision) -> DriftDecision:
        """Take a window without drift; the second one in a row ends the episode."""
        if self.number is None:
            return decision
        self.n_quiet += 1
        if self.n_quiet < QUIET_WINDOWS:
            return self.go_on(decision)
        decision = self._part(decision, EpisodeEvent.ENDED)
        self.close()
        return decision

    def go_on(self, decision: DriftDecision) -> DriftDecision:
        """Take a window that says nothing of the present episode."""
        return self._part(decision, None)

    def close(self) -> None:
        """End the present episode without a word."""
        self.number = self.since = None
        self.n_quiet = 0

    def _part(self, decision: DriftDecision, event: EpisodeEvent | None) -> DriftDecision:
        return replace(decision, episode=self.number, episode_event=event, since=self.since)
