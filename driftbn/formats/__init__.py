"""Text forms of networks and graphs: BIF, DOT and JSON; text in, text out, no files."""

from driftbn.formats.bif import read_bif, write_bif
from driftbn.formats.dot import write_dot
from driftbn.formats.json import graph_from_dict, graph_to_dict, read_json, write_json

__all__ = [
    "graph_from_dict",
    "graph_to_dict",
    "read_bif",
    "read_json",
    "write_bif",
    "write_dot",
    "write_json",
]
