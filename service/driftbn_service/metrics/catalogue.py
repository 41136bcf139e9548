"""The families of metrics: what each is called, what kind it is, and its labels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final


class Kind(StrEnum):
    """What a metric does over time; the values are the words of the exposition format."""

    COUNTER = "counter"
    """It only grows, until the process ends."""
    GAUGE = "gauge"
    """It goes up and down."""
    HISTOGRAM = "histogram"
    """It counts values by size."""


@dataclass(frozen=True)
class Family:
    """Series of one name.

    Parameters
    ----------
    name
        Without ``driftbn_`` in front and ``_total`` behind.
    kind
        What it does over time.
    text
        What it says, for people.
    labels
        Names of the labels after ``monitor``, which all have.

    Examples
    --------
    >>> Family("records", Kind.COUNTER, "Records.").sample_name
    'driftbn_records_total'
    """

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()

    @cached_property
    def full_name(self) -> str:
        """The name of the family, as OpenMetrics has it."""
        return f"driftbn_{self.name}"

    @cached_property
    def sample_name(self) -> str:
        """The name that stands in queries."""
        return f"{self.full_name}_total" if self.kind is Kind.COUNTER else self.full_name

    def header(self, *, open_metrics: bool) -> str:
        """Return the two lines before the samples."""
        name = self.full_name if open_metrics else self.sample_name
        return f"# HELP {name} {self.text}\n# TYPE {name} {self.kind.value}\n"


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, text, labels)


# What happens
RECORDS: Final = _counter("records", "Records by what became of them.", "source", "outcome")
REJECTED: Final = _counter("records_rejected", "Records set aside, by reason.", "reason")
WINDOWS: Final = _counter("windows", "Windows by what they were called.", "outcome")
CI_TESTS: Final = _counter(
    "ci_tests", "Independence tests of the search, by fields held fixed.", "order", "result"
)
ALERTS: Final = _counter("alerts", "Drifts that began, by kind.", "kind")
SCHEMA_CHANGES: Final = _counter(
    "schema_changes", "Windows in which columns or values were new or absent."
)
DEGRADED: Final = _counter("windows_degraded", "Windows whose search was stopped by a limit.")
SHADOW_WINDOWS: Final = _counter(
    "shadow_windows", "Windows dealt out anew, so that nothing can have changed, and judged."
)
SHADOW_ALARMS: Final = _counter("shadow_alarms", "Windows dealt out anew that were called drift.")
NOTIFY: Final = _counter("notify", "Events by what became of them.", "sink", "outcome")
CHECKPOINT_FAILURES: Final = _counter(
    "checkpoint_failures", "Checkpoints or parts of the history that could not be written."
)
RELEARN: Final = Family(
    "relearn_duration_seconds", Kind.HISTOGRAM, "Time spent on one window.", ("phase", "start")
)

# What the stream does now
BUFFER: Final = _gauge("buffer_records", "Records that wait for their window to fill.")
LAG: Final = _gauge("source_lag_records", "What waits in the source, about.", "source", "partition")
CHECKPOINT_TIME: Final = _gauge("checkpoint_timestamp_seconds", "Time of the last checkpoint.")
CHECKPOINT_DURATION: Final = _gauge(
    "checkpoint_duration_seconds", "Time that the last checkpoint took."
)
PUBLISHED_TIME: Final = _gauge(
    "window_published_timestamp_seconds", "Time at which the last window was published."
)
STREAM_STATE: Final = _gauge("stream_state", "1 for what the stream does, else 0.", "state")
MONITORS: Final = _gauge("monitors", "Monitors of a stream, by where they are.", "place")
FAILED_MONITORS: Final = _gauge(
    "monitors_failed", "Monitors that take no more records because something in them is broken."
)
BUILD_INFO: Final = _gauge("build_info", "1; the version is a label.", "version")

# What the last window says
HAMMING: Final = _gauge(
    "structural_hamming_distance",
    "Edges that differ from the window before, as learned.",
    "part",
    "reference",
)
CONFIRMED: Final = _gauge("confirmed_hamming_distance", "Changed edges that a test has confirmed.")
P_VALUE: Final = _gauge(
    "drift_p_value", "Smallest p-value of a family of tests, corrected for all tests.", "family"
)
THRESHOLD: Final = _gauge(
    "drift_threshold", "P-value below which a window is called drift.", "family"
)
EDGES_CHANGED: Final = _gauge(
    "edges_changed", "Confirmed changes of edges, by what happened.", "change"
)
GRAPH_EDGES: Final = _gauge("graph_edges", "Edges of the graph of the last window.", "kind")
GRAPH_NODES: Final = _gauge("graph_nodes", "Fields in the graph of the last window.")
STATE: Final = _gauge(
    "state", "1 for what the last window was called, or if the stream has failed, else 0.", "state"
)
EPISODES_OPEN: Final = _gauge(
    "episodes_open", "Drifts that have begun and not ended, by kind.", "kind"
)
UNDECIDED: Final = _gauge(
    "undecided_pairs", "Pairs of fields with too few records to tell a change."
)
EFFECT: Final = _gauge("drift_effect_nats", "Size of the change found, in nats per record.")
DISAGREEMENT: Final = _gauge(
    "warm_cold_disagreement_edges",
    "Edges by which the last search from nothing differed from the one that went on.",
)
EXCLUDED: Final = _gauge(
    "variables_excluded", "Columns without part in the graph, by reason.", "reason"
)
MISSING_RATIO: Final = _gauge(
    "variable_missing_ratio", "Share of missing values, fields with the largest only.", "variable"
)
EDGE_SCORE: Final = _gauge(
    "edge_change_score",
    "-log10 of the p-value of an edge that changed in an open drift, the surest ten only.",
    "from",
    "to",
    "change",
)
TRUNCATED: Final = _gauge(
    "series_truncated", "Series left out because there are too many, by metric.", "metric"
)
WINDOW_END: Final = _gauge(
    "window_end_timestamp_seconds", "Event time at which the last window ended."
)

FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All of them, in the order in which they are shown."""
