"""Decisions of a secondary rule, which says that there is drift but not in what."""

from __future__ import annotations

from dataclasses import replace

from driftbn.decision.episodes import Episodes
from driftbn.decision.outcome import DriftDecision, DriftLevel


def secondary_decision(
    decision: DriftDecision, index: int, episodes: Episodes, *, drift: bool
) -> DriftDecision:
    """Return what a secondary rule says of a window, in the place of the decision by counts.

    Parameters
    ----------
    decision
        The decision by counts; what it found is left out.
    index
        Running number of the window.
    episodes
        Those of the secondary rule; they go on by this window.
    drift
        Whether the rule says so.
    """
    plain = replace(
        decision,
        level=DriftLevel.DRIFT if drift else DriftLevel.STABLE,
        kind=None,
        scale=None,
        edges=(),
        node_changes=(),
        effect=0.0,
        episode=None,
        episode_event=None,
        since=None,
        recurring=False,
        reason=None,
    )
    return episodes.alarm(index, plain) if drift else episodes.quiet(plain)
