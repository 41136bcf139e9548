"""The episodes of a monitor: changes, however many windows each took."""

from __future__ import annotations

from starlette.responses import Response

from driftbn_service.endpoint.documents import episode_document
from driftbn_service.endpoint.limits import Limits
from driftbn_service.endpoint.operations import (
    Call,
    Operation,
    Parameter,
    Place,
    Reply,
    json_response,
)
from driftbn_service.endpoint.parameters import KEY, MONITOR, numbered_pages
from driftbn_service.endpoint.problems import PROBLEM_TYPE, not_found
from driftbn_service.endpoint.schemas import PROBLEM, WHOLE, optional, page, record, ref
from driftbn_service.endpoint.views.finding import find_monitor
from driftbn_service.endpoint.views.paging import numbered_page
from driftbn_service.naming import naming_window

_BASE = "/api/v1/monitors/{name}/episodes"


def operations(limits: Limits) -> tuple[Operation, ...]:
    """Return the routes of episodes."""
    unknown = Reply("There is no such monitor or episode.", ref(PROBLEM), PROBLEM_TYPE)
    detail = {
        "episode": ref("Episode"),
        "explanation": optional(ref("Explanation")),
        "explained_window": optional(WHOLE),
    }
    return (
        Operation(
            _BASE,
            "episodes",
            "Episodes, the newest first.",
            episodes,
            {200: Reply("A page of episodes.", page(ref("Episode"))), 404: unknown},
            parameters=(MONITOR, KEY, *numbered_pages(limits)),
        ),
        Operation(
            f"{_BASE}/{{number}}",
            "episode",
            "One episode, with the explanation of the window that names its change best.",
            episode,
            {200: Reply("The episode.", record(detail)), 404: unknown},
            parameters=(
                MONITOR,
                Parameter("number", "Number of the episode.", int, Place.PATH),
                KEY,
            ),
        ),
    )


def episodes(call: Call) -> Response:
    """Answer with a page of episodes."""
    find_monitor(call)
    most = call.number("limit")
    found = call.view.store.episodes(
        call.text("name"),
        call.text("key"),
        before=call.optional_number("cursor"),
        limit=most + 1,
    )
    return numbered_page([(row.episode, episode_document(row)) for row in found], most)


def episode(call: Call) -> Response:
    """Answer with one episode."""
    find_monitor(call)
    name, key, number = call.text("name"), call.text("key"), call.number("number")
    store = call.view.store
    found = store.episode(name, key, number)
    if found is None:
        detail = f"number = {number} is no episode in the history of monitor {name!r}"
        raise not_found("episode", number, detail)
    told = store.window(name, key, naming_window(store, found))
    return json_response(
        {
            "episode": episode_document(found),
            "explanation": None if told is None else told.explanation,
            "explained_window": None if told is None else told.row.window_index,
        }
    )
