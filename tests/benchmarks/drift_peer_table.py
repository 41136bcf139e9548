"""The tables on drift checks in common use, beside the monitor on the same streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tests.benchmarks.drift_peer_runs import DESCRIPTIONS, PeerResult
from tests.benchmarks.drift_runs import Result
from tests.benchmarks.drift_scenarios import CELLS
from tests.benchmarks.drift_scores import Rate
from tests.benchmarks.drift_text import Table, in_order, rate_text, seen_text

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
