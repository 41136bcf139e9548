"""``driftbn report``: what a daemon's history tells of a monitor, for people elsewhere."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from driftbn.config import check_integer
from driftbn_service.errors import UsageError
from driftbn_service.output import check_names, save, write_lines, write_text
from driftbn_service.png import png_renderer
from driftbn_service.reports.page import chat_picture_of, html_of
from driftbn_service.reports.story import DEFAULT_LAST, Request, story_of
from driftbn_service.reports.words import document_of, lines_of
from driftbn_service.settings import load_settings, settings_path
from driftbn_service.store import Store
from driftbn_service.tables import STDIN

_LARGEST = 2**63 - 1  # what SQLite can count to


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        description=(
            "Tell what the history of a daemon has on a monitor: what changed, since when and how"
            " sure it is, with a picture and a time line. The daemon may run meanwhile: nothing is"
            " locked or changed. Without --html or --png the words go to standard output."
        ),
    )
    parser.add_argument("--monitor", metavar="NAME", required=True, help="the monitor")
    parser.add_argument("--key", help="which of its monitors, where it has one for each key")
    history = parser.add_mutually_exclusive_group()
    history.add_argument(
        "--config", metavar="FILE", help="the daemon's settings file (as DRIFTBN_CONFIG says)"
    )
    history.add_argument(
        "--history", metavar="FILE", help="the history itself: history.sqlite of a state directory"
    )
    subject = parser.add_mutually_exclusive_group()
    subject.add_argument(
        "--episode",
        type=int,
        metavar="N",
        help="the episode to tell of (the newest; if there is none, the newest window)",
    )
    subject.add_argument("--window", type=int, metavar="N", help="the window to tell of instead")
    parser.add_argument(
        "--last",
        type=int,
        metavar="N",
        default=DEFAULT_LAST,
        help="windows of the time line (%(default)s)",
    )
    output = parser.add_argument_group("output, - for standard output")
    output.add_argument(
        "--html",
        metavar="FILE",
        help="write a page that needs nothing else; a browser prints it to PDF",
    )
    output.add_argument("--png", metavar="FILE", help="write a picture for a chat message")
    output.add_argument("--json", action="store_true", help="write a JSON object instead of words")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out and return its exit code.

    Raises
    ------
    ConfigError
        If a number or a setting is not allowed.
    UsageError
        If two outputs go to the same place, or a picture to a terminal.
    NotInHistoryError
        If there is no such monitor, key, window or episode.
    """
    _check(arguments)
    render = None if arguments.png is None else png_renderer()
    with Store(_history(arguments), read_only=True) as store:
        story = story_of(store, _request(arguments))
    outputs = []
    if arguments.html is not None:
        outputs.append((arguments.html, _encoded(html_of(story))))
    if render is not None:
        outputs.append((arguments.png, render(chat_picture_of(story))))
    save(outputs)
    if arguments.json:
        write_text(json.dumps(document_of(story)) + "\n", None)
    elif not outputs:
        write_lines(lines_of(story), None)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    check_integer("last", arguments.last, 1, _LARGEST)
    for name in ("window", "episode"):
        if getattr(arguments, name) is not None:
            check_integer(name, getattr(arguments, name), 0, _LARGEST)
    names = [name for name in (arguments.html, arguments.png) if name is not None]
    check_names([*names, *([STDIN] if arguments.json else [])])
    if arguments.png == STDIN and sys.stdout.isatty():
        raise UsageError("a picture cannot go to a terminal; give a file")


def _request(arguments: argparse.Namespace) -> Request:
    return Request(
        arguments.monitor, arguments.key, arguments.window, arguments.episode, arguments.last
    )


def _history(arguments: argparse.Namespace) -> Path:
    if arguments.history is not None:
        return Path(arguments.history)
    path = settings_path(arguments.config, os.environ)
    return load_settings(path, os.environ).history_path


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
