"""All series of all streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from driftbn_service.metrics.blocks import Block
from driftbn_service.metrics.catalogue import FAMILIES, Family

Blocks = Mapping[str, Block]
"""The blocks of a stream, by the name of the family."""


class SeriesTable(Collector):
    """Has the blocks of every stream; the families come in their order, streams by name."""

    def __init__(self) -> None:
        self._columns = [_Column(family) for family in FAMILIES]

    def put(self, stream: str, blocks: Blocks) -> None:
        """Have a stream."""
        for column in self._columns:
            column.put(stream, blocks[column.family.name])

    def drop(self, stream: str) -> None:
        """Have a stream no more."""
        for column in self._columns:
            column.drop(stream)

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, as a registry asks for."""
        return [column.metric() for column in self._columns]

    def collect(self) -> Iterator[Metric]:
        """Iterate over the families with their samples of now."""
        for column in self._columns:
            metric = column.metric()
            metric.samples = column.samples()
            yield metric

    def texts(self, *, open_metrics: bool) -> list[bytes]:
        """Return each family as text, without an end mark; megabytes are put together once."""
        return [column.text(open_metrics=open_metrics) for column in self._columns]


class _Column:
    """One family of all streams, with its text until something changes."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._blocks: dict[str, Block] = {}
        self._order: tuple[dict[str, Block], list[Block]] = self._blocks, []
        self._texts: dict[bool, bytes] = {}

    def put(self, stream: str, block: Block) -> None:
        # Whoever iterates goes on with the old dict: a scrape may run beside.
        self._blocks = {**self._blocks, stream: block}
        block.on_change(self.changed)
        self.changed()

    def drop(self, stream: str) -> None:
        self._blocks = {name: found for name, found in self._blocks.items() if name != stream}
        self.changed()

    def changed(self) -> None:
        self._texts = {}

    def metric(self) -> Metric:
        return Metric(self.family.full_name, self.family.text, self.family.kind.value)

    def samples(self) -> list[Sample]:
        return [sample for block in self._in_order() for sample in block.samples()]

    def text(self, *, open_metrics: bool) -> bytes:
        texts = self._texts
        if open_metrics not in texts:
            parts = [self.family.header(open_metrics=open_metrics).encode()]
            parts += [block.text(open_metrics=open_metrics) for block in self._in_order()]
            # A change since then has put another dict in the place of this one.
            texts[open_metrics] = b"".join(parts)
        return texts[open_metrics]

    def _in_order(self) -> list[Block]:
        """Return the blocks by name, sorted anew only after streams have come or gone."""
        blocks, order = self._blocks, self._order
        if order[0] is not blocks:
            order = self._order = blocks, [blocks[name] for name in sorted(blocks)]
        return order[1]
