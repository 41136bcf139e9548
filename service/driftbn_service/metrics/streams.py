"""The series of one stream: all there from the start, and never more than so many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from prometheus_client.samples import Exemplar

import driftbn
from driftbn.decision.outcome import DriftKind, DriftLevel
from driftbn_service.decoding import RejectReason
from driftbn_service.events import Publication
from driftbn_service.metrics import catalogue
from driftbn_service.metrics.blocks import Block, HistogramBlock, Labels, ValueBlock
from driftbn_service.metrics.window_gauges import StreamGauges

OUTCOMES: Final = ("taken", "rejected", "failed")
SENT: Final = ("sent", "failed")
OTHER: Final = "other"
"""What stands for all names that have no series of their own."""
REASONS: Final = (*(reason.value for reason in RejectReason), OTHER)
"""Why a record was set aside."""
ORDERS: Final = ("0", "1", "2", "3", "4+")
"""How many fields a test holds fixed."""
FAILED: Final = "failed"
STATES: Final = ("starting", "running", "waiting", "drained", FAILED, "stopped")
MAX_PARTITIONS: Final = 64
"""Partitions of a stream that have a series; the others are added up."""
BUCKETS: Final = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_PHASES: Final = ("learn", "decide")
_RESULTS: Final = ("decided", "undecided")


class StreamSeries:
    """Counts what one stream does.

    Parameters
    ----------
    name, source
        The stream, and the kind of its source.
    sinks
        Names of the outlets.
    """

    def __init__(self, name: str, source: str, sinks: Sequence[str]) -> None:
        self.name = name
        self.source = source
        self.gauges = StreamGauges()
        self._lags: dict[str, int] = {"0": 0}
        self.values = {
            family.name: ValueBlock(family, name, start)
            for family, start in _starts(source, sinks).items()
        }
        starts = tuple(product(_PHASES, ("warm", "cold")))
        self.relearn = HistogramBlock(catalogue.RELEARN, name, starts, BUCKETS)
        self._show()
        self._write()

    @property
    def blocks(self) -> dict[str, Block]:
        """All series, by the name of the family."""
        return {**self.values, catalogue.RELEARN.name: self.relearn}

    def block(self, family: catalogue.Family) -> ValueBlock:
        """Return the series of a counter or a gauge."""
        return self.values[family.name]

    def add_sink(self, sink: str) -> None:
        """Have the series of one more outlet."""
        for outcome in SENT:
            self.block(catalogue.NOTIFY).add((sink, outcome), 0.0)

    def count(self, family: catalogue.Family, *labels: str, amount: float = 1.0) -> None:
        """Count one more, or several."""
        self.block(family).add(labels, amount)

    def set(self, family: catalogue.Family, value: float) -> None:
        """Set a gauge without further labels."""
        self.block(family).replace({(): value})

    def set_state(self, state: str) -> None:
        """Note what the stream does."""
        values: dict[Labels, float] = {(known,): float(known == state) for known in STATES}
        self.block(catalogue.STREAM_STATE).replace(values)
        self.gauges.failed = state == FAILED
        self._show()

    def set_monitors(self, n_monitors: int, n_resident: int, n_failed: int) -> None:
        """Note how many monitors there are, are in memory, and have failed."""
        n_on_disk = n_monitors - n_resident
        places: dict[Labels, float] = {("memory",): n_resident, ("disk",): n_on_disk}
        self.block(catalogue.MONITORS).replace(places)
        self.set(catalogue.FAILED_MONITORS, n_failed)

    def set_lag(self, lane: str, n_records: int) -> None:
        """Note how much waits in a part of the source."""
        self._lags[lane or "0"] = n_records
        ranked = sorted(self._lags.items(), key=lambda item: (len(item[0]), item[0]))
        shown = ranked[:MAX_PARTITIONS]
        values: dict[Labels, float] = {(self.source, name): float(n) for name, n in shown}
        rest = ranked[MAX_PARTITIONS:]
        if rest:
            values[self.source, OTHER] = float(sum(n for _, n in rest))
        self.block(catalogue.LAG).replace(values)

    def recall(self, report: Mapping[str, Any] | None, kinds: Mapping[str, str]) -> None:
        """Show what was known before a restart."""
        self.gauges.recall(report, kinds)
        self._show()

    def window(self, publication: Publication, now: float) -> None:
        """Note a window that was published at a time."""
        report = publication.report
        self.gauges.note(publication.key, report)
        self._show()
        self._count_decision(report, now)
        if report["events"]:
            self.count(catalogue.SCHEMA_CHANGES)
        if report["degraded"]:
            self.count(catalogue.DEGRADED)
        if report["shadow"] is not None:
            self.count(catalogue.SHADOW_WINDOWS)
            self.count(catalogue.SHADOW_ALARMS, amount=float(report["shadow"]["alarm"]))
        self._count_tests(report["cost"])
        start = "warm" if report["cost"]["warm"] else "cold"
        about = {"window": str(report["index"])}
        for phase in _PHASES:
            seconds = publication.timings.get(phase, 0.0)
            self.relearn.observe((phase, start), seconds, Exemplar(about, seconds, now))
        self.set(catalogue.PUBLISHED_TIME, now)
        self._write()

    def _show(self) -> None:
        for name, values in self.gauges.values().items():
            self.values[name].replace(values)

    def _write(self) -> None:
        """Write all texts here, in the thread that learns, so that a scrape finds them ready."""
        for block in self.blocks.values():
            block.text(open_metrics=False)

    def _count_decision(self, report: Mapping[str, Any], now: float) -> None:
        decision = report["decision"]
        self.count(catalogue.WINDOWS, decision["level"])
        if decision["episode_event"] == "started":
            about = {"window": str(report["index"]), "episode": str(decision["episode"])}
            kind = decision["kind"] or DriftKind.ASSOCIATION.value
            self.block(catalogue.ALERTS).add((kind,), 1.0, Exemplar(about, 1.0, now))

    def _count_tests(self, cost: Mapping[str, Any]) -> None:
        undecided = cost["undecided"]
        for order, n_tests in enumerate(cost["tests"]):
            shown = ORDERS[min(order, len(ORDERS) - 1)]
            n_undecided = undecided[order] if order < len(undecided) else 0
            self.count(catalogue.CI_TESTS, shown, "undecided", amount=n_undecided)
            self.count(catalogue.CI_TESTS, shown, "decided", amount=n_tests - n_undecided)


def _starts(
    source: str, sinks: Iterable[str]
) -> dict[catalogue.Family, dict[Labels, float] | None]:
    """Return what the series are that a stream has from the start, all 0."""
    words: dict[catalogue.Family, Iterable[Labels]] = {
        catalogue.RECORDS: product((source,), OUTCOMES),
        catalogue.REJECTED: product(REASONS),
        catalogue.WINDOWS: product(level.value for level in DriftLevel),
        catalogue.ALERTS: product(kind.value for kind in DriftKind),
        catalogue.CI_TESTS: product(ORDERS, _RESULTS),
        catalogue.NOTIFY: product(sinks, SENT),
        catalogue.STREAM_STATE: product(STATES),
        catalogue.MONITORS: product(("memory", "disk")),
        catalogue.LAG: [(source, "0")],
    }
    found: dict[catalogue.Family, dict[Labels, float] | None] = {
        family: dict.fromkeys(words[family], 0.0) if family in words else None
        for family in catalogue.FAMILIES
        if family is not catalogue.RELEARN
    }
    found[catalogue.STREAM_STATE] = {(state,): float(state == "starting") for state in STATES}
    found[catalogue.BUILD_INFO] = {(driftbn.__version__,): 1.0}
    return found
