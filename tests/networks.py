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

_FOLDER = Path(__file__).parent / "networks"
_BUNDLED = ("asia", "alarm", "100_130", "200_250")

NAMES = (*_BUNDLED, *sorted(path.stem for path in _FOLDER.glob("*.json")))
"""All that `load` knows, the bundled ones first."""


@cache
def load(name: str) -> BayesianNetwork:
    if name in _BUNDLED:
        return datasets.load(name)
    data = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    parents = [[data["nodes"][i] for i in indices] for indices in data["parents"]]
    return BayesianNetwork(data["nodes"], data["states"], parents, data["cpts"])
