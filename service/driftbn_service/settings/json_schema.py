"""The JSON schema of the settings, for editors and other programs."""

from __future__ import annotations

from typing import Any

from driftbn_service.settings.model import Settings


def settings_schema() -> dict[str, Any]:
    """Return what a settings file may hold as a JSON schema.

    Examples
    --------
    >>> sorted(settings_schema()["properties"])[:3]
    ['checkpoint', 'endpoint', 'log']
    """
    schema = Settings.model_json_schema(mode="validation")
    for table in schema["$defs"].values():
        # In Python a kind goes without saying; in a file it tells tables apart.
        if "kind" in table.get("properties", {}):
            table["required"] = ["kind", *table.get("required", [])]
    _tidy(schema)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of driftbn",
    }
    return head | {key: value for key, value in schema.items() if key != "title"}


def _tidy(node: Any) -> None:
    """Put descriptions on one line and drop titles, which only repeat the names."""
    if isinstance(node, list):
        for item in node:
            _tidy(item)
    elif isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        if isinstance(node.get("description"), str):
            text = " ".join(node["description"].split())
            node["description"] = text.partition(" Examples ---")[0]
        for value in node.values():
            _tidy(value)
