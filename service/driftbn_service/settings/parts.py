"""The parts of a monitor's settings: windows, learner, decision, schema and knowledge.

Each mirrors a class of the library, with what a stream may want to set. What a value may be is
said here too, so that all mistakes are told at once and an editor can see them; the library has
the last word.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from driftbn.config import (
    MAX_CONDITIONING_LIMIT,
    ColliderRule,
    Knowledge,
    LearnerConfig,
    Statistic,
    WarmStart,
)
from driftbn.decision.settings import DecisionConfig
from driftbn.schema_config import MissingPolicy, SchemaConfig
from driftbn.variables import MAX_LEVELS
from driftbn.window_config import LatePolicy, WindowConfig
from driftbn_service.settings.base import Count, Flag, Level, Number, Seconds, Section, Share, Text

Edge: TypeAlias = tuple[Text, Text]


def _integer(low: int, high: int) -> Any:
    return Field(strict=True, ge=low, le=high)


class WindowSettings(Section):
    """How a stream is cut into windows."""

    size: Count | None = None
    """Rows of a window; 5000 where neither it nor ``seconds`` is given."""
    step: Count | None = None
    """Rows from one sliding window to the next; windows do not overlap unless given."""
    seconds: Seconds | None = None
    """Length of a time window; needs ``time_column``."""
    origin: Number = 0.0
    """Event time, in seconds since the epoch, at which one time window begins."""
    lateness_seconds: Annotated[Number, Field(ge=0)] = 0.0
    """A time window is closed when a row arrives that is this much later than its end."""
    max_rows: Count | None = None
    """A time window that has this many rows is closed early; 50,000 unless given."""
    min_rows: Count = 1
    """A time window with fewer rows is merged with the one after it."""
    late: LatePolicy = LatePolicy.COUNT
    """Rows whose window is closed: ``count`` leaves them out, ``current`` puts them into the
    oldest open one."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.config()
        return self

    def config(self) -> WindowConfig:
        """Return them as the library takes them."""
        return WindowConfig(**dict(self))


class LearnerSettings(Section):
    """How a structure is learned."""

    algorithm: Literal["ssbn", "fsbn", "pc"] = "ssbn"
    """The search: ``ssbn``, ``fsbn`` or ``pc``."""
    alpha: Level = 0.01
    """Level of the independence tests."""
    statistic: Statistic = Statistic.CHI_SQUARE
    """The test: ``chi-square`` or ``g``."""
    max_conditioning: Annotated[int, _integer(0, MAX_CONDITIONING_LIMIT)] = 3
    """Largest conditioning set."""
    collider_rule: ColliderRule = ColliderRule.CONTRAST
    """How colliders are told: ``contrast``, ``majority``, ``standard`` or ``max-p``."""
    warm: WarmStart = WarmStart.TALLIES_AND_SEPARATORS
    """What is taken over from an earlier structure: ``tallies+separators``, ``tallies`` or
    ``none``."""
    deadline_seconds: Seconds | None = None
    """When to stop with a degraded answer; never unless given. A clock decides, so that reports
    may differ from run to run."""
    max_tests: Count | None = None
    """After how many tests to stop with a degraded answer; never unless given."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.config()
        return self

    def config(self) -> LearnerConfig:
        """Return them as the library takes them."""
        return LearnerConfig(**dict(self))


class DecisionSettings(Section):
    """How a window is judged."""

    alpha: Level | None = None
    """Share of stationary windows that may be called drift; 0.01 unless it or
    ``windows_between_false_alarms`` is given."""
    windows_between_false_alarms: Annotated[Number, Field(gt=1)] | None = None
    """The same as a mean distance."""
    min_effect: Annotated[Number, Field(ge=0)] = 0.0
    """A significant change smaller than this, in nats, is reported and not alarmed."""
    scales: tuple[Count, ...] = ()
    """How many of the newest windows are put together to see small changes; 1, 3 and 6 unless
    given."""
    reference_windows: Annotated[int, _integer(1, 64)] = 8
    """Windows of a full reference."""
    archived_regimes: Annotated[int, _integer(0, 64)] = 4
    """Earlier regimes that are remembered."""
    quiet_returns: Flag = False
    """Whether a window that a remembered regime explains is no alarm: for streams with day and
    night, with windows that begin and end where these do."""
    reference_alpha: Level = 0.001
    """Level of the independence tests on the windows of the reference taken together."""
    dependent_rows: Flag = True
    """Whether dependence between neighbouring rows is taken out of tests that reject."""
    shadow_share: Share = 0.05
    """Share of the windows that are also judged with their rows dealt out anew, to measure the
    rate of false alarms."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.config()
        return self

    def config(self) -> DecisionConfig:
        """Return them as the library takes them."""
        return DecisionConfig(**dict(self))


class SchemaSettings(Section):
    """How variables are inferred from the first window."""

    max_levels: Annotated[int, _integer(2, MAX_LEVELS)] = 32
    """Levels kept per variable, the most frequent first."""
    numeric_bins: Annotated[int, _integer(2, MAX_LEVELS)] = 4
    """Quantile bins of a numeric variable."""
    integer_levels: Annotated[int, _integer(0, MAX_LEVELS)] = 16
    """A column of whole numbers with at most this many distinct ones has a level for each."""
    missing: MissingPolicy = MissingPolicy.LEVEL
    """Missing values: ``level`` makes them one of their own, ``reject`` leaves the record out."""
    id_like_ratio: Annotated[float, Field(strict=True, gt=0, le=1)] = 0.95
    """A column with a larger share of distinct values is left out; 1 keeps all."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.config()
        return self

    def config(self) -> SchemaConfig:
        """Return them as the library takes them."""
        return SchemaConfig(**dict(self))


class KnowledgeSettings(Section):
    """What an expert knows of the edges before any data is seen."""

    required: tuple[Edge, ...] = ()
    """Edges ``["source", "target"]`` that are there."""
    forbidden: tuple[Edge, ...] = ()
    """Directions ``["source", "target"]`` that are not possible."""
    tiers: tuple[tuple[Text, ...], ...] = ()
    """Groups of names from causes to effects: no edge points from a later group to an earlier."""

    def config(self) -> Knowledge:
        """Return it as the library takes it."""
        return Knowledge(**dict(self))
