"""What a report says, in plain words."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from driftbn.drift.outcome import TOO_FEW_ROWS, DriftDecision, DriftLevel, EpisodeEvent
from driftbn.explain.sentences import (
    advice_of,
    caveat_sentences,
    change_sentences,
    summary_of,
    target_sentences,
    touched_fields,
    twin_sentences,
)
from driftbn.explain.words import counted, decimal, listed, span, strength

if TYPE_CHECKING:
    from driftbn.report import WindowReport

SMALLEST_P = 1e-300  # a p-value of 0 has only been rounded to it

_AFTER_FAILURE = "The graph shown is the one from before; the next window is judged as usual."
_WIDTH = 80  # columns of a terminal that has not been touched


@dataclass(frozen=True)
class Explanation:
    """What a report says, for people who know the fields and not the method.

    ``sentences``: what changed, since when, how strongly, how sure, and what could not be told.
    ``advice``: what to do now; often nothing.

    >>> print(Explanation("All is calm.", ("Nothing changed.",)))
    All is calm.
    <BLANKLINE>
    - Nothing changed.
    """

    headline: str
    sentences: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [filled(self.headline)]
        if self.sentences:
            parts.append("\n".join(filled(text, "- ") for text in self.sentences))
        if self.advice:
            lines = [filled(text, "- ") for text in self.advice]
            parts.append("\n".join(["What to do:", *lines]))
        return "\n\n".join(parts)


def explain(report: WindowReport) -> Explanation:
    """Say in plain words what a report tells, and nothing that it does not.

    >>> from driftbn.graphs.diff import StructureDiff
    >>> from driftbn.graphs.graph import Dag
    >>> from driftbn.learning import SearchCost
    >>> from driftbn.report import WindowReport
    >>> dag, same = Dag("ab", [("a", "b")]), StructureDiff()
    >>> decision = DriftDecision(DriftLevel.LEARNING, alpha=0.01)
    >>> report = WindowReport(0, 9, 0, 8, dag.cpdag(), dag, same, same, decision, SearchCost((1,)))
    >>> print(explain(report))
    Window 0: learning, there is nothing yet to compare with.
    <BLANKLINE>
    - Window 0 holds 9 records (numbers 0 to 8).
    """
    return Explanation(_headline(report), tuple(_sentences(report)), tuple(advice_of(report)))


def filled(text: str, first: str = "") -> str:
    """Return a text in lines that fit a terminal, the first one behind a mark."""
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _headline(report: WindowReport) -> str:
    decision, window = report.decision, f"Window {report.index:,}"
    match decision.level:
        case DriftLevel.DRIFT:
            back = f"; back to regime {decision.regime}" if decision.recurring else ""
            return f"Drift in window {report.index:,}: {summary_of(decision)}{back}."
        case DriftLevel.NEGLIGIBLE:
            return f"{window}: a change too small for an alarm; {summary_of(decision)}."
        case DriftLevel.SETTLING:
            return f"{window}, after a drift: {_settled(decision)}."
        case DriftLevel.STABLE if decision.recurring:
            return f"{window}: the relations are back to an earlier state, which is no alarm."
        case DriftLevel.STABLE:
            return f"{window}: no sign of a change in the relations between the fields."
        case DriftLevel.LEARNING:
            return f"{window}: learning, there is nothing yet to compare with."
        case DriftLevel.UNDECIDED:
            return f"{window} could not be judged: {decision.reason or TOO_FEW_ROWS}."


def _settled(decision: DriftDecision) -> str:
    if decision.recurring:
        return "the relations are back to an earlier state"
    if decision.kind is not None:
        return summary_of(decision)
    return "the relations are being learned anew"


def _sentences(report: WindowReport) -> list[str]:
    decision = report.decision
    found = [_window_sentence(report)]
    if decision.level in (DriftLevel.DRIFT, DriftLevel.NEGLIGIBLE, DriftLevel.SETTLING):
        found += change_sentences(decision)
    found += _level_sentences(report)
    found += _episode_sentences(decision)
    found += target_sentences(report)
    found += twin_sentences(report, _mentioned(decision))
    found += _raw_sentences(report)
    return found + caveat_sentences(report)


def _window_sentence(report: WindowReport) -> str:
    first, last = report.first_record, report.last_record
    numbers = f"number {first:,}" if first == last else f"numbers {first:,} to {last:,}"
    when = span(report.start, report.end)
    return (
        f"Window {report.index:,} holds {counted(report.rows, 'record')} ({numbers})"
        f"{', ' + when if when else ''}."
    )


def _level_sentences(report: WindowReport) -> list[str]:
    decision = report.decision
    match decision.level:
        case DriftLevel.DRIFT:
            return _scale_sentences(decision) + _certainty(decision) + _regime(decision)
        case DriftLevel.NEGLIGIBLE:
            least = decimal(decision.min_effect)
            small = (
                f"The largest change is {decimal(decision.effect)} nats"
                f" ({strength(decision.effect)}), below the {least} nats set as worth an alarm."
            )
            return [*_scale_sentences(decision), small, *_certainty(decision), *_regime(decision)]
        case DriftLevel.SETTLING:
            return _settling(decision) + _regime(decision)
        case DriftLevel.STABLE:
            return _strongest_sign(decision) + _regime(decision)
        case DriftLevel.UNDECIDED:
            nothing = "Nothing is known of this window: neither change nor calm."
            return [nothing, _AFTER_FAILURE] if decision.failed else [nothing]
        case DriftLevel.LEARNING:
            return []


def _scale_sentences(decision: DriftDecision) -> list[str]:
    found = []
    if decision.scale == 1:
        found.append("It is seen in this window alone.")
    elif decision.scale is not None:
        found.append(
            f"It is seen only over the last {decision.scale} windows together, so it may have begun"
            " before this one."
        )
    if decision.reference_windows:
        earlier = counted(decision.reference_windows, "earlier window")
        found.append(f'"Before" means the reference: {earlier} put together.')
    return found


def _certainty(decision: DriftDecision) -> list[str]:
    if not decision.families and decision.p_value >= 1.0:
        return []
    return [
        f"How sure: the p-value is {decimal(max(decision.p_value, SMALLEST_P))} after correction"
        " for all tests made"
        " (the smaller, the harder to explain by chance). At the chosen level of"
        f" {_level(decision)}, a false alarm like this is expected once in"
        f" {counted(_windows_between(decision), 'window')}."
    ]


def _level(decision: DriftDecision) -> str:
    return f"{decision.alpha:g}"


def _windows_between(decision: DriftDecision) -> int:
    return max(1, round(1 / decision.alpha)) if decision.alpha > 0 else 0


def _settling(decision: DriftDecision) -> list[str]:
    if decision.recurring:
        return ["This is the window after a drift."]
    return [
        "This is the window after a drift: it makes the description of the change more exact and"
        " starts the new reference."
    ]


def _regime(decision: DriftDecision) -> list[str]:
    if not decision.recurring:
        return []
    return [
        f"The relations are back to what they were in regime {decision.regime} (a regime is a"
        " stretch of the stream with the same relations; the first is regime 0)."
    ]


def _strongest_sign(decision: DriftDecision) -> list[str]:
    if not decision.families:
        return []
    best = min(decision.families, key=lambda result: result.p_value)
    where = f"{'at' if len(best.fields) == 1 else 'between'} {listed(best.fields)}"
    return [
        f"The strongest sign of a change was {where}, with a p-value of {decimal(best.p_value)}"
        f" after correction for all tests made; an alarm needs {_level(decision)} or less."
    ]


def _episode_sentences(decision: DriftDecision) -> list[str]:
    if decision.episode is None:
        return []
    episode = f"episode {decision.episode}"
    began = "" if decision.since is None else f" (begun in window {decision.since:,})"
    match decision.episode_event:
        case EpisodeEvent.STARTED:
            return [f"With this window {episode} begins."]
        case EpisodeEvent.ENDED:
            return [f"{episode.capitalize()}{began} has ended with this window."]
        case _:
            return [f"The window belongs to {episode}{began}."]


def _raw_sentences(report: WindowReport) -> list[str]:
    if report.decision.level is DriftLevel.LEARNING or report.degraded or report.decision.failed:
        return []
    raw = report.diff.hamming
    differ = f"differ in {counted(raw, 'dependency', 'dependencies')}" if raw else "do not differ"
    return [
        f"The graphs of this window and of the one before it {differ} (raw Hamming distance {raw});"
        " neighbouring windows differ by chance, so only confirmed changes count, of which there"
        f" {'is' if report.decision.confirmed_hamming == 1 else 'are'}"
        f" {report.decision.confirmed_hamming or 'none'}."
    ]


def _mentioned(decision: DriftDecision) -> tuple[str, ...]:
    """Return every field that the sentences name."""
    found = [*touched_fields(decision)]
    found += [name for edge in decision.edges for name in edge.given]
    found += [name for change in decision.node_changes for name in change.parents]
    if decision.level is DriftLevel.STABLE and decision.families:
        found += min(decision.families, key=lambda result: result.p_value).fields
    return tuple(dict.fromkeys(found))
