"""How a window is judged."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from driftbn.config import check_integer, check_number
from driftbn.errors import ConfigError

USUAL_SCALES = (1, 3, 6)  # 3 shows weak changes within three windows, 6 slow ones


@dataclass(frozen=True)
class DecisionConfig:
    """How a window is judged.

    Parameters
    ----------
    alpha
        Share of stationary windows that may be called drift. 0.01 unless
        ``windows_between_false_alarms`` is given.
    windows_between_false_alarms
        The same as a mean distance, 1 / alpha; only one of the two is given.
    min_effect
        A significant change smaller than this, in nats, is reported and not alarmed.
    scales
        How many of the newest windows are put together to see small changes; 1, 3 and 6 unless
        given, as far as the reference has so many.
    reference_windows
        Windows of a full reference.
    archived_regimes
        Earlier regimes that are remembered.
    quiet_returns
        Whether a window that a remembered regime explains is no alarm: the stream goes on from
        there. For streams with day and night, with windows that begin and end where these do.
    reference_alpha
        Level of the independence tests on the windows of the reference taken together.
    dependent_rows
        Whether dependence between neighbouring rows is taken out of tests that reject.
    shadow_share
        Share of the windows that are also judged with their rows dealt out anew, to measure the
        rate of false alarms.

    Raises
    ------
    ConfigError
        If a value is not allowed.

    Examples
    --------
    >>> DecisionConfig(windows_between_false_alarms=1000).level
    0.001
    """

    alpha: float | None = None
    windows_between_false_alarms: float | None = None
    min_effect: float = 0.0
    scales: tuple[int, ...] = ()
    reference_windows: int = 8
    archived_regimes: int = 4
    quiet_returns: bool = False
    reference_alpha: float = 0.001
    dependent_rows: bool = True
    shadow_share: float = 0.05

    def __post_init__(self) -> None:
        allowed = "a number between 0 and 1"
        if self.alpha is not None:
            check_number("alpha", self.alpha, allowed, 0.0, 1.0, open_ends=True)
        between = self.windows_between_false_alarms
        if between is not None:
            if self.alpha is not None:
                rule = "None where alpha is given"
                raise ConfigError("windows_between_false_alarms", between, rule)
            check_number(
                "windows_between_false_alarms",
                between,
                "more than 1",
                1.0,
                math.inf,
                open_ends=True,
            )
        largest = sys.float_info.max
        check_number("min_effect", self.min_effect, "0 or more nats, finite", 0.0, largest)
        check_number("reference_alpha", self.reference_alpha, allowed, 0.0, 1.0, open_ends=True)
        check_number("shadow_share", self.shadow_share, "a number from 0 to 1", 0.0, 1.0)
        check_integer("reference_windows", self.reference_windows, 1, 64)
        check_integer("archived_regimes", self.archived_regimes, 0, 64)
        self._check_scales()

    def _check_scales(self) -> None:
        usual = [scale for scale in USUAL_SCALES if scale <= self.reference_windows]
        object.__setattr__(self, "scales", tuple(self.scales or usual))
        for scale in self.scales:
            check_integer("scales", scale, 1, self.reference_windows)
        if not self.scales or list(self.scales) != sorted(set(self.scales)):
            raise ConfigError("scales", self.scales, "rising numbers of windows")

    @property
    def level(self) -> float:
        """The share of stationary windows that may be called drift."""
        if self.windows_between_false_alarms is not None:
            return 1.0 / self.windows_between_false_alarms
        return 0.01 if self.alpha is None else self.alpha
