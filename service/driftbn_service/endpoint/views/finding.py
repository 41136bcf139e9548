"""Finding what an address names, or saying that it is not there."""

from __future__ import annotations

from driftbn_service.endpoint.operations import Call
from driftbn_service.endpoint.problems import ProblemError, not_found
from driftbn_service.endpoint.view import StreamInfo
from driftbn_service.store import MonitorRow, WindowDetail


def find_stream(call: Call, name: str) -> StreamInfo | None:
    """Return a stream of the settings; ``None`` if there is none of this name."""
    return next((stream for stream in call.view.streams() if stream.name == name), None)


def find_monitor(call: Call) -> tuple[MonitorRow | None, StreamInfo | None]:
    """Return what is known of the monitor that a call names; not both are ``None``.

    Raises
    ------
    ProblemError
        If there is no such monitor.
    """
    name, key = call.text("name"), call.text("key")
    stream, row = find_stream(call, name), call.view.store.monitor(name, key)
    if row is None and (stream is None or key):
        raise unknown_monitor(name, key)
    return row, stream


def find_window(call: Call, index: int | None) -> WindowDetail:
    """Return a window of the monitor that a call names; the newest for ``None``.

    Raises
    ------
    ProblemError
        If there is no such monitor or window.
    """
    name, key = call.text("name"), call.text("key")
    row, _ = find_monitor(call)
    if row is None:
        detail = f"monitor {name!r} has no window yet: its first one is not full"
        raise not_found("window", index, detail)
    wanted = row.last.window_index if index is None else index
    found = call.view.store.window(name, key, wanted)
    if found is None:
        detail = (
            f"window = {wanted} is not in the history of monitor {name!r}: it keeps the newest ones"
            f" up to window {row.last.window_index}"
        )
        raise not_found("window", wanted, detail)
    return found


def unknown_monitor(name: str, key: str = "") -> ProblemError:
    """Return the problem of a monitor that is not there."""
    which = f"{name!r} with key {key!r}" if key else f"{name!r}"
    detail = f"there is no monitor {which}; /api/v1/monitors lists those that there are"
    return not_found("monitor", name, detail)
