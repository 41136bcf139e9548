"""Errors as the endpoint tells them: problem documents after RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

from driftbn.errors import DriftbnError

PROBLEM_TYPE = "application/problem+json"
_SHOWN_CHARACTERS = 200  # a value can be as long as an address; the start of it tells which


@dataclass(frozen=True)
class Problem:
    """A problem document; it may have further members."""

    type: str
    title: str
    status: int
    detail: str


class ProblemError(DriftbnError):
    """A request cannot be answered.

    ``kind`` is a short name of what went wrong, which never changes; it makes the ``type`` of the
    document. ``detail`` is what is wrong, with the value, and what is allowed or what to do. The
    document also has ``members``.

    >>> ProblemError(404, "unknown-monitor", "there is no monitor 'x'").document()["type"]
    'urn:driftbn:problem:unknown-monitor'
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        members: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.members = dict(members or {})
        self.headers = dict(headers or {})
        super().__init__(detail)

    def document(self) -> dict[str, Any]:
        phrase = HTTPStatus(self.status).phrase
        problem = Problem(f"urn:driftbn:problem:{self.kind}", phrase, self.status, self.detail)
        return asdict(problem) | self.members

    def response(self) -> Response:
        return Response(
            orjson.dumps(self.document()), self.status, self.headers, media_type=PROBLEM_TYPE
        )


def bad_value(field: str, value: str, allowed: str) -> ProblemError:
    """Return the problem of a parameter or header whose value is not allowed.

    >>> bad_value("limit", "-1", "a whole number from 1 to 1000").detail
    "limit = '-1' is not allowed: it must be a whole number from 1 to 1000"
    """
    shown = shortened(value)
    return ProblemError(
        HTTPStatus.BAD_REQUEST,
        "bad-value",
        f"{field} = {shown!r} is not allowed: it must be {allowed}",
        members={"field": field, "value": shown, "allowed": allowed},
    )


def not_found(field: str, value: object, detail: str) -> ProblemError:
    shown = shortened(value) if isinstance(value, str) else value
    return ProblemError(
        HTTPStatus.NOT_FOUND,
        f"unknown-{field}",
        detail,
        members={"field": field, "value": shown},
    )


def shortened(text: str) -> str:
    """Return a text cut to what a message can show."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
