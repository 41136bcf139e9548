"""Sentences on what has changed."""

from __future__ import annotations

from driftbn.decision.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftKind,
    EdgeChange,
    Family,
    NodeChange,
)
from driftbn.reporting.words import counted, decimal, joined, listed, quoted, strength

MAX_CHANGES = 5
"""Changes of one kind that are told in full; the others are counted."""

_UNITS = (
    "Strength is measured in nats: how much knowing one field tells about the other, where 0 is"
    " nothing and 0.03 or more is strong; the interval holds the true value in 95 of 100 cases."
)
_DISTANCE = (
    "How far two rules are apart is measured in nats per record, where 0 is not at all and 0.03 or"
    " more is strong."
)


def summary_of(decision: DriftDecision) -> str:
    """Return what changed as the end of a headline, without a full stop.

    Examples
    --------
    >>> from driftbn.decision.outcome import DriftLevel
    >>> change = NodeChange("x", ("a",), 0.001, 0.1)
    >>> summary_of(DriftDecision(DriftLevel.DRIFT, 0.01, node_changes=(change,)))
    "'x' follows the same fields by another rule"
    """
    if decision.edges:
        return _edges_summary(decision.edges)
    if decision.node_changes:
        return _nodes_summary(decision.node_changes)
    pair = strongest_pair(decision)
    if decision.kind is DriftKind.ASSOCIATION and pair:
        return f"how {listed(pair)} go together changed"
    return "the relations between the fields changed"


def strongest_pair(decision: DriftDecision) -> tuple[str, ...]:
    """Return the pair of fields whose way of going together changed most surely, if one did."""
    for result in decision.families:
        if result.family is Family.ASSOCIATION and result.p_value <= decision.alpha:
            return result.fields
    return ()


def touched_fields(decision: DriftDecision) -> tuple[str, ...]:
    """Return the fields that a named change is about, in the order of the changes."""
    found = [name for edge in decision.edges for name in (edge.source, edge.target)]
    found += decision.nodes
    if not found and decision.kind is DriftKind.ASSOCIATION:
        found += strongest_pair(decision)
    return tuple(dict.fromkeys(found))


def change_sentences(decision: DriftDecision) -> list[str]:
    """Return sentences on each change: what, between which fields, how strong."""
    found = [_kind_sentence(decision)] if decision.kind is not None else []
    found += [_edge_sentence(edge) for edge in decision.edges[:MAX_CHANGES]]
    if len(decision.edges) > MAX_CHANGES:
        more = counted(len(decision.edges) - MAX_CHANGES, "more change")
        found.append(f"There {_be(len(decision.edges) - MAX_CHANGES)} {more} of this kind.")
    if decision.edges:
        found.append(_UNITS)
    nodes = decision.node_changes
    found += [_node_sentence(change, decision.kind) for change in nodes[:MAX_CHANGES]]
    if len(decision.node_changes) > MAX_CHANGES:
        n_more = len(decision.node_changes) - MAX_CHANGES
        found.append(f"The same holds for {counted(n_more, 'more field')}.")
    if decision.node_changes and not decision.edges:
        found.append(_DISTANCE)
    return found


def arrow_of(edge: EdgeChange) -> str:
    """Return the direction of a changed edge in words."""
    if not edge.directed:
        return "the data do not tell its direction"
    source, target = quoted(edge.source), quoted(edge.target)
    verb = "it pointed" if edge.change is ChangeType.REMOVED else "it points"
    return f"{verb} from {source} to {target}"


def strength_of(association: Association) -> str:
    """Return an association in a word and in numbers.

    Examples
    --------
    >>> strength_of(Association(0.05, 0.04, 0.06))
    'strong (0.05 nats, 95 % interval 0.04 to 0.06)'
    """
    low, high = decimal(association.low), decimal(association.high)
    word = strength(association.nats)
    return f"{word} ({decimal(association.nats)} nats, 95 % interval {low} to {high})"


def _be(number: int, *, past: bool = False) -> str:
    one, many = ("was", "were") if past else ("is", "are")
    return one if number == 1 else many


def _edges_summary(edges: tuple[EdgeChange, ...]) -> str:
    if len(edges) == 1:
        return _edge_headline(edges[0])
    parts: list[str] = []
    for change in ChangeType:
        number = sum(edge.change is change for edge in edges)
        noun = f"{number:,}"
        if not parts:
            noun = f"{counted(number, 'dependency', 'dependencies')} {_be(number, past=True)}"
        if number:
            parts.append(f"{noun} {change}")
    return joined(parts)


def _edge_headline(edge: EdgeChange) -> str:
    article = "a" if edge.change is ChangeType.ADDED else "the"
    pair = f"{quoted(edge.source)} and {quoted(edge.target)}"
    return f"{article} dependency between {pair} was {edge.change}"


def _nodes_summary(changes: tuple[NodeChange, ...]) -> str:
    names = listed([change.name for change in changes], limit=3)
    if not any(change.parents for change in changes):
        return f"the values of {names} come in other shares than before"
    verb = "follows" if len(changes) == 1 else "follow"
    return f"{names} {verb} the same fields by another rule"


def _kind_sentence(decision: DriftDecision) -> str:
    if decision.kind is DriftKind.STRUCTURAL:
        number = len(decision.edges)
        which = counted(number, "dependency", "dependencies")
        return f"What changed is which fields depend on each other: {which} could be named."
    if decision.kind is DriftKind.ASSOCIATION:
        pair = strongest_pair(decision)
        sign = f" The clearest sign is between {listed(pair)}." if pair else ""
        return "How fields go together changed, but no single dependency could be named." + sign
    if decision.kind is DriftKind.MECHANISM:
        return (
            "As far as these records show the dependencies are those of before, but a rule changed:"
            " the same inputs now lead to other outcomes."
        )
    return (
        "Only how often values come has changed, in fields that depend on no other; how the fields"
        " depend on each other has not."
    )


def _edge_sentence(edge: EdgeChange) -> str:
    what, arrow = _edge_headline(edge), arrow_of(edge)
    if edge.change is ChangeType.REVERSED and edge.directed:
        arrow += f", before from {quoted(edge.target)} to {quoted(edge.source)}"
    how = f", comparing only records that agree in {listed(edge.given)}" if edge.given else ""
    return (
        f"{what[0].upper()}{what[1:]} ({arrow}). Strength before: {strength_of(edge.before)};"
        f" now: {strength_of(edge.after)}{how}."
    )


def _node_sentence(change: NodeChange, kind: DriftKind | None) -> str:
    name = quoted(change.name)
    size = f"{strength(change.effect)}, {decimal(change.effect)} nats per record"
    if not change.parents:
        return f"The values of {name} come in other shares than before ({size})."
    inputs = listed(change.parents)
    if kind is DriftKind.MECHANISM:
        return f"{name} follows {inputs} as before, by another rule (difference: {size})."
    return (
        f"Comparing only records that agree in {inputs}, the values of {name} come in other shares"
        f" than before ({size})."
    )
