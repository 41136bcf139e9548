"""What a report says in numbers, as tables of a page; each is empty if there is nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftbn.decision.outcome import Association, EdgeChange
from driftbn.reporting.page import facts, table
from driftbn.reporting.words import counted, decimal, moment, strength

if TYPE_CHECKING:
    from driftbn.report import WindowReport

_NO_NUMBER = "–"  # noqa: RUF001 - a dash, as tables have it


def edge_table(report: WindowReport) -> str:
    """Return the changes of edges that a test confirms, with strengths before and now."""
    names = ("Change", "From", "To", "Before", "Now", "Among records equal in", "p-value")
    rows = [
        (
            edge.change.value + ("" if edge.directed else ", direction unknown"),
            edge.source,
            edge.target,
            _strength(edge.before),
            _strength(edge.after),
            _given(edge),
            decimal(edge.p_value),
        )
        for edge in report.decision.edges
    ]
    return table(names, rows)


def _strength(association: Association) -> str:
    low, high = decimal(association.low), decimal(association.high)
    return f"{strength(association.nats)}: {decimal(association.nats)} nats ({low} to {high})"


def _given(edge: EdgeChange) -> str:
    return ", ".join(edge.given) or _NO_NUMBER


def node_table(report: WindowReport) -> str:
    """Return the fields that follow another rule."""
    rows = [
        (
            change.name,
            ", ".join(change.parents) or _NO_NUMBER,
            f"{strength(change.effect)}: {decimal(change.effect)} nats per record",
            decimal(change.p_value),
        )
        for change in report.decision.node_changes
    ]
    return table(("Field", "Among records equal in", "Difference", "p-value"), rows)


def numbers(report: WindowReport) -> str:
    """Return the numbers of a window and of its decision."""
    decision, cost = report.decision, report.cost
    pairs = [
        ("Window", f"{report.index:,}"),
        ("Records", f"{report.rows:,}"),
        ("Record numbers", f"{report.first_record:,} to {report.last_record:,}"),
        ("First event", _NO_NUMBER if report.start is None else moment(report.start)),
        ("Last event", _NO_NUMBER if report.end is None else moment(report.end)),
        ("Hamming distance, raw", f"{report.diff.hamming:,}"),
        ("Hamming distance, confirmed", f"{decision.confirmed_hamming:,}"),
        ("p-value", decimal(decision.p_value)),
        ("Level of an alarm", f"{decision.alpha:g}"),
        ("Windows put together", _NO_NUMBER if decision.scale is None else f"{decision.scale}"),
        ("Windows of the reference", f"{decision.reference_windows:,}"),
        ("Regime", f"{decision.regime}"),
        ("Episode", _NO_NUMBER if decision.episode is None else f"{decision.episode}"),
        ("Design effect", decimal(decision.design_effect)),
        ("Tests of the search", f"{cost.n_tests:,} ({'warm' if cost.warm else 'cold'} start)"),
        ("Weighted cost of the search", f"{cost.weighted:,}"),
        ("Dependencies in the graph", f"{len(report.dag.edges):,}"),
        ("Pairs with conflicting directions", f"{len(report.conflicts):,}"),
    ]
    if report.audit is not None:
        pairs.append(("Edges a cold search differs in", f"{report.audit.disagreement:,}"))
    return facts(pairs)


def family_table(report: WindowReport) -> str:
    """Return the strongest sign in each family of tests."""
    rows = [
        (
            result.family.value,
            " – ".join(result.fields),  # noqa: RUF001 - a dash between two fields
            decimal(result.p_value),
            f"{result.scale}",
            f"{result.n_tests:,}",
            decimal(result.design_effect),
        )
        for result in report.decision.families
    ]
    names = ("Tests", "Strongest sign", "p-value", "Windows", "Number of tests", "Design effect")
    return table(names, rows)


def undecided_table(report: WindowReport) -> str:
    """Return the pairs of fields that the rows could not decide on."""
    decision = report.decision
    rows = [
        (
            pair.source,
            pair.target,
            "no change would show"
            if pair.visible_change == float("inf")
            else f"{decimal(pair.visible_change)} nats ({strength(pair.visible_change)})",
        )
        for pair in decision.undecided
    ]
    n_more = decision.n_undecided - len(rows)
    more = f'<p class="soft">And {counted(n_more, "more pair")}.</p>' if n_more > 0 else ""
    return table(("Field", "Field", "Smallest change that would show"), rows) + more


def excluded_table(report: WindowReport) -> str:
    """Return the columns without part in the graph, with the reason."""
    same = [(name, f"always says the same as {other}") for name, other in report.twins]
    twins = {name for name, _ in report.twins}
    rest = [(name, str(reason)) for name, reason in report.excluded if name not in twins]
    return table(("Column", "Why"), sorted([*same, *rest]))
