"""The shapes of answers, as JSON schemas; OpenAPI 3.1 takes them as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from driftbn.drift.outcome import ChangeType
from driftbn_service.endpoint.changed_graph import EdgeStatus

Schema: TypeAlias = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer"}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
PROBLEM: Final = "Problem"


def ref(name: str) -> Schema:
    """Return a schema that points to a shared one."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def optional(schema: Schema) -> Schema:
    """Return a schema that also takes null."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    found = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        found["enum"] = [*schema["enum"], None]
    return found


def choice(values: Iterable[str]) -> Schema:
    """Return the schema of one of some texts."""
    return {"type": "string", "enum": list(values)}


def record(properties: dict[str, Schema], *, more: bool = False) -> Schema:
    """Return the schema of an object that has all these members, and no others unless ``more``."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": more,
    }


def page(items: Schema) -> Schema:
    """Return the schema of a page of a longer list."""
    return record({"items": array(items), "next": optional(TEXT)})


def _edge(**more: Schema) -> Schema:
    return record({"source": TEXT, "target": TEXT, **more})


_NUMBER_OR_NULL = optional(NUMBER)
_STRENGTH = record({"nats": _NUMBER_OR_NULL, "low": _NUMBER_OR_NULL, "high": _NUMBER_OR_NULL})
_LEVELS = ("learning", "stable", "negligible", "drift", "settling", "undecided")
_KINDS = ("structural", "association", "mechanism", "marginal")

_GRAPH = record({"nodes": array(TEXT), "edges": array(_edge(directed=FLAG))})
_DIFF = record(
    {
        **dict.fromkeys(("hamming", "skeleton", "contradictions"), WHOLE),
        **dict.fromkeys(("added", "removed", "reversed", "directed", "undirected"), array(_edge())),
        **dict.fromkeys(("nodes_added", "nodes_removed"), array(TEXT)),
    }
)
_EDGE_CHANGE = _edge(
    change=choice(("added", "removed", "reversed")),
    directed=FLAG,
    p_value=_NUMBER_OR_NULL,
    before=ref("Strength"),
    after=ref("Strength"),
    given=array(TEXT),
)
_NODE_CHANGE = record(
    {"name": TEXT, "parents": array(TEXT), "p_value": _NUMBER_OR_NULL, "effect": _NUMBER_OR_NULL}
)
_FAMILY = record(
    {
        "family": choice(("mechanism", "association")),
        "p_value": _NUMBER_OR_NULL,
        "fields": array(TEXT),
        "scale": WHOLE,
        "n_tests": WHOLE,
        "design_effect": _NUMBER_OR_NULL,
    }
)
_DECISION = record(
    {
        "level": choice(_LEVELS),
        "drift": FLAG,
        "kind": optional(choice(_KINDS)),
        "p_value": _NUMBER_OR_NULL,
        "alpha": _NUMBER_OR_NULL,
        "scale": optional(WHOLE),
        "families": array(_FAMILY),
        "confirmed_hamming": WHOLE,
        "edges": array(ref("EdgeChange")),
        "nodes": array(ref("NodeChange")),
        "effect": _NUMBER_OR_NULL,
        "min_effect": _NUMBER_OR_NULL,
        "n_undecided": WHOLE,
        "undecided": array(_edge(visible_change=_NUMBER_OR_NULL)),
        "episode": optional(WHOLE),
        "episode_event": optional(choice(("started", "updated", "ended"))),
        "since": optional(WHOLE),
        "regime": WHOLE,
        "recurring": FLAG,
        "design_effect": _NUMBER_OR_NULL,
        "reference_windows": WHOLE,
        "reason": optional(TEXT),
    }
)
_COST = record(
    {
        **dict.fromkeys(("tests", "undecided", "orientation_tests"), array(WHOLE)),
        **dict.fromkeys(("weighted", "n_tests"), WHOLE),
        "warm": FLAG,
    }
)
_SCHEMA_EVENT = record(
    {
        "kind": TEXT,
        "column": optional(TEXT),
        "levels": array(TEXT),
        "n_levels": WHOLE,
        "n_rows": WHOLE,
    }
)
_REPORT = record(
    {
        "format": {"const": "driftbn.report"},
        **dict.fromkeys(("version", "index", "rows", "first_record", "last_record"), WHOLE),
        **dict.fromkeys(("start", "end"), _NUMBER_OR_NULL),
        **dict.fromkeys(("graph", "dag"), ref("Graph")),
        **dict.fromkeys(("diff", "class_diff"), ref("Diff")),
        "decision": ref("Decision"),
        "cost": ref("Cost"),
        "conflicts": array(_edge()),
        "events": array(_SCHEMA_EVENT),
        "excluded": array(record({"name": TEXT, "reason": TEXT})),
        "twins": array(record({"name": TEXT, "same_as": TEXT})),
        "degraded": FLAG,
        "overrun": optional(TEXT),
        "audit": optional(record({"disagreement": WHOLE, "cost": ref("Cost")})),
        "shadow": optional(record({"alarm": FLAG})),
        "missing": array(record({"name": TEXT, "share": _NUMBER_OR_NULL})),
        "target": optional(TEXT),
        "blanket": array(TEXT),
    }
)
_EXPLANATION = record({"headline": TEXT, "sentences": array(TEXT), "advice": array(TEXT)})
_STATUS = choice(status.value for status in EdgeStatus)
_CHANGED_EDGE = _edge(
    directed=FLAG,
    status=_STATUS,
    confirmed=optional(choice(change.value for change in ChangeType)),
    p_value=_NUMBER_OR_NULL,
    before=optional(ref("Strength")),
    after=optional(ref("Strength")),
    given=array(TEXT),
)
_CHANGED_NODE = record(
    {
        "name": TEXT,
        "changed": FLAG,
        "p_value": _NUMBER_OR_NULL,
        "effect": _NUMBER_OR_NULL,
        "target": FLAG,
        "near_target": FLAG,
    }
)
_PROBLEM = record({"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT}, more=True)

COMPONENTS: Final[dict[str, Schema]] = {
    PROBLEM: _PROBLEM,
    "Strength": _STRENGTH,
    "Graph": _GRAPH,
    "Diff": _DIFF,
    "EdgeChange": _EDGE_CHANGE,
    "NodeChange": _NODE_CHANGE,
    "Decision": _DECISION,
    "Cost": _COST,
    "Report": _REPORT,
    "Explanation": _EXPLANATION,
    "ChangedEdge": _CHANGED_EDGE,
    "ChangedNode": _CHANGED_NODE,
}
"""Shapes that several answers share."""
