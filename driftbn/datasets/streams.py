"""Endless streams of rows whose distribution changes at a known record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.datasets.bursts import Repeats, Sessions, closed_share, first_of_burst
from driftbn.datasets.sampling import MAX_STATES, configurations, drawn, labelled
from driftbn.datasets.schedules import Schedule, Stationary, check_at_least
from driftbn.errors import ConfigError, DataError
from driftbn.network import BayesianNetwork, FloatArray

if TYPE_CHECKING:
    import pandas as pd

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
    repeated row) all rows follow the same network: it is chosen once per burst, and a burst ends
    early where the schedule changes that choice, so the change is exactly at its record.

    Parameters
    ----------
    before
        The network followed first.
    after
        The changed network, with the same nodes and states; ``None`` in a stationary stream.
    schedule
        When the changed network is followed.
    bursts
        How rows depend on each other; ``None`` for independent rows.
    seed
        For the same rows every time.

    Raises
    ------
    ConfigError
        If there is a changed network and the schedule is stationary, or the other way round, or
        the networks differ in their nodes, states or the order of these.
    DataError
        If a node has more than 256 states.

    Examples
    --------
    >>> from driftbn.datasets import Abrupt, asia, remove_edge
    >>> after = remove_edge(asia(), "smoke", "bronc").network
    >>> stream = DriftStream(asia(), after, Abrupt(2500), Sessions(5), seed=1)
    >>> windows = stream.batches(1000)
    >>> next(windows).shape, next(windows).dtype
    ((8, 1000), dtype('uint8'))
    >>> stream.held
    ('asia', 'tub', 'smoke')
    """

    before: BayesianNetwork
    after: BayesianNetwork | None = None
    schedule: Schedule = _NEVER
    bursts: Sessions | Repeats | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.after is None) != isinstance(self.schedule, Stationary):
            allowed = "stationary exactly if there is no changed network"
            raise ConfigError("schedule", self.schedule, allowed)
        for node, card in zip(self.before.nodes, self.before.cards, strict=True):
            if card > MAX_STATES:
                raise DataError(f"{card} states; at most {MAX_STATES} can be coded", column=node)
        if self.after is not None and (self.after.nodes, self.after.states) != (
            self.before.nodes,
            self.before.states,
        ):
            raise ConfigError("after", self.after, "a network with the nodes and states of before")

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
        """Yield batches of state numbers ``[variables, n_rows]`` without end, from record 0 on.

        Raises
        ------
        ConfigError
            If ``n_rows`` is not positive.
        """
        check_at_least("n_rows", n_rows, 1)
        return self._batches(n_rows)

    def sample(self, n_rows: int) -> pd.DataFrame:
        """Return the first rows as a table of categorical columns.

        Examples
        --------
        >>> from driftbn.datasets import asia
        >>> DriftStream(asia()).sample(3).shape
        (3, 8)
        """
        return labelled(self.before, next(self.batches(n_rows)))

    def _batches(self, n_rows: int) -> Iterator[Codes]:
        rng = np.random.default_rng([self.seed, 0])
        held = np.array([self.before.index(node) for node in self.held], dtype=np.intp)
        carry: _Carry | None = None
        for batch in count():
            records = np.arange(batch * n_rows, (batch + 1) * n_rows)
            # Row by row, so that the numbers of a record do not depend on the batch's size.
            drawn = rng.random((n_rows, 2 + len(self.before.nodes)))
            uniform, changed, carry = self._numbers(records, drawn, held, carry)
            yield self._codes(uniform, changed)

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
