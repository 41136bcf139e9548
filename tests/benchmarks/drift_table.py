"""The drift benchmark's tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

from tests.benchmarks.drift_peer_runs import DESCRIPTIONS, PeerResult
from tests.benchmarks.drift_runs import Naming, Overlap, Result, StreamScore, Summary
from tests.benchmarks.drift_scenarios import CELLS
from tests.benchmarks.drift_text import Rate, Table, in_order, number, rate_text, seen_text

ALL = "all"
_MANY = 0.95  # the quantile shown beside a median


@dataclass(frozen=True)
class Scored:
    """The score of one stream, with what it was of."""

    network: str
    cell: str
    bursts: str
    score: StreamScore

    @property
    def stationary(self) -> bool:
        return self.score.seen_first is None


def scored(results: Iterable[Result]) -> list[Scored]:
    """Return the scores; streams that do not exist are left out."""
    found = [(result.task, result.score) for result in results]
    return [Scored(t.network, t.cell, t.bursts, s) for t, s in found if s is not None]


def tables(results: Sequence[Result]) -> list[Table]:
    """Return all tables on the monitor: false alarms, detection, naming, cost."""
    found = scored(results)
    every = [false_alarm_table(found)]
    changes = [entry for entry in found if not entry.stationary]
    for bursts in in_order(entry.bursts for entry in changes):
        part = [entry for entry in changes if entry.bursts == bursts]
        every += [detection_table(bursts, part), network_table(bursts, part)]
        every += [naming_table(bursts, part)]
    returns = [entry for entry in changes if entry.score.return_seen is not None]
    if returns:
        every.append(recurring_table(returns))
    every.append(cost_table(results))
    return every


def false_alarm_table(entries: Sequence[Scored]) -> Table:
    """Alarms among stationary windows, by network and bursts, then those before changes."""
    kinds = in_order(entry.bursts for entry in entries)
    still = [entry for entry in entries if entry.stationary]
    rows = [
        (network, *(rate_text(_false_alarms(still, network, bursts)) for bursts in kinds))
        for network in (*in_order(entry.network for entry in still), ALL)
    ]
    moving = [entry for entry in entries if not entry.stationary]
    before = (rate_text(_false_alarms(moving, ALL, bursts)) for bursts in kinds)
    rows.append(("before changes", *before))
    return Table("False alarms per window", ("network", *kinds), tuple(rows))


def _false_alarms(entries: Sequence[Scored], network: str, bursts: str) -> Rate:
    wanted = [e for e in entries if network in (e.network, ALL) and e.bursts == bursts]
    return _summary(wanted).false_alarms


def detection_table(bursts: str, entries: Sequence[Scored]) -> Table:
    rows = []
    for cell in _cells(entries):
        summary = _summary([entry for entry in entries if entry.cell == cell])
        rows.append(
            (
                cell,
                str(len(summary.scores)),
                rate_text(summary.rate(lambda s: s.seen_first)),
                rate_text(summary.rate(lambda s: s.seen_soon)),
                number(summary.mean_delay),
                rate_text(summary.rate(lambda s: None if s.delay is None else s.n_episodes == 1)),
            )
        )
    header = ("cell", "streams", "first full window", "within three", "mean delay", "one episode")
    return Table(f"Detection, bursts: {bursts}", header, tuple(rows))


def network_table(bursts: str, entries: Sequence[Scored]) -> Table:
    """Detection by cell and network: first window / within three, in per cent."""
    networks = in_order(entry.network for entry in entries)
    rows = []
    for cell in _cells(entries):
        parts = (
            _summary([e for e in entries if (e.cell, e.network) == (cell, network)])
            for network in networks
        )
        rows.append((cell, *(_seen(part) for part in parts)))
    title = f"Detection in the first full window / within three, %, bursts: {bursts}"
    return Table(title, ("cell", *networks), tuple(rows))


def naming_table(bursts: str, entries: Sequence[Scored]) -> Table:
    """What was named, by cell, over the streams with an alarm."""
    rows = []
    for cell in _cells(entries):
        summary = _summary([entry for entry in entries if entry.cell == cell])
        named = summary.precision(_edges).n
        touching = Rate(sum(naming.touching for naming in summary.namings), named)
        kinds = Rate.of(naming.kind == naming.expected_kind for naming in summary.namings)
        turned = Rate.of(naming.reversal for naming in summary.namings)
        rates = (
            *(summary.precision(_edges), summary.recall(_edges), touching),
            *(summary.precision(_nodes), summary.recall(_nodes), kinds, turned),
        )
        rows.append((cell, str(len(summary.namings)), *map(rate_text, rates)))
    header = (
        *("cell", "alarms", "edge precision", "edge recall", "edges touching"),
        *("node precision", "node recall", "kind right", "named reversed"),
    )
    return Table(f"Naming, bursts: {bursts}", header, tuple(rows))


def _edges(naming: Naming) -> Overlap:
    return naming.edges


def _nodes(naming: Naming) -> Overlap:
    return naming.nodes


def recurring_table(entries: Sequence[Scored]) -> Table:
    """Whether the return of the first network was seen, and recognised."""
    rows = []
    for bursts in in_order(entry.bursts for entry in entries):
        summary = _summary([entry for entry in entries if entry.bursts == bursts])
        rates = (
            summary.rate(lambda s: s.return_seen),
            summary.rate(lambda s: s.return_called if s.return_seen else None),
            summary.rate(lambda s: s.wrongly_called),
        )
        rows.append((bursts, str(len(summary.scores)), *map(rate_text, rates)))
    header = ("bursts", "streams", "return seen", "called recurring if seen", "called too early")
    return Table("Recurring changes", header, tuple(rows))


def cost_table(results: Sequence[Result]) -> Table:
    """Cost of the decision against one relearn, over windows tested without an alarm."""
    rows = []
    for network in in_order(result.task.network for result in results):
        chosen = [result for result in results if result.task.network == network]
        learn = [seconds for result in chosen for seconds in result.learn_seconds]
        decide = [seconds for result in chosen for seconds in result.decide_seconds]
        if not learn:
            continue
        ratios = sorted(d / n for d, n in zip(decide, learn, strict=True) if n > 0)
        many = ratios[min(len(ratios) - 1, math.floor(_MANY * len(ratios)))]
        times = (number(1000 * median(learn)), number(1000 * median(decide)))
        rows.append((network, *times, number(median(ratios)), number(many)))
    header = ("network", "relearn ms", "decide ms", "decide / relearn", "95 % below")
    return Table("Cost of a window, medians", header, tuple(rows))


def _cells(entries: Sequence[Scored]) -> list[str]:
    present = {entry.cell for entry in entries}
    return [cell for cell in CELLS if cell in present]


def _summary(entries: Iterable[Scored]) -> Summary:
    return Summary(tuple(entry.score for entry in entries))


def _seen(summary: Summary) -> str:
    return seen_text(summary.rate(lambda s: s.seen_first), summary.rate(lambda s: s.seen_soon))


# The same of the peers.

OWN = "driftbn"


def peer_tables(
    results: Sequence[Result], peers: Sequence[PeerResult], missing: Sequence[str]
) -> list[Table]:
    """Return what each peer is, its false alarms, and its detection beside the monitor's."""
    verdicts = [name for name in DESCRIPTIONS if any(entry.peer == name for entry in peers)]
    notes = {entry.peer: entry.note for entry in peers if entry.note}
    notes |= dict.fromkeys(missing, "cannot be installed here")
    shown = [name for name in DESCRIPTIONS if name in verdicts or name in notes]
    listed = tuple((name, DESCRIPTIONS[name], notes.get(name, "")) for name in shown)
    legend = Table("Peers", ("peer", "what it is", "note"), listed, n_words=3)
    streams = {entry.stream for entry in peers}
    own = [entry for entry in map(_own, results) if entry and entry.stream in streams]
    every, header = [*own, *peers], (OWN, *verdicts)
    return [legend, *_peer_rates([entry for entry in every if not entry.note], header)]


def _own(result: Result) -> PeerResult | None:
    task, score = result.task, result.score
    if score is None:
        return None
    # As for the peers, only stationary streams tell of false alarms.
    counts = (score.n_quiet, score.n_false_alarms) if score.seen_first is None else (0, 0)
    seen = (score.seen_first, score.seen_soon)
    return PeerResult(task.network, task.cell, task.bursts, task.seed, OWN, *counts, *seen)


def _peer_rates(entries: Sequence[PeerResult], names: tuple[str, ...]) -> list[Table]:
    still = [entry for entry in entries if entry.seen_first is None]
    moving = [entry for entry in entries if entry.seen_first is not None]
    alarms = [
        (bursts, *(rate_text(_peer_alarms(still, bursts, name)) for name in names))
        for bursts in in_order(entry.bursts for entry in still)
    ]
    seen = [
        (*group, *(_peer_seen(moving, group, name) for name in names))
        for group in product(in_order(entry.bursts for entry in moving), CELLS)
        if any((entry.bursts, entry.cell) == group for entry in moving)
    ]
    title = "Detection in the first full window / within three, %, the same streams"
    return [
        Table("False alarms per window, the same streams", ("bursts", *names), tuple(alarms)),
        Table(title, ("bursts", "cell", *names), tuple(seen), n_words=2),
    ]


def _peer_alarms(entries: Sequence[PeerResult], bursts: str, name: str) -> Rate:
    chosen = [entry for entry in entries if (entry.bursts, entry.peer) == (bursts, name)]
    return Rate(sum(e.n_false_alarms for e in chosen), sum(e.n_quiet for e in chosen))


def _peer_seen(entries: Sequence[PeerResult], group: tuple[str, str], name: str) -> str:
    chosen = [e for e in entries if (e.bursts, e.cell) == group and e.peer == name]
    first, soon = Rate.of(e.seen_first for e in chosen), Rate.of(e.seen_soon for e in chosen)
    return seen_text(first, soon)
