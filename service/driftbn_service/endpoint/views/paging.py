"""Pages of what is numbered, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from driftbn_service.endpoint.operations import json_response


def numbered_page(found: Sequence[tuple[int, dict[str, Any]]], most: int) -> Response:
    """Answer with a page.

    Parameters
    ----------
    found
        Documents with their numbers, one more than the page may have if there are so many.
    most
        How many it may have.
    """
    more = str(found[most - 1][0]) if len(found) > most else None
    return json_response({"items": [document for _, document in found[:most]], "next": more})
