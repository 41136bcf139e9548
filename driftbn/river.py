"""The monitor as a drift detector of River, for loops that take one record at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftbn.config import DEFAULT_SIZE, MonitorConfig
from driftbn.errors import ConfigError, DataError, MissingExtraError
from driftbn.monitor import DriftMonitor
from driftbn.report import WindowReport

try:
    from river import base
except ImportError as error:
    raise MissingExtraError("driftbn.river", "river") from error


class StructuralDriftDetector(base.DriftDetector):
    """Detects changes of the relations between the fields of records.

    River's own detectors watch one number; this one watches whole records, as River hands them to
    models. Records are held until they complete a window and are then taken in together, so an
    update costs next to nothing except at the end of a window. Windows of event time are the
    exception: there each record is taken in by itself.

    ``window``: records of a window; only without ``config``.

    Raises ConfigError if both are given and disagree, or a setting is not allowed.

    >>> from driftbn import datasets
    >>> before = datasets.asia()
    >>> after = datasets.remove_edge(before, "smoke", "bronc").network
    >>> detector = StructuralDriftDetector(window=2000)
    >>> for network, seed in ((before, 1), (before, 2), (after, 3)):
    ...     for x in datasets.sample(network, 2000, seed).to_dict("records"):
    ...         detector.update(x)
    ...         if detector.drift_detected:
    ...             change = detector.last_report.decision.edges[0]
    ...             print(detector.last_report.index, change.change.value, change.pair)
    2 removed ('bronc', 'smoke')
    """

    def __init__(self, window: int = DEFAULT_SIZE, config: MonitorConfig | None = None) -> None:
        if config is not None and window not in (DEFAULT_SIZE, config.windows.size):
            raise ConfigError("window", window, "left out where config is given")
        super().__init__()
        self.window = window
        self.config = config
        self._reset()

    def _reset(self) -> None:
        super()._reset()
        self._monitor = DriftMonitor(self.config or MonitorConfig(window=self.window))
        self._held: list[dict[str, Any]] = []
        self._last_report: WindowReport | None = None
        self._n_wanted = self._n_missing()

    @property
    def last_report(self) -> WindowReport | None:
        """The report on the newest window; ``None`` before the first."""
        return self._last_report

    def update(self, x: Mapping[Any, Any]) -> None:  # type: ignore[override] # records, not numbers
        """Take in a record.

        ``drift_detected`` is true after the record that completes a window with an alarm, and
        false again after the next one.

        The record is copied.

        Raises DataError if ``x`` is no mapping, or if the window that it completes has a record
        that cannot be read. That record is forgotten, so that the next update goes on without it.
        With ``on_error="reject_rows"`` such records are left out without an error.
        """
        self._drift_detected = False
        if not isinstance(x, Mapping):
            raise DataError(f"a record must be a dict of fields, not {x!r}", value=x)
        self._held.append({str(name): value for name, value in x.items()})
        if len(self._held) >= self._n_wanted:
            self._take_held()

    def _take_held(self) -> None:
        try:
            reports = self._monitor.update(self._held)
        except DataError as error:
            self._forget(error.row)
            raise
        self._held = []
        if reports:
            self._last_report = reports[-1]
            self._drift_detected = any(report.decision.drift for report in reports)
        self._n_wanted = self._n_missing()

    def _forget(self, row: int | None) -> None:
        """Drop the record at fault; if it is not known, all that are held."""
        if row is None:
            self._held = []
        else:
            del self._held[row]

    def _n_missing(self) -> int:
        """Return how many records the next window takes."""
        windows = self._monitor.config.windows
        if windows.seconds is not None or windows.size is None:
            return 1
        begun = self._last_report is not None
        n_new = windows.step if begun and windows.step is not None else windows.size
        return n_new - self._monitor.n_pending
