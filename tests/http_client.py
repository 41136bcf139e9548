"""A client that calls an application without a socket, one event loop a request."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class Client:
    """Sends requests to an application; one that raises answers 500, as a server would."""

    def __init__(self, app: ASGIApp, base_url: str = "http://127.0.0.1:9464") -> None:
        self._app = app
        self._base_url = base_url

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url) as client:
                return await client.request(method, path, **more)

        return asyncio.run(send())
