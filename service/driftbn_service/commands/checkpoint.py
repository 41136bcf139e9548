"""``driftbn checkpoint``: what the checkpoints on disk hold, and whether they are whole."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from driftbn_service.checkpoint import ManifestSurvey, lane_directories, survey
from driftbn_service.errors import ExitCode, InputError
from driftbn_service.output import write_lines, write_text
from driftbn_service.text import Line, Style, one_line

_HEAD = Line("  number  written               bytes     keys   of states  position", Style.HEAD)
_SHOWN_POSITION = 80


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "checkpoint",
        description=(
            "Look at the checkpoints in a state directory. The daemon may run meanwhile: nothing is"
            " locked or changed."
        ),
    )
    actions = parser.add_subparsers(title="what to do", required=True, metavar="ACTION")
    inspect = actions.add_parser(
        "inspect",
        help="list checkpoints",
        description=(
            "List every checkpoint: its number, when it was written, the bytes of its manifest, its"
            " monitors, the bytes of their states, and where the source goes on."
        ),
    )
    verify = actions.add_parser(
        "verify",
        help="read every state and check it",
        description=(
            "Read every state of every checkpoint and check it. Exits with"
            f" {ExitCode.FAILED} if one is damaged; those that a start has set aside already do not"
            " count."
        ),
    )
    for action, checksums in ((inspect, False), (verify, True)):
        action.add_argument(
            "directory", metavar="DIR", help="a state directory, or that of one of its lanes"
        )
        action.add_argument(
            "--json", action="store_true", help="write a JSON object a checkpoint instead of text"
        )
        action.set_defaults(run=run, checksums=checksums)


def run(arguments: argparse.Namespace) -> int:
    """Carry the command out and return its exit code."""
    path = Path(arguments.directory)
    lanes = lane_directories(path)
    if not lanes:
        raise InputError(
            str(path), "there are no checkpoints: give a state directory or that of one lane"
        )
    surveys = {lane: survey(lane, checksums=arguments.checksums) for lane in lanes}
    if arguments.json:
        documents = (_document(lane, one) for lane, found in surveys.items() for one in found)
        write_text("".join(json.dumps(document) + "\n" for document in documents), None)
    else:
        write_lines([line for lane, found in surveys.items() for line in _lines(lane, found)], None)
    is_damaged = any(
        one.problem is not None and not one.set_aside for found in surveys.values() for one in found
    )
    return ExitCode.FAILED if arguments.checksums and is_damaged else 0


def _document(lane: Path, one: ManifestSurvey) -> dict[str, Any]:
    document = asdict(one)
    del document["meta"]
    return {
        "lane": str(lane),
        **document,
        "path": str(one.path),
        "position": one.position,
        "good": one.problem is None,
    }


def _lines(lane: Path, found: tuple[ManifestSurvey, ...]) -> list[Line]:
    head = [Line(str(lane), Style.HEAD)]
    if not found:
        return [*head, Line("  no checkpoint yet", Style.NOTE)]
    return [*head, _HEAD, *(line for one in found for line in _manifest_lines(one))]


def _manifest_lines(one: ManifestSurvey) -> list[Line]:
    lines = []
    if one.time is not None:
        written = datetime.fromtimestamp(one.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        sizes = f"{one.n_bytes:>7}  {one.n_keys:>7}  {one.state_bytes:>10}"
        position = one_line(json.dumps(one.position))
        if len(position) > _SHOWN_POSITION:
            position = f"{position[: _SHOWN_POSITION - 1]}…"
        lines.append(Line(f"{one.number:>8}  {written}  {sizes}  {position}", Style.NOTE))
    if one.problem is not None:
        style = Style.WARNING if one.set_aside else Style.REMOVED
        word = "set aside" if one.set_aside else f"damaged: {one.problem}"
        lines.append(Line(f"{one.number:>8}  {one.path.name}  {word}", style))
    return lines
