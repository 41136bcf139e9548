"""The changes of a report in short, as a picture has room for them."""

from __future__ import annotations

from dataclasses import dataclass

from driftbn.decision.outcome import Association, ChangeType, EdgeChange, NodeChange
from driftbn.report import WindowReport
from driftbn.reporting.scene import CHANGED, LineKind
from driftbn.reporting.words import decimal, shortened, strength

_KINDS = {
    ChangeType.ADDED: LineKind.ADDED,
    ChangeType.REMOVED: LineKind.REMOVED,
    ChangeType.REVERSED: LineKind.REVERSED,
}


@dataclass(frozen=True)
class Card:
    """A change in short.

    Parameters
    ----------
    title
        What changed.
    lines
        How strongly, and how sure that is.
    kind
        What became of the edge; ``None`` if the change is one of a field.
    """

    title: str
    lines: tuple[str, ...]
    kind: LineKind | None = None


def cards_of(report: WindowReport) -> list[Card]:
    """Return the confirmed changes, those of edges first.

    A field is left out that differs only because of a changed edge to it.
    """
    decision = report.decision
    ends = {name for edge in decision.edges for name in (edge.source, edge.target)}
    nodes = [change for change in decision.node_changes if change.name not in ends]
    return [*map(_edge_card, decision.edges), *map(_node_card, nodes)]


def strength_text(association: Association) -> str:
    """Return an association in a word and in numbers.

    Examples
    --------
    >>> strength_text(Association(0.05, 0.04, 0.06))
    'strong, 0.05 nats (0.04 to 0.06)'
    """
    low, high = decimal(association.low), decimal(association.high)
    return f"{strength(association.nats)}, {decimal(association.nats)} nats ({low} to {high})"


def pair_text(edge: EdgeChange) -> str:
    """Return an edge as an arrow, or as a line if its direction is not known."""
    arrow = "→" if edge.directed else "–"  # noqa: RUF001 - a dash for a line without a head
    return f"{shortened(edge.source)} {arrow} {shortened(edge.target)}"


def _edge_card(edge: EdgeChange) -> Card:
    kind = _KINDS[edge.change]
    lines = (
        f"before: {strength_text(edge.before)}",
        f"now: {strength_text(edge.after)}",
        f"p-value: {decimal(edge.p_value)}",
    )
    return Card(f"{kind.sign} {kind.value}: {pair_text(edge)}", lines, kind)


def _node_card(change: NodeChange) -> Card:
    what = "follows another rule" if change.parents else "comes in other shares"
    size = f"{strength(change.effect)}, {decimal(change.effect)} nats per record"
    lines = (f"difference: {size}", f"p-value: {decimal(change.p_value)}")
    return Card(f"{CHANGED} {shortened(change.name)} {what}", lines)
