"""Graphs from files: what ``learn`` wrote as JSON or BIF."""

from __future__ import annotations

import json

from driftbn.errors import FormatError
from driftbn.graphs.files import graph_from_dict, read_bif
from driftbn.graphs.graph import Dag, Pdag
from driftbn_service.errors import blamed_on
from driftbn_service.tables import Source

LEARNED_FORMAT = "driftbn-learned"
"""Marks the JSON that ``learn`` writes; it holds the graph and what it cost."""
LEARNED_VERSION = 1

_N_PROBED_BYTES = 200  # the mark is the first thing in the JSON


def is_graph(source: Source) -> bool:
    """Whether the input holds a graph rather than a table."""
    start = source.data[:_N_PROBED_BYTES].lstrip()
    return source.suffix == ".bif" or (start.startswith(b"{") and b'"driftbn-' in start)


def read_graph(source: Source) -> Dag | Pdag:
    """Read a graph; from BIF only the structure is taken.

    Raises
    ------
    InputError
        If the input is not in its format.
    """
    with blamed_on(source.name):
        text = source.data.decode("utf-8-sig")
        if source.suffix == ".bif":
            return read_bif(text).dag
        return graph_from_dict(_graph_in(text))


def _graph_in(text: str) -> object:
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != LEARNED_FORMAT:
        return data
    if data.get("version") != LEARNED_VERSION:
        found = data.get("version")
        raise FormatError(f"version is {found!r}; it must be {LEARNED_VERSION}")
    return data.get("graph")
