"""Options that several commands share, and the settings they stand for."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from driftbn.config import Knowledge, LearnerConfig, field_texts, field_types
from driftbn.errors import ConfigError, KnowledgeError
from driftbn_service.records.formats import TableFormat

_METAVARS = {int: "N", float: "X", str: "FIELD"}


@dataclass(frozen=True)
class ReadingOptions:
    """How the user wants tables read."""

    columns: tuple[str, ...] = ()  # none for all
    input_format: TableFormat | None = None  # None to go by their extensions

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> ReadingOptions:
        kind = arguments.input_format
        return cls(
            tuple(name for text in arguments.columns for name in _names("columns", text)),
            None if kind is None else TableFormat(kind),
        )


@dataclass(frozen=True, kw_only=True)
class LearnOptions(ReadingOptions):
    """How the user wants tables read and structures learned."""

    config: LearnerConfig
    required: tuple[str, ...] = ()  # edges as written, ``SOURCE:TARGET``
    forbidden: tuple[str, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()  # from causes to effects

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> LearnOptions:
        return cls(
            config=LearnerConfig(**given_settings(arguments, LearnerConfig)),
            required=tuple(arguments.required),
            forbidden=tuple(arguments.forbidden),
            tiers=tuple(_names("tier", text) for text in arguments.tier),
            **vars(ReadingOptions.from_arguments(arguments)),
        )

    def knowledge(self, names: Sequence[str]) -> Knowledge:
        """Return what is known of the edges of a table with these columns.

        Raises ``KnowledgeError`` if an edge has no colon, or its colons can be read in two ways.
        """
        return Knowledge(
            required=[_edge("required", text, names) for text in self.required],
            forbidden=[_edge("forbidden", text, names) for text in self.forbidden],
            tiers=self.tiers,
        )


def add_setting_options(group: argparse._ArgumentGroup, config: type, names: Sequence[str]) -> None:
    """Declare an option for each of these settings, as its class of the library describes it."""
    for name in names:
        kind = field_types(config)[name].kind
        text = field_texts(config)[name].replace("``", "").replace("%", "%%")
        option = f"--{name.replace('_', '-')}"
        if kind is bool:
            group.add_argument(option, action="store_true", default=None, help=text)
        elif issubclass(kind, Enum):
            group.add_argument(option, choices=[member.value for member in kind], help=text)
        else:
            group.add_argument(option, type=kind, metavar=_METAVARS[kind], help=text)


def given_settings(arguments: argparse.Namespace, config: type) -> dict[str, Any]:
    values = {name: getattr(arguments, name, None) for name in field_types(config)}
    return {name: value for name, value in values.items() if value is not None}


def add_learning_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that ``LearnOptions.from_arguments`` reads."""
    names = [name for name in field_types(LearnerConfig) if name != "warm"]
    add_setting_options(parser.add_argument_group("learning"), LearnerConfig, names)
    _add_knowledge_options(parser)
    add_reading_options(parser)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options for reading tables, which ``ReadingOptions.from_arguments`` reads."""
    table = parser.add_argument_group("reading tables")
    table.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B,…",
        help="columns to use; quote names with commas as in CSV",
    )
    table.add_argument(
        "--input-format",
        choices=[kind.value for kind in TableFormat],
        help="otherwise told by the extension",
    )


def _add_knowledge_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is known beforehand (repeat as needed)")
    for option, text in (
        ("--required", "an edge that is there"),
        ("--forbidden", "a direction that is not possible"),
    ):
        group.add_argument(option, action="append", default=[], metavar="A:B", help=text)
    group.add_argument(
        "--tier",
        action="append",
        default=[],
        metavar="A,B,…",
        help="names of one group; no edge points from a later group to an earlier one",
    )


def _names(field: str, text: str) -> tuple[str, ...]:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ConfigError(field, text, f"a list of names as in CSV ({error})") from error
    names = tuple(name for row in rows for name in row)
    if not names or not all(names):
        raise ConfigError(field, text, "a list of names, none of them empty")
    return names


def _edge(field: str, text: str, names: Sequence[str]) -> tuple[str, str]:
    """Split ``SOURCE:TARGET`` at the colon that leaves two columns; names may hold colons too."""
    colons = [i for i, c in enumerate(text) if c == ":"]
    splits = [(text[:i], text[i + 1 :]) for i in colons]
    if not splits:
        raise KnowledgeError(field, text, "two names with a colon between them")
    known = [split for split in splits if split[0] in names and split[1] in names]
    if len(known) > 1:
        raise KnowledgeError(field, text, f"clear; it can mean any of {known}")
    return known[0] if known else splits[0]
