"""Graphs as versioned JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from driftbn.errors import FormatError, GraphError
from driftbn.graph import Dag, Edge, Pdag

FORMAT = "driftbn-graph"
VERSION = 1


def graph_to_dict(graph: Dag | Pdag) -> dict[str, object]:
    """Return a graph as plain lists and strings, ready for JSON.

    Examples
    --------
    >>> graph_to_dict(Pdag("ab", [], [("b", "a")]))["undirected"]
    [['a', 'b']]
    """
    if isinstance(graph, Dag):
        graph = graph.to_pdag()
    return {
        "format": FORMAT,
        "version": VERSION,
        "nodes": list(graph.nodes),
        "directed": [list(edge) for edge in graph.directed_edges],
        "undirected": [list(edge) for edge in graph.undirected_edges],
    }


def graph_from_dict(data: object) -> Pdag:
    """Read what `graph_to_dict` returned; keys it does not know are ignored.

    Parameters
    ----------
    data
        The decoded JSON.

    Returns
    -------
    Pdag
        Also if a `Dag` was written: ``Dag(graph.nodes, graph.directed_edges)`` gives it back.

    Raises
    ------
    FormatError
        If format, version or a field are not as expected, or the graph breaks a rule.

    Examples
    --------
    >>> graph = Pdag("abc", [("a", "b")], [("b", "c")])
    >>> graph_from_dict(graph_to_dict(graph)) == graph
    True
    """
    if not isinstance(data, Mapping):
        raise FormatError(f"a graph must be a JSON object, not {type(data).__name__}")
    for key, expected in (("format", FORMAT), ("version", VERSION)):
        found = data.get(key)
        # True equals 1 in Python but is another value in JSON.
        if found != expected or isinstance(found, bool):
            raise FormatError(f"{key} is {found!r}; it must be {expected!r}")
    try:
        return Pdag(_names(data), _edges(data, "directed"), _edges(data, "undirected"))
    except GraphError as error:
        raise FormatError(f"the graph is not sound: {error}") from error


def write_json(graph: Dag | Pdag) -> str:
    """Write a graph as one line of JSON; equal graphs give equal text.

    Examples
    --------
    >>> write_json(Dag("a"))
    '{"format":"driftbn-graph","version":1,"nodes":["a"],"directed":[],"undirected":[]}'
    """
    return json.dumps(graph_to_dict(graph), separators=(",", ":"))


def read_json(text: str) -> Pdag:
    """Read what `write_json` wrote; see `graph_from_dict`.

    Raises
    ------
    FormatError
        If the text is not JSON or not a graph.

    Examples
    --------
    >>> read_json(write_json(Dag("ab", [("a", "b")]))).directed_edges
    (('a', 'b'),)
    """
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error
    return graph_from_dict(data)


def _field(data: Mapping[str, object], key: str) -> list[object]:
    found = data.get(key)
    if not isinstance(found, list):
        raise FormatError(f"{key} must be a list, found {type(found).__name__}")
    return found


def _names(data: Mapping[str, object]) -> list[str]:
    names = []
    for name in _field(data, "nodes"):
        if not isinstance(name, str):
            raise FormatError(f"nodes must be strings, found {name!r}")
        names.append(name)
    return names


def _edges(data: Mapping[str, object], key: str) -> list[Edge]:
    edges = []
    for edge in _field(data, key):
        match edge:
            case [str(source), str(target)]:
                edges.append((source, target))
            case _:
                raise FormatError(f"{key} must hold pairs of names, found {edge!r}")
    return edges
