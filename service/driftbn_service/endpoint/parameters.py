"""Parameters that several routes share."""

from __future__ import annotations

from typing import Final

from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.operations import Parameter, Place

MONITOR: Final = Parameter("name", "The monitor, as in the settings.", place=Place.PATH)
KEY: Final = Parameter(
    "key", "Which monitor of a keyed stream; left out for a stream without a key.", default=""
)
WINDOW: Final = Parameter("window", "Number of the window; the newest unless given.", int)
DEFAULT_PAGE: Final = 100
"""Items of a page unless the client says otherwise."""


def numbered_pages(limits: Limits) -> tuple[Parameter, ...]:
    """Return the parameters of pages of what is numbered."""
    return Parameter("cursor", "Where to go on: `next` of the page before.", int), limit(limits)


def limit(limits: Limits, default: int = DEFAULT_PAGE) -> Parameter:
    """Return the parameter that says how long a page may be."""
    return Parameter(
        "limit",
        "Most items of the page.",
        int,
        default=min(default, limits.max_page),
        minimum=1,
        maximum=limits.max_page,
    )
