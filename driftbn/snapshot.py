"""Plain values and arrays as bytes, compressed, with a version and a checksum.

The bytes are a mark, a checksum of the rest, and, compressed, a JSON header and the arrays one
after the other. Codes of a window are most of it: fields that together have at most 256
combinations share a byte a row, which says as much in a tenth of the bytes and compresses better.

Nothing is ever executed from such bytes: there is no pickle in them, and none is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from driftbn.config import MonitorConfig
from driftbn.errors import FormatError
from driftbn.graphs.graph import Dag, Pdag
from driftbn.learning import LearnedStructure, SearchCost
from driftbn.learning.search import RdsaTally, SeparatorMap
from driftbn.tables.schema import Schema

MAGIC: Final = b"driftbn-state\n"
_ARRAY: Final = "__array__"
_LENGTH_BYTES: Final = 8
_MAX_COMBINATIONS: Final = 256
_CODECS: Final = (
    pa.Codec("zstd", compression_level=3),  # beyond it bytes cost more than they save
    pa.Codec("brotli", compression_level=4),  # 10 % less, at 4 times the CPU
)
_SMALL_BYTES: Final = 1 << 16  # up to here the second one takes less than a millisecond
_Codes = npt.NDArray[np.uint8]


def pack(kind: str, version: int, values: Mapping[str, Any]) -> bytes:
    """Return plain values and arrays, nested in any way, as bytes; the same ones every time.

    ``values``: dicts with text keys, lists, tuples (read back as lists), text, numbers, booleans,
    ``None`` and arrays.

    >>> data = pack("example", 1, {"x": np.arange(3), "y": [1, None]})
    >>> dict(unpack("example", 1, data))
    {'x': array([0, 1, 2]), 'y': [1, None]}
    """
    arrays: list[npt.NDArray[Any]] = []
    tree = _without_arrays(values, arrays)
    stored = [_stored(array) for array in arrays]
    header = {
        "kind": kind,
        "version": version,
        "arrays": [form for form, _ in stored],
        "values": tree,
    }
    # Keys stay in their order, so that what was read is written as it was.
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    body = b"".join((len(text).to_bytes(_LENGTH_BYTES, "big"), text, *(data for _, data in stored)))
    codec = int(len(body) <= _SMALL_BYTES)
    head = bytes([codec]) + len(body).to_bytes(_LENGTH_BYTES - 1, "big")
    frame: bytes = head + _CODECS[codec].compress(body, asbytes=True)
    return MAGIC + hashlib.sha256(frame).digest() + frame


def unpack(kind: str, version: int, data: bytes, since: int | None = None) -> Mapping[str, Any]:
    """Return the values that ``pack`` was given, each read when it is asked for.

    ``since``: the first version that is read too.

    Raises FormatError if the bytes are something else, of another kind or version, or damaged.
    """
    body = memoryview(_body(data))
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    header = json.loads(bytes(body[_LENGTH_BYTES:end]))
    versions = range(version if since is None else since, version + 1)
    for name, allowed in (("kind", (kind,)), ("version", versions)):
        if header.get(name) not in allowed:
            found, expected = header.get(name), " or ".join(map(repr, allowed))
            raise FormatError(f"state of {name} {found!r} cannot be read: it must be {expected}")
    return _Values(header["values"], _Arrays(header["arrays"], body[end:]))


def _body(data: bytes) -> bytes:
    """Return what was compressed. What has the checksum was written by ``pack``."""
    if not data.startswith(MAGIC):
        raise FormatError(f"no state of driftbn: it must begin with {MAGIC!r}")
    at = len(MAGIC) + hashlib.sha256().digest_size
    digest, frame = data[len(MAGIC) : at], data[at:]
    if hashlib.sha256(frame).digest() != digest:
        raise FormatError("the state is damaged: it does not have the stored checksum")
    n_bytes = int.from_bytes(frame[1:_LENGTH_BYTES], "big")
    body: bytes = _CODECS[frame[0]].decompress(frame[_LENGTH_BYTES:], n_bytes, asbytes=True)
    return body


_Stored = tuple[list[Any], bytes]
_PACKED: Final[dict[int, tuple[weakref.ref[_Codes], _Stored]]] = {}
"""How windows are stored, by the identity of their codes, which nobody writes to."""


def _stored(array: npt.NDArray[Any]) -> _Stored:
    """Return how an array is stored, and its bytes: codes by row, all else as it is."""
    if array.flags.writeable or array.base is not None:
        return _packed(array)
    key = id(array)
    if key not in _PACKED:
        gone = weakref.ref(array, lambda _: _PACKED.pop(key, None))
        _PACKED[key] = gone, _packed(array)
    return _PACKED[key][1]


def _packed(array: npt.NDArray[Any]) -> _Stored:
    form = [array.dtype.str, array.shape]
    if array.dtype != np.uint8 or array.ndim != 2 or not array.size:
        return [*form, None], array.tobytes()
    n_levels = (array.max(axis=1).astype(int) + 1).tolist()
    packed = np.empty((array.shape[1], len(list(_groups(n_levels)))), np.uint8)
    for column, (first, stop) in enumerate(_groups(n_levels)):
        packed[:, column] = np.ravel_multi_index(array[first:stop], n_levels[first:stop])
    return [*form, n_levels], packed.tobytes()


def _groups(n_levels: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and stop of neighbouring fields that fit one byte together."""
    first, n_combinations = 0, 1
    for i, n in enumerate(n_levels):
        n_combinations *= n
        if n_combinations > _MAX_COMBINATIONS:
            yield first, i
            first, n_combinations = i, n
    yield first, len(n_levels)


class _Arrays:
    """The arrays of a state; each is read when it is asked for."""

    def __init__(self, forms: Sequence[Any], body: memoryview) -> None:
        self._forms = forms
        self._body = body
        self._begins = [0, *accumulate(map(_n_bytes, forms))]

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        dtype, shape, n_levels = self._forms[index]
        groups = [] if n_levels is None else list(_groups(n_levels))
        stored = shape if n_levels is None else (shape[1], len(groups))
        at, n = self._begins[index], math.prod(stored)
        array = np.frombuffer(self._body, np.dtype(dtype), n, at).reshape(stored)
        return array.copy() if n_levels is None else _unpacked(array, n_levels, groups)


def _n_bytes(form: Sequence[Any]) -> int:
    dtype, shape, n_levels = form
    n_items = math.prod(shape) if n_levels is None else shape[1] * len(list(_groups(n_levels)))
    return int(n_items * np.dtype(dtype).itemsize)


class _Values(Mapping[str, Any]):
    def __init__(self, tree: dict[str, Any], arrays: _Arrays) -> None:
        self._tree = tree
        self._arrays = arrays

    def __getitem__(self, name: str) -> Any:
        return _with_arrays(self._tree[name], self._arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)


def _unpacked(packed: _Codes, n_levels: Sequence[int], groups: Sequence[tuple[int, int]]) -> _Codes:
    codes = np.empty((len(n_levels), len(packed)), np.uint8)
    for column, (first, stop) in enumerate(groups):
        every = np.indices(n_levels[first:stop], np.uint8).reshape(stop - first, -1)
        np.take(every, packed[:, column], axis=1, out=codes[first:stop])
    return codes


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


def _with_arrays(value: Any, arrays: _Arrays) -> Any:
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ARRAY}:
        return arrays[value[_ARRAY]]
    return {key: _with_arrays(item, arrays) for key, item in value.items()}


# Parts of a monitor as plain values and arrays, and back.

KIND: Final = "monitor"
CORE: Final = "monitor's core"
TAIL: Final = "monitor's tail"
CORE_PARTS: Final = (
    "config",
    "decider",
    "previous",
    "dag",
    "taken_until",
    "distances",
    "history",
)
VERSION: Final = 7
FIRST_READ: Final = 6
"""The first version of snapshots that can still be read."""


def config_text(config: MonitorConfig) -> str:
    variables = config.variables
    plain: dict[str, Any] = _plain(asdict(replace(config, variables=None)))
    plain["variables"] = None if variables is None else variables.to_dict()
    return json.dumps(plain, allow_nan=False)


@lru_cache(maxsize=16)
def read_config(text: str) -> MonitorConfig:
    """Return the settings; thousands of monitors that have the same ones share them."""
    values = json.loads(text)
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


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
