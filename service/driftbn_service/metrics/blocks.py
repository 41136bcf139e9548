"""The series of one family that belong to one stream, with the text that a scraper reads.

A block keeps its text until one of its series changes: a scrape of many streams puts texts together
and writes only what is new.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client.samples import Exemplar, Sample

from driftbn_service.metrics.catalogue import Family

Labels = tuple[str, ...]

MAX_NAME_LENGTH: Final = 80
"""Characters of a name from the data in a label; what is longer is cut."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class _Row(NamedTuple):
    name: str
    labels: Labels
    value: float
    exemplar: Exemplar | None = None


def label_of(name: str) -> str:
    r"""Return a name from the data as a label: not too long, on one line, and in UTF-8.

    Examples
    --------
    >>> label_of("delay"), label_of("a\nb"), len(label_of("x" * 1000))
    ('delay', 'a?b', 80)
    """
    if len(name) > MAX_NAME_LENGTH:
        name = f"{name[: MAX_NAME_LENGTH - 1]}…"
    # Half a character, which JSON may hold and UTF-8 has not, cannot be printed either.
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in name)


class Block(ABC):
    """Series of one family and one stream; any thread may read and change them.

    Parameters
    ----------
    family
        Which metric.
    monitor
        The name of the stream.
    """

    def __init__(self, family: Family, monitor: str) -> None:
        self.family = family
        self.monitor = monitor
        self._lock = threading.Lock()
        self._starts: dict[tuple[str, Labels], str] = {}
        self._text: tuple[bytes, bytes] | None = None
        self._tell: Callable[[], None] = _nobody

    @abstractmethod
    def _rows(self) -> Iterator[_Row]:
        """Iterate over the samples; called with the lock held."""

    @abstractmethod
    def _label_names(self, row: _Row) -> Labels:
        """Return the names of the labels of a row, after ``monitor``."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called after every change."""
        self._tell = tell

    def samples(self) -> list[Sample]:
        """Return the samples as prometheus_client has them."""
        with self._lock:
            return [
                Sample(
                    row.name,
                    {"monitor": self.monitor, **self._named(row)},
                    row.value,
                    None,
                    row.exemplar,
                )
                for row in self._rows()
            ]

    def text(self, *, open_metrics: bool) -> bytes:
        """Return the lines, with exemplars where the format has them."""
        text = self._text
        if text is None:
            with self._lock:
                text = self._text = self._written()
        return text[open_metrics]

    def _changed(self) -> None:
        """Throw the text away; called with the lock held, after the change."""
        self._text = None
        self._tell()

    def _named(self, row: _Row) -> dict[str, str]:
        return dict(zip(self._label_names(row), row.labels, strict=True))

    def _written(self) -> tuple[bytes, bytes]:
        plain, rich, has_exemplars = [], [], False
        for row in self._rows():
            line = f"{self._start(row)}{_number(row.value)}"
            plain.append(f"{line}\n")
            if row.exemplar is not None:
                has_exemplars = True
                line += _exemplar_text(row.exemplar)
            rich.append(f"{line}\n")
        text = "".join(plain).encode()
        return text, "".join(rich).encode() if has_exemplars else text

    def _start(self, row: _Row) -> str:
        """Return a line up to its value; kept, because only values change all the time."""
        key = row.name, row.labels
        start = self._starts.get(key)
        if start is None:
            labels = {"monitor": self.monitor, **self._named(row)}
            start = self._starts[key] = f"{row.name}{_labels_text(labels)} "
        return start


class ValueBlock(Block):
    r"""Counters or gauges of one stream.

    Parameters
    ----------
    family, monitor
        As for ``Block``.
    start
        The values of the labels of all series that are there from the start, and what they are.

    Examples
    --------
    >>> from driftbn_service.metrics.catalogue import REJECTED
    >>> block = ValueBlock(REJECTED, "orders", {("not_json",): 0.0})
    >>> block.add(("not_json",), 2)
    >>> block.text(open_metrics=False)
    b'driftbn_records_rejected_total{monitor="orders",reason="not_json"} 2.0\n'
    """

    def __init__(
        self, family: Family, monitor: str, start: Mapping[Labels, float] | None = None
    ) -> None:
        super().__init__(family, monitor)
        self._values: dict[Labels, float] = {(): 0.0} if start is None else dict(start)
        self._exemplars: dict[Labels, Exemplar] = {}

    def add(self, labels: Labels, amount: float, exemplar: Exemplar | None = None) -> None:
        """Count."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0.0) + amount
            if exemplar is not None:
                self._exemplars[labels] = exemplar
            self._changed()

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Have these series and no others."""
        with self._lock:
            if values == self._values:
                return
            self._values = dict(values)
            if len(self._starts) > len(values):
                self._starts.clear()  # names of fields that are gone
            self._changed()

    def _written(self) -> tuple[bytes, bytes]:
        if self._exemplars:
            return super()._written()
        # Half the time of the general way, for what changes between any two scrapes.
        name, starts = self.family.sample_name, self._starts
        lines = [
            f"{starts.get((name, labels)) or self._start(_Row(name, labels, value))}"
            f"{_number(value)}\n"
            for labels, value in self._values.items()
        ]
        text = "".join(lines).encode()
        return text, text

    def _rows(self) -> Iterator[_Row]:
        name, exemplars = self.family.sample_name, self._exemplars
        for labels, value in self._values.items():
            yield _Row(name, labels, value, exemplars.get(labels))

    def _label_names(self, row: _Row) -> Labels:
        return self.family.labels


class HistogramBlock(Block):
    """Histograms of one stream.

    Parameters
    ----------
    family, monitor
        As for ``Block``.
    start
        The values of the labels of all histograms.
    limits
        Upper ends of the buckets; there is one more for what is larger.
    """

    def __init__(
        self, family: Family, monitor: str, start: Iterable[Labels], limits: tuple[float, ...]
    ) -> None:
        super().__init__(family, monitor)
        self._limits = limits
        self._ends = (*(_number(limit) for limit in limits), "+Inf")
        self._counts = {labels: [0.0] * len(self._ends) for labels in start}
        self._sums = dict.fromkeys(self._counts, 0.0)
        self._exemplars: dict[tuple[Labels, int], Exemplar] = {}

    def observe(self, labels: Labels, value: float, exemplar: Exemplar | None = None) -> None:
        """Count a value by its size."""
        bucket = bisect_left(self._limits, value)
        with self._lock:
            self._counts[labels][bucket] += 1.0
            self._sums[labels] += value
            if exemplar is not None:
                self._exemplars[labels, bucket] = exemplar
            self._changed()

    def _rows(self) -> Iterator[_Row]:
        name = self.family.full_name
        for labels, counts in self._counts.items():
            for bucket, total in enumerate(accumulate(counts)):
                exemplar = self._exemplars.get((labels, bucket))
                yield _Row(f"{name}_bucket", (*labels, self._ends[bucket]), total, exemplar)
            yield _Row(f"{name}_count", labels, sum(counts))
            yield _Row(f"{name}_sum", labels, self._sums[labels])

    def _label_names(self, row: _Row) -> Labels:
        names = self.family.labels
        return (*names, "le") if len(row.labels) > len(names) else names


def _nobody() -> None:
    """Tell nobody."""


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _labels_text(labels: Mapping[str, str]) -> str:
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _exemplar_text(exemplar: Exemplar) -> str:
    text = f" # {_labels_text(exemplar.labels)} {_number(exemplar.value)}"
    return text if exemplar.timestamp is None else f"{text} {float(exemplar.timestamp)!r}"
