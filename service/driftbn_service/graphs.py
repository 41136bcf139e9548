"""Graphs from files: what ``learn`` wrote as JSON or BIF."""

from __future__ import annotations

import json

from driftbn.errors import FormatError
from driftbn.graphs.files import graph_from_dict, read_bif
from driftbn.graphs.graph import Dag, Pdag
from driftbn_service.errors import blamed_on
from driftbn_service.records.formats import suffix_and_codec
from driftbn_service.records.inputs import Input

LEARNED_FORMAT = "driftbn-learned"
"""Marks the JSON that ``learn`` writes; it holds the graph and what it cost."""
LEARNED_VERSION = 1

_N_PROBED_BYTES = 200  # the mark is the first thing in the JSON


def is_graph(source: Input) -> bool:
    """Whether the input holds a graph rather than a table; a compressed one is a table."""
    start = source.start()[:_N_PROBED_BYTES].lstrip()
    return _is_bif(source) or (start.startswith(b"{") and b'"driftbn-' in start)


def _is_bif(source: Input) -> bool:
    return suffix_and_codec(source.name, b"")[0] == ".bif"


def read_graph(source: Input) -> Dag | Pdag:
    """Read a graph; from BIF only the structure is taken.

    Raises
    ------
    InputError
        If the input is not in its format.
    """
    with blamed_on(source.name):
        text = source.read_all().decode("utf-8-sig")
        if _is_bif(source):
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
