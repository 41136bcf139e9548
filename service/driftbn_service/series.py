"""Series of one name as text: written when they change, kept until they do."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

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


class Series:
    r"""Series of one family and one stream; any thread may read and change them.

    In ``stale`` it is noted that the text of the family has changed.

    >>> rejected = Family("counter", "records_rejected", "Set aside.", ("reason",), starts=())
    >>> series = Series(rejected, "orders", set())
    >>> series.add(("not_json",), 2)
    >>> series.text(rich=False)
    b'driftbn_records_rejected_total{stream="orders",reason="not_json"} 2.0\n'
    """

    def __init__(self, family: Family, stream: str | None, stale: set[Family]) -> None:
        self._family = family
        self._stream = stream
        self._stale = stale
        self._lock = threading.Lock()
        self._values = family.start()
        self._exemplars: dict[Labels, Exemplar] = {}
        self._beginnings: dict[Labels, str] = {}
        self._text: tuple[bytes, bytes] | None = None

    def add(self, labels: Labels, amount: float = 1.0, exemplar: Exemplar | None = None) -> None:
        with self._lock:
            self._add(labels, amount, exemplar)
            self._changed()

    def replace(self, values: Values) -> None:
        """Have these series and no others."""
        with self._lock:
            if values == self._values:
                return
            self._values = dict(values)
            if len(self._beginnings) > len(values):
                self._beginnings.clear()  # names of fields that are gone
            self._changed()

    def observe(self, labels: Labels, value: float, exemplar: Exemplar) -> None:
        """Count a value in its buckets; the first that it fits shows it as an example."""
        limits = self._family.buckets
        ends = [_number(limit) for limit in limits if value <= limit] + ["+Inf"]
        with self._lock:
            for end in ends:
                self._add((*labels, end, "_bucket"), 1.0, exemplar if end is ends[0] else None)
            self._add((*labels, "_count"), 1.0)
            self._add((*labels, "_sum"), value)
            self._changed()

    def samples(self) -> list[Sample]:
        with self._lock:
            return [
                Sample(*self._named(labels), value, None, self._exemplars.get(labels))
                for labels, value in self._values.items()
            ]

    def text(self, *, rich: bool) -> bytes:
        """Return the lines, with exemplars where the format has them."""
        text = self._text
        if text is None:
            with self._lock:
                text = self._text = self._written()
        return text[rich]

    def _add(self, labels: Labels, amount: float, exemplar: Exemplar | None = None) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + amount
        if exemplar is not None:
            self._exemplars[labels] = exemplar

    def _changed(self) -> None:
        self._text = None
        self._stale.add(self._family)

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
        whose = {} if self._stream is None else {"stream": self._stream}
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
