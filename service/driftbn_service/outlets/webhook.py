"""Events posted to an address or to Slack, and what an answer means for trying again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from time import time
from typing import Final
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

from driftbn_service.events import Event
from driftbn_service.outlets.base import NO_LINKS, Links, Outlet, OutletError, links_of
from driftbn_service.settings import PostOutletSettings, SlackOutletSettings

logger = logging.getLogger("driftbn.service.outlets.webhook")

TIMEOUT_SECONDS: Final = 10.0
"""How long an answer may take."""
LONGEST_WAIT_SECONDS: Final = 3600.0
"""How long another side may ask to wait: whoever asks for more is asked again after an hour."""
MAX_ANSWER_BYTES: Final = 64 * 1024
"""How much of an answer is read, only so that the connection can be used again."""

# Where the fault is with the request itself, the same request will be refused again. All other
# codes can be mended by the operator, such as a wrong token or address, or pass by themselves.
_REFUSED: Final = frozenset({400, 406, 409, 411, 412, 413, 414, 415, 422, 431})
_MEANINGS: Final = {
    401: "the token is wrong or missing",
    403: "the token does not allow it",
    404: "there is nothing at this address",
    405: "this address takes no POST",
    407: "a proxy wants to be logged in to",
    408: "it waited too long for the request",
    429: "it has too much to do",
    503: "it is not available",
}


class Poster:
    """Posts to one address.

    A name and password in the address are used to log in. Certificates are checked, redirects are
    not followed, and neither the path of the address nor a header is ever part of a message, as
    both may be secret.
    """

    def __init__(
        self,
        outlet: str,
        url: str,
        headers: Mapping[str, str],
        clock: Callable[[], float],
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        parts = urlsplit(url)
        self.outlet = outlet
        self.place = f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
        self._url = url
        self._headers = dict(headers)
        if parts.username is not None and "Authorization" not in self._headers:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers |= urllib3.make_headers(basic_auth=login)
        self._clock = clock
        self._pool = urllib3.PoolManager(
            maxsize=1,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout_seconds, read=timeout_seconds),
        )

    def post(self, body: bytes, headers: Mapping[str, str]) -> int | None:
        """Post; return ``None`` if it was taken, or the status if it was refused for good.

        Raises ``OutletError`` if it is worth trying again.
        """
        try:
            answer = self._pool.request(
                "POST",
                self._url,
                body=body,
                headers=self._with_usual(headers),
                redirect=False,
                preload_content=False,
            )
        except HTTPError as error:
            raise OutletError(self.outlet, f"{self.place}: {_words(error)}") from error
        self._finish(answer)
        if 200 <= answer.status < 300:
            return None
        if answer.status in _REFUSED:
            return answer.status
        raise OutletError(
            self.outlet, f"{self.place}: {_meaning(answer.status)}", retry_after=self._wait(answer)
        )

    def close(self) -> None:
        self._pool.clear()

    def _with_usual(self, headers: Mapping[str, str]) -> urllib3.HTTPHeaderDict:
        found = urllib3.HTTPHeaderDict(self._headers)
        for name, value in headers.items():
            found[name] = value  # in place of one in other letters, too
        return found

    def _finish(self, answer: urllib3.BaseHTTPResponse) -> None:
        """Read the rest of an answer, so that the connection can be used again.

        The status has come, so what happened is known: a rest that breaks off changes nothing.
        """
        try:
            if len(answer.read(MAX_ANSWER_BYTES)) < MAX_ANSWER_BYTES:
                answer.release_conn()
                return
        except HTTPError as error:
            logger.debug("the answer of %s breaks off: %s", self.place, error)
        answer.close()

    def _wait(self, answer: urllib3.BaseHTTPResponse) -> float | None:
        """Return for how many seconds the other side asks to be left alone."""
        text = answer.headers.get("Retry-After", "").strip()
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - self._clock()
            except ValueError:
                return None
        return min(max(0.0, seconds), LONGEST_WAIT_SECONDS) if seconds == seconds else None


def _words(error: HTTPError) -> str:
    if isinstance(error, ReadTimeoutError):
        return "no answer in time; it may have come through"
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return "no connection in time"
    return str(error).rpartition(": ")[2] or type(error).__name__


def _meaning(status: int) -> str:
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed, give the address itself"
    meaning = _MEANINGS.get(status, "it has a fault of its own" if status >= 500 else "")
    return f"answered {status}" + (f": {meaning}" if meaning else "")


class PostingOutlet(Outlet):
    """Posts what each event comes to, until one has to wait."""

    def __init__(self, name: str, poster: Poster) -> None:
        super().__init__(name)
        self._poster = poster

    def send(self, events: Sequence[Event]) -> None:
        """Post events; one that is refused for what it is (400, 413, 422 and the like) is done too.

        It would be refused again and hold up all after it; the log says so.
        """
        self.refused = ()
        for n_done, event in enumerate(events):
            try:
                taken = self._post(event)
            except OutletError as error:
                error.n_delivered = n_done
                raise
            if not taken:
                self.refused += (event,)

    def close(self) -> None:
        self._poster.close()

    def _post(self, event: Event) -> bool:
        """Return whether an event was taken; if not, it is refused for good."""
        raise NotImplementedError


class WebhookOutlet(PostingOutlet):
    """Posts each event as a CloudEvent in structured mode.

    The header ``Idempotency-Key`` is the id of the event: by it the receiver can tell an event that
    comes again because its answer was lost.
    """

    content_type = "application/cloudevents+json; charset=utf-8"

    def __init__(
        self,
        settings: PostOutletSettings,
        *,
        clock: Callable[[], float] = time,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        headers = dict(settings.headers)
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        poster = Poster(settings.name, settings.url, headers, clock, timeout_seconds)
        super().__init__(settings.name, poster)

    def body(self, event: Event) -> bytes:
        return event.to_json()

    def _post(self, event: Event) -> bool:
        status = self._poster.post(
            self.body(event), {"Content-Type": self.content_type, "Idempotency-Key": event.id}
        )
        if status is not None:
            logger.error(
                "%s refuses an event for good (answered %d); it is not sent again",
                self._poster.place,
                status,
                extra={
                    "outlet": self.name,
                    "status": status,
                    "event_id": event.id,
                    "event_type": event.type,
                    "stream": event.stream,
                },
            )
        return status is None


# Messages in a channel of Slack, or of whatever takes what Slack takes.

_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What Slack would take for a link or a mention."""


class SlackOutlet(WebhookOutlet):
    """Posts each event to an incoming webhook: the stream and its key, then what is to be said."""

    content_type = "application/json; charset=utf-8"

    def __init__(self, settings: SlackOutletSettings, links: Links = NO_LINKS) -> None:
        super().__init__(settings)
        self._links = links

    def body(self, event: Event) -> bytes:
        told = event.document["data"]
        name = f"{event.stream} / {event.key}" if event.key else event.stream
        lines = [
            f"*{name}*: {told['headline']}",
            *(f"• {text}" for text in (*told["sentences"], *told["advice"])),
        ]
        text = "\n".join((*(line.translate(_ESCAPES) for line in lines), *self._linked(event)))
        return json.dumps({"text": text}, ensure_ascii=False).encode("utf-8", errors="replace")

    def _linked(self, event: Event) -> list[str]:
        found = links_of(event, self._links)
        return [f"<{address}|{name}>" for name, address in found.items()]
