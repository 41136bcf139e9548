"""Expert knowledge as masks over the variables of one search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from driftbn.config import Knowledge
from driftbn.errors import KnowledgeError
from driftbn.graphs.graph import find_cycle
from driftbn.learning.independence import Mask


@dataclass(frozen=True, eq=False)
class KnownEdges:
    """Knowledge about the variables at hand.

    ``required[x, y]``: there is an edge from x to y. ``closed[x, y]``: none may point that way.
    """

    required: Mask
    closed: Mask

    @property
    def possible(self) -> Mask:
        """Pairs that may have an edge; the others are never tested."""
        impossible: Mask = self.closed & self.closed.T
        return ~impossible & ~np.eye(len(impossible), dtype=np.bool_)


def apply_knowledge(
    knowledge: Knowledge, names: Sequence[str], excluded: Sequence[str] = ()
) -> KnownEdges:
    """Check the knowledge and turn it into masks.

    Statements about an excluded variable are ignored: there is no node to apply them to.

    Raises KnowledgeError if a name is unknown, an edge is a loop, a name stands in two tiers, or
    required edges form a cycle or are forbidden.
    """
    place = {name: i for i, name in enumerate(names)}
    _check_names(knowledge, {*names, *excluded})
    closed = np.zeros((len(names), len(names)), np.bool_)
    required = np.zeros_like(closed)
    for later, tier in enumerate(knowledge.tiers):
        for earlier in knowledge.tiers[:later]:
            closed[np.ix_(_places(place, tier), _places(place, earlier))] = True
    for source, target in knowledge.forbidden:
        if source in place and target in place:
            closed[place[source], place[target]] = True
    for source, target in knowledge.required:
        if source not in place or target not in place:
            continue
        if closed[place[source], place[target]]:
            raise KnowledgeError("required", (source, target), "an edge that is not forbidden")
        required[place[source], place[target]] = True
    return KnownEdges(required, closed | required.T)


def knowledge_about(knowledge: Knowledge, names: Collection[str]) -> Knowledge:
    required, forbidden = (
        [edge for edge in edges if edge[0] in names and edge[1] in names]
        for edges in (knowledge.required, knowledge.forbidden)
    )
    tiers = ([name for name in tier if name in names] for tier in knowledge.tiers)
    return Knowledge(required, forbidden, tiers)


def _places(place: dict[str, int], tier: Sequence[str]) -> list[int]:
    return [place[name] for name in tier if name in place]


def _check_names(knowledge: Knowledge, known: set[str]) -> None:
    tiers = [name for tier in knowledge.tiers for name in tier]
    fields = (("required", knowledge.required), ("forbidden", knowledge.forbidden))
    for field, edges in fields:
        for edge in edges:
            if edge[0] == edge[1]:
                raise KnowledgeError(field, edge, "pairs of two different variables")
            _check_known(field, edge, known)
    _check_known("tiers", tiers, known)
    for name in tiers:
        if tiers.count(name) > 1:
            raise KnowledgeError("tiers", name, "in one tier only")
    cycle = find_cycle(knowledge.required)
    if cycle:
        raise KnowledgeError("required", cycle, "edges without a directed cycle")


def _check_known(field: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise KnowledgeError(field, name, f"a variable of the table: {sorted(known)[:8]}…")
