"""Streams with an exactly known change, one cell of the drift benchmark each.

A cell names what changes and when; a kind of bursts names how rows depend on each other. The same
network, cell, bursts and seed give the same rows, whatever else is run and in whatever order.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from driftbn.datasets import Change
from driftbn.errors import ConfigError, GraphError
from driftbn.graphs.network import BayesianNetwork
from tests import drawn_changes as changes
from tests.drawn_changes import MEDIUM, STRONG, WEAK
from tests.drift_streams import (
    Abrupt,
    DriftStream,
    Gradual,
    Recurring,
    Repeats,
    Schedule,
    Sessions,
    Stationary,
)
from tests.networks import load

Codes = npt.NDArray[np.uint8]
Maker = Callable[[BayesianNetwork, np.random.Generator], Change]

WINDOW_ROWS = 5000
N_BEFORE = 8  # windows before the change: as many as a full reference holds
N_AFTER = 4  # from the change on; one more than "within three" asks for
N_STATIONARY = 40
N_RAMP = 5  # windows over which a gradual change comes
N_AWAY = 6  # windows for which a recurring change stays
NETWORKS = ("asia", "alarm", "insurance", "hailfinder", "win95pts", "100_130", "200_250")

_STRENGTHS = {"strong": STRONG, "medium": MEDIUM, "weak": WEAK}
_N_TRIES = 8  # draws of a change before a network is said not to have it
_log = logging.getLogger(__name__)


class NoSuchChangeError(Exception):
    """A network has no change as the cell asks for."""


@dataclass(frozen=True)
class Cell:
    """What a cell does to a network, and when."""

    change: Maker | None
    schedule: Schedule
    first_full: int = 0
    n_windows: int = N_BEFORE + N_AFTER


@dataclass(frozen=True)
class Scenario:
    network: str
    cell: str
    bursts: str
    seed: int
    stream: DriftStream
    change: Change | None
    change_window: int
    n_windows: int
    first_full_window: int
    return_window: int | None = None


def _cells() -> dict[str, Cell]:
    start = N_BEFORE * WINDOW_ROWS
    at_boundary = Abrupt(start)
    cells = {"stationary": Cell(None, Stationary(), n_windows=N_STATIONARY)}
    for name, strength in _STRENGTHS.items():
        cells[f"added-{name}"] = Cell(partial(changes.added, 1, strength), at_boundary)
        cells[f"removed-{name}"] = Cell(partial(changes.removed, 1, strength), at_boundary)
        cells[f"added3-{name}"] = Cell(partial(changes.added, 3, strength), at_boundary)
        cells[f"removed3-{name}"] = Cell(partial(changes.removed, 3, strength), at_boundary)
        kept = partial(changes.either, strength, keep_marginals=True)
        cells[f"kept-{name}"] = Cell(kept, at_boundary)
    cells["rewired"] = Cell(changes.rewired, at_boundary)
    cells["reversed"] = Cell(changes.turned, at_boundary)
    cells["table"] = Cell(changes.table, at_boundary)
    cells["root"] = Cell(changes.root, at_boundary)
    ramp = Gradual(start, N_RAMP * WINDOW_ROWS)
    n_gradual = N_BEFORE + N_RAMP + N_AFTER - 1
    for name in ("strong", "medium"):
        change = partial(changes.either, _STRENGTHS[name])
        cells[f"gradual-{name}"] = Cell(change, ramp, N_RAMP, n_gradual)
    strong = partial(changes.either, STRONG)
    back_and_forth = Recurring(start, N_AWAY * WINDOW_ROWS)
    cells["recurring"] = Cell(strong, back_and_forth, n_windows=N_BEFORE + N_AWAY + N_AFTER)
    in_the_middle = Abrupt(start + WINDOW_ROWS // 2)
    cells["midwindow-strong"] = Cell(strong, in_the_middle, 1, N_BEFORE + 1 + N_AFTER)
    return cells


_CELLS = _cells()
CELLS = tuple(_CELLS)
BURSTS: dict[str, Sessions | Repeats | None] = {
    "none": None,
    "sessions-2": Sessions(2),
    "sessions-5": Sessions(5),
    "sessions-20": Sessions(20),
    "repeats-5": Repeats(5),
}


def make_scenario(network_name: str, cell: str, bursts: str, seed: int) -> Scenario | None:
    """Return a stream, or ``None`` and a line in the log if the network has no such change."""
    key = zlib.crc32(f"{network_name}/{cell}/{bursts}".encode())
    rng = np.random.default_rng([key, seed])
    network, plan = load(network_name), _CELLS[cell]
    change = None
    if plan.change is not None:
        try:
            change = _drawn_change(plan.change, network, rng)
        except NoSuchChangeError as error:
            _log.warning("%s, %s: %s", network_name, cell, error)
            return None
    after = None if change is None else change.network
    stream_seed = int(rng.integers(2**31))
    stream = DriftStream(network, after, plan.schedule, BURSTS[bursts], seed=stream_seed)
    change_window = plan.n_windows if change is None else N_BEFORE
    back = N_BEFORE + N_AWAY if isinstance(plan.schedule, Recurring) else None
    full = change_window + plan.first_full
    made_of = (network_name, cell, bursts, seed)
    return Scenario(*made_of, stream, change, change_window, plan.n_windows, full, back)


def _drawn_change(change: Maker, network: BayesianNetwork, rng: np.random.Generator) -> Change:
    """Try several draws: a random table may be too weak, a random pair may not fit."""
    for _ in range(_N_TRIES):
        try:
            return change(network, rng)
        except (ConfigError, GraphError) as error:
            last = error
    raise NoSuchChangeError(str(last))


def windows(scenario: Scenario) -> Iterator[Codes]:
    """Yield the windows ``[variables, rows]``, variables in the order of the network's nodes."""
    return islice(scenario.stream.batches(WINDOW_ROWS), scenario.n_windows)


def columns(scenario: Scenario, codes: Codes) -> dict[str, Codes]:
    """Return a window as a table of columns."""
    return dict(zip(scenario.stream.before.nodes, codes, strict=True))
