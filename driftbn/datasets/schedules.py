"""When a stream changes from one network to another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftbn.errors import ConfigError
from driftbn.network import FloatArray


class Schedule(ABC):
    """When a stream follows the changed network instead of the first one."""

    @abstractmethod
    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        """Return for record numbers, from 0, the probability of the changed network.

        Called once per batch with consecutive numbers; it must depend on nothing else.
        """


@dataclass(frozen=True)
class Stationary(Schedule):
    """Never.

    Examples
    --------
    >>> Stationary().share_changed(np.arange(3)).tolist()
    [0.0, 0.0, 0.0]
    """

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        """Return zeros."""
        return np.zeros(len(records))


@dataclass(frozen=True)
class Abrupt(Schedule):
    """From one record on.

    Parameters
    ----------
    at
        Number of the first record that follows the changed network; records count from 0.

    Raises
    ------
    ConfigError
        If it is negative.

    Examples
    --------
    >>> Abrupt(2).share_changed(np.arange(4)).tolist()
    [0.0, 0.0, 1.0, 1.0]
    """

    at: int

    def __post_init__(self) -> None:
        check_at_least("at", self.at, 0)

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        """Return 1 from the change on."""
        return (records >= self.at).astype(np.float64)


@dataclass(frozen=True)
class Gradual(Schedule):
    """More and more often, the probability rising linearly from 0 to 1.

    Parameters
    ----------
    start
        Number of the last record that has probability 0.
    n_records
        After how many more the probability is 1; for g windows, g times the rows of a window.

    Raises
    ------
    ConfigError
        If ``start`` is negative or ``n_records`` not positive.

    Examples
    --------
    >>> Gradual(1, 4).share_changed(np.arange(7)).tolist()
    [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """

    start: int
    n_records: int

    def __post_init__(self) -> None:
        check_at_least("start", self.start, 0)
        check_at_least("n_records", self.n_records, 1)

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        """Return a ramp."""
        return np.clip((records - self.start) / self.n_records, 0, 1)


@dataclass(frozen=True)
class Recurring(Schedule):
    """Back and forth.

    Parameters
    ----------
    start
        Number of the first record that follows the changed network.
    n_records
        For how long each of the two networks is then followed in turn.

    Raises
    ------
    ConfigError
        If ``start`` is negative or ``n_records`` not positive.

    Examples
    --------
    >>> Recurring(1, 2).share_changed(np.arange(7)).tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
    """

    start: int
    n_records: int

    def __post_init__(self) -> None:
        check_at_least("start", self.start, 0)
        check_at_least("n_records", self.n_records, 1)

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        """Return 1 in every other stretch."""
        stretch = (records - self.start) // self.n_records
        return np.where((records >= self.start) & (stretch % 2 == 0), 1.0, 0.0)


def check_at_least(field: str, value: float, least: int) -> None:
    """Refuse a number below the least, and one without end."""
    if not least <= value < float("inf"):
        raise ConfigError(field, value, f"{least} or more")
