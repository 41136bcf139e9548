"""``driftbn episode``: accept the present as normal, silence a stream, leave a comment."""

from __future__ import annotations

import argparse
import getpass
import json
import os
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

from driftbn_service.commands import Line, Style, write_lines
from driftbn_service.errors import ExitCode, InputError, UsageError
from driftbn_service.settings import EndpointSettings
from driftbn_service.settings.loading import load_settings, settings_path

_SECONDS: Final = 30.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}
"""Addresses that listen everywhere, and IPv6, as a client names them."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "episode",
        description=(
            "Tell a running daemon what you know of a drift. Who said so, when and why is kept in"
            " the history, and shown with the episode."
        ),
    )
    actions = parser.add_subparsers(title="what to do", required=True, metavar="ACTION")
    accept = actions.add_parser("accept", help="the present is normal: the episode is over")
    silence = actions.add_parser("silence", help="no alerts and messages of drifts for some hours")
    silence.add_argument("--hours", type=float, required=True, help="how long; 0 ends a silence")
    comment = actions.add_parser("comment", help="leave a comment")
    comment.add_argument("--episode", type=int, metavar="N", help="the open one unless given")
    for name, action in (("accept", accept), ("silence", silence), ("comment", comment)):
        _add_common(action, needs_words=name == "comment")
        action.set_defaults(run=run, action=name)


def _add_common(parser: argparse.ArgumentParser, *, needs_words: bool) -> None:
    parser.add_argument("comment", nargs=None if needs_words else "?", default="", help="why")
    parser.add_argument("--stream", metavar="NAME", required=True, help="the stream")
    parser.add_argument("--key", default="", help="which of its monitors, where it has keys")
    parser.add_argument("--author", help="who says so (the name of the user)")
    parser.add_argument(
        "--config", metavar="FILE", help="the daemon's settings file (as DRIFTBN_CONFIG says)"
    )
    parser.add_argument("--url", help="its address, if not as in the settings")


def run(arguments: argparse.Namespace) -> int:
    endpoint = load_settings(settings_path(arguments.config, os.environ), os.environ).endpoint
    body: dict[str, Any] = {"comment": arguments.comment, "author": _author(arguments)}
    for name in ("hours", "episode"):
        if getattr(arguments, name, None) is not None:
            body[name] = getattr(arguments, name)
    path = f"/api/v1/streams/{quote(arguments.stream, safe='')}/{arguments.action}"
    query = f"?{urlencode({'key': arguments.key})}" if arguments.key else ""
    done = _post(f"{arguments.url or _address(endpoint)}{path}{query}", body, endpoint)
    about = "" if done["episode"] is None else f", episode {done['episode']}"
    write_lines([Line(f"{done['kind']} {done['number']} is noted{about}", Style.EDGE)], None)
    return ExitCode.OK


def _author(arguments: argparse.Namespace) -> str:
    if arguments.author is not None:
        return str(arguments.author)
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return ""


def _address(endpoint: EndpointSettings) -> str:
    if not endpoint.enabled or not endpoint.port:
        raise UsageError("the settings do not say where the daemon listens: give --url")
    return f"http://{_ANY.get(endpoint.host, endpoint.host)}:{endpoint.port}"


def _post(url: str, body: dict[str, Any], endpoint: EndpointSettings) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    if endpoint.token is not None:
        headers["Authorization"] = f"Bearer {endpoint.token.get_secret_value()}"
    try:
        answer = urllib3.request(
            "POST", url, body=json.dumps(body), headers=headers, retries=False, timeout=_SECONDS
        )
    except urllib3.exceptions.HTTPError as error:
        raise InputError(url, f"the daemon does not answer: {error}") from error
    try:
        document: dict[str, Any] = json.loads(answer.data)
    except ValueError as error:
        raise InputError(url, f"answered {answer.status}, but not as driftbn does") from error
    if answer.status not in (HTTPStatus.CREATED, HTTPStatus.ACCEPTED):
        raise InputError(url, str(document.get("detail", f"answered {answer.status}")))
    return document
