"""Plain values and arrays as bytes: a JSON header and an npz, with a version and a checksum.

Nothing is ever executed from such bytes: there is no pickle in them, and none is read.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from driftbn.config import MonitorConfig
from driftbn.errors import FormatError
from driftbn.graphs.graph import Dag, Pdag
from driftbn.learning import LearnedStructure, SearchCost
from driftbn.learning.search import RdsaTally, SeparatorMap
from driftbn.tables.encode import SchemaEvent, SchemaEventKind
from driftbn.tables.schema import Schema

MAGIC: Final = b"driftbn-state\n"
_ARRAY: Final = "__array__"
_LENGTH_BYTES: Final = 8


def pack(kind: str, version: int, values: Mapping[str, Any]) -> bytes:
    """Return plain values and arrays, nested in any way, as bytes; the same ones every time.

    ``values``: dicts with text keys, lists, tuples (read back as lists), text, numbers, booleans,
    ``None`` and arrays.

    >>> data = pack("example", 1, {"x": np.arange(3), "y": [1, None]})
    >>> unpack("example", 1, data)
    {'x': array([0, 1, 2]), 'y': [1, None]}
    """
    arrays: list[npt.NDArray[Any]] = []
    tree = _without_arrays(values, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, **{f"a{i}": array for i, array in enumerate(arrays)})  # type: ignore[arg-type]
    payload = buffer.getvalue()
    header = {
        "kind": kind,
        "version": version,
        "sha256": hashlib.sha256(payload).hexdigest(),
        "values": tree,
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    digest = hashlib.sha256(text).digest()
    return b"".join((MAGIC, len(text).to_bytes(_LENGTH_BYTES, "big"), digest, text, payload))


def unpack(kind: str, version: int, data: bytes) -> dict[str, Any]:
    """Return the values that ``pack`` was given.

    Raises FormatError if the bytes are something else, of another kind or version, or damaged.
    """
    text, payload = _split(data)
    header = json.loads(text)
    for name, expected in (("kind", kind), ("version", version)):
        if header.get(name) != expected:
            found = header.get(name)
            raise FormatError(f"state of {name} {found!r} cannot be read: it must be {expected!r}")
    if hashlib.sha256(payload).hexdigest() != header.get("sha256"):
        raise FormatError("the state is damaged: its arrays do not have the stored checksum")
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise FormatError(f"the arrays of the state cannot be read: {error}") from error
    values = _with_arrays(header["values"], arrays)
    if not isinstance(values, dict):
        raise FormatError("the state must be a table of values")
    return values


def _split(data: bytes) -> tuple[bytes, bytes]:
    start = len(MAGIC)
    if not data.startswith(MAGIC):
        raise FormatError(f"no state of driftbn: it must begin with {MAGIC!r}")
    length = int.from_bytes(data[start : start + _LENGTH_BYTES], "big")
    at = start + _LENGTH_BYTES + hashlib.sha256().digest_size
    digest, text = data[start + _LENGTH_BYTES : at], data[at : at + length]
    if len(text) != length or hashlib.sha256(text).digest() != digest:
        raise FormatError("the state is damaged: its header is cut off or changed")
    return text, data[at + length :]


def _without_arrays(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise FormatError(f"an array of {value.dtype} cannot be stored")
        arrays.append(value)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, Mapping):
        return {str(key): _without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return [_without_arrays(item, arrays) for item in value]


def _with_arrays(value: Any, arrays: dict[str, npt.NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ARRAY}:
        name = f"a{value[_ARRAY]}"
        if name not in arrays:
            raise FormatError(f"the state lacks the array {name!r}")
        return arrays[name]
    return {key: _with_arrays(item, arrays) for key, item in value.items()}


# Parts of a monitor as plain values and arrays, and back.

KIND: Final = "monitor"
VERSION: Final = 5


def config_values(config: MonitorConfig) -> dict[str, Any]:
    variables = config.variables
    plain: dict[str, Any] = _plain(asdict(replace(config, variables=None)))
    return plain | {"variables": None if variables is None else variables.to_dict()}


def read_config(values: Mapping[str, Any]) -> MonitorConfig:
    variables = values["variables"]
    schema = None if variables is None else Schema.from_dict(variables)
    return MonitorConfig(**{**values, "variables": schema})


def learned_values(learned: LearnedStructure) -> dict[str, Any]:
    """Return what the next search, the diff and the naming need of a learned structure."""
    members, sizes = learned.separators.arrays
    return {
        "graph": pdag_values(learned.graph),
        "names": list(learned.separators.names),
        "separators": members,
        "separator_sizes": sizes,
        "tallies": learned.tallies.units,
    }


def read_learned(values: Mapping[str, Any]) -> LearnedStructure:
    """Return a structure as good as the one that ``learned_values`` was given."""
    names = tuple(values["names"])
    separators = SeparatorMap.from_arrays(names, values["separators"], values["separator_sizes"])
    tallies = RdsaTally(names, values["tallies"])
    return LearnedStructure(read_pdag(values["graph"]), separators, tallies, (), SearchCost(()))


def pdag_values(graph: Pdag) -> dict[str, Any]:
    return {
        "nodes": list(graph.nodes),
        "directed": [list(edge) for edge in graph.directed_edges],
        "undirected": [list(edge) for edge in graph.undirected_edges],
    }


def read_pdag(values: Mapping[str, Any]) -> Pdag:
    edges = ([(u, v) for u, v in values[name]] for name in ("directed", "undirected"))
    return Pdag(values["nodes"], *edges)


def dag_values(dag: Dag) -> dict[str, Any]:
    return {"nodes": list(dag.nodes), "edges": [list(edge) for edge in dag.edges]}


def read_dag(values: Mapping[str, Any]) -> Dag:
    return Dag(values["nodes"], [(u, v) for u, v in values["edges"]])


def event_values(event: SchemaEvent) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(asdict(event))
    return plain


def read_event(values: Mapping[str, Any]) -> SchemaEvent:
    parts = dict(values)
    kind, levels = SchemaEventKind(parts.pop("kind")), tuple(parts.pop("levels"))
    return SchemaEvent(kind=kind, levels=levels, **parts)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
