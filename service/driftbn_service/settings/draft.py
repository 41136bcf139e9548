"""Settings while they are put together, and who is to blame for each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import ValidationError

from driftbn.errors import ConfigError
from driftbn_service.settings.environment import Assignment, Tree, assign, at, table_name
from driftbn_service.settings.errors import Problem, SettingsError, problems_of, refused
from driftbn_service.settings.model import Settings, duplicates
from driftbn_service.settings.secrets import SECRETS
from driftbn_service.settings.structure import TABLES, Place, place_of


class Draft:
    """Settings while they are put together."""

    def __init__(self, name: str, base: Path, tree: Tree) -> None:
        self.name = name
        self._base = base
        self._of_file = copy.deepcopy(tree)
        self._tree = tree
        self._assigned: dict[Place, Assignment] = {}
        self._lines: list[str] = []  # of what could not be put into the tree
        self._problems: list[Problem] = []

    def apply(self, assignments: Sequence[Assignment]) -> None:
        """Put values from outside of the file in."""
        for assignment in assignments:
            try:
                place = assign(self._tree, assignment)
            except ConfigError as error:
                problem = Problem("", f"names no setting: it must be {error.allowed}")
                self._problems.append(problem)
                self._lines.append(f"{error.field}: {problem}")
            else:
                self._assigned[place] = assignment
                self._yield_to(place)

    def _yield_to(self, place: Place) -> None:
        """Drop a secret of the file, or its file, where the other one is set from outside."""
        key = str(place[-1])
        other = key.removesuffix("_file") if key.endswith("_file") else f"{key}_file"
        beside = (*place[:-1], other)
        if {key, other} & SECRETS and beside not in self._assigned and _has(self._tree, beside):
            del at(self._tree, place[:-1])[other]

    def settings(self) -> Settings:
        """Check everything and return it."""
        try:
            checked = self._validated()
        except ValidationError as error:
            self._note([*problems_of(error), *self._duplicates()])
        if self._problems:
            raise SettingsError(self.name, self._problems, self._lines)
        return checked

    def _validated(self) -> Settings:
        context = {"base": self._base}
        try:
            return Settings.model_validate(self._tree, context=context)
        except ValidationError as error:
            if not self._take_as_text(error):
                raise
        return Settings.model_validate(self._tree, context=context)

    def _take_as_text(self, error: ValidationError) -> bool:
        """Take variables that look like numbers as they are written where text is wanted."""
        changed = False
        for details in error.errors(include_url=False):
            assignment = self._assigned.get(place_of(details["loc"]))
            wants_text = details["type"] in ("string_type", "path_type")
            if wants_text and assignment is not None and assignment.text is not None:
                place = place_of(details["loc"])
                at(self._tree, place[:-1])[place[-1]] = assignment.text
                changed = True
        return changed

    def _duplicates(self) -> list[Problem]:
        """Return names given twice, which pydantic looks for only if all else is right."""
        found = []
        for section in TABLES:
            tables = self._tree.get(section)
            names = [table_name(table) for table in tables] if isinstance(tables, list) else []
            named = [SimpleNamespace(name=name or f" {i}") for i, name in enumerate(names)]
            found += [refused((), error) for error in duplicates(section, named)]
        return found

    def _note(self, problems: Sequence[Problem]) -> None:
        known = {problem.path for problem in self._problems}
        for problem in problems:
            if not problem.path or problem.path not in known:
                known.add(problem.path)
                self._problems.append(problem)
                self._lines.append(f"{self._origin(problem.place)}: {problem}")

    def _origin(self, place: Place) -> str:
        """Return what is to be blamed for the value at a place."""
        for end in range(len(place), 0, -1):
            if place[:end] in self._assigned:
                return self._assigned[place[:end]].origin
        if place and not _has(self._of_file, place):
            for below, assignment in self._assigned.items():
                if below[: len(place)] == place:
                    return assignment.origin
        return self.name

    def origins(self) -> dict[Place, str]:
        """Return where each setting came from that is not left at its default."""
        return {place: self._origin(place) for place in _leaves(self._tree, ())}


def _has(tree: Any, place: Place) -> bool:
    for step in place:
        inside = isinstance(tree, dict) and step in tree
        if not inside and not (isinstance(tree, list) and step in range(len(tree))):
            return False
        tree = tree[step]
    return True


def _leaves(node: Any, place: Place) -> list[Place]:
    if isinstance(node, dict):
        return [leaf for key, below in node.items() for leaf in _leaves(below, (*place, key))]
    if isinstance(node, list) and node and all(isinstance(item, dict) for item in node):
        return [leaf for i, below in enumerate(node) for leaf in _leaves(below, (*place, i))]
    return [place]
