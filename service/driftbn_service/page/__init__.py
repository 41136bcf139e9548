"""The files of the page as routes, with a strict content security policy.

Everything the page needs is among its own files, so that it works without a network. The files hold
nothing secret and are served without a token; the page asks the user for one if the API wants it.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER: Final = Path(__file__).parent
"""Where the files are."""

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Nothing on the page can turn a text into markup, not even by mistake.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""What the page may load and do: its own files, and questions to its own service."""

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_START: Final = "index.html"


@dataclass(frozen=True)
class PageFile:
    path: str  # where it is served
    body: bytes
    packed: bytes  # with gzip
    content_type: str

    @property
    def tag(self) -> str:
        """The same for the same bytes, as a browser sends it back to ask for news."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


def page_routes() -> list[Route]:
    """Return one route for each file; ``/`` is the page itself.

    >>> [route.path for route in page_routes()][:2]
    ['/', '/static/css/controls.css']
    """
    return [Route(file.path, _sender(file), methods=["GET"]) for file in page_files()]


def page_files() -> list[PageFile]:
    """Return all files of the page, the page itself first."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return sorted((_read(path) for path in paths), key=lambda file: file.path)


def _read(path: Path) -> PageFile:
    name = path.relative_to(FOLDER).as_posix()
    body = path.read_bytes()
    served = "/" if name == _START else f"/static/{name}"
    return PageFile(served, body, gzip.compress(body, mtime=0), _TYPES[path.suffix])


def _sender(file: PageFile) -> Callable[[Request], Awaitable[Response]]:
    headers = {
        "content-security-policy": CONTENT_SECURITY_POLICY,
        "content-type": file.content_type,
        # A new version of the service has new files, so the browser asks each time.
        "cache-control": "no-cache",
        "etag": file.tag,
        "vary": "accept-encoding",
    }

    async def send(request: Request) -> Response:
        known = request.headers.get("if-none-match", "")
        if file.tag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(file.packed, headers={**headers, "content-encoding": "gzip"})
        return Response(file.body, headers=headers)

    return send
