"""Firefox as Debian has it, driven by its own protocol: JSON over a socket, without a driver.

The protocol is Marionette's, https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html:
each message is its length, a colon, and ``[0, number, command, parameters]`` or an answer
``[1, number, error, value]``.
"""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

from tests.services.process import HOST, Service, free_port, program

_PREFERENCES = (
    'user_pref("app.normandy.enabled", false);\n'
    'user_pref("browser.shell.checkDefaultBrowser", false);\n'
    'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
    'user_pref("network.captive-portal-service.enabled", false);\n'
    'user_pref("network.connectivity-service.enabled", false);\n'
    'user_pref("services.settings.server", "http://127.0.0.1:9/");\n'
)
_PATIENCE = 60.0  # seconds


class Firefox(Service):
    """A browser with one window of 1440 by 900 pixels."""

    name = "firefox"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._socket: socket.socket | None = None
        self._n_asked = 0
        self._profile = directory / "profile"
        self._profile.mkdir()
        port = f'user_pref("marionette.port", {self.port});\n'
        (self._profile / "user.js").write_text(_PREFERENCES + port)

    def command(self) -> list[str]:
        path = program("firefox-esr", "firefox-esr")
        window = ("--width", "1440", "--height", "900")
        return [path, "--headless", "--marionette", *window, "--profile", str(self._profile)]

    def probe(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1.0):
            return True
        return False

    def stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        super().stop()

    def open(self, url: str) -> None:
        if self._socket is None:
            self._socket = socket.create_connection((HOST, self.port), _PATIENCE)
            self._read()  # who it is
            self.ask("WebDriver:NewSession", {})
            self.ask("WebDriver:SetTimeouts", {"script": 1000 * int(_PATIENCE)})
        self.ask("WebDriver:Navigate", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what the body of an asynchronous function returns in the page."""
        done = "arguments[arguments.length - 1]"
        body = f"const done = {done}; (async () => {{ {script} }})().then(done);"
        parameters = {"script": body, "args": list(arguments), "sandbox": None}
        return self.ask("WebDriver:ExecuteAsyncScript", parameters)["value"]

    def wait(self, condition: str) -> None:
        """Wait until an expression holds in the page."""
        look = f"if ({condition}) resolve(); else requestAnimationFrame(look);"
        self.run(f"await new Promise((resolve) => {{ const look = () => {{ {look} }}; look(); }});")

    def press(self, *keys: str) -> None:
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": steps}]
        self.ask("WebDriver:PerformActions", {"actions": actions})

    def ask(self, command: str, parameters: dict[str, Any]) -> Any:
        assert self._socket is not None
        self._n_asked += 1
        body = json.dumps([0, self._n_asked, command, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(body), body))
        _, number, error, value = self._read()
        assert number == self._n_asked
        assert error is None, error
        return value

    def _read(self) -> Any:
        assert self._socket is not None
        length = b""
        while not length.endswith(b":"):
            length += self._receive(1)
        return json.loads(self._receive(int(length[:-1])))

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "Firefox has closed the connection"
            found += part
        return found
