"""Publications as rows of the history."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from driftbn_service.events import Event, Publication
from driftbn_service.plain_json import encoded

_DIGEST_BYTES: Final = 16
_LEVEL: Final = 3
"""Of zlib: a report of Alarm takes 50 us and 1.36 kB; at level 6 87 us and 1.23 kB."""
_FAMILIES: Final = ("mechanism", "association")


def compressed(document: Mapping[str, Any]) -> bytes:
    """Return a document as compressed JSON.

    Examples
    --------
    >>> decompressed(compressed({"a": [0.1, None]}))
    {'a': [0.1, None]}
    """
    return zlib.compress(encoded(document), _LEVEL)


def decompressed(data: bytes) -> dict[str, Any]:
    """Return the document that ``compressed`` was given."""
    return dict(json.loads(zlib.decompress(data)))


def as_json(value: object) -> str:
    """Return plain values as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def digest_of(publication: Publication) -> bytes:
    """Return what tells two publications of one window apart; how long it took is no part of it."""
    return _digest(encoded(_lasting_parts(publication), sort_keys=True))


def window_values(publication: Publication, now: float) -> dict[str, Any]:
    """Return the columns of the table ``windows``."""
    report, timings = publication.report, publication.timings
    decision, diff = report["decision"], report["diff"]
    return {
        "monitor": publication.monitor,
        "key": publication.key,
        "window_index": publication.window,
        "lane": publication.lane,
        "first_record": report["first_record"],
        "last_record": report["last_record"],
        "rows": report["rows"],
        "start": report["start"],
        "end": report["end"],
        "hamming": diff["hamming"],
        "skeleton": diff["skeleton"],
        "confirmed_hamming": decision["confirmed_hamming"],
        "level": decision["level"],
        "drift": decision["drift"],
        "kind": decision["kind"],
        "p_value": decision["p_value"],
        "alpha": decision["alpha"],
        **{f"p_{family}": _family_p(decision, family) for family in _FAMILIES},
        "n_edges": len(report["dag"]["edges"]),
        "n_nodes": len(report["dag"]["nodes"]),
        "warm": report["cost"]["warm"],
        "tests": report["cost"]["n_tests"],
        "undecided": decision["n_undecided"],
        "design_effect": decision["design_effect"],
        "effect": decision["effect"],
        "degraded": report["degraded"],
        "episode": decision["episode"],
        "headline": publication.explanation["headline"],
        "learn_seconds": timings.get("learn"),
        "decide_seconds": timings.get("decide"),
        "stored": now,
        "digest": digest_of(publication),
    }


def edge_values(
    monitor: str, key: str, window: int, report: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the rows of the table ``edges``."""
    decision, diff = report["decision"], report["diff"]
    found = [
        {
            "origin": "confirmed",
            "source": edge["source"],
            "target": edge["target"],
            "change": edge["change"],
            "p_value": edge["p_value"],
            "before": edge["before"]["nats"],
            "after": edge["after"]["nats"],
        }
        for edge in decision["edges"]
    ]
    untested = {"p_value": None, "before": None, "after": None}
    for change in ("added", "removed", "reversed"):
        found += [{"origin": "raw", **edge, "change": change, **untested} for edge in diff[change]]
    place = {"monitor": monitor, "key": key, "window_index": window}
    return [place | edge for edge in found]


def event_values(event: Event, lane: str, now: float) -> dict[str, Any]:
    """Return the columns of the table ``events``; an event without a time gets the present one."""
    document = event.document
    if document.get("time") is None:
        moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        document = document | {"time": moment.replace("+00:00", "Z")}
    return {
        "id": event.id,
        "type": event.type,
        "monitor": event.monitor,
        "key": event.key,
        "lane": lane,
        "window_index": event.window,
        "stored": now,
        "document": as_json(document),
    }


def _lasting_parts(publication: Publication) -> dict[str, Any]:
    parts = publication.to_dict()
    del parts["timings"]
    return parts


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


def _family_p(decision: Mapping[str, Any], family: str) -> float | None:
    found = (result["p_value"] for result in decision["families"] if result["family"] == family)
    return min((p for p in found if p is not None), default=None)
