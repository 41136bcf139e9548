"""What changed, how, and what to do: the sentences that a reader is told first.

A field that stopped coming, is empty or has other values than ever has no dependencies that could
be compared with earlier ones. So this is said instead of a change of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from driftbn.config import DriftKind
from driftbn.drift.dispersion import TOO_LARGE_EFFECT
from driftbn.drift.facts import MISSING_RISE, Fact, FactKind
from driftbn.drift.outcome import (
    Association,
    ChangeType,
    DriftDecision,
    DriftLevel,
    EdgeChange,
    Family,
    NodeChange,
)
from driftbn.drift.shares import ELSEWHERE, LEAST_MOVED, Moved, Value
from driftbn.explain.sentences import (
    BACK,
    LIMITS,
    counted,
    decimal,
    listed,
    moment,
    moved_sentence,
    percent,
    quoted,
    range_words,
    strength,
)
from driftbn.tables.encode import SchemaEvent, SchemaEventKind
from driftbn.tables.schema import MISSING, RESERVED

if TYPE_CHECKING:
    from driftbn.report import WindowReport

EMPTY_SHARE: Final = 0.995  # of the records without a value: from here on all are said to be
MOSTLY: Final = 0.5  # of the records: from here on an event is about the field as a whole
RENAMED_RATIO: Final = 2.0  # of the shares of a lost and a new value: at most, if one is the other
RESCALED: Final = 2.0  # times as large or small: from here on numbers may have another unit
LEAST_OTHERWISE: Final = 0.05  # by which a share moves if a field comes otherwise than before

MAX_CHANGES = 5
"""Changes of one kind that are told in full; the others are counted."""
SURE_P = 1e-6
"""P-value below which no larger window would tell anything else."""
_UNITS = (
    "Strength is measured in nats: how much knowing one field tells about the other, where 0 is"
    " nothing and 0.03 or more is strong; the interval holds the true value in 95 of 100 cases."
)
_DISTANCE = (
    "How far two rules are apart is measured in nats per record, where 0 is not at all and 0.03 or"
    " more is strong."
)
_HIDING: Final = {
    FactKind.CONSTANT: 0.0,
    FactKind.LOST_LEVEL: 0.0,
    FactKind.MISSING: 0.2,
    FactKind.NEW_LEVEL: 0.1,
    FactKind.OUTSIDE: MOSTLY,
    FactKind.UNUSUAL: MOSTLY,
}
"""Shares of the records from which on a fact hides how its field depends on others."""


@dataclass(frozen=True)
class Cause:
    """What has happened to a field itself.

    ``finding``: the end of a headline, without values of records. ``lead``: a sentence on it, if
    there is more to say. ``advice``: what to do. ``hides``: whether the dependencies of the field
    cannot be compared with earlier ones while it lasts.
    """

    field: str
    finding: str
    lead: str
    advice: str
    hides: bool = True


def _causes_of(report: WindowReport) -> tuple[Cause, ...]:
    """Return what has happened to fields themselves, those that stopped coming first."""
    decision = report.decision
    if decision.kind is None:
        return ()
    found = {cause.field: cause for cause in _of_events(report)}
    of_shares = filter(None, (_as_fact(one) for one in report.moved if not one.among))
    for fact in (*decision.facts, *of_shares):
        found.setdefault(fact.field, _of_fact(fact, report.moved))
    return tuple(found.values())


def _as_fact(moved: Moved) -> Fact | None:
    """Return what shares say of a field of which the past is too short for a fact."""
    field, (before, now) = moved.value.field, moved.shares
    if moved.value.level == MISSING and now - before >= MISSING_RISE:
        return Fact(field, FactKind.MISSING, now, before)
    if moved.value.level is None and before - now >= ELSEWHERE:
        return Fact(field, FactKind.OUTSIDE, 1.0 - now, 1.0 - before)
    return None


def _of_events(report: WindowReport) -> Iterator[Cause]:
    named = {fact.field for fact in report.decision.facts}
    named |= {one.value.field for one in report.moved}
    for event in report.events:
        share = min(1.0, event.n_rows / report.rows)
        if event.kind is SchemaEventKind.MISSING_COLUMN and share >= MOSTLY:
            yield _absent(event.column, share)
        elif event.kind is SchemaEventKind.NEW_LEVEL and event.column in named:
            cause = _of_levels(event, share, report.moved)
            if cause is not None:
                yield cause


def _absent(field: str, share: float) -> Cause:
    name = quoted(field)
    who = f"{percent(share)} of the records come without it"
    if share >= EMPTY_SHARE:
        who = "no record has it any more"
    return Cause(
        field,
        f"{name} stopped coming",
        f"The field {name} is absent, not empty: {who}.",
        f"Ask whoever sends the records whether {name} was dropped or renamed.",
    )


def _of_levels(event: SchemaEvent, share: float, moved: Sequence[Moved]) -> Cause | None:
    """Return what new values of a field mean, if they are more than new values."""
    name, field = quoted(event.column), event.column
    had_numbers = any(one.value.level is None for one in moved if one.value.field == field)
    if event.levels == ("",) and share >= MOSTLY:
        lead = f"There is an empty text where a value was, in {_records(share)}."
        return Cause(field, f"{name} is empty in {_records(share)}", lead, _fills(name))
    if had_numbers and share >= MOSTLY:
        such = f", such as {quoted(event.levels[0])}" if event.levels else ""
        return Cause(
            field,
            f"{name} is no longer a number",
            f"There is a text in its place{such}, in {_records(share)}.",
            f"Look at what writes {name}: a format, a unit or a decimal comma that is new.",
        )
    kept = (None, *RESERVED)
    lost = [one for one in _own(field, moved) if one.value.level not in kept and one.now == 0]
    if len(lost) == 1 and event.n_levels == 1 and event.levels:
        before = lost[0].shares[0]
        if before >= LEAST_MOVED and 1 / RENAMED_RATIO <= share / before <= RENAMED_RATIO:
            old, new = quoted(str(lost[0].value.level)), quoted(event.levels[0])
            return Cause(
                field,
                f"a value of {name} seems to have been renamed",
                f"{old} ({percent(before)} of the records before) no longer comes, and {new}, never"
                f" seen before, comes in {percent(share)}.",
                f"If that was meant, rename the value wherever {name} is used; if not, correct it"
                " at its source.",
            )
    return None


def _fills(name: str) -> str:
    return f"Look at what fills {name}: a lookup or a join that finds nothing, or its source."


def _of_fact(fact: Fact, moved: Sequence[Moved]) -> Cause:
    name = quoted(fact.field)
    finding, lead = _fact_words(fact, _FACTS), f"{_fact_words(fact, _PAST)}."
    advice = f"Look for what changed at the source of {name}."
    match fact.kind:
        case FactKind.MISSING:
            finding = f"{name} has no value in {_records(fact.share)}"
            most = percent(fact.before)
            lead = f"Before, at most {most} were without." if fact.before else ""
            lead = lead or "Before, every record had one."
            advice = _fills(name)
        case FactKind.OUTSIDE | FactKind.UNUSUAL if fact.share >= MOSTLY:
            middles = _middles(fact.field, moved)
            finding = f"the numbers of {name} lie elsewhere than ever"
            if middles is None or _is_rescaled(*middles):
                finding = f"the numbers of {name} have another size, as if its unit had changed"
                advice = (
                    f"Check the unit of {name} at its source, such as cents for euros or"
                    " milliseconds for seconds."
                )
            if middles is not None:
                before, now = map(range_words, middles)
                lead = (
                    f"About half of its values were {before} until now; about half are {now} now."
                )
        case FactKind.CONSTANT:
            advice = f"Look whether {name} is stuck at its source."
        case FactKind.LOST_LEVEL | FactKind.NEW_LEVEL:
            lead = moved_sentence(_own(fact.field, moved)) or lead
    return Cause(fact.field, finding, lead, advice, fact.share >= _HIDING.get(fact.kind, 2.0))


def _records(share: float) -> str:
    return "every record" if share >= EMPTY_SHARE else f"{percent(share)} of the records"


def _own(field: str, moved: Sequence[Moved]) -> list[Moved]:
    return [one for one in moved if one.value.field == field and not one.among]


def _middles(field: str, moved: Sequence[Moved]) -> tuple[Value, Value] | None:
    """Return where the middle half of the numbers was and is, if that is known."""
    ranges = [one for one in _own(field, moved) if one.value.level is None]
    if len(ranges) < 2:
        return None
    before, now = (min(ranges, key=lambda one: abs(one.shares[i] - 0.5)).value for i in (0, 1))
    return before, now


def _is_rescaled(before: Value, now: Value) -> bool:
    """Whether numbers may be in another unit; what turns its sign is no unit.

    >>> _is_rescaled(Value("x", None, 20.0, 60.0), Value("x", None, 2000.0, 6000.0))
    True
    >>> _is_rescaled(Value("x", None, -9.0, 3.0), Value("x", None, 8.0, 20.0))
    False
    """
    was, is_now = (_middle_of(value) for value in (before, now))
    return was * is_now > 0.0 and not 1 / RESCALED < is_now / was < RESCALED


def _middle_of(value: Value) -> float:
    ends = [end for end in (value.low, value.high) if end is not None]
    return sum(ends) / max(len(ends), 1)


_FACTS: Final = {
    FactKind.CONSTANT: "{name} hardly varies any more",
    FactKind.NEW_LEVEL: "{name} has values never seen before in {now} of the records",
    FactKind.LOST_LEVEL: "a common value of {name} no longer comes",
    FactKind.OUTSIDE: "{name} lies far beyond everything before in {now} of the records",
    FactKind.UNUSUAL: "the numbers of {name} lie elsewhere than ever",
    FactKind.CLOCK: "{name} no longer follows from the time of day",
    FactKind.JUMPED: "{name} does not go on as it always did",
    FactKind.REPEATED: "{name} repeats earlier values in {now} of the records",
    FactKind.ROUGH: "neighbouring records are no longer alike in {name}",
}
_PAST: Final = {
    FactKind.CONSTANT: "{now} of the records have the same value, or one from the same range; it"
    " was never more than {before}",
    FactKind.NEW_LEVEL: "It was never more than {before}",
    FactKind.LOST_LEVEL: "Until now at least {before} of the records of every window had it",
    FactKind.CLOCK: "It does in {now} of the records, and did in at least {before} of every window",
    FactKind.JUMPED: "It always went on the same way; records are missing, or a clock was set",
    FactKind.REPEATED: "They come in the same order as before, which was never more than {before}",
    FactKind.OUTSIDE: "It was never more than {before}",
    FactKind.UNUSUAL: "{now} of the records lie outside of where nearly all were in every window",
    FactKind.ROUGH: "Neighbours differ {now} as much as any two records, and never did more than"
    " {before}",
}


def _fact_words(fact: Fact, words: Mapping[FactKind, str]) -> str:
    now, before = percent(fact.share), percent(fact.before)
    return words.get(fact.kind, "").format(name=quoted(fact.field), now=now, before=before)


class Change:
    """What a report tells of a change: what its sentences need is worked out once, here.

    ``causes``: what has happened to fields themselves. ``hidden``: fields whose dependencies cannot
    be compared with earlier ones. ``edges``, ``nodes``: what changed that none of this explains.
    ``detached``: a field that lost its dependencies while its own values come as before, and on
    what; so it is where values are attached to the wrong records. ``touched``: the fields that the
    change is about, what happened to fields first, given ones last.
    """

    def __init__(self, report: WindowReport) -> None:
        self.report, self.decision = report, report.decision
        self.causes = _causes_of(report)
        self.hidden = {cause.field for cause in self.causes if cause.hides}
        self.edges = tuple(e for e in self.decision.edges if not self.hidden & {*e.pair})
        self.nodes = [
            one for one in self.decision.node_changes if not self.hidden & {one.name, *one.parents}
        ]
        self.detached = _detached(report)
        self.touched = self._touched()

    def _touched(self) -> tuple[str, ...]:
        named = [name for edge in self.edges for name in _ends(edge, self.decision)]
        named += [one.name for one in self.nodes]
        found = [cause.field for cause in self.causes]
        found += sorted(named, key=lambda name: name in self.decision.given)
        if not found and self.decision.kind is DriftKind.ASSOCIATION:
            found += _strongest_pair(self.decision)
        return tuple(dict.fromkeys(found))

    @property
    def is_back(self) -> bool:
        """Whether all is as in an earlier stretch of the stream, so that nothing is broken."""
        return self.decision.recurring and not self.decision.facts

    @property
    def told_decision(self) -> DriftDecision:
        """The decision without the edges and fields whose change a field's own one explains."""
        changes = self.decision.node_changes
        nodes = tuple(one for one in changes if not self.hidden & {*one.parents})
        return replace(self.decision, edges=self.edges, node_changes=nodes)

    # What changed

    @property
    def summary(self) -> str:
        """What changed as the end of a headline, without a full stop."""
        decision = self.decision
        if self.is_back:
            return self._back_summary()
        if self.causes:
            return self._causes_summary()
        if self.detached is not None:
            field, others = self.detached
            return f"{quoted(field)} no longer tells anything about {listed(others)}"
        if decision.edges:
            return _edges_summary(decision.edges, decision)
        if decision.node_changes:
            return _nodes_summary(decision.node_changes)
        pair = _strongest_pair(decision)
        if decision.kind is DriftKind.ASSOCIATION and pair:
            return f"how {listed(pair)} depend on each other changed"
        return "the relations between the fields changed"

    def _back_summary(self) -> str:
        fields = [cause.field for cause in self.causes] or self.touched
        if not fields:
            return BACK
        return f"{listed(fields, limit=3)} {_be(len(fields))} back to an earlier state"

    def _causes_summary(self) -> str:
        first, *others = self.causes
        names = listed([cause.field for cause in others], limit=3)
        more = f"; there is more of this kind in {names}" if others else ""
        edges = self.edges
        besides = f"; besides, {_edges_summary(edges, self.decision)}" if edges else ""
        return f"{first.finding}{more}{besides}"

    def sentences(self) -> tuple[list[str], list[str]]:
        """Say what the change is, and how shares of values moved: at most a sentence each."""
        if self.is_back:
            which = "those of an earlier stretch of the stream, after another alarm"
            if self.decision.regime == 0:
                which = "those that the stream began with"
            how = [] if self.causes else self._moved_sentences()
            return [f"These records are like {which}."], how
        if self.causes:
            others = self._moved_sentences() if self.edges else []
            return [self.causes[0].lead], self._hidden_sentence() or others
        return self._meaning(), self._moved_sentences()

    def _hidden_sentence(self) -> list[str]:
        """Say which dependencies cannot be compared, in place of how they changed."""
        hidden, decision = self.hidden, self.decision
        pairs = [edge.pair for edge in decision.edges]
        pairs += [(node.name, name) for node in decision.node_changes for name in node.parents]
        ends = [pair for pair in pairs if hidden & {*pair}]
        field = next((name for pair in ends for name in pair if name in hidden), "")
        others = sorted({name for pair in ends for name in pair if field in pair} - {field})
        if not others:
            return []
        return [
            f"While that lasts, how {quoted(field)} and {listed(others)} depend on each other"
            " cannot be compared with before."
        ]

    def _meaning(self) -> list[str]:
        """Say in other words what the first change is."""
        decision = self.decision
        if self.detached is not None:
            return [
                f"The values of {quoted(self.detached[0])} themselves come as often as before, so"
                " they may belong to other records now."
            ]
        if decision.edges:
            return [_edge_meaning(decision.edges[0], decision)]
        meaning = None if decision.kind is None else _MEANINGS.get(decision.kind)
        return [] if meaning is None else [meaning]

    def _moved_sentences(self) -> list[str]:
        edges = self.edges
        if self.detached is not None:
            edges = tuple(edge for edge in edges if edge.change is ChangeType.REMOVED)
        subjects: list[tuple[str, ...]] = [edge.pair for edge in edges]
        if not edges:
            subjects = [(change.name,) for change in self.decision.node_changes]
        subjects = subjects or [_strongest_pair(self.decision)]
        found = [_moved_of(self.report.moved, fields) for fields in subjects]
        found = [some for some in found if some]
        most = 2 if len(found) == 1 else 1  # of each, as a sentence has room for three
        sentence = moved_sentence([one for some in found for one in some[:most]])
        return [] if sentence is None else [sentence]

    def details(self) -> list[str]:
        """Return all that is known of what changed, with strengths; see ``sentences``."""
        decision, edges, nodes = self.decision, self.edges, self.nodes
        found = [] if self.is_back else _cause_sentences(self.causes)
        if decision.kind is not None and (edges or nodes or not self.causes):
            found.append(_kind_sentence(decision))
        found += [_edge_sentence(edge, decision) for edge in edges[:MAX_CHANGES]]
        if len(edges) > MAX_CHANGES:
            more = counted(len(edges) - MAX_CHANGES, "more change")
            found.append(f"There {_be(len(edges) - MAX_CHANGES)} {more} of this kind.")
        if edges:
            found.append(_UNITS)
        found += [_node_sentence(change) for change in nodes[:MAX_CHANGES]]
        if len(nodes) > MAX_CHANGES:
            found.append(f"The same holds for {counted(len(nodes) - MAX_CHANGES, 'more field')}.")
        if nodes and not edges:
            found.append(_DISTANCE)
        return found

    # What to do

    def advice(self) -> list[str]:
        """Return what to do, the most urgent first."""
        report, decision = self.report, self.decision
        # Silence may be due to the size of the window; a stream that moves has no better.
        lacks_power = decision.n_undecided and decision.kind is None and not decision.wander
        found = self._advice_on_change() if decision.level is DriftLevel.DRIFT else []
        if decision.failed:
            found.append(
                "Please report this error; if it comes again, keep the records of a window."
            )
        elif decision.level is DriftLevel.UNDECIDED or lacks_power:
            found.append("Larger windows would show smaller changes.")
        if report.overrun is not None:
            setting = LIMITS[report.overrun].setting
            found.append(f"Raise {setting}, or watch fewer fields, so that the search can finish.")
        # Larger windows could decide otherwise.
        in_doubt = decision.kind is None or decision.p_value > SURE_P
        if decision.design_effect > TOO_LARGE_EFFECT and in_doubt:
            found.append(
                "Use larger windows: where records resemble each other this much, windows of this"
                " size can raise false alarms."
            )
        if report.events and decision.kind is None:
            found.append(
                "Find out whether the new or absent columns and values are meant to be so."
            )
        return found

    def _advice_on_change(self) -> list[str]:
        report = self.report
        if self.is_back:
            if self.decision.regime == 0:
                return ["Nothing, if a fault was mended. If not, find out what was switched back."]
            return ["Look at that alarm: if it told of a fault, the fault has come back."]
        if self.causes:
            first = self.causes[0].advice
        elif self.detached is not None:
            name = quoted(self.detached[0])
            first = (
                f"Check the join or lookup that brings {name} to the records: its key, its order."
            )
        else:
            where = f" {listed(self.touched)}" if self.touched else " the fields"
            end = "" if report.end is None else f" ({moment(report.end)})"
            last = f"{report.last_record:,}{end}"
            first = f"Look for what changed at the source of{where} up to record {last}."
        if report.target is not None and self.target_touch in ("itself", "nearby"):
            return [first, f"Check whatever relies on {quoted(report.target)}."]
        return [first]

    # Who is touched

    @property
    def target_touch(self) -> str | None:
        """How near a named change is to the target.

        ``"itself"``, ``"nearby"`` (a field of its Markov blanket) or ``"elsewhere"``; ``None`` if
        there is no target or no field was named.
        """
        report, touched = self.report, {*self.touched}
        if report.target is None or not touched:
            return None
        if {report.target, dict(report.twins).get(report.target)} & touched:
            return "itself"
        return "nearby" if touched.intersection(report.blanket) else "elsewhere"

    def target_sentences(self) -> list[str]:
        report = self.report
        if report.target is None:
            return []
        target = quoted(report.target)
        match self.target_touch:
            case "itself":
                return [f"The change touches {target}, the field you named as target."]
            case "nearby":
                near = [name for name in report.blanket if name in self.touched]
                tell = "tells" if len(near) == 1 else "tell"
                return [
                    f"The change does not touch the target {target} itself, but {listed(near)},"
                    f" which {tell} something about it directly."
                ]
            case "elsewhere":
                return [
                    f"The change touches neither the target {target} nor any field that tells"
                    " something about it directly."
                ]
        if self.decision.level is DriftLevel.DRIFT:
            return [
                f"No field could be named, so whether it touches the target {target} is not known."
            ]
        return []

    def twin_sentences(self) -> list[str]:
        """Return for the mentioned fields which others always say the same."""
        decision = self.decision
        mentioned = {*self.touched}.union(*(edge.given for edge in decision.edges))
        mentioned.update(*(change.parents for change in decision.node_changes))
        if decision.level is DriftLevel.STABLE and decision.families:
            mentioned.update(min(decision.families, key=lambda result: result.p_value).fields)
        return [
            f"{quoted(name)} always says the same as {quoted(other)}, so either may be meant."
            for name, other in self.report.twins
            if {name, other} & mentioned
        ]


def _detached(report: WindowReport) -> tuple[str, tuple[str, ...]] | None:
    removed = [edge for edge in report.decision.edges if edge.change is ChangeType.REMOVED]
    if len(removed) < 2 or not report.moved:
        return None
    common = set.intersection(*(set(edge.pair) for edge in removed))
    moved = {
        one.value.field
        for one in report.moved
        if not one.among and abs(one.shares[1] - one.shares[0]) >= LEAST_OTHERWISE
    }
    if len(common) != 1 or common & moved:
        return None
    (field,) = common
    return field, tuple(name for edge in removed for name in edge.pair if name != field)


def _moved_of(moved: Sequence[Moved], fields: Sequence[str]) -> list[Moved]:
    """Return what moved of a pair of fields, or of the values of one by itself or among others."""
    wanted = set(fields)
    if len(fields) > 1:
        pairs = ((one, {one.value.field, *(value.field for value in one.among)}) for one in moved)
        return [one for one, names in pairs if wanted <= names]
    found = [one for one in moved if one.value.field in wanted]
    return [one for one in found if one.among] or found


def _edges_summary(edges: Sequence[EdgeChange], decision: DriftDecision) -> str:
    """Return the largest change of an edge, and the fields of the others."""
    first, *more = edges
    headline = _edge_headline(first, decision)
    if not more:
        return headline
    others = [name for edge in more for name in _ends(edge, decision) if name not in first.pair]
    number = counted(len(more), "more dependency", "more dependencies")
    among = f", with {listed(list(dict.fromkeys(others)), limit=3)}" if others else ""
    return f"{headline}; {number} changed{among}"


def _nodes_summary(changes: Sequence[NodeChange]) -> str:
    names, plural = listed([change.name for change in changes], limit=3), len(changes) > 1
    if not any(change.parents for change in changes):
        return f"the values of {names} come in other shares than before"
    verb = "come" if plural else "comes"
    inputs = "other fields" if plural else listed(changes[0].parents, limit=3)
    return f"{names} now {verb} out differently for the same values of {inputs}"


_MEANINGS: Final = {
    DriftKind.MARGINAL: "How often values come has changed, not how fields depend on each other.",
    DriftKind.MECHANISM: "Which fields depend on each other is as before, as far as records show.",
    DriftKind.ASSOCIATION: "No single dependency could be named.",
}


def _edge_meaning(edge: EdgeChange, decision: DriftDecision) -> str:
    ends = (edge.source, edge.target)
    first, second = map(quoted, ends[::-1] if edge.target in decision.given else ends)
    held = f", among records with the same {listed(edge.given)}" if edge.given else ""
    if edge.change is ChangeType.REMOVED:
        return f"Knowing {first} tells next to nothing about {second} any more{held}."
    if edge.change is ChangeType.ADDED:
        return f"Knowing {first} now tells something about {second}{held}."
    return f"{first} and {second} still depend on each other, but not as they did."


def _cause_sentences(causes: Sequence[Cause]) -> list[str]:
    """Return what has happened to fields themselves."""
    told = causes[:MAX_CHANGES]
    found = [f"{cause.finding[0].upper()}{cause.finding[1:]}. {cause.lead}" for cause in told]
    if len(causes) > MAX_CHANGES:
        more = counted(len(causes) - MAX_CHANGES, "more field")
        found.append(f"There is something like this in {more}.")
    return found


def _kind_sentence(decision: DriftDecision) -> str:
    if decision.edges:
        number = len(decision.edges)
        which = counted(number, "dependency", "dependencies")
        return f"What changed is which fields depend on each other: {which} could be named."
    if decision.kind is DriftKind.ASSOCIATION:
        pair = _strongest_pair(decision)
        sign = f" The clearest sign is between {listed(pair)}." if pair else ""
        return "How fields depend on each other changed, but no dependency could be named." + sign
    if any(change.parents for change in decision.node_changes):
        return (
            "As far as these records show the dependencies are those of before, but where some"
            " fields have the same values as before, others now have other ones."
        )
    return (
        "Only how often values come has changed, in fields that depend on no other; how the fields"
        " depend on each other has not."
    )


def _strongest_pair(decision: DriftDecision) -> tuple[str, ...]:
    """Return the pair of fields whose association changed most surely, if one did."""
    for result in decision.families:
        if result.family is Family.ASSOCIATION and result.p_value <= decision.alpha:
            return result.fields
    return ()


def _arrow_of(edge: EdgeChange) -> str:
    if not edge.directed:
        return "the data do not tell its direction"
    source, target = quoted(edge.source), quoted(edge.target)
    verb = "it pointed" if edge.change is ChangeType.REMOVED else "it points"
    return f"{verb} from {source} to {target}"


def _strength_of(association: Association) -> str:
    """Return an association in a word and in numbers.

    >>> _strength_of(Association(0.05, 0.04, 0.06))
    'strong (0.05 nats, 95 % interval 0.04 to 0.06)'
    """
    low, high = decimal(association.low), decimal(association.high)
    word = strength(association.nats)
    return f"{word} ({decimal(association.nats)} nats, 95 % interval {low} to {high})"


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _edge_headline(edge: EdgeChange, decision: DriftDecision) -> str:
    article = "a" if edge.change is ChangeType.ADDED else "the"
    first, second = _ends(edge, decision)
    return f"{article} dependency between {quoted(first)} and {quoted(second)} was {edge.change}"


def _ends(edge: EdgeChange, decision: DriftDecision) -> list[str]:
    """Return the ends of an edge, first the one that more of what changed is about.

    A field that is given comes second: the clock does not follow demand.
    """
    about = dict.fromkeys((edge.source, edge.target), 0.0)
    for name in about:
        about[name] = sum(one.effect for one in decision.edges if name in one.pair)
    return sorted(about, key=lambda name: (name in decision.given, -about[name]))


def _edge_sentence(edge: EdgeChange, decision: DriftDecision) -> str:
    what, arrow = _edge_headline(edge, decision), _arrow_of(edge)
    if edge.change is ChangeType.REVERSED and edge.directed:
        arrow += f", before from {quoted(edge.target)} to {quoted(edge.source)}"
    how = f", comparing only records that agree in {listed(edge.given)}" if edge.given else ""
    return (
        f"{what[0].upper()}{what[1:]} ({arrow}). Strength before: {_strength_of(edge.before)};"
        f" now: {_strength_of(edge.after)}{how}."
    )


def _node_sentence(change: NodeChange) -> str:
    size = f"{strength(change.effect)}, {decimal(change.effect)} nats per record"
    held = f"Among records with the same {listed(change.parents)}, the" if change.parents else "The"
    return f"{held} values of {quoted(change.name)} come in other shares than before ({size})."
