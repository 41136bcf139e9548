"""The stream of the demonstration: records of a monitored patient, with changes at known places."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from driftbn import datasets
from driftbn.graphs.network import BayesianNetwork

WINDOW: Final = 2000
_FIRST: Final = 8
"""Windows before the first change: a reference has to grow first."""
_EACH: Final = 6
"""Windows of every other scene: a drift is seen in the first and has ended after the fourth."""
_SEED: Final = 7


@dataclass(frozen=True)
class Scene:
    """Windows that follow the same network.

    Parameters
    ----------
    change
        What is different from the scene before, in words; "" for the first.
    network
        What the records follow.
    n_windows
        How long.
    """

    change: str
    network: BayesianNetwork
    n_windows: int = _EACH

    @property
    def n_records(self) -> int:
        """The number of records of the scene."""
        return self.n_windows * WINDOW


def make_scenes() -> tuple[Scene, ...]:
    """Return the scenes of the demonstration in their order."""
    rng = np.random.default_rng(_SEED)
    usual = datasets.alarm()
    without = datasets.remove_edge(usual, "MINVOLSET", "VENTMACH").network
    joined = datasets.add_edge(usual, "KINKEDTUBE", "BP", 0.06, rng).network
    other = datasets.change_table(joined, "HRBP", 0.05, rng).network
    return (
        Scene("", usual, _FIRST),
        Scene("VENTMACH no longer depends on MINVOLSET", without),
        Scene("VENTMACH depends on MINVOLSET again", usual),
        Scene("BP now depends on KINKEDTUBE", joined),
        Scene("HRBP follows the same fields by another rule", other),
    )


def lines_of(network: BayesianNetwork, n_records: int, seed: int) -> bytes:
    """Return records as NDJSON.

    Examples
    --------
    >>> line = lines_of(datasets.asia(), 1, seed=1)
    >>> sorted(json.loads(line))
    ['asia', 'bronc', 'dysp', 'either', 'lung', 'smoke', 'tub', 'xray']
    """
    records = datasets.sample(network, n_records, seed).to_dict("records")
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def windows_of(scenes: tuple[Scene, ...], first_seed: int = 1000) -> Iterator[bytes]:
    """Iterate over the windows of scenes as NDJSON, each with a seed of its own."""
    seed = first_seed
    for scene in scenes:
        for _ in range(scene.n_windows):
            yield lines_of(scene.network, WINDOW, seed)
            seed += 1
