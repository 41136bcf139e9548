"""Every setting of the library: one frozen class for each part, checked when it is made.

The type of a field says what is allowed, ``alpha: Level`` is a number between 0 and 1, and the
text below it says what it is for. The daemon's settings files, their JSON schema and the options
of the command line are derived from both. What is not allowed is a ``ConfigError``; all mistakes
are told at once. A part may also be a dict: ``MonitorConfig(learner={"algorithm": "pc"})``.
"""

from __future__ import annotations

import ast
import enum
import inspect
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from driftbn.errors import CombinedConfigError, ConfigError, UnknownSettingError

if TYPE_CHECKING:
    from driftbn.tables.schema import Schema

_E = TypeVar("_E", bound=enum.Enum)

DEFAULT_SIZE: Final = 5000
"""Rows of a window by default; the false-alarm rates of the drift decision are stated for it."""
DEFAULT_MAX_ROWS: Final = 10 * DEFAULT_SIZE
"""Most rows of a time window without a size: a burst of traffic must not fill the memory."""
DEFAULT_ALPHA: Final = 0.01
MAX_CONDITIONING_LIMIT: Final = 10
"""Tallies are kept in units of 1/2520, which 1 to 10 divide."""
MAX_LEVELS: Final = 250
"""With the two reserved levels a code still fits one byte, and 255 stays free as a mark."""
SCALES: Final = (1, 3, 6)
"""Newest windows that are pooled: 3 show weak changes within three windows, 6 slow ones."""


@dataclass(frozen=True)
class Range:
    """What a number may be, and the same in words; never NaN or infinite."""

    allowed: str
    above: float = -math.inf
    least: float = -math.inf
    most: float = math.inf
    below: float = math.inf
    whole: bool = False

    def check(self, name: str, value: object, *, or_none: bool = False) -> None:
        number = isinstance(value, int) or (isinstance(value, float) and not self.whole)
        if not number or isinstance(value, bool) or not self._holds(value):
            raise ConfigError(name, value, self.allowed + (" or None" if or_none else ""))

    def _holds(self, value: Any) -> bool:
        return bool(self.above < value < self.below and self.least <= value <= self.most)


def integers(low: int, high: int | None = None) -> Range:
    allowed = f"an integer from {low}" + ("" if high is None else f" to {high}")
    return Range(allowed, least=low, most=math.inf if high is None else high, whole=True)


def check_integer(name: str, value: object, low: int, high: int | None = None) -> None:
    integers(low, high).check(name, value)


def choice(kind: type[_E], name: str, value: object) -> _E:
    if isinstance(value, kind):
        return value
    for member in kind:
        if member.value == value:
            return member
    allowed = ", ".join(repr(member.value) for member in kind)
    raise ConfigError(name, value, f"one of {allowed}")


_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)")


def seconds_of(name: str, text: str) -> float:
    """Return a duration in seconds.

    >>> seconds_of("window", "15min"), seconds_of("window", "1.5 h")
    (900.0, 5400.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        allowed = "rows such as 5000, without quotes, or a length such as '30s', '15min', '1h'"
        raise ConfigError(name, text, allowed)
    return float(found[1]) * _SECONDS[found[2]]


Count: TypeAlias = Annotated[int, integers(1)]
Level: TypeAlias = Annotated[float, Range("a number between 0 and 1", above=0, below=1)]
Share: TypeAlias = Annotated[float, Range("a number from 0 to 1", least=0, most=1)]
Seconds: TypeAlias = Annotated[float, Range("a positive number of seconds", above=0)]


@dataclass(frozen=True)
class FieldType:
    """The type of a field, taken apart.

    ``alternatives``: types that are accepted beside it; ``NoneType`` if it may be left out.
    """

    hint: Any
    kind: Any
    limits: Range | None
    alternatives: tuple[Any, ...]

    @property
    def optional(self) -> bool:
        return type(None) in self.alternatives


@cache
def field_types(config: Any) -> Mapping[str, FieldType]:
    # Schema is built on this module, so that it cannot be imported here.
    hints = get_type_hints(config, globals(), {"Schema": Any}, include_extras=True)
    return {item.name: _field_type(hints[item.name]) for item in fields(config)}


def _field_type(hint: Any) -> FieldType:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    first = next((kind for kind in kinds if is_dataclass(kind)), kinds[0])
    others = tuple(kind for kind in kinds if kind is not first)
    if get_origin(first) is Annotated:
        kind, limits = get_args(first)
        return FieldType(hint, kind, limits, others)
    return FieldType(hint, get_origin(first) or first, None, others)


def field_texts(config: type) -> Mapping[str, str]:
    """Return what the fields of a class of settings are for: the text below each, on one line."""
    texts = _texts()
    bases = [texts.get(base.__name__, {}) for base in reversed(config.__mro__)]
    return {name: text for found in bases for name, text in found.items()}


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    """Return the texts below the fields of all classes of this module."""
    found: dict[str, dict[str, str]] = {}
    nodes = ast.parse(inspect.getsource(sys.modules[__name__])).body
    for config in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for item, below in pairwise(config.body):
            match item, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    found.setdefault(config.name, {})[name] = " ".join(text.split())
    return found


def _checked(name: str, wanted: FieldType, value: Any) -> Any:
    """Return a value as its type wants it: a member for its name, a part for a dict."""
    kind = wanted.kind
    if kind is Any or (value is None and wanted.optional):
        return value
    if wanted.limits is not None:
        wanted.limits.check(name, value, or_none=wanted.optional)
    elif is_dataclass(kind):
        return _part(name, wanted, value)
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        return choice(kind, name, value)
    elif kind is bool and not isinstance(value, bool):
        raise ConfigError(name, value, "True or False")
    elif kind is tuple:
        return _items(name, wanted, value)
    elif kind is str and not (isinstance(value, str) and value):
        raise ConfigError(name, value, "text that is not empty")
    return value


def _items(name: str, wanted: FieldType, value: Any) -> tuple[Any, ...]:
    """Return the items of a list, each once and in order, whatever the order they came in."""
    one = _field_type(get_args(wanted.hint)[0])
    items = _listed(name, value, f"a list of {'names' if one.kind is str else 'kinds'}")
    return tuple(sorted({_checked(name, one, item) for item in items}))


def _part(name: str, wanted: FieldType, value: Any) -> Any:
    kind = wanted.kind
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and str in wanted.alternatives:
        value = {"seconds": seconds_of(name, value)}
    if not isinstance(value, Mapping):
        short = "an integer, a length such as '1h', or " if int in wanted.alternatives else ""
        raise ConfigError(name, value, f"{short}a {kind.__name__}")
    known = field_types(kind)
    errors: list[ConfigError] = [
        UnknownSettingError(f"{name}.{key}", item, tuple(known))
        for key, item in value.items()
        if key not in known
    ]
    try:
        made = kind(**{key: item for key, item in value.items() if key in known})
    except ConfigError as error:
        errors += [_below(name, one) for one in error.errors]
    _raise(errors)
    return made


def _below(name: str, error: ConfigError) -> ConfigError:
    """Return an error of a part as one of the whole."""
    path = f"{name}.{error.field}"
    if isinstance(error, UnknownSettingError):
        return UnknownSettingError(path, error.value, error.known)
    return ConfigError(path, error.value, error.allowed)


def _raise(errors: list[ConfigError]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else CombinedConfigError(errors)


@dataclass(frozen=True)
class _Checked:
    """Settings that check themselves: first each field, then whether they agree."""

    def __post_init__(self) -> None:
        errors: list[ConfigError] = []
        kind: Any = type(self)
        for name, wanted in field_types(kind).items():
            try:
                value = _checked(name, wanted, getattr(self, name))
            except ConfigError as error:
                errors += error.errors
            else:
                object.__setattr__(self, name, value)
        _raise(errors or list(self._contradictions()))

    def _contradictions(self) -> Iterator[ConfigError]:
        yield from ()


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
class WindowConfig(_Checked):
    """How a stream is cut into windows.

    The mode is not set but follows from ``size``, ``step`` and ``seconds``; see ``WindowMode``.
    A setting that the mode does not read must be left alone.

    >>> WindowConfig().mode, WindowConfig().size
    (<WindowMode.ROWS: 'rows'>, 5000)
    >>> hourly = WindowConfig(seconds=3600, lateness_seconds=60, min_rows=500)
    >>> hourly.mode, hourly.row_limit, hourly.capacity
    (<WindowMode.TIME: 'time'>, 50000, 100000)
    """

    size: Count | None = None
    """Rows of a window: 5000 where neither it nor ``seconds`` is given. With ``seconds``, a window
    that has so many rows ends early, and one without a size at 50,000."""
    step: Count | None = None
    """Rows from one sliding window to the next, at most ``size``; windows do not overlap unless it
    is given."""
    seconds: Seconds | None = None
    """Length of a time window, which needs ``time_column``. Windows begin at whole multiples of it,
    counted from ``origin``."""
    origin: Annotated[float, Range("a finite number of seconds")] = 0.0
    """Event time, in seconds since the epoch, at which one time window begins."""
    lateness_seconds: Annotated[float, Range("a finite number of seconds from 0", least=0)] = 0.0
    """A time window is closed when a row arrives that is this much later than its end."""
    min_rows: Count = 1
    """A time window with fewer rows is merged with the one after it."""
    late: LatePolicy = LatePolicy.COUNT
    """Rows whose window is closed: ``count`` leaves them out, ``current`` puts them into the oldest
    open one."""

    def __post_init__(self) -> None:
        if self.size is None and self.seconds is None:
            object.__setattr__(self, "size", DEFAULT_SIZE)
        super().__post_init__()

    def _contradictions(self) -> Iterator[ConfigError]:
        limit = self.row_limit
        if self.step is not None and self.seconds is not None:
            yield ConfigError("step", self.step, "None where seconds is given")
        elif self.step is not None and self.step > limit:
            yield ConfigError("step", self.step, f"an integer from 1 to {limit}")
        if self.min_rows > limit:
            yield ConfigError("min_rows", self.min_rows, f"an integer from 1 to {limit}")
        for item in fields(self):
            value = getattr(self, item.name)
            timed = item.name in ("origin", "lateness_seconds", "min_rows", "late")
            if timed and self.seconds is None and value != item.default:
                allowed = f"left at {item.default!r} where seconds is not given"
                yield ConfigError(item.name, value, allowed)

    @property
    def mode(self) -> WindowMode:
        """What ends a window."""
        if self.seconds is not None:
            return WindowMode.TIME if self.size is None else WindowMode.ROWS_OR_TIME
        return WindowMode.ROWS if self.step is None else WindowMode.SLIDING

    @property
    def row_limit(self) -> int:
        """The most rows that a window has."""
        return DEFAULT_MAX_ROWS if self.size is None else self.size

    @property
    def capacity(self) -> int:
        """The most rows that a buffer holds.

        It is ``row_limit``, and twice that if there is a lateness: one full window and as many
        rows of the windows after it, which fill while the first waits for rows that are late.
        """
        return self.row_limit * (1 if self.lateness_seconds == 0 else 2)


class MissingPolicy(StrEnum):
    """What to do with a missing value."""

    LEVEL = "level"
    """It is the level ``__missing__``."""
    REJECT = "reject"
    """It is a ``DataError``."""


@dataclass(frozen=True)
class SchemaConfig(_Checked):
    """How fields become variables, which is settled by the first window.

    >>> SchemaConfig(numeric_bins=3, missing="reject").missing
    <MissingPolicy.REJECT: 'reject'>
    """

    max_levels: Annotated[int, integers(2, MAX_LEVELS)] = 32
    """Levels kept per field, the most frequent first."""
    numeric_bins: Annotated[int, integers(2, MAX_LEVELS)] = 4
    """Quantile bins of a numeric field."""
    integer_levels: Annotated[int, integers(0, MAX_LEVELS)] = 16
    """A field of whole numbers with at most this many distinct ones has a level for each; with
    more it is numeric."""
    missing: MissingPolicy = MissingPolicy.LEVEL
    """Missing values: ``level`` makes them a level of their own, ``reject`` refuses the record."""
    id_like_ratio: Annotated[float, Range("a number above 0 and at most 1", above=0, most=1)] = 0.95
    """A field of text or whole numbers with a larger share of distinct values is left out as an
    identifier; 1 keeps all."""
    keep_constant: bool = False
    """Whether a column with one value, or with none, is a variable too; a monitor always keeps it.
    Values that differ later are told apart: another level is ``__other__``, and another number
    lies in the bin below or above."""
    keep_duplicates: bool = False
    """Whether a column that repeats another one is a variable too; a monitor always keeps it."""


class Algorithm(enum.Enum):
    """Which search finds the skeleton."""

    PC = "pc"
    """PC, order-independent: sets come from the neighbours as they were when the size began."""
    PC_ORIGINAL = "pc-original"
    """PC as first published: an edge that goes is gone at once."""
    FSBN = "fsbn"
    """Node by node; each member of a found separator gains 1 (search heuristics I and II)."""
    SSBN = "ssbn"
    """Node by node; each member gains 1/size (search heuristic III)."""


class Statistic(enum.Enum):
    """Which statistic the independence test uses."""

    CHI_SQUARE = "chi-square"
    """Pearson's chi-square."""
    G = "g"
    """The likelihood ratio G."""


class ColliderRule(enum.Enum):
    """How the middle of an unshielded triple x - z - y is found to be a collider.

    The first two take a census of sets around x and y. By its answers a collider is the stronger
    the more often sets without z separate than sets with z; one that contradicts a stronger one
    is left out. A pair that no set of the census separates has colliders only if the search's own
    separator has a p-value of at least one half.
    """

    CONTRAST = "contrast"
    """Sets with z separate x and y less than half as often as sets without z."""
    MAJORITY = "majority"
    """z is in less than half of the sets that separate x and y."""
    STANDARD = "standard"
    """z is not in the one set that the search has found."""


class WarmStart(enum.Enum):
    """What is taken over from an earlier structure."""

    NONE = "none"
    """Nothing."""
    TALLIES = "tallies"
    """The RDSA tallies, decayed, give the first order of the sets."""
    TALLIES_AND_SEPARATORS = "tallies+separators"
    """Also, what separated a pair before is the first set tried for it."""


@dataclass(frozen=True)
class LearnerConfig(_Checked):
    """How a structure is learned.

    >>> LearnerConfig(alpha=0.001, algorithm="pc").algorithm
    <Algorithm.PC: 'pc'>
    """

    algorithm: Algorithm = Algorithm.SSBN
    """The search: ``ssbn``, ``fsbn`` or ``pc``."""
    alpha: Level = 0.01
    """Level of the independence tests."""
    statistic: Statistic = Statistic.CHI_SQUARE
    """The test: ``chi-square`` or ``g``."""
    max_conditioning: Annotated[int, integers(0, MAX_CONDITIONING_LIMIT)] = 3
    """Largest conditioning set, at most 10."""
    collider_rule: ColliderRule = ColliderRule.CONTRAST
    """How colliders are found: ``contrast``, ``majority`` or ``standard``."""
    repair: bool = True
    """Whether edges are then added, removed and reversed while that improves the extended BIC."""
    warm: WarmStart = WarmStart.TALLIES_AND_SEPARATORS
    """What is taken over from an earlier structure: ``tallies+separators``, ``tallies`` or
    ``none``."""
    deadline_seconds: Seconds | None = None
    """When to stop with a degraded answer; never unless given. A clock decides, so that reports may
    differ from run to run. The tests without a condition are one step, which always runs whole.
    Where the graph of the reference is learned again, that has the same time for itself."""
    max_tests: Count | None = 1_000_000
    """After how many tests with a condition to stop with a degraded answer, in the same way."""


@dataclass(frozen=True)
class Knowledge:
    """What an expert knows of the edges before any data is seen.

    >>> knowledge = Knowledge(required=[("smoke", "lung")], tiers=[["asia"], ["tub", "xray"]])
    >>> knowledge.tiers
    (('asia',), ('tub', 'xray'))
    """

    required: tuple[tuple[str, str], ...] = ()
    """Edges ["source", "target"] that are there; they are never tested."""
    forbidden: tuple[tuple[str, str], ...] = ()
    """Directions ["source", "target"] that are not possible. A pair forbidden both ways is
    never tested."""
    tiers: tuple[tuple[str, ...], ...] = ()
    """Groups of fields from causes to effects: no edge points from a later group to an earlier one.
    Fields in no group are free."""

    def __init__(
        self,
        required: Iterable[tuple[str, str]] = (),
        forbidden: Iterable[tuple[str, str]] = (),
        tiers: Iterable[Iterable[str]] = (),
    ) -> None:
        object.__setattr__(self, "required", _edges("required", required))
        object.__setattr__(self, "forbidden", _edges("forbidden", forbidden))
        groups = _listed("tiers", tiers, "a list of groups of names")
        found = (_listed("tiers", group, "a list of groups of names") for group in groups)
        object.__setattr__(self, "tiers", tuple(tuple(sorted(map(str, tier))) for tier in found))


def _edges(name: str, edges: object) -> tuple[tuple[str, str], ...]:
    allowed = "a list of pairs (source, target)"
    found = []
    for edge in _listed(name, edges, allowed):
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise ConfigError(name, edge, allowed)
        found.append((str(edge[0]), str(edge[1])))
    return tuple(sorted(set(found)))


def _listed(name: str, value: object, allowed: str) -> Iterable[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(name, value, allowed)
    return value


class DriftKind(StrEnum):
    """What has changed."""

    STRUCTURAL = "structural"
    """A dependency was added, removed or reversed."""
    ASSOCIATION = "association"
    """How two fields are associated changed, and no edge could be named."""
    MECHANISM = "mechanism"
    """A field follows the same parents as before, by another table."""
    MARGINAL = "marginal"
    """Only the distribution of fields without parents changed."""
    DATA = "data"
    """A field is constant, missing, or has values as never before, whatever else changed."""


@dataclass(frozen=True, kw_only=True)
class DecisionConfig(_Checked):
    """How a window is judged.

    >>> DecisionConfig(windows_between_false_alarms=1000).level
    0.001
    """

    alpha: Level | None = None
    """Share of stationary windows that may be called drift; 0.01 unless it or
    ``windows_between_false_alarms`` is given."""
    windows_between_false_alarms: Annotated[float, Range("more than 1", above=1)] | None = None
    """The same as a mean distance, 1 / ``alpha``; only one of the two is given."""
    min_effect: Annotated[float, Range("0 or more nats, finite", least=0)] = 0.002
    """A significant change smaller than this, in nats as a report gives them, is told and raises no
    alarm; 0.01 is a medium change, 0.03 a strong one."""
    alarm_on: tuple[DriftKind, ...] = tuple(sorted(DriftKind))
    """Kinds of change that raise an alarm: ``structural``, ``association``, ``mechanism``,
    ``marginal`` and ``data``. Others are told as a notice, and the reference stays."""
    max_distance: Annotated[float, Range("more than 0 nats, finite", above=0)] | None = None
    """How far the stream may be from its baseline, in nats, until that is an alert of its own; no
    limit unless given."""
    given: tuple[str, ...] = ()
    """Fields that follow no other, such as clock, calendar, weather and keys: no edge points at
    them, how they come is no drift, and what goes with them is told of the other field. Cycles
    and counters are recognised."""
    quiet_returns: bool = False
    """Whether a window that a remembered regime explains is no alarm: for streams with day and
    night, with windows that begin and end where these do."""
    reference_windows: Annotated[int, integers(1, 64)] = 8
    """Windows of a full reference."""
    archived_regimes: Annotated[int, integers(0, 64)] = 4
    """Earlier regimes that are remembered."""
    shadow_share: Share = 0.05
    """Share of the windows that are also judged with their rows permuted, to measure the rate of
    false alarms."""
    dependent_rows: bool = True
    """Whether tests that reject are corrected for dependence between neighbouring rows."""

    def _contradictions(self) -> Iterator[ConfigError]:
        between = self.windows_between_false_alarms
        if self.alpha is not None and between is not None:
            yield ConfigError("windows_between_false_alarms", between, "None where alpha is given")

    @property
    def level(self) -> float:
        """The share of stationary windows that may be called drift."""
        if self.windows_between_false_alarms is not None:
            return 1.0 / self.windows_between_false_alarms
        return DEFAULT_ALPHA if self.alpha is None else self.alpha

    @property
    def scales(self) -> tuple[int, ...]:
        """How many of the newest windows are pooled, as far as a reference has so many."""
        return tuple(scale for scale in SCALES if scale <= self.reference_windows)


class ErrorPolicy(StrEnum):
    """What becomes of a batch in which a record cannot be read."""

    REJECT_BATCH = "reject_batch"
    """It is refused as a whole with an error; nothing of it is taken in."""
    REJECT_ROWS = "reject_rows"
    """The records that cannot be read are left out and counted."""


@dataclass(frozen=True, kw_only=True)
class MonitorConfig(DecisionConfig):
    """All settings of a monitor; each has a default.

    Those of the decision, ``alpha`` above all, are its own.

    >>> MonitorConfig(window=1000, windows_between_false_alarms=500).level
    0.002
    """

    window: int | str | WindowConfig = field(default_factory=WindowConfig)
    """Rows of a window, its length in event time such as ``1h``, or how to cut windows in full."""
    max_rows_per_window: Count | None = None
    """Most records of a window that are judged: of one that gets more, those with the smallest
    hashes of their numbers. Windows by rows read only these, and windows by event time may then
    have any number of records. Changes must be larger to be seen; the report says how large."""
    target: str | None = None
    """The field that matters: reports say whether a change touches it."""
    time_column: str | None = None
    """The field with event times, in seconds since the epoch or as timestamps. It is no variable.
    Time windows need it."""
    audit_share: Share = 0.0
    """Share of windows learned a second time from nothing, to compare with the warm start."""
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    """How graphs are learned."""
    schema: SchemaConfig = field(default_factory=SchemaConfig)
    """How fields become variables."""
    knowledge: Knowledge = field(default_factory=Knowledge)
    """What is known of the edges beforehand."""
    variables: Schema | None = None
    """A schema to use from the first record on; inferred from the first window unless given."""
    on_error: ErrorPolicy = ErrorPolicy.REJECT_BATCH
    """What becomes of records that cannot be read: ``reject_batch`` refuses the whole batch with an
    error, ``reject_rows`` leaves them out and counts them."""

    def __post_init__(self) -> None:
        if isinstance(self.window, int):
            object.__setattr__(self, "window", {"size": self.window})
        super().__post_init__()

    def _contradictions(self) -> Iterator[ConfigError]:
        yield from super()._contradictions()
        if self.windows.seconds is not None and self.time_column is None:
            allowed = "the field with event times, because windows are cut by them"
            yield ConfigError("time_column", None, allowed)
        sampled, mode = self.max_rows_per_window, self.windows.mode
        if sampled is not None and mode in (WindowMode.SLIDING, WindowMode.ROWS_OR_TIME):
            allowed = "None where windows have a step, or both size and seconds"
            yield ConfigError("max_rows_per_window", sampled, allowed)

    @property
    def windows(self) -> WindowConfig:
        """How the stream is cut."""
        assert isinstance(self.window, WindowConfig)
        return self.window
