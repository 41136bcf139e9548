"""Graphviz DOT, for drawing."""

from __future__ import annotations

from driftbn.graph import Dag, Pdag

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
# Graphviz reads "&lt;" and the like in labels, so the sign itself must be written as one.
_LABEL_ESCAPES = _ESCAPES | {ord("&"): "&amp;"}


def write_dot(graph: Dag | Pdag) -> str:
    r"""Write a graph in DOT: nodes, then arrows, then lines, each sorted by name.

    Names are quoted; a backslash, a quote and a line break in a name are escaped, and such a node
    gets a label of its own, because Graphviz would interpret the name.

    Parameters
    ----------
    graph
        What to write. Undirected edges have ``dir=none``.

    Examples
    --------
    >>> print(write_dot(Pdag("abc", [("a", "b")], [("c", "b")])), end="")
    digraph {
      "a";
      "b";
      "c";
      "a" -> "b";
      "b" -> "c" [dir=none];
    }
    """
    if isinstance(graph, Dag):
        graph = graph.to_pdag()
    lines = [_node_line(node) for node in graph.nodes]
    lines += [f"  {_quoted(u)} -> {_quoted(v)};" for u, v in graph.directed_edges]
    lines += [f"  {_quoted(u)} -> {_quoted(v)} [dir=none];" for u, v in graph.undirected_edges]
    return "\n".join(("digraph {", *lines, "}")) + "\n"


def _node_line(node: str) -> str:
    label = node.translate(_LABEL_ESCAPES)
    return f"  {_quoted(node)};" if label == node else f'  {_quoted(node)} [label="{label}"];'


def _quoted(name: str) -> str:
    return f'"{name.translate(_ESCAPES)}"'
