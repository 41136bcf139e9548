"""Clients of the endpoint: one calls an application without a socket, one is a mere socket."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
from driftbn_service.http.server import EndpointServer
from starlette.types import ASGIApp


class Client:
    """Sends requests to an application, each on an event loop of its own.

    An application that raises answers 500, as a server would.
    """

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


def connected(server: EndpointServer) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)
