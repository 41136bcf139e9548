"""Streams that change from one network to another by a schedule, in bursts if wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.datasets import configurations, drawn, labelled
from driftbn.graphs.network import BayesianNetwork, FloatArray, ancestors

if TYPE_CHECKING:
    import pandas as pd


class Schedule(ABC):
    """When a stream follows the changed network instead of the first one."""

    @abstractmethod
    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        """Return for record numbers, from 0, the probability of the changed network.

        Called once per batch with consecutive numbers; it must depend on nothing else.
        """


@dataclass(frozen=True)
class Stationary(Schedule):
    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        return np.zeros(len(records))


@dataclass(frozen=True)
class Abrupt(Schedule):
    at: int

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        return (records >= self.at).astype(np.float64)


@dataclass(frozen=True)
class Gradual(Schedule):
    """More and more often, the probability rising linearly from 0 to 1."""

    start: int
    n_records: int

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        return np.clip((records - self.start) / self.n_records, 0, 1)


@dataclass(frozen=True)
class Recurring(Schedule):
    start: int
    n_records: int

    def share_changed(self, records: npt.NDArray[np.int64]) -> FloatArray:
        stretch = (records - self.start) // self.n_records
        return np.where((records >= self.start) & (stretch % 2 == 0), 1.0, 0.0)


# Bursts of a stream: sessions and repeated rows, in which variables stay fixed.

HELD_SHARE = 1 / 3
"""Share of the variables that stay fixed within a session."""


@dataclass(frozen=True)
class Sessions:
    """Rows come in sessions, in which a third of the variables stays fixed.

    The fixed variables are the same throughout a stream; with each come all its ancestors, so that
    every single row still follows the network. Lengths are geometric.
    """

    mean_length: float


@dataclass(frozen=True)
class Repeats:
    """Whole rows are repeated; how often a row stands there is geometric."""

    mean_length: float


def first_of_burst(starts: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return for each row the last row up to it that starts a burst; 0 if there is none."""
    return np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))


def closed_share(networks: list[BayesianNetwork], rng: np.random.Generator) -> tuple[str, ...]:
    """Draw a third of the variables, closed under ancestors in all networks.

    Variables are gone through in random order, again and again, and taken with their ancestors
    where these still fit in.
    """
    nodes = networks[0].nodes
    room = max(1, round(len(nodes) * HELD_SHARE))
    order = [nodes[i] for i in rng.permutation(len(nodes))]
    held: set[str] = set()
    grown = True
    while grown and len(held) < room:
        grown = False
        for node in order:
            closure = _common_ancestors(networks, node) | held
            if node not in held and len(closure) <= room:
                held, grown = closure, True
    return tuple(node for node in nodes if node in held)


def _common_ancestors(networks: list[BayesianNetwork], node: str) -> set[str]:
    """Return the node and all above it, through the edges of any of the networks."""
    found = {node}
    while True:
        more = found.union(*(ancestors(network.dag, found) for network in networks))
        if more == found:
            return found
        found = more


# Endless streams of rows whose distribution changes at a known record.

Codes = npt.NDArray[np.uint8]

_NEVER = Stationary()


class _Carry(NamedTuple):
    """What the rows to come need to know of the last row."""

    uniform: FloatArray  # [variables]; for held variables that of the session's first row
    regime_uniform: float
    changed: bool


@dataclass(frozen=True)
class DriftStream:
    """A stream of rows from one network, then from another, as a schedule says.

    The rows do not depend on how they are cut into batches. Within a burst (a session, or a
    repeated row) all rows follow the same network: it is chosen once per burst, which ends
    early where the schedule changes that choice, so the change is exactly at its record.
    """

    before: BayesianNetwork
    after: BayesianNetwork | None = None
    schedule: Schedule = _NEVER
    bursts: Sessions | Repeats | None = None
    seed: int = 0

    @cached_property
    def held(self) -> tuple[str, ...]:
        """The variables that stay fixed within a burst, in the order of the nodes."""
        if self.bursts is None:
            return ()
        if isinstance(self.bursts, Repeats):
            return self.before.nodes
        # A stream of its own, so that the rows' numbers do not depend on how many are drawn here.
        rng = np.random.default_rng([self.seed, 1])
        networks = [self.before] if self.after is None else [self.before, self.after]
        return closed_share(networks, rng)

    def batches(self, n_rows: int) -> Iterator[Codes]:
        """Yield batches of state numbers ``[variables, n_rows]`` without end, from record 0 on."""
        rng = np.random.default_rng([self.seed, 0])
        held = np.array([self.before.index(node) for node in self.held], dtype=np.intp)
        carry: _Carry | None = None
        for batch in count():
            records = np.arange(batch * n_rows, (batch + 1) * n_rows)
            # Row by row, so that the numbers of a record do not depend on the batch's size.
            drawn = rng.random((n_rows, 2 + len(self.before.nodes)))
            uniform, changed, carry = self._numbers(records, drawn, held, carry)
            yield self._codes(uniform, changed)

    def sample(self, n_rows: int) -> pd.DataFrame:
        """Return the first rows as a table of categorical columns."""
        return labelled(self.before, next(self.batches(n_rows)))

    def _numbers(
        self,
        records: npt.NDArray[np.int64],
        drawn: FloatArray,
        held: npt.NDArray[np.intp],
        carry: _Carry | None,
    ) -> tuple[FloatArray, npt.NDArray[np.bool_], _Carry]:
        """Return uniform numbers ``[variables, rows]`` that repeat within bursts, and regimes."""
        uniform = np.ascontiguousarray(drawn[:, 2:].T)
        starts = drawn[:, 0] * (self.bursts.mean_length if self.bursts else 1) < 1
        regime_uniform = drawn[first_of_burst(starts), 1]
        if carry is not None:
            regime_uniform[~np.logical_or.accumulate(starts)] = carry.regime_uniform
        changed = regime_uniform < self.schedule.share_changed(records)
        previous = np.concatenate(([carry.changed if carry else changed[0]], changed[:-1]))
        starts |= changed != previous
        uniform[held] = uniform[held][:, first_of_burst(starts)]
        if carry is not None:
            going_on = ~np.logical_or.accumulate(starts)
            uniform[np.ix_(held, going_on)] = carry.uniform[held, np.newaxis]
        last = _Carry(uniform[:, -1].copy(), float(regime_uniform[-1]), bool(changed[-1]))
        return uniform, changed, last

    def _codes(self, uniform: FloatArray, changed: npt.NDArray[np.bool_]) -> Codes:
        if self.after is None or not changed.any():
            return _forward(self.before, uniform)
        if changed.all():
            return _forward(self.after, uniform)
        codes = np.empty(uniform.shape, dtype=np.uint8)
        codes[:, ~changed] = _forward(self.before, uniform[:, ~changed])
        codes[:, changed] = _forward(self.after, uniform[:, changed])
        return codes


def _forward(network: BayesianNetwork, uniform: FloatArray) -> Codes:
    """Turn uniform numbers ``[variables, rows]`` into states, parents first."""
    codes = np.zeros(uniform.shape, dtype=np.uint8)
    for i in map(network.index, network.dag.topological_order()):
        codes[i] = drawn(network.cpts[i], configurations(network, codes, i), uniform[i])
    return codes
