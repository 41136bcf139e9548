"""All settings of a monitor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from driftbn.config import Knowledge, LearnerConfig, check_number, choice
from driftbn.decision.settings import DecisionConfig
from driftbn.errors import ConfigError
from driftbn.schema import Schema, SchemaConfig
from driftbn.window_config import WindowConfig


class ErrorPolicy(StrEnum):
    """What becomes of a batch in which a record cannot be read."""

    REJECT_BATCH = "reject_batch"
    """It is refused as a whole with an error; nothing of it is taken in."""
    REJECT_ROWS = "reject_rows"
    """The records that cannot be read are left out and counted."""


@dataclass(frozen=True)
class MonitorConfig:
    """All settings of a monitor; each has a default.

    Parameters
    ----------
    window
        Rows of a window, or how to cut windows in full.
    alpha, windows_between_false_alarms
        Short for the settings of the same name in ``decision``; given there or here.
    learner, decision, schema, knowledge
        How graphs are learned, windows judged, columns read, and what is known beforehand.
    variables
        A schema to use from the first record on; inferred from the first window if not given.
    target
        The field that matters: reports say whether a change touches it.
    time_column
        The column with event times, in seconds since the epoch or as timestamps. It is no
        variable. Time windows need it.
    audit_share
        Share of windows learned a second time from nothing, to compare with the warm start.
    on_error
        What becomes of records that cannot be read.

    Raises
    ------
    ConfigError
        If a value is not allowed.

    Examples
    --------
    >>> MonitorConfig(window=1000, windows_between_false_alarms=500).decision.level
    0.002
    """

    window: int | WindowConfig = field(default_factory=WindowConfig)
    alpha: float | None = None
    windows_between_false_alarms: float | None = None
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    decision: DecisionConfig = field(default_factory=DecisionConfig)
    schema: SchemaConfig = field(default_factory=SchemaConfig)
    knowledge: Knowledge = field(default_factory=Knowledge)
    variables: Schema | None = None
    target: str | None = None
    time_column: str | None = None
    audit_share: float = 0.0
    on_error: ErrorPolicy = ErrorPolicy.REJECT_BATCH

    def __post_init__(self) -> None:
        if not isinstance(self.window, WindowConfig):
            object.__setattr__(self, "window", WindowConfig(size=self.window))
        object.__setattr__(self, "on_error", choice(ErrorPolicy, "on_error", self.on_error))
        check_number("audit_share", self.audit_share, "a number from 0 to 1", 0.0, 1.0)
        self._take_short_forms()
        if self.windows.seconds is not None and self.time_column is None:
            raise ConfigError("time_column", None, "the column with event times for time windows")

    def _take_short_forms(self) -> None:
        for name in ("alpha", "windows_between_false_alarms"):
            value, there = getattr(self, name), getattr(self.decision, name)
            if value is None:
                continue
            if there not in (None, value):
                raise ConfigError(name, value, f"{there!r}, as in decision, or left out")
            object.__setattr__(self, "decision", replace(self.decision, **{name: value}))

    @property
    def windows(self) -> WindowConfig:
        """How the stream is cut."""
        assert isinstance(self.window, WindowConfig)
        return self.window
