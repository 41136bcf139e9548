"""What a user may choose; every value is checked where it is made."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from driftbn.errors import ConfigError

_E = TypeVar("_E", bound=enum.Enum)


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
    MAX_P = "max-p"
    """z is not in the set with the largest p-value."""


class WarmStart(enum.Enum):
    """What is taken over from an earlier structure."""

    NONE = "none"
    """Nothing."""
    TALLIES = "tallies"
    """The RDSA tallies, decayed, give the first order of the sets."""
    TALLIES_AND_SEPARATORS = "tallies+separators"
    """Also, what separated a pair before is the first set tried for it."""


MAX_CONDITIONING_LIMIT = 10  # tallies are kept in units of 1/2520, which 1 to 10 divide


@dataclass(frozen=True)
class LearnerConfig:
    """How a structure is learned.

    Parameters
    ----------
    algorithm, statistic, collider_rule, warm
        See the members of the enumerations; their values are accepted too.
    alpha
        Level of the independence tests, between 0 and 1.
    max_conditioning
        Largest conditioning set, 0 to 10.
    max_sets
        Sets tried for a pair and size at most, in their order; ``None`` lifts the cap.
    census_size
        Largest set tried to tell colliders, 1 to 10.
    tally_decay
        Factor on the tallies of an earlier structure, 0 to 1.
    deadline_seconds, max_tests
        When to stop with a degraded answer; ``None`` for never. The tests without a condition
        are one step, which always runs whole.

    Raises
    ------
    ConfigError
        If a value is not allowed.

    Examples
    --------
    >>> LearnerConfig(alpha=0.001, algorithm="pc").algorithm
    <Algorithm.PC: 'pc'>
    """

    algorithm: Algorithm = Algorithm.SSBN
    alpha: float = 0.01
    statistic: Statistic = Statistic.CHI_SQUARE
    max_conditioning: int = 3
    max_sets: int | None = 200
    collider_rule: ColliderRule = ColliderRule.CONTRAST
    census_size: int = 2
    warm: WarmStart = WarmStart.TALLIES_AND_SEPARATORS
    tally_decay: float = 0.5
    deadline_seconds: float | None = None
    max_tests: int | None = None

    def __post_init__(self) -> None:
        for name, kind in (
            ("algorithm", Algorithm),
            ("statistic", Statistic),
            ("collider_rule", ColliderRule),
            ("warm", WarmStart),
        ):
            object.__setattr__(self, name, choice(kind, name, getattr(self, name)))
        check_number("alpha", self.alpha, "a number between 0 and 1", 0.0, 1.0, open_ends=True)
        check_integer("max_conditioning", self.max_conditioning, 0, MAX_CONDITIONING_LIMIT)
        check_integer("census_size", self.census_size, 1, MAX_CONDITIONING_LIMIT)
        check_number("tally_decay", self.tally_decay, "a number from 0 to 1", 0.0, 1.0)
        if self.max_sets is not None:
            check_integer("max_sets", self.max_sets, 1)
        if self.max_tests is not None:
            check_integer("max_tests", self.max_tests, 1)
        if self.deadline_seconds is not None:
            allowed = "a positive number of seconds or None"
            check_number(
                "deadline_seconds", self.deadline_seconds, allowed, 0.0, math.inf, open_ends=True
            )


@dataclass(frozen=True)
class Knowledge:
    """What an expert knows of the edges before any data is seen.

    Parameters
    ----------
    required
        Edges ``(source, target)`` that are there; they are never tested.
    forbidden
        Directions ``(source, target)`` that are not possible. A pair forbidden both ways is never
        tested.
    tiers
        Groups of names from causes to effects: no edge points from a later group to an earlier
        one. Names in no group are free.

    Examples
    --------
    >>> knowledge = Knowledge(required=[("smoke", "lung")], tiers=[["asia"], ["tub", "xray"]])
    >>> knowledge.tiers
    (('asia',), ('tub', 'xray'))
    """

    required: tuple[tuple[str, str], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()

    def __init__(
        self,
        required: Iterable[tuple[str, str]] = (),
        forbidden: Iterable[tuple[str, str]] = (),
        tiers: Iterable[Iterable[str]] = (),
    ) -> None:
        object.__setattr__(self, "required", _edges("required", required))
        object.__setattr__(self, "forbidden", _edges("forbidden", forbidden))
        object.__setattr__(self, "tiers", tuple(tuple(sorted(tier)) for tier in tiers))


def choice(kind: type[_E], name: str, value: object) -> _E:
    """Return the member of an enumeration that ``value`` is or names."""
    if isinstance(value, kind):
        return value
    for member in kind:
        if member.value == value:
            return member
    allowed = ", ".join(repr(member.value) for member in kind)
    raise ConfigError(name, value, f"one of {allowed}")


def check_integer(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse what is not an integer from ``low`` to ``high``."""
    allowed = f"an integer from {low}" + ("" if high is None else f" to {high}")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(name, value, allowed)
    if value < low or (high is not None and value > high):
        raise ConfigError(name, value, allowed)


def check_number(  # noqa: PLR0913 - a range with a name
    name: str, value: object, allowed: str, low: float, high: float, *, open_ends: bool = False
) -> None:
    """Refuse what is not a number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ConfigError(name, value, allowed)
    inside = low < value < high if open_ends else low <= value <= high
    if not inside:
        raise ConfigError(name, value, allowed)


def _edges(name: str, edges: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    found = []
    for edge in edges:
        if not isinstance(edge, tuple | list) or len(edge) != 2:
            raise ConfigError(name, edge, "a list of pairs (source, target)")
        found.append((str(edge[0]), str(edge[1])))
    return tuple(sorted(set(found)))
