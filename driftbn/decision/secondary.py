"""Deciders on the series of Hamming distances: River's detectors and a fixed threshold."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any, Final

from driftbn.config import check_number
from driftbn.errors import ConfigError, DataError, FormatError, MissingExtraError

MAX_HISTORY: Final = 4096
"""Distances since the last drift that are kept; of more, the older half is forgotten."""

_VERSION: Final = 1
_KSWIN_SEED: Final = 1
"""KSWIN draws the older values that it compares with; the draws have to repeat."""
_RULES: Final = ("adwin", "page_hinkley", "kswin", "threshold")


class HammingDecider:
    """Says for each Hamming distance of a series whether it means drift.

    After a drift it starts afresh, as River's detectors do. So the distances since then are all
    there is to store: from them the detector is built again, and goes on in the same way.

    Parameters
    ----------
    rule
        ``adwin``, ``page_hinkley``, ``kswin`` or ``threshold``.
    threshold
        For the rule of that name: the largest distance that is no drift. Otherwise ``None``.
    alpha
        ADWIN's ``delta`` and KSWIN's ``alpha``. Page-Hinkley has no such number. ADWIN looks at
        every value, not at each 32nd: a value is a whole window. All else is as River has it.

    Raises
    ------
    ConfigError
        If a value is not allowed.
    MissingExtraError
        If River is needed and not installed.

    Examples
    --------
    >>> decider = HammingDecider("threshold", threshold=5, alpha=0.01)
    >>> [decider.update(index, hamming) for index, hamming in enumerate([2, 5, 6, 0])]
    [False, False, True, False]
    >>> decider.last_drift
    2
    """

    def __init__(self, rule: str, threshold: float | None, alpha: float) -> None:
        if rule not in _RULES:
            raise ConfigError("rule", rule, "one of " + ", ".join(map(repr, _RULES)))
        if (rule == "threshold") != (threshold is not None):
            allowed = f"given exactly where rule is 'threshold'; rule is {str(rule)!r}"
            raise ConfigError("threshold", threshold, allowed)
        if threshold is not None:
            check_number("threshold", threshold, "a number from 0", 0.0, math.inf)
        check_number("alpha", alpha, "a number between 0 and 1", 0.0, 1.0, open_ends=True)
        self.rule = str(rule)
        self.threshold = threshold
        self.alpha = alpha
        self._last_drift: int | None = None
        self._restart([])

    def _restart(self, history: list[float]) -> None:
        self._history = history
        self._detector = _make_detector(self.rule, self.threshold, self.alpha)
        for hamming in history:
            self._detector.update(hamming)

    @property
    def last_drift(self) -> int | None:
        """The number of the newest window that meant drift; ``None`` if none did."""
        return self._last_drift

    def update(self, index: int, hamming: float) -> bool:
        """Take in the distance of one window and return whether it means drift.

        Parameters
        ----------
        index
            Number of the window.
        hamming
            Its distance from the window before, 0 or more.

        Raises
        ------
        DataError
            If the distance is negative or not finite.
        """
        value = float(hamming)
        if not 0 <= value < math.inf:
            problem = f"Hamming distance {hamming!r} of window {index}: it must be 0 or more"
            raise DataError(problem, value=hamming)
        self._detector.update(value)
        if self._detector.drift_detected:
            self._last_drift = index
            self._restart([])
            return True
        if self.threshold is None:
            self._history.append(value)
        if len(self._history) > MAX_HISTORY:
            self._restart(self._history[-MAX_HISTORY // 2 :])
        return False

    def state(self) -> dict[str, Any]:
        """Return all that a later ``from_state`` needs, as plain values."""
        return {
            "version": _VERSION,
            "rule": self.rule,
            "threshold": self.threshold,
            "alpha": self.alpha,
            "last_drift": self._last_drift,
            "history": list(self._history),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> HammingDecider:
        """Return a decider that goes on where the one that gave ``state`` stood.

        Raises
        ------
        FormatError
            If it is something else or of another version.
        MissingExtraError
            If River is needed and not installed.
        """
        if state.get("version") != _VERSION:
            found = state.get("version")
            raise FormatError(f"decider state version is {found!r}: it must be {_VERSION}")
        history, last_drift = state.get("history"), state.get("last_drift")
        if not isinstance(history, list) or not all(map(_is_distance, history)):
            raise FormatError(f"decider state 'history' is {history!r}: it must be distances")
        if last_drift is not None and type(last_drift) is not int:
            raise FormatError(f"decider state 'last_drift' is {last_drift!r}: a number or None")
        try:
            decider = cls(state["rule"], state["threshold"], state["alpha"])
        except (KeyError, ConfigError) as error:
            raise FormatError(f"decider state is not valid: {error}") from error
        decider._last_drift = last_drift
        decider._restart(list(history))
        return decider


def make_secondary(rule: str, threshold: float | None, alpha: float) -> HammingDecider:
    """Return the decider of a rule on Hamming distances; see ``HammingDecider``.

    Raises
    ------
    ConfigError
        If the rule is another one, such as ``counts``, or a value is not allowed.
    MissingExtraError
        If River is needed and not installed.

    Examples
    --------
    >>> make_secondary("threshold", 3, 0.01).update(0, 4)
    True
    """
    return HammingDecider(rule, threshold, alpha)


class _Above:
    """A detector that remembers nothing, in the form of River's."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.drift_detected = False

    def update(self, value: float) -> None:
        self.drift_detected = value > self.threshold


def _make_detector(rule: str, threshold: float | None, alpha: float) -> Any:
    if threshold is not None:
        return _Above(threshold)
    try:
        drift = importlib.import_module("river.drift")
    except ImportError as error:
        raise MissingExtraError(f"the decision rule {rule!r}", "river") from error
    if rule == "adwin":
        return drift.ADWIN(delta=alpha, clock=1)
    if rule == "kswin":
        return drift.KSWIN(alpha=alpha, seed=_KSWIN_SEED)
    return drift.PageHinkley()


def _is_distance(value: object) -> bool:
    return isinstance(value, float) and 0 <= value < math.inf
