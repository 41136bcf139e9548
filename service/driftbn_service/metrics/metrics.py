"""All metrics of the daemon; the only module that counts for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from driftbn_service.events import Publication
from driftbn_service.metrics import catalogue
from driftbn_service.metrics.streams import OTHER, REASONS, StreamSeries
from driftbn_service.metrics.table import SeriesTable


class Metrics:
    """Counts what streams and outlets do; all may be called by any thread.

    Every series of a stream is there from ``add_stream`` on, and gone after ``drop_stream``; what
    is told of a stream that is not there is dropped. Labels are names from the settings and fixed
    words; only the two families that name fields of a stream take words from the data, and both
    are bounded.

    Parameters
    ----------
    registry
        Where the metrics are registered; one of its own if not given.
    clock
        Returns seconds since the epoch.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.add_stream("orders", "files")
    >>> metrics.records("orders", "taken", 5)
    >>> metrics.registry.get_sample_value(
    ...     "driftbn_records_total", {"monitor": "orders", "source": "files", "outcome": "taken"}
    ... )
    5.0
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, clock: Callable[[], float] = time
    ) -> None:
        self.registry = registry or CollectorRegistry()
        self._clock = clock
        self._table = SeriesTable()
        self._streams: dict[str, StreamSeries] = {}
        self._sinks: dict[str, None] = {}
        self._process = ProcessCollector(registry=None)
        self.registry.register(self._table)

    # --- Streams come and go ---

    def add_sink(self, outlet: str) -> None:
        """Have the series of an outlet."""
        self._sinks[outlet] = None
        for series in list(self._streams.values()):
            series.add_sink(outlet)

    def add_stream(self, stream: str, source: str) -> None:
        """Have all series of a stream, at zero."""
        series = StreamSeries(stream, source, tuple(self._sinks))
        self._streams[stream] = series
        self._table.put(stream, series.blocks)

    def drop_stream(self, stream: str) -> None:
        """Let all series of a stream vanish."""
        self._streams.pop(stream, None)
        self._table.drop(stream)

    def recall(
        self, stream: str, report: Mapping[str, Any] | None, kinds: Mapping[str, str]
    ) -> None:
        """Show what was known before a restart.

        Parameters
        ----------
        stream
            Its name.
        report
            Its last window.
        kinds
            Kinds of the episodes that are open, by key.
        """
        if series := self._streams.get(stream):
            series.recall(report, kinds)

    # --- What an observer is told ---

    def records(self, stream: str, outcome: str, n_records: int) -> None:
        """Count records by what became of them."""
        if series := self._streams.get(stream):
            series.count(catalogue.RECORDS, series.source, outcome, amount=n_records)

    def rejected(self, stream: str, reason: str, n_records: int) -> None:
        """Count rejected records by reason."""
        if series := self._streams.get(stream):
            known = reason if reason in REASONS else OTHER
            series.count(catalogue.REJECTED, known, amount=n_records)

    def window(self, publication: Publication) -> None:
        """Note a window that was published."""
        if series := self._streams.get(publication.monitor):
            series.window(publication, self._clock())

    def buffered(self, stream: str, n_records: int) -> None:
        """Note how many records wait for their window to fill."""
        if series := self._streams.get(stream):
            series.set(catalogue.BUFFER, n_records)

    def behind(self, stream: str, lane: str, n_records: int) -> None:
        """Note how much waits in the source."""
        if series := self._streams.get(stream):
            series.set_lag(lane, n_records)

    def monitors(self, stream: str, n_monitors: int, n_resident: int, n_failed: int) -> None:
        """Note how many monitors a stream has, are in memory, and have failed."""
        if series := self._streams.get(stream):
            series.set_monitors(n_monitors, n_resident, n_failed)

    def state(self, stream: str, state: str) -> None:
        """Note what a stream is doing."""
        if series := self._streams.get(stream):
            series.set_state(state)

    def committed(self, stream: str, seconds: float) -> None:
        """Note a checkpoint and how long it took."""
        if series := self._streams.get(stream):
            series.set(catalogue.CHECKPOINT_TIME, self._clock())
            series.set(catalogue.CHECKPOINT_DURATION, seconds)

    def commit_failed(self, stream: str) -> None:
        """Count a checkpoint that could not be written."""
        if series := self._streams.get(stream):
            series.count(catalogue.CHECKPOINT_FAILURES)

    def notified(self, outlet: str, monitor: str, outcome: str, n_events: int) -> None:
        """Count events by what became of them."""
        if series := self._streams.get(monitor):
            series.count(catalogue.NOTIFY, outlet, outcome, amount=n_events)

    # --- What a scraper reads ---

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the form that a scraper accepts, and its content type.

        Behind the series of the streams stand those of the process: memory, processor time, files.
        """
        encoder, content_type = choose_encoder(accept)
        # The names of all metrics are plain, so no kind of escaping that may be asked for matters.
        rich = content_type.startswith("application/openmetrics")
        texts = self._table.texts(open_metrics=rich)
        return b"".join((*texts, encoder(self._process))), content_type
