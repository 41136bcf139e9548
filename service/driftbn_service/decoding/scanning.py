"""Lines of JSON by the scanner where it fits, and its rest where it does not."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from driftbn.records import EncodedTable
from driftbn.schema import Schema
from driftbn_service.decoding.decoded import Place, Rejected, Rows
from driftbn_service.decoding.json_lines import Text, decode_records
from driftbn_service.decoding.json_records import Record, as_batches
from driftbn_service.decoding.kernels import Lines
from driftbn_service.decoding.limits import Limits
from driftbn_service.decoding.scanner import Scanned, Scanner

_MAX_UNFIT_SHARE: Final = 1 / 8
"""Of the lines; beyond, reading all of them as columns is no slower."""
_MAX_APART: Final = 16
"""Runs of lines that go to the monitor as they are; each costs about as much as 500 codes."""
_LONGEST_REST: Final = 256


class ScanningDecoder:
    """Decodes chunks of lines with a scanner that rests when it does not help.

    Lines that do not fit are read one by one and get their codes from the library. Those that the
    library must see as they are, because there is something new in them, become batches of their
    own in between. If too many do not fit, the chunk is left to others, and so are the next ones:
    1 after the first time, then 2, 4 and so on, until a chunk goes well again.

    Parameters
    ----------
    limits
        What a record may hold; a larger one is set aside.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._wanted: Schema | None = None
        self._scanner: Scanner | None = None
        self._n_rest = 0
        self._next_rest = 1

    def use_schema(self, schema: Schema | None) -> None:
        """Say what the codes must mean from the next chunk on; any thread may."""
        self._wanted = schema

    def decode(
        self, data: bytes, is_unicode: bool, place: Place
    ) -> tuple[list[Rows], list[Rejected]] | None:
        """Return the rows of lines, and the bad records; ``None`` to have them read otherwise."""
        scanner = self._ready_scanner()
        if scanner is None:
            return None
        if self._n_rest:
            self._n_rest -= 1
            return None
        found = self._read(scanner, data, is_unicode, place)
        if found is None:
            self._n_rest = self._next_rest
            self._next_rest = min(2 * self._next_rest, _LONGEST_REST)
        else:
            self._next_rest = 1
        return found

    def _ready_scanner(self) -> Scanner | None:
        wanted = self._wanted  # read once: another thread may change it
        if wanted is None or not len(wanted):
            self._scanner = None
        elif self._scanner is None or not _same(self._scanner.schema, wanted):
            self._n_rest, self._next_rest = 0, 1
            self._scanner = Scanner(wanted)
        return self._scanner

    def _read(
        self, scanner: Scanner, data: bytes, is_unicode: bool, place: Place
    ) -> tuple[list[Rows], list[Rejected]] | None:
        scanned = scanner.scan(data, is_unicode)
        scanned.fits[scanned.stops - scanned.starts > self.limits.record_bytes] = False
        unfit = np.flatnonzero(~scanned.fits)
        if not len(unfit):
            return [EncodedTable(scanner.schema, scanned.codes)], []
        if len(unfit) > max(1, len(scanned.fits) * _MAX_UNFIT_SHARE):
            return None
        text = _text(data, scanned, is_unicode)
        records, rejected = decode_records(text, unfit.tolist(), place, self.limits)
        good = [record for record in records if record is not None]
        read = dict(zip(unfit.tolist(), records, strict=True))
        kept = np.ones(len(scanned.fits), np.bool_)
        kept[[row for row, record in read.items() if record is None]] = False
        codes = scanner.encode(good)
        if codes is not None:
            scanned.codes[:, unfit[kept[unfit]]] = codes
            left = scanned.codes if kept.all() else scanned.codes[:, kept]
            return [EncodedTable(scanner.schema, np.ascontiguousarray(left))], rejected
        apart = {row: record for row, record in read.items() if record is not None}
        batches = _interleaved(scanner.schema, scanned.codes, kept, apart)
        return None if batches is None else (batches, rejected)


def _same(one: Schema, other: Schema) -> bool:
    return one is other or one == other


def _text(data: bytes, scanned: Scanned, is_unicode: bool) -> Text:
    plain = np.zeros(len(scanned.fits), np.bool_)
    lines = Lines(scanned.starts, scanned.stops, plain)
    return Text(data, np.frombuffer(data, np.uint8), lines, is_unicode)


def _interleaved(
    schema: Schema,
    codes: NDArray[np.uint8],
    kept: NDArray[np.bool_],
    apart: dict[int, Record],
) -> list[Rows] | None:
    """Return codes and, in between, the records that have none; ``None`` if these are too many."""
    rows = np.array(sorted(apart))
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    if len(runs) > _MAX_APART:
        return None
    batches: list[Rows] = []
    start = 0
    for run in runs:
        batches += _codes_between(schema, codes, kept, start, int(run[0]))
        batches += as_batches([apart[row] for row in run.tolist()])
        start = int(run[-1]) + 1
    return batches + _codes_between(schema, codes, kept, start, len(kept))


def _codes_between(
    schema: Schema, codes: NDArray[np.uint8], kept: NDArray[np.bool_], start: int, stop: int
) -> list[Rows]:
    part = codes[:, start:stop][:, kept[start:stop]]
    return [EncodedTable(schema, np.ascontiguousarray(part))] if part.shape[1] else []
