"""What is answered of monitors, their windows and episodes, and of the service itself."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeAlias

import orjson
from starlette.responses import PlainTextResponse, Response

from driftbn.explain import Explanation
from driftbn.report import WindowReport
from driftbn_service.events import naming_window
from driftbn_service.http import ServiceView, StreamInfo
from driftbn_service.http.routes import (
    ANSWERS,
    Operation,
    Parameter,
    ProblemError,
    Reply,
    bad_value,
    not_found,
)
from driftbn_service.state import (
    ActionRow,
    EdgeRow,
    EpisodeRow,
    MonitorRow,
    Series,
    Store,
    WindowDetail,
    WindowRow,
)

MAX_SERIES: Final = 10_000
"""Windows of a time line; as columns even so many are small."""
MAX_ACTIONS: Final = 1000
"""What people did last that is looked through for an episode."""
GONE: Final = "gone"
"""The state of a monitor that is in the history and not in the settings any more."""
ALWAYS_ANSWERED: Final = frozenset({"/-/healthy", "/-/ready", "/metrics"})
"""Paths that no number of other requests keeps from being answered."""
STREAMS: Final = "/api/v1/streams"
STREAM: Final = f"{STREAMS}/{{name}}"
_TEXT: Final = "text/plain"
_HTML: Final = "text/html; charset=utf-8"
_UNKNOWN: Final = {404: Reply("There is no such stream, key, window or episode.")}
_DEFAULT_PAGE: Final = 100
_OF_HISTORY: Final = ("key", "n_windows", "n_drifts", "n_episodes", "last", "open_episode")

Name: TypeAlias = Annotated[str, Parameter("The stream, as in the settings.")]
Key: TypeAlias = Annotated[
    str, Parameter("Which monitor of a keyed stream; left out for a stream without a key.")
]
Cursor: TypeAlias = Annotated[int | None, Parameter("Where to go on: `next` of the page before.")]
Limit: TypeAlias = Annotated[int, Parameter("Most items of the page.", minimum=1, maximum=None)]
Place: TypeAlias = tuple[str, str]
"""Name and key of a monitor."""


# --- Health, readiness, metrics ---


async def healthy(service: ServiceView) -> Response:
    """Tell whether the service works; restart it if not."""
    return _state("healthy", service.sickness())


async def ready(service: ServiceView) -> Response:
    """Tell whether all sources are connected and checkpoints are written."""
    return _state("ready", service.unreadiness())


def metrics(
    service: ServiceView,
    accept: Annotated[
        str, Parameter("application/openmetrics-text or text/plain.", header=True)
    ] = "",
) -> Response:
    """Give the metrics for Prometheus, as OpenMetrics if the client accepts it."""
    body, content_type = service.metrics.text(accept)
    return Response(body, headers={"content-type": content_type})


def _state(word: str, reasons: tuple[str, ...]) -> Response:
    if not reasons:
        return PlainTextResponse(f"{word}\n")
    lines = "".join(f"{reason}\n" for reason in reasons)
    return PlainTextResponse(f"not {word}\n{lines}", HTTPStatus.SERVICE_UNAVAILABLE)


# --- Monitors ---


@dataclass(frozen=True)
class Monitor:
    """A monitor: what the history has of it, and what its stream does."""

    name: str
    key: str = ""
    key_field: str | None = None
    source: str | None = None
    state: str = GONE
    trouble: str | None = None
    n_windows: int = 0
    n_drifts: int = 0
    n_episodes: int = 0
    last: WindowRow | None = None
    open_episode: EpisodeRow | None = None

    @classmethod
    def of(cls, name: str, row: MonitorRow | None, stream: StreamInfo | None) -> Monitor:
        """Return a monitor of which at least one of the two is known."""
        known: dict[str, Any] = {}
        if stream is not None:
            known = {field: getattr(stream, field) for field in ("source", "state", "trouble")}
            known["key_field"] = stream.key
        if row is not None:
            known |= {field: getattr(row, field) for field in _OF_HISTORY}
        return cls(name, **known)


@dataclass(frozen=True)
class MonitorPage:
    """A page of monitors."""

    items: tuple[Monitor, ...]
    next: str | None


def monitors(
    service: ServiceView,
    name: Annotated[str | None, Parameter("Only the monitors of this stream.")] = None,
    cursor: Annotated[str | None, Parameter("Where to go on: `next` of the page before.")] = None,
    limit: Limit = _DEFAULT_PAGE,
) -> MonitorPage:
    """List all monitors, in the order of name and key."""
    after = None if cursor is None else _place(cursor)
    store, streams = service.store, service.streams()
    rows = store.monitors(name, after=after, limit=limit + 1)
    found: list[tuple[Place, MonitorRow | None]] = [((row.stream, row.key), row) for row in rows]
    last = found[-1][0] if len(found) > limit else None
    found += [
        (place, None) for place in _silent(store, streams, name) if _between(after, place, last)
    ]
    found.sort(key=lambda item: item[0])
    known = {stream.name: stream for stream in streams}
    items = tuple(Monitor.of(place[0], row, known.get(place[0])) for place, row in found[:limit])
    return MonitorPage(items, _cursor(found[limit - 1][0]) if len(found) > limit else None)


def monitor(service: ServiceView, name: Name, key: Key = "") -> Monitor:
    """Tell of one monitor."""
    return Monitor.of(name, *find_monitor(service, name, key))


def _silent(store: Store, streams: Sequence[StreamInfo], name: str | None) -> list[Place]:
    """Return the streams of which nothing is in the history yet."""
    wanted = [stream.name for stream in streams if name in (None, stream.name)]
    return [(found, "") for found in wanted if not store.monitors(found, limit=1)]


def _between(after: Place | None, place: Place, last: Place | None) -> bool:
    return (after is None or place > after) and (last is None or place < last)


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode()


def _place(cursor: str) -> Place:
    try:
        name, key = orjson.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError, binascii.Error) as error:
        raise bad_value("cursor", cursor, "`next` of the page before, as it was") from error
    return str(name), str(key)


# --- Windows ---


@dataclass(frozen=True)
class WindowPage:
    """A page of windows."""

    items: tuple[WindowRow, ...]
    next: str | None


@dataclass(frozen=True)
class Window:
    """A window with its report, the explanation in words and its changed edges."""

    summary: WindowRow
    report: WindowReport
    explanation: Explanation
    edges: tuple[EdgeRow, ...]


@dataclass(frozen=True)
class EdgeHistory:
    """What became of an edge."""

    items: tuple[EdgeRow, ...]


def windows(  # noqa: PLR0913 - the parameters of the route
    service: ServiceView,
    name: Name,
    key: Key = "",
    drift: Annotated[bool, Parameter("Whether to leave out windows without drift.")] = False,
    cursor: Cursor = None,
    limit: Limit = _DEFAULT_PAGE,
) -> WindowPage:
    """List windows in short, the newest first."""
    find_monitor(service, name, key)
    found = service.store.windows(name, key, before=cursor, limit=limit + 1, drift_only=drift)
    more = str(found[limit - 1].window_index) if len(found) > limit else None
    return WindowPage(tuple(found[:limit]), more)


def window(
    service: ServiceView,
    name: Name,
    index: Annotated[int, Parameter("Number of the window, from 0.")],
    key: Key = "",
) -> Window:
    """Tell all that is known of one window: the report and its explanation in words."""
    found = find_window(service, name, key, index)
    report = WindowReport.from_dict(found.report)
    return Window(found.row, report, explanation_of(found), found.edges)


def window_page(
    service: ServiceView,
    name: Name,
    index: Annotated[int, Parameter("Number of the window, from 0.")],
    key: Key = "",
) -> Response:
    """Give one window as a page to keep: words, picture and tables in one file."""
    found = find_window(service, name, key, index)
    body = WindowReport.from_dict(found.report).to_html().encode("utf-8", "backslashreplace")
    # Kept, not shown: what a browser opens from here could ask the API.
    return Response(body, headers={"content-type": _HTML, "content-disposition": "attachment"})


def series(
    service: ServiceView,
    name: Name,
    key: Key = "",
    limit: Annotated[int, Parameter("Most windows.", minimum=1, maximum=MAX_SERIES)] = 2000,
) -> Series:
    """Give the newest windows as columns, the oldest first: what a time line needs."""
    find_monitor(service, name, key)
    return service.store.series(name, key, limit)


def edge(  # noqa: PLR0913 - the parameters of the route
    service: ServiceView,
    name: Name,
    source: Annotated[str, Parameter("A field; percent-encode it.")],
    target: Annotated[str, Parameter("Another field; percent-encode it.")],
    key: Key = "",
    limit: Limit = _DEFAULT_PAGE,
) -> EdgeHistory:
    """Tell what became of an edge, in either direction, the newest first."""
    find_monitor(service, name, key)
    if source == target:
        raise bad_value("target", target, "another field than the source")
    found = service.store.edge_history(name, key, source, target, limit=limit)
    return EdgeHistory(tuple(found))


# --- Episodes ---


@dataclass(frozen=True)
class EpisodePage:
    """A page of episodes."""

    items: tuple[EpisodeRow, ...]
    next: str | None


@dataclass(frozen=True)
class Episode:
    """An episode, the words of the window that names its change best, and what was done."""

    episode: EpisodeRow
    explanation: Explanation | None
    explained_window: int | None
    actions: tuple[ActionRow, ...]


def episodes(
    service: ServiceView,
    name: Name,
    key: Key = "",
    cursor: Cursor = None,
    limit: Limit = _DEFAULT_PAGE,
) -> EpisodePage:
    """List episodes, the newest first."""
    find_monitor(service, name, key)
    found = service.store.episodes(name, key, before=cursor, limit=limit + 1)
    more = str(found[limit - 1].episode) if len(found) > limit else None
    return EpisodePage(tuple(found[:limit]), more)


def episode(
    service: ServiceView,
    name: Name,
    number: Annotated[int, Parameter("Number of the episode.")],
    key: Key = "",
) -> Episode:
    """Tell of one episode, with the explanation of the window that names its change best."""
    find_monitor(service, name, key)
    store = service.store
    found = store.episode(name, key, number)
    if found is None:
        detail = f"number = {number} is no episode in the history of stream {name!r}"
        raise not_found("episode", number, detail)
    told = store.window(name, key, naming_window(store, found))
    done = store.actions(name, key, limit=MAX_ACTIONS)
    about_it = tuple(action for action in reversed(done) if action.episode == number)
    if told is None:
        return Episode(found, None, None, about_it)
    return Episode(found, explanation_of(told), told.row.window_index, about_it)


OPERATIONS: Final = (
    Operation(
        "/-/healthy",
        healthy,
        {
            200: Reply("It does.", _TEXT, None),
            503: Reply("It does not; one reason a line.", _TEXT, None),
        },
        public=True,
    ),
    Operation(
        "/-/ready",
        ready,
        {
            200: Reply("They are.", _TEXT, None),
            503: Reply("Not yet, or not now; one reason a line.", _TEXT, None),
        },
        public=True,
    ),
    Operation("/metrics", metrics, {200: Reply("One sample a line.", _TEXT, None)}),
    Operation(STREAMS, monitors),
    Operation(STREAM, monitor, _UNKNOWN),
    Operation(f"{STREAM}/windows", windows, _UNKNOWN),
    Operation(f"{STREAM}/windows/{{index}}", window, _UNKNOWN),
    Operation(
        f"{STREAM}/windows/{{index}}/page",
        window_page,
        _UNKNOWN | {200: Reply("The page.", "text/html", None)},
    ),
    Operation(f"{STREAM}/series", series, _UNKNOWN),
    Operation(f"{STREAM}/edges/{{source}}/{{target}}", edge, _UNKNOWN),
    Operation(f"{STREAM}/episodes", episodes, _UNKNOWN),
    Operation(f"{STREAM}/episodes/{{number}}", episode, _UNKNOWN),
)
"""The routes of this module."""


# --- Finding what an address names, or saying that it is not there ---


def find_stream(service: ServiceView, name: str) -> StreamInfo | None:
    return next((stream for stream in service.streams() if stream.name == name), None)


def find_monitor(
    service: ServiceView, name: str, key: str
) -> tuple[MonitorRow | None, StreamInfo | None]:
    """Return what is known of a monitor; not both are ``None``.

    Raises ``ProblemError`` if there is no such monitor.
    """
    stream, row = find_stream(service, name), service.store.monitor(name, key)
    if row is None and (stream is None or key):
        raise unknown_monitor(name, key)
    return row, stream


def find_window(service: ServiceView, name: str, key: str, index: int | None) -> WindowDetail:
    """Return a window of a monitor; the newest for ``None``.

    Raises ``ProblemError`` if there is no such monitor or window.
    """
    row, _ = find_monitor(service, name, key)
    if row is None:
        detail = f"stream {name!r} has no window yet: its first one is not full"
        raise not_found("window", index, detail)
    wanted = row.last.window_index if index is None else index
    found = service.store.window(name, key, wanted)
    if found is None:
        detail = (
            f"window = {wanted} is not in the history of stream {name!r}: it keeps the newest ones"
            f" up to window {row.last.window_index}"
        )
        raise not_found("window", wanted, detail)
    return found


def unknown_monitor(name: str, key: str = "") -> ProblemError:
    which = f"{name!r} with key {key!r}" if key else f"{name!r}"
    detail = f"there is no stream {which}; {STREAMS} lists those that there are"
    return not_found("stream", name, detail)


def explanation_of(found: WindowDetail) -> Explanation:
    """Return the words of a window, as they were when it was judged."""
    return ANSWERS.decode(Explanation, found.explanation)
