"""What people do: accept the present as normal, silence a stream, leave a comment.

A body must be sent as JSON, which no page of another site can do without asking first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from driftbn_service.http import ServiceView
from driftbn_service.http.api import (
    STREAM,
    Cursor,
    Key,
    Limit,
    Name,
    find_monitor,
    find_stream,
    unknown_monitor,
)
from driftbn_service.http.ingest import Reception
from driftbn_service.http.routes import (
    JSON_TYPE,
    Limits,
    Operation,
    ProblemError,
    Reply,
    bad_value,
    not_found,
)
from driftbn_service.state import ActionKind, ActionRow, Wish

MAX_BYTES: Final = 16 << 10
"""Of a body."""
MAX_TEXT: Final = 2000
"""Characters of a comment."""
MAX_AUTHOR: Final = 100
MAX_HOURS: Final = 24.0 * 366
_SECONDS_AN_HOUR: Final = 3600.0
_MEMBERS: Final = f"`author` (up to {MAX_AUTHOR} characters) and `comment` (up to {MAX_TEXT})"


class Acceptance(BaseModel):
    """Why the present is normal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    author: Annotated[str, Field(max_length=MAX_AUTHOR)] = ""
    comment: Annotated[str, Field(max_length=MAX_TEXT)] = ""

    def wish(self, service: ServiceView, name: str, key: str) -> Wish:
        """Return what is wanted of a monitor; ``ProblemError`` if it cannot be."""
        stream = find_stream(service, name)
        if stream is None:
            raise unknown_monitor(name)
        if stream.key is not None and not key:
            raise bad_value("key", key, f"one of the values of {stream.key!r}: accept them singly")
        find_monitor(service, name, key)
        return self._wish(ActionKind.ACCEPT, name, key)

    def _wish(self, kind: ActionKind, name: str, key: str, **more: Any) -> Wish:
        return Wish(kind, name, key, author=self.author, comment=self.comment, **more)


class Silence(Acceptance):
    """For how long drifts are not told."""

    hours: Annotated[float, Field(ge=0.0, le=MAX_HOURS)]

    def wish(self, service: ServiceView, name: str, key: str) -> Wish:
        find_monitor(service, name, key)
        until = time.time() + _SECONDS_AN_HOUR * self.hours
        return self._wish(ActionKind.SILENCE, name, key, until=until)


class Comment(Acceptance):
    """What there is to say."""

    comment: Annotated[str, Field(max_length=MAX_TEXT, pattern=r"\S")]
    episode: int | None = None

    def wish(self, service: ServiceView, name: str, key: str) -> Wish:
        find_monitor(service, name, key)
        number = self.episode
        if number is not None and service.store.episode(name, key, number) is None:
            detail = f"episode = {number} is not in the history of stream {name!r}"
            raise not_found("episode", number, detail)
        return self._wish(ActionKind.COMMENT, name, key, episode=number)


@dataclass(frozen=True)
class ActionPage:
    """A page of what people did."""

    items: tuple[ActionRow, ...]
    next: str | None


class Acting:
    """Takes in what people want; it is in the history when it is answered."""

    def __init__(self, limits: Limits) -> None:
        self._reception = Reception(replace(limits, max_body_bytes=MAX_BYTES))

    async def accept(
        self, service: ServiceView, request: Request, name: Name, key: Key = ""
    ) -> ActionRow:
        """Take the present of a monitor as its normal state: an open episode is over.

        It is done with the next commit, and has a `window` then. A stream with a key needs one.
        """
        return await self._done(Acceptance, service, request, (name, key))

    async def silence(
        self, service: ServiceView, request: Request, name: Name, key: Key = ""
    ) -> ActionRow:
        """Have outlets and alerts not tell of drifts for some hours; 0 ends a silence.

        Without a key all monitors of a stream are silenced. That something has ended or failed is
        told all the same.
        """
        return await self._done(Silence, service, request, (name, key))

    async def comment(
        self, service: ServiceView, request: Request, name: Name, key: Key = ""
    ) -> ActionRow:
        """Leave a comment on an episode, or on a monitor."""
        return await self._done(Comment, service, request, (name, key))

    async def _done(
        self,
        shape: type[Acceptance],
        service: ServiceView,
        request: Request,
        place: tuple[str, str],
    ) -> ActionRow:
        content_type = request.headers.get("content-type", "")
        if content_type.partition(";")[0].strip().lower() != JSON_TYPE:
            problem = bad_value("Content-Type", content_type, JSON_TYPE)
            problem.status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            raise problem
        async with self._reception.body(request) as sent:
            body = body_of(sent.plain(MAX_BYTES), shape)
        return await run_in_threadpool(lambda: service.act(body.wish(service, *place)))


def actions(
    service: ServiceView, name: Name, key: Key = "", cursor: Cursor = None, limit: Limit = 100
) -> ActionPage:
    """List what people did about a monitor, the newest first."""
    find_monitor(service, name, key)
    found = service.store.actions(name, key, before=cursor, limit=limit + 1)
    more = str(found[limit - 1].number) if len(found) > limit else None
    return ActionPage(tuple(found[:limit]), more)


def body_of(text: bytes, shape: type[Acceptance]) -> Acceptance:
    """Return what a body says. Raises ``ProblemError`` if it is not of this shape.

    >>> body_of(b'{"author": "ada"}', Acceptance).author
    'ada'
    """
    try:
        return shape.model_validate_json(text or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        problem = f"{where} is not allowed: {first['msg']}"
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "bad-body", problem, members={"field": where}
        ) from error


_REFUSALS: Final = {
    404: Reply("There is no such stream, key or episode."),
    408: Reply("The body was not sent in time."),
    413: Reply("The body is too large."),
    415: Reply("The body is not sent as application/json."),
    422: Reply("The body is not as it must be."),
    503: Reply("It cannot be stored now."),
}
_DONE: Final = {
    "accept": (HTTPStatus.ACCEPTED, f"An object with {_MEMBERS}; both may be left out."),
    "silence": (HTTPStatus.CREATED, f"An object with `hours`, and if need be {_MEMBERS}."),
    "comment": (HTTPStatus.CREATED, f"An object with {_MEMBERS}, and `episode` for an ended one."),
}


def operations(limits: Limits) -> tuple[Operation, ...]:
    acting = Acting(limits)
    posts = (
        Operation(
            f"{STREAM}/{word}",
            getattr(acting, word),
            _REFUSALS,
            method="POST",
            status=status,
            bodies={JSON_TYPE: text},
        )
        for word, (status, text) in _DONE.items()
    )
    listed = Operation(f"{STREAM}/actions", actions, {404: _REFUSALS[404]})
    return (*posts, listed)
