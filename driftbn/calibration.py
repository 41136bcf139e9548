"""How far a monitor can be trusted on its stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from driftbn.config import check_number
from driftbn.decision.decider import CountDecider
from driftbn.intervals import wilson_interval

LARGE_EFFECT = 20.0  # above, there are too few independent rows in a window of usual size


@dataclass(frozen=True)
class VisibleChange:
    """The smallest change of one pair of fields that a window shows in nine of ten cases.

    Parameters
    ----------
    source, target
        The fields, smaller name first.
    nats
        The change; infinite if no test is possible.
    """

    source: str
    target: str
    nats: float


@dataclass(frozen=True)
class CalibrationReport:
    """How far a monitor can be trusted on its stream.

    Parameters
    ----------
    window_rows
        Rows of a window.
    reference_windows
        Windows in the reference.
    alpha
        Share of stationary windows that may be called drift.
    design_effects
        By field, how much more its counts vary than those of independent rows, in the last window.
    shadow_windows, shadow_alarms
        Windows dealt out anew, so that nothing can have changed, and those called drift.
    visible
        For every pair of fields the smallest change that one window shows, worst first.
    wanted
        The change that should be seen, in nats.
    """

    window_rows: int
    reference_windows: int
    alpha: float
    design_effects: tuple[tuple[str, float], ...]
    shadow_windows: int
    shadow_alarms: int
    visible: tuple[VisibleChange, ...]
    wanted: float

    @property
    def largest_design_effect(self) -> float:
        """The largest design effect of any field."""
        return max((effect for _, effect in self.design_effects), default=1.0)

    @property
    def false_alarm_rate(self) -> float | None:
        """Share of the shadow windows called drift; ``None`` before the first."""
        return self.shadow_alarms / self.shadow_windows if self.shadow_windows else None

    @property
    def false_alarm_interval(self) -> tuple[float, float]:
        """95 % interval of that share."""
        return wilson_interval(self.shadow_alarms, self.shadow_windows)

    def visible_to(self, share: float) -> float:
        """Return the change that is seen in this share of the pairs.

        Examples
        --------
        >>> pairs = tuple(VisibleChange("a", str(i), i / 100) for i in range(4, 0, -1))
        >>> CalibrationReport(500, 8, 0.01, (), 0, 0, pairs, 0.01).visible_to(0.5)
        0.02
        """
        rising = sorted(change.nats for change in self.visible)
        if not rising:
            return math.inf
        return rising[max(0, math.ceil(share * len(rising)) - 1)]

    def recommended_rows(self, share: float = 0.9) -> int | None:
        """Return the rows of a window that shows the wanted change in this share of the pairs.

        What is visible falls as one over the rows, with the same number of windows in the
        reference. ``None`` if no window does.
        """
        now = self.visible_to(share)
        if not math.isfinite(now):
            return None
        return max(1, math.ceil(self.window_rows * now / self.wanted))

    @property
    def advice(self) -> tuple[str, ...]:
        """What to change, in plain words; empty if nothing."""
        found = []
        if self.largest_design_effect > LARGE_EFFECT:
            effect = self.largest_design_effect
            found.append(
                f"Neighbouring records repeat each other up to {effect:.0f} times; "
                "use larger windows."
            )
        if self.shadow_windows and self.false_alarm_interval[0] > self.alpha:
            found.append(
                f"False alarms come more often than the {self.alpha:g} asked for; "
                "lower alpha or use larger windows."
            )
        rows = self.recommended_rows() if self.visible else self.window_rows
        if rows is None:
            found.append("Some pairs of fields cannot be tested at any window size.")
        elif rows > self.window_rows:
            found.append(
                f"To see a change of {self.wanted:g} nats in nine of ten pairs, "
                f"use windows of {rows} records."
            )
        return tuple(found)


def calibrate(
    decider: CountDecider, names: Sequence[str], alpha: float, wanted: float
) -> CalibrationReport:
    """Say how far a decider can be trusted on what it has seen.

    Parameters
    ----------
    decider
        The one that is asked.
    names
        Of the fields, in their order.
    alpha
        Share of stationary windows that it may call drift.
    wanted
        The change that should be seen, in nats.

    Raises
    ------
    ConfigError
        If ``wanted`` is not above 0.
    """
    check_number("wanted", wanted, "a number of nats above 0", 0.0, math.inf, open_ends=True)
    regime = decider.regime
    return CalibrationReport(
        window_rows=0 if regime is None else regime.windows[-1].shape[1],
        reference_windows=0 if regime is None else len(regime.windows),
        alpha=alpha,
        design_effects=tuple(zip(names, decider.effects.tolist(), strict=False)),
        shadow_windows=decider.shadow.n_windows,
        shadow_alarms=decider.shadow.n_alarms,
        visible=tuple(
            VisibleChange(pair.source, pair.target, pair.visible_change)
            for pair in decider.visible()
        ),
        wanted=wanted,
    )
