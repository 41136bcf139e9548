"""How a stream is cut into windows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from driftbn.config import check_integer, check_number, choice
from driftbn.errors import ConfigError

DEFAULT_SIZE: Final = 5000
"""Rows of a window by default; the false-alarm rates of the drift decision are stated for it."""
DEFAULT_MAX_ROWS: Final = 10 * DEFAULT_SIZE
"""Most rows of a time window by default: a burst of traffic must not fill the memory."""


class WindowMode(StrEnum):
    """What ends a window; it follows from the settings that are given."""

    ROWS = "rows"
    """Every ``size`` rows, without overlap: neither ``step`` nor ``seconds`` is given."""
    SLIDING = "sliding"
    """The last ``size`` rows, every ``step`` rows: ``step`` is given."""
    TIME = "time"
    """Event time passes a multiple of ``seconds``: only ``seconds`` is given."""
    ROWS_OR_TIME = "rows_or_time"
    """``size`` rows or event time, whichever comes first: ``size`` and ``seconds`` are given."""


class LatePolicy(StrEnum):
    """What becomes of a row whose time window has been closed; it is counted in either case."""

    COUNT = "count"
    """It is in no window."""
    CURRENT = "current"
    """It joins the oldest time window that is still open."""


@dataclass(frozen=True)
class WindowConfig:
    """How a stream is cut into windows.

    The mode is not set but follows from ``size``, ``step`` and ``seconds``; see ``WindowMode``.
    A setting that the mode does not read must be left alone.

    Parameters
    ----------
    size
        Rows of a window. Without ``seconds`` it is 5000 unless given; with ``seconds`` it ends a
        window early.
    step
        Rows from one sliding window to the next, from 1 to ``size``.
    seconds
        Length of a time window. Its limits are whole multiples of it, counted from ``origin``.
    origin
        Event time, in seconds since the epoch, at which one time window begins.
    lateness_seconds
        A time window is closed when a row arrives that is this much later than its end.
    max_rows
        A time window that has this many rows is closed early. 50,000 unless given; where there is
        a ``size``, it is that.
    min_rows
        A time window with fewer rows is merged with the one after it.
    late
        What becomes of rows whose window has been closed.

    Raises
    ------
    ConfigError
        If a setting is out of range or contradicts another one.

    Examples
    --------
    >>> WindowConfig().mode, WindowConfig().size
    (<WindowMode.ROWS: 'rows'>, 5000)
    >>> hourly = WindowConfig(seconds=3600, lateness_seconds=60, min_rows=500)
    >>> hourly.mode, hourly.row_limit, hourly.capacity
    (<WindowMode.TIME: 'time'>, 50000, 100000)
    """

    size: int | None = None
    step: int | None = None
    seconds: float | None = None
    origin: float = 0.0
    lateness_seconds: float = 0.0
    max_rows: int | None = None
    min_rows: int = 1
    late: LatePolicy = LatePolicy.COUNT

    def __post_init__(self) -> None:
        if self.size is None and self.seconds is None:
            object.__setattr__(self, "size", DEFAULT_SIZE)
        object.__setattr__(self, "late", choice(LatePolicy, "late", self.late))
        self._check_rows()
        self._check_times()
        self._check_agreement()

    def _check_rows(self) -> None:
        if self.size is not None:
            check_integer("size", self.size, 1)
        if self.max_rows is not None:
            check_integer("max_rows", self.max_rows, 1)
        if self.max_rows is not None and self.size not in (None, self.max_rows):
            raise ConfigError("max_rows", self.max_rows, f"None or the size, {self.size}")
        if self.step is not None and self.seconds is not None:
            raise ConfigError("step", self.step, "None where seconds is given")
        if self.step is not None:
            check_integer("step", self.step, 1, self.size)
        check_integer("min_rows", self.min_rows, 1, self.row_limit)

    def _check_times(self) -> None:
        largest = math.inf
        if self.seconds is not None:
            allowed = "a positive number of seconds or None"
            check_number("seconds", self.seconds, allowed, 0.0, largest, open_ends=True)
        check_number(
            "origin", self.origin, "a finite number of seconds", -largest, largest, open_ends=True
        )
        allowed = "a finite number of seconds from 0"
        check_number("lateness_seconds", self.lateness_seconds, allowed, 0.0, largest)
        if self.lateness_seconds == largest:
            raise ConfigError("lateness_seconds", self.lateness_seconds, allowed)

    def _check_agreement(self) -> None:
        if self.seconds is not None:
            return
        neutral = {"origin": 0.0, "lateness_seconds": 0.0, "min_rows": 1, "late": LatePolicy.COUNT}
        for name, value in neutral.items():
            if getattr(self, name) != value:
                allowed = f"left at {value!r} where seconds is not given"
                raise ConfigError(name, getattr(self, name), allowed)

    @property
    def mode(self) -> WindowMode:
        """What ends a window."""
        if self.seconds is not None:
            return WindowMode.TIME if self.size is None else WindowMode.ROWS_OR_TIME
        return WindowMode.ROWS if self.step is None else WindowMode.SLIDING

    @property
    def row_limit(self) -> int:
        """The most rows that a window has: ``size``, else ``max_rows``, else 50,000."""
        if self.size is not None:
            return self.size
        return DEFAULT_MAX_ROWS if self.max_rows is None else self.max_rows

    @property
    def capacity(self) -> int:
        """The most rows that a buffer holds.

        It is ``row_limit``, and twice that if there is a lateness: one full window and as many
        rows of the windows after it, which fill while the first waits for rows that are late.
        """
        return self.row_limit * (1 if self.lateness_seconds == 0 else 2)
