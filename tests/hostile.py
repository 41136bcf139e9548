"""Bodies that nobody should send: good ones of every format, damaged by seeded mutators.

The number of a body, its format and a seed say what it is, so whatever it breaks can be tried
again. The tests of ``tests/integration/test_hostile_input.py`` run a short form; the long form is

    HOSTILE_BODIES=10000 pytest -q tests/integration/test_hostile_input.py

Here bodies go through the decoder to monitors in a child process, whose death is a finding too.
"""

from __future__ import annotations

import contextlib
import csv
import faulthandler
import io
import itertools
import json
import multiprocessing
import random
import re
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from driftbn_service.records import Decoder, Rows
from driftbn_service.records.decoder import part_by_key
from driftbn_service.records.files import open_reader
from driftbn_service.records.formats import START, TableFormat
from driftbn_service.records.rows import Undecoded, n_rows_of

from driftbn import DriftMonitor, MonitorConfig
from driftbn.config import WindowConfig
from driftbn.errors import DataError, FormatError
from tests.columns import file, parquet, stream

Record = dict[str, Any]

KEY, TIME, GOOD_KEY = "tenant", "at", "good"
FIRST_TIME = 1_700_000_000
SECONDS = 60
"""Of a time window; good records are a second apart."""
N_ROWS = 8
"""Of a body before it is mutated."""
WINDOW = 150
"""Rows of a window, so that what comes in some bodies is learned from."""
MAX_CPU_SECONDS = 5.0
"""For a body of a few thousand bytes and the windows that it completes."""
MAX_NEW_BYTES = 256 << 20
"""By which a body may raise the most memory that the process ever had."""

_BODIES_OF_A_RECEIVER = 40
_HANG_SECONDS = 120


def good_record(number: int, key: str = GOOD_KEY) -> Record:
    """Return a record with fields that depend on each other, of every type that JSON has."""
    chance = random.Random(number)
    bright = chance.random() < 0.5
    large = chance.random() < (0.8 if bright else 0.3)
    return {
        KEY: key,
        TIME: FIRST_TIME + number,
        "colour": chance.choice(["żółty", "白"] if bright else ["navy", 'so "black"']),
        "size": chance.randint(5, 9) if large else chance.randint(0, 4),
        "price": round(chance.gauss(10.0 if large else 4.0, 2.0), 2),
        "active": bright,
        "address": {"city": chance.choice(["Łódź", "Oslo"]), "zip": f"{chance.randint(0, 9):05}"},
    }


def good_records(start: int, stop: int, key: str = GOOD_KEY) -> list[Record]:
    return [good_record(number, key) for number in range(start, stop)]


# --- Seeds: good bodies in several shapes ---


def flat(record: Record) -> Record:
    """Return a record without an object in it."""
    nested = {f"address.{name}": value for name, value in record.get("address", {}).items()}
    return {name: value for name, value in record.items() if name != "address"} | nested


def ndjson(records: Iterable[Record]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def csv_text(records: Sequence[Record]) -> bytes:
    """Return records as CSV with a header."""
    names = list(dict.fromkeys(name for record in records for name in flat(record)))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(flat, records))
    return text.getvalue().encode()


def arrow_stream(table: pa.Table, compression: str | None = None) -> bytes:
    """Return a table as an Arrow stream of two batches."""
    return stream(table, compression, max(1, table.num_rows // 2))


def _sparse(records: Iterable[Record]) -> list[Record]:
    """Return records of which each lacks a field or two, and some have ``null`` in it."""
    found = []
    for number, record in enumerate(records):
        names = list(record)
        rest = {name: record[name] for name in names if name != names[number % len(names)]}
        found.append(rest | ({names[number % 5]: None} if number % 3 == 0 else {}))
    return found


def _tables(records: list[Record]) -> list[pa.Table]:
    """Return records as columns: nested, flat with dictionaries, and with gaps and real times."""
    nested, plain = pa.Table.from_pylist(records), pa.Table.from_pylist(list(map(flat, records)))
    texts = [field.name for field in plain.schema if pa.types.is_string(field.type)]
    coded = plain
    for name in texts:
        coded = coded.set_column(
            coded.column_names.index(name), name, coded[name].dictionary_encode()
        )
    gaps = pa.Table.from_pylist(list(map(flat, _sparse(records))), schema=plain.schema)
    times = gaps[TIME].cast(pa.timestamp("s", "UTC"))
    return [nested, coded, gaps.set_column(gaps.column_names.index(TIME), TIME, times)]


@cache
def seeds(kind: TableFormat) -> tuple[bytes, ...]:
    records = good_records(0, N_ROWS, key="hostile")
    sparse = _sparse(records)
    nested, coded, gaps = _tables(records)
    if kind is TableFormat.NDJSON:
        plain = json.dumps(records[0]).encode() + b"\r\n"
        return ndjson(records), ndjson(sparse), ndjson(map(flat, records)), plain
    if kind is TableFormat.JSON:
        shapes = (records, sparse, records[0])
        return (
            *(json.dumps(shape, ensure_ascii=False, indent=1).encode() for shape in shapes),
            json.dumps(list(map(flat, records))).encode(),
        )
    if kind is TableFormat.CSV:
        text = csv_text(records)
        return text, csv_text(sparse), b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    if kind is TableFormat.ARROW:
        return (
            arrow_stream(nested), arrow_stream(coded), arrow_stream(gaps),
            arrow_stream(coded, "lz4"), arrow_stream(gaps, "zstd"), file(coded),
        )  # fmt: skip
    encodings = {"size": "DELTA_BINARY_PACKED", "price": "BYTE_STREAM_SPLIT"}
    delta = {"colour": "DELTA_BYTE_ARRAY", "address.city": "DELTA_LENGTH_BYTE_ARRAY"}
    return (
        parquet(nested, compression="none"),
        parquet(coded, compression="snappy", row_group_size=3),
        parquet(gaps, compression="none", use_dictionary=False, column_encoding=encodings | delta),
        parquet(gaps, compression="zstd", data_page_version="2.0", row_group_size=5),
        parquet(coded, compression="gzip", store_schema=False, write_page_checksum=True),
    )


def good_body(kind: TableFormat, start: int, stop: int) -> bytes:
    records = good_records(start, stop)
    if kind is TableFormat.NDJSON:
        return ndjson(records)
    if kind is TableFormat.JSON:
        return json.dumps(records).encode()
    if kind is TableFormat.CSV:
        return csv_text(records)
    table = pa.Table.from_pylist(list(map(flat, records)))
    return arrow_stream(table) if kind is TableFormat.ARROW else parquet(table)


# --- Mutators ---

Mutator = Callable[[bytes, random.Random, TableFormat], bytes]

_NUMBERS = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
_BOUNDARIES = (
    b"-0", b"0.0", b"1e308", b"-1e308", b"1e309", b"1e-400", b"9007199254740993",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"18446744073709551615", b"18446744073709551616", b"NaN",
    b"-Infinity", b"0x1F", b"1_000", b"+1", b"01", b".5", b"5.", b"1e", "\uff11".encode(),
    b"9" * 400, b"9" * 5000, b"0." + b"0" * 400 + b"1", b"253402300800", b"1e18", b"true", b"null",
    b'"9999-12-31T23:59:59Z"', b'"0001-01-01"', b'"2024-02-30"', b'"1e5"', b'""', b'"\\u0000"',
)  # fmt: skip
_PIECES = (
    b'"', b'""', b"\n", b"\r", b"\r\n", b"\0", b"\t", b"\x0b", b"\x1a", b"\\", b"\\u0000",
    b"\\ud800", b"\\udfff\\ud800", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3(", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80", "\u202e\u0301😀".encode(), b"\xc2\x85", "\u2028".encode(), b",", b";",
    b":", b"{", b"}", b"[", b"]", b"{}", b"[]", b"null", b"NA", b"nan", b"N/A", b"__missing__",
    b"__other__", b'"":1,', b'"tenant":null,', b'"tenant":"",', b'"tenant":{"a":1},', b'"at":null,',
    b'"at":[],', b'"at":{"x":1},', b'"size":{"size":{}},', b'"address":1,', b'"address.city":"x",',
    b'"colour":["a"],', b'"a.b":1,"a":{"b":2},', b"x" * 300, b'"' + b"k" * 300 + b'":1,',
)  # fmt: skip
_INTEGERS = (
    0, 1, -1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, -0x80000000,
    0x100000000, 0x7FFFFFFFFFFFFFFF, -0x8000000000000000, 16, 17, 1 << 20, 1 << 28, 1 << 40,
)  # fmt: skip


def _spot(body: bytes, chance: random.Random) -> int:
    return chance.randrange(len(body) + 1)


def _range(body: bytes, chance: random.Random) -> tuple[int, int]:
    start = _spot(body, chance)
    return start, min(len(body), start + chance.choice([1, 2, 4, 16, 64, 256]))


def flip_bits(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    data = bytearray(body)
    for _bit in range(chance.choice([1, 1, 2, 8])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def replace_bytes(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    start, stop = _range(body, chance)
    fill = chance.choice([b"\0", b"\xff", b" ", None])
    new = chance.randbytes(stop - start) if fill is None else fill * (stop - start)
    return body[:start] + new + body[stop:]


def delete_range(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    start, stop = _range(body, chance)
    return body[:start] + body[stop:]


def duplicate_range(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    start, stop = _range(body, chance)
    return body[:stop] + body[start:stop] * chance.choice([1, 1, 3, 50]) + body[stop:]


def truncate(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    return body[: _spot(body, chance)]


def splice(body: bytes, chance: random.Random, kind: TableFormat) -> bytes:
    """Put the end of another seed behind the start of a body, at times of another format."""
    other = chance.choice(seeds(chance.choice([kind, kind, kind, *TableFormat])))
    return body[: _spot(body, chance)] + other[_spot(other, chance) :]


def swap_ranges(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    a, b, c = sorted(_spot(body, chance) for _cut in range(3))
    return body[:a] + body[b:c] + body[a:b] + body[c:]


def write_integer(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    """Write an integer where a length, an offset or a count may be."""
    size = chance.choice([1, 2, 4, 8])
    start = _spot(body, chance) // size * size
    number = chance.choice(_INTEGERS) & ((1 << 8 * size) - 1)
    return body[:start] + number.to_bytes(size, "little") + body[start + size :]


def change_integer(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    """Add a little to an integer, so that it is almost right."""
    size = chance.choice([1, 2, 4, 8])
    start = _spot(body, chance) // size * size
    number = int.from_bytes(body[start : start + size], "little") + chance.choice([-8, -1, 1, 8])
    new = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return body[:start] + new + body[start + size :]


def boundary_number(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    found = list(_NUMBERS.finditer(body))
    if not found:
        return body
    start, stop = chance.choice(found).span()
    return body[:start] + chance.choice(_BOUNDARIES) + body[stop:]


def odd_text(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    start = _spot(body, chance)
    return body[:start] + chance.choice(_PIECES) + body[start:]


def odd_cell(body: bytes, chance: random.Random, kind: TableFormat) -> bytes:
    """Put something else where a value stands, between separators."""
    marks = b",\n" if kind is TableFormat.CSV else b":,"
    places = [i for i, byte in enumerate(body) if byte in marks]
    if not places:
        return body
    start = chance.choice(places) + 1
    stop = next((i for i in places if i >= start), len(body))
    return body[:start] + chance.choice([b"", *_PIECES, *_BOUNDARIES]) + body[stop:]


def nest(body: bytes, chance: random.Random, _: TableFormat) -> bytes:
    depth = chance.choice([2, 4, 5, 100, 3000])
    opened, closed = chance.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'{"":', b"}")])
    found = list(_NUMBERS.finditer(body))
    start, stop = chance.choice(found).span() if found else (len(body), len(body))
    return body[:start] + opened * depth + b"1" + closed * depth + body[stop:]


_ANY: tuple[Mutator, ...] = (
    flip_bits, replace_bytes, delete_range, duplicate_range, truncate, splice, swap_ranges,
)  # fmt: skip
_TEXT: tuple[Mutator, ...] = (boundary_number, boundary_number, odd_text, odd_text, odd_cell, nest)
_BINARY: tuple[Mutator, ...] = (flip_bits, flip_bits, write_integer, write_integer, change_integer)
_MUTATORS: dict[TableFormat, tuple[Mutator, ...]] = {
    TableFormat.NDJSON: _ANY + _TEXT + _TEXT,
    TableFormat.JSON: _ANY + _TEXT + _TEXT,
    TableFormat.CSV: _ANY + _TEXT + _TEXT,
    TableFormat.ARROW: _ANY + _BINARY,
    TableFormat.PARQUET: _ANY + _BINARY,
}


@dataclass(frozen=True)
class Body:
    """A mutated body, and how to make it again."""

    kind: TableFormat
    seed: int
    number: int
    mutators: tuple[str, ...]
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.kind.value}-{self.seed}-{self.number}"

    def __str__(self) -> str:
        return f"{self.name} by {'+'.join(self.mutators)}: {self.data[:1000]!r}"


def mutated(kind: TableFormat, number: int, seed: int = 0) -> Body:
    chance = random.Random(f"{kind.value}-{seed}-{number}")
    data = chance.choice(seeds(kind))
    chosen = chance.choices(_MUTATORS[kind], k=chance.choice([1, 1, 1, 2, 3]))
    for mutator in chosen:
        data = mutator(data, chance, kind) or b"\n"
    return Body(kind, seed, number, tuple(mutator.__name__ for mutator in chosen), data)


# --- In this process: decoder, key, monitor ---


class LostRowsError(Exception):
    """Rows are in no window, do not wait for one, and are not counted as rejected or late."""


class Receiver:
    """Takes bodies as a stream does, but lets no exception pass that is no refusal."""

    def __init__(self, kind: TableFormat, *, keyed: bool, timed: bool, from_file: bool) -> None:
        self.kind, self.keyed, self.timed, self.from_file = kind, keyed, timed, from_file
        window = WindowConfig(seconds=SECONDS, size=WINDOW) if timed else WINDOW
        time_column = TIME if timed else None
        self._config = MonitorConfig(window=window, time_column=time_column, on_error="reject_rows")
        self._decoder = Decoder(max_record_bytes=1 << 20, time_column=time_column)
        self._monitors: dict[str, DriftMonitor] = {}
        self._n_waiting: Counter[str] = Counter()  # rows of each that are in no window yet

    def take(self, data: bytes) -> int:
        """Take a body and return how many of its rows are neither refused nor late."""
        parts = _read_file(data, self.kind) if self.from_file else [(data, self.kind)]
        chunks = (Undecoded(*part, "{}@{}".format) for part in parts)
        batches = (rows for chunk in chunks for rows in self._decoder.decode(chunk).batches)
        return sum(map(self._take_rows, batches))

    def _take_rows(self, rows: Rows) -> int:
        parts = part_by_key(rows, KEY) if self.keyed else [("", rows, n_rows_of(rows))]
        return sum(self._update(key, part, n) for key, part, n in parts if key is not None)

    def _update(self, key: str, rows: Rows, n_rows: int) -> int:
        monitor = self._monitors.setdefault(key, DriftMonitor(self._config))
        n_left_out = monitor.n_rejected + monitor.n_late
        try:
            reports = monitor.update(rows)
        except DataError:  # the batch as a whole is no table
            reports, n_rows = [], 0
        n_taken = n_rows - (monitor.n_rejected + monitor.n_late - n_left_out)
        self._n_waiting[key] += n_taken - sum(report.rows for report in reports)
        if self._n_waiting[key] != monitor.n_pending:
            raise LostRowsError(f"{self._n_waiting[key]} must wait, {monitor.n_pending} do")
        if not self.keyed:
            self._decoder.use_schema(monitor.schema)
        return n_taken


def _read_file(
    data: bytes, kind: TableFormat
) -> Iterator[tuple[bytes | pa.Table, TableFormat | None]]:
    """Read a body as a file, up to where it is damaged."""
    with tempfile.TemporaryFile() as file, contextlib.suppress(FormatError):
        file.write(data)
        file.flush()
        reader = open_reader(file.fileno(), (kind, None), 1 << 20, START)
        while (part := reader.read(ended=True)) is not None:
            yield part.data, part.kind


@dataclass(frozen=True)
class Finding:
    body: Body
    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what}\n{self.body}\n{self.detail}"


def judge(receiver: Receiver, body: Body, good_from: int | None = None) -> Finding | None:
    """Return what is wrong with what becomes of a body, and of good records after it if given."""
    started, n_bytes, n_good = time.process_time(), _most_bytes(), N_ROWS
    try:
        receiver.take(body.data)
        if good_from is not None:
            n_good = receiver.take(good_body(body.kind, good_from, good_from + N_ROWS))
    except Exception as error:  # noqa: BLE001 - which one it is, is what is looked for
        return Finding(body, _innermost(error), traceback.format_exc())
    seconds, n_bytes = time.process_time() - started, _most_bytes() - n_bytes
    if n_good < N_ROWS and not receiver.timed:  # a time in the far future makes all others late
        return Finding(body, "good records are refused after it", f"{n_good} of {N_ROWS} are taken")
    if seconds > MAX_CPU_SECONDS:
        return Finding(body, "too much work", f"{seconds:.1f} s of CPU")
    if n_bytes > MAX_NEW_BYTES:
        return Finding(body, "too much memory", f"{n_bytes} bytes more than ever before")
    return None


def judge_many(kind: TableFormat, numbers: Sequence[int], seed: int) -> Iterator[int | Finding]:
    """Judge bodies one after the other: yield the number before each, and what is wrong after."""
    receivers = _receivers(kind)
    for turn, number in enumerate(numbers):
        yield number
        if turn % _BODIES_OF_A_RECEIVER == 0:
            receiver = next(receivers)
        body = mutated(kind, number, seed)
        finding = judge(receiver, body, turn if turn % 10 == 9 else None)
        if finding is not None:
            receiver = next(receivers)
            yield finding


def _receivers(kind: TableFormat) -> Iterator[Receiver]:
    """Iterate for ever over receivers of every kind that know nothing, or the good records."""
    for choice in itertools.cycle(itertools.product((False, True), repeat=4)):
        from_file, known, keyed, timed = choice
        receiver = Receiver(kind, keyed=keyed, timed=timed, from_file=from_file)
        if known:
            receiver.take(good_body(kind, 0, 2 * WINDOW))
        yield receiver


def _innermost(error: BaseException) -> str:
    """Return the type of an error and the last line of ours on the way to it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if re.search(r"/(driftbn|service)/", frame.filename)]
    last = (ours or frames)[-1]
    return f"{type(error).__name__} at {last.filename}:{last.lineno} in {last.name}"


def _most_bytes() -> int:
    """Return the most memory that the process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- In a child, because a body may end the process ---


def campaign(kind: TableFormat, n_bodies: int, seed: int = 0) -> list[Finding]:
    """Judge bodies of a format in a child process; where it dies, the next goes on after it."""
    found: dict[str, Finding] = {}
    start = 0
    while start < n_bodies:
        for item in _judged_in_child(kind, range(start, n_bodies), seed):
            if isinstance(item, Finding):
                found.setdefault(item.what, item)
            else:
                start = item + 1
    return list(found.values())


def _judged_in_child(
    kind: TableFormat, numbers: Sequence[int], seed: int
) -> Iterator[int | Finding]:
    context = multiprocessing.get_context("spawn")
    results, sender = context.Pipe(duplex=False)
    child = context.Process(target=_judge_and_send, args=(sender, kind, numbers, seed))
    child.start()
    sender.close()
    number = numbers[0]
    with contextlib.suppress(EOFError):
        while results.poll(_HANG_SECONDS):
            item = results.recv()
            number = item if isinstance(item, int) else number
            yield item
        child.kill()
    child.join()
    if child.exitcode:
        yield number
        what = f"the process ends with {child.exitcode}"
        yield Finding(mutated(kind, number, seed), what)


def _judge_and_send(sender: Any, kind: TableFormat, numbers: Sequence[int], seed: int) -> None:
    faulthandler.enable()
    for item in judge_many(kind, numbers, seed):
        sender.send(item)
