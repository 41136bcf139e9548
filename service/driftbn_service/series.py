"""Series of one name as text: what has changed is written anew, the rest is kept."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from prometheus_client import Metric
from prometheus_client.samples import Exemplar, Sample

Labels = tuple[str, ...]
Values = Mapping[Labels, float]

MAX_NAME_LENGTH: Final = 80
"""Characters of a name from the data in a label; what is longer is cut."""
BUCKETS: Final = (0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, eq=False)
class Family:
    """Series of one name, which stands without ``driftbn_`` in front and ``_total`` behind.

    >>> Family("counter", "records", "Records.").sample_name
    'driftbn_records_total'
    """

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    text: str
    labels: Labels = ()  # after ``stream``, which all have but those of the process
    of_process: bool = False
    starts: tuple[Labels, ...] = ((),)  # series that are there from the start
    shown: Callable[[Any], Values] | None = None  # what is shown of a stream's last window
    buckets: tuple[float, ...] = BUCKETS  # of a histogram

    @property
    def full_name(self) -> str:
        return f"driftbn_{self.name}"

    @property
    def sample_name(self) -> str:
        return f"{self.full_name}_total" if self.kind == "counter" else self.full_name

    def start(self) -> dict[Labels, float]:
        """Return the series that are there from the start, at zero."""
        rows: list[Labels] = [()]
        if self.kind == "histogram":
            ends = [*map(_number, self.buckets), "+Inf"]
            rows = [*((end, "_bucket") for end in ends), ("_count",), ("_sum",)]
        return {(*labels, *row): 0.0 for labels in self.starts for row in rows}


class Page:
    """All series of one family as text, a part for each stream; for any thread.

    Parts are kept until their series change, and the whole until a part does: a scrape of hundreds
    of streams writes only what is new.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._series: dict[str, Series] = {}  # by stream
        self._parts: dict[str, tuple[bytes, bytes]] = {}  # plain, and with exemplars
        self._in_order = True
        self._texts: dict[bool, bytes] = {}
        self._lock = threading.Lock()
        self.changed: set[Series] = set()  # since their part was written

    def begin(self, stream: str) -> Series:
        """Have the series of one more stream; of the process they are those of ``""``."""
        found = Series(self._family, stream, self)
        with self._lock:
            self._series[stream] = found
        self.changed.add(found)
        return found

    def end(self, stream: str) -> None:
        with self._lock:
            self._series.pop(stream, None)
            self._parts.pop(stream, None)
            self._texts.clear()

    def keep(self, stream: str, series: Series, part: tuple[bytes, bytes]) -> None:
        """Keep the part of a stream, if these are its series still."""
        with self._lock:
            if self._series.get(stream) is series:
                self._in_order = self._in_order and stream in self._parts
                self._parts[stream] = part
                self._texts.clear()

    def metric(self) -> Metric:
        metric = Metric(self._family.full_name, self._family.text, self._family.kind)
        with self._lock:
            series = sorted(self._series.items())
        metric.samples = [sample for _, found in series for sample in found.samples()]
        return metric

    def text(self, *, rich: bool) -> bytes:
        """Return the family as text, with exemplars where the format has them."""
        for series in tuple(self.changed):
            series.write()
        with self._lock:
            if rich not in self._texts:
                name = self._family.full_name if rich else self._family.sample_name
                head = f"# HELP {name} {self._family.text}\n# TYPE {name} {self._family.kind}\n"
                parts = [part[rich] for part in self._ordered().values()]
                self._texts[rich] = b"".join((head.encode(), *parts))
            return self._texts[rich]

    def _ordered(self) -> dict[str, tuple[bytes, bytes]]:
        if not self._in_order:
            self._parts = dict(sorted(self._parts.items()))
            self._in_order = True
        return self._parts


class Series:
    r"""Series of one family and one stream; any thread may read and change them.

    >>> rejected = Family("counter", "records_rejected", "Set aside.", ("reason",), starts=())
    >>> page = Page(rejected)
    >>> page.begin("orders").add(("not_json",), 2)
    >>> page.text(rich=False).splitlines()[-1]
    b'driftbn_records_rejected_total{stream="orders",reason="not_json"} 2.0'
    """

    def __init__(self, family: Family, stream: str, page: Page) -> None:
        self._family = family
        self._stream = stream
        self._page = page
        self._lock = threading.Lock()
        self._values = family.start()
        self._exemplars: dict[Labels, Exemplar] = {}
        self._beginnings: dict[Labels, str] = {}

    def add(self, labels: Labels, amount: float = 1.0, exemplar: Exemplar | None = None) -> None:
        with self._lock:
            self._add(labels, amount, exemplar)
            self._page.changed.add(self)

    def replace(self, values: Values) -> None:
        """Have these series and no others."""
        with self._lock:
            if values == self._values:
                return
            self._values = dict(values)
            if len(self._beginnings) > len(values):
                self._beginnings.clear()  # names of fields that are gone
            self._page.changed.add(self)

    def observe(self, labels: Labels, value: float, exemplar: Exemplar) -> None:
        """Count a value in its buckets; the first that it fits shows it as an example."""
        limits = self._family.buckets
        ends = [_number(limit) for limit in limits if value <= limit] + ["+Inf"]
        with self._lock:
            for end in ends:
                self._add((*labels, end, "_bucket"), 1.0, exemplar if end is ends[0] else None)
            self._add((*labels, "_count"), 1.0)
            self._add((*labels, "_sum"), value)
            self._page.changed.add(self)

    def samples(self) -> list[Sample]:
        with self._lock:
            return [
                Sample(*self._named(labels), value, None, self._exemplars.get(labels))
                for labels, value in self._values.items()
            ]

    def write(self) -> None:
        """Have the page keep the lines as they are now, if they have changed."""
        if self in self._page.changed:
            with self._lock:
                self._page.keep(self._stream, self, self._written())
                self._page.changed.discard(self)

    def _add(self, labels: Labels, amount: float, exemplar: Exemplar | None = None) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + amount
        if exemplar is not None:
            self._exemplars[labels] = exemplar

    def _written(self) -> tuple[bytes, bytes]:
        begin = self._beginnings.get
        lines = [
            f"{begin(labels) or self._beginning(labels)}{_number(value)}\n"
            for labels, value in self._values.items()
        ]
        plain = "".join(lines).encode()
        if not self._exemplars:
            return plain, plain
        for place, labels in enumerate(self._values):
            if exemplar := self._exemplars.get(labels):
                lines[place] = f"{lines[place][:-1]}{_exemplar_text(exemplar)}\n"
        return plain, "".join(lines).encode()

    def _beginning(self, labels: Labels) -> str:
        """Return a line up to its value; kept, because only values change all the time."""
        name, named = self._named(labels)
        begin = self._beginnings[labels] = f"{name}{_labels_text(named)} "
        return begin

    def _named(self, labels: Labels) -> tuple[str, dict[str, str]]:
        """Return the name of a sample and its labels; a histogram's have the suffix behind."""
        name, names = self._family.sample_name, self._family.labels
        if self._family.kind == "histogram":
            name, labels = name + labels[-1], labels[:-1]
            names = (*names, "le")[: len(labels)]
        whose = {"stream": self._stream} if self._stream else {}
        return name, whose | dict(zip(names, labels, strict=True))


def label_of(name: str) -> str:
    r"""Return a name from the data as a label: not too long, on one line, and in UTF-8.

    >>> label_of("delay"), label_of("a\nb"), len(label_of("x" * 1000))
    ('delay', 'a?b', 80)
    """
    if len(name) > MAX_NAME_LENGTH:
        name = f"{name[: MAX_NAME_LENGTH - 1]}…"
    # Half a character, which JSON may hold and UTF-8 has not, cannot be printed either.
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in name)


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
