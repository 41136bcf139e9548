"""What tests use of networks: how they are made and written, and some with known truth."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from driftbn import datasets
from driftbn.graphs.files import (  # noqa: F401
    graph_from_dict,
    graph_to_dict,
    read_bif,
    write_bif,
    write_dot,
)
from driftbn.graphs.network import BayesianNetwork, ancestors, fit_parameters, joint  # noqa: F401

_HERE = Path(__file__).parent
_FOLDERS = (_HERE / "networks", _HERE / "benchmarks" / "networks")  # the latter are for timing

NAMES = (
    *("asia", "alarm", "100_130", "200_250"),
    *sorted(path.stem for path in _FOLDERS[0].glob("*.json")),
)
"""Networks to test with, the bundled ones first."""


@cache
def load(name: str) -> BayesianNetwork:
    path = next((path for f in _FOLDERS if (path := f / f"{name}.json").exists()), None)
    if path is None:
        return datasets.load(name)
    data = json.loads(path.read_text("utf-8"))
    parents = [[data["nodes"][i] for i in indices] for indices in data["parents"]]
    return BayesianNetwork(data["nodes"], data["states"], parents, data["cpts"])
