"""JSON lines straight to codes, once the schema is known; what does not fit is read otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from driftbn.config import MissingPolicy
from driftbn.errors import DataError
from driftbn.tables.encode import EncodedTable, encode
from driftbn.tables.schema import Schema, Variable, VariableKind
from driftbn_service.records.rows import Limits, Place, Record, Rejected, Rows, tables_of
from driftbn_service.records.scan_kernel import (
    HASH_FACTOR,
    HASH_MASK,
    HASH_START,
    LINK_BYTES,
    MIX_HIGH,
    MIX_LOW,
    SKIPPED,
    SLOT_SHIFT,
    UNFIT,
    WORD_BYTES,
    Fields,
    Found,
    Spans,
    Tokens,
    Variables,
    scan,
)
from driftbn_service.records.text import Text, decode_records


def fields_of(schema: Schema) -> Fields:
    """Return the names that are no event, first those of variables."""
    # A field without a name is left out wherever records are read.
    names = list(dict.fromkeys((*schema.expected, "")))
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    slots = np.full(_power_of_two(4 * len(names)), -1, np.int64)
    for number, text in enumerate(texts):
        put(slots, hash_of(text), number)
    rows = [schema.index(name) if name in schema else SKIPPED for name in names]
    starts = np.cumsum([0, *map(len, texts)])
    return Fields(
        np.frombuffer(b"".join(texts) + b"\0", np.uint8),
        starts.astype(np.int64),
        np.array(rows, np.int64),
        slots,
        np.zeros(len(names) + 1, np.int64),
        np.zeros((len(names) + 1) * LINK_BYTES, np.uint8),
        np.zeros(len(names) + 1, np.int64),
        np.full(len(names), -1, np.int64),
    )


def variables_of(schema: Schema) -> Variables:
    variables = schema.variables
    reject = schema.missing is MissingPolicy.REJECT
    pooled = [v.pooled and v.kind is not VariableKind.NUMERIC for v in variables]
    n_edges = [len(variable.edges) for variable in variables]
    return Variables(
        np.array([-1 if reject else v.missing_code for v in variables], np.int64),
        np.array([v.other_code if p else -1 for v, p in zip(variables, pooled, strict=True)], int),
        np.array([v.kind is VariableKind.NUMERIC for v in variables], np.bool_),
        np.array([edge for v in variables for edge in v.edges], np.float64),
        np.cumsum([0, *n_edges]).astype(np.int64),
        np.array([variable.scale for variable in variables], np.float64),
        np.array([variable.whole for variable in variables], np.bool_),
        np.array([float(f"1e{power}") for power in range(309)]),
    )


def room_for_tokens(schema: Schema) -> tuple[Tokens, list[int]]:
    """Return room for values, and how many there may be of each variable."""
    sizes = [_power_of_two(8 * len(likely_tokens(v)) + 32) for v in schema.variables]
    limits = [size // 2 for size in sizes]
    n_tokens = sum(limits)
    firsts = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    tokens = Tokens(
        np.zeros(4096, np.uint8),
        np.zeros(n_tokens, np.int64),
        np.zeros(n_tokens, np.int64),
        np.zeros(n_tokens, np.uint8),
        np.full(sum(sizes), -1, np.int64),
        np.full(sum(sizes), -1, np.int64),
        firsts,
        np.array(sizes, np.int64) - 1,
    )
    return tokens, limits


def likely_tokens(variable: Variable) -> list[bytes]:
    """Return how the values of a variable are usually written.

    Every level must be here as text and, if it is a whole number, as that: where any other value
    has the code of ``__other__``, what is not here is taken for another.
    """
    if variable.kind is VariableKind.NUMERIC:
        return [b"null"]
    tokens = [orjson.dumps(text) for text in _encodable(variable.labels)]
    bare = [text.encode() for text in _encodable(variable.levels) if _is_bare(text)]
    return [b"null", *tokens, *bare]


def _encodable(texts: Sequence[str]) -> list[str]:
    """Return texts that JSON can hold: no halves of surrogate pairs."""
    return [text for text in texts if text.encode("utf-8", "replace").decode() == text]


def _is_bare(text: str) -> bool:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, bool | int | float)


def put(slots: NDArray[np.int64], code: int, number: int) -> None:
    slot = code & (len(slots) - 1)
    while slots[slot] >= 0:
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = number


def hash_of(text: bytes) -> int:
    """Return the hash that the kernel makes byte by byte."""
    code = HASH_START
    for byte in text:
        code = ((code ^ byte) * HASH_FACTOR) & HASH_MASK
    return code


def hash_of_words(token: bytes) -> int:
    """Return the hash that the kernel makes of a text with its quotes."""
    code = 0
    for start in range(0, len(token), WORD_BYTES):
        high, low = divmod(
            code ^ int.from_bytes(token[start : start + WORD_BYTES], "little"), 2**32
        )
        code = (low * int(MIX_LOW)) ^ (high * int(MIX_HIGH))
    return code >> int(SLOT_SHIFT)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


_MAX_TOKEN_BYTES: Final = 256
_MAX_TEXT_BYTES: Final = 1 << 22
"""Bytes of all values with a code: a bound, far above what schemas need."""
_MAX_ASKED: Final = 64
"""Values asked about in one text; each costs about as much as a record read the slow way."""
_MAX_REFUSED: Final = 4096
_MAX_PASSES: Final = 4
_SPARE: Final = 1.25
"""Room for lines, by those of the text before: seldom too little, and then they are counted."""


class Scanner:
    """Knows by their bytes the records that a schema gives codes to.

    What a value means is asked of ``driftbn.records.encode``, once for each way to write it. So a
    line gets here the codes that it gets there, or none. Values that are events, or whose rows are
    refused, are never learned. Memory is bounded by the number of levels. The schema is that of the
    monitor that takes the codes.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._alone = [Schema([variable], missing=schema.missing) for variable in schema.variables]
        self._fields = fields_of(schema)
        self._variables = variables_of(schema)
        self._tokens, self._limits = room_for_tokens(schema)
        self._n_tokens = self._n_bytes = 0
        self._of_variable = [0] * len(schema)
        self._refused: set[tuple[int, bytes]] = set()
        self._lines_a_byte = 0.0
        for row, variable in enumerate(schema.variables):
            for token in likely_tokens(variable):
                self._learn(row, token)

    def scan(self, data: bytes, is_unicode: bool) -> Found:
        """Return the lines, with the codes of those that fit.

        ``is_unicode`` says that all of the data is known to be UTF-8.
        """
        array = np.frombuffer(data, np.uint8)
        found = self._room(round(len(data) * self._lines_a_byte) + 1)
        n_left = _MAX_ASKED
        for _ in range(_MAX_PASSES):
            n_lines = self._run(array, is_unicode, found)
            if n_lines == UNFIT:
                found = self._room(data.count(b"\n") + 1)
                n_lines = self._run(array, is_unicode, found)
            odd = found.odd[:n_lines][~found.fits[:n_lines]]
            n_asked, learned = self._learn_odd(data, odd, n_left)
            n_left -= n_asked
            if not learned:
                break
        self._lines_a_byte = _SPARE * n_lines / max(1, len(data))
        codes = np.ascontiguousarray(found.codes[:, :n_lines])
        starts, stops, fits = found.starts[:n_lines], found.stops[:n_lines], found.fits[:n_lines]
        return Found(codes, starts, stops, fits, found.odd[:n_lines])

    def encode(self, records: Sequence[Record]) -> NDArray[np.uint8] | None:
        """Return the codes of records; ``None`` if one of them is an event or is refused."""
        known = set(self.schema.expected)
        if any(not known.issuperset(record) for record in records):
            return None
        absent = dict.fromkeys(self.schema.names)  # what no record has is missing in all of them
        parts = [np.zeros((len(self.schema), 0), np.uint8)]
        for part in tables_of([{**absent, **record} for record in records]):
            try:
                table = encode(part, self.schema)
            except DataError:
                return None
            if table.events:
                return None
            parts.append(table.codes)
        return np.hstack(parts)

    def _room(self, n_lines: int) -> Found:
        return Found(
            np.empty((len(self.schema), n_lines), np.uint8),
            np.empty(n_lines, np.int64),
            np.empty(n_lines, np.int64),
            np.empty(n_lines, np.bool_),
            np.empty((n_lines, 3), np.int64),
        )

    def _run(self, array: NDArray[np.uint8], is_unicode: bool, found: Found) -> int:
        return scan(array, is_unicode, self._fields, self._tokens, self._variables, found)

    def _learn_odd(self, data: bytes, odd: NDArray[np.int64], n_most: int) -> tuple[int, bool]:
        """Ask about values without a code; return how many, and whether some have one now."""
        n_asked, learned = 0, False
        seen: set[tuple[int, bytes]] = set()
        for row, start, stop in odd.tolist():
            if row < 0 or stop - start > _MAX_TOKEN_BYTES:
                continue
            if n_asked == n_most:
                break
            key = (row, data[start:stop])
            if key not in seen and key not in self._refused:
                seen.add(key)
                n_asked += 1
                learned |= self._learn(*key)
        return n_asked, learned

    def _learn(self, row: int, token: bytes) -> bool:
        code = self._ask(row, token)
        if code is not None and self._add(row, token, code):
            return True
        if len(self._refused) == _MAX_REFUSED:
            self._refused.clear()
        self._refused.add((row, token))
        return False

    def _ask(self, row: int, token: bytes) -> int | None:
        """Return the code that the library gives a value, if that is all there is to it."""
        try:
            value = orjson.loads(token)
            if isinstance(value, list | dict):
                return None
            table = encode({self.schema.names[row]: [value]}, self._alone[row])
        except (orjson.JSONDecodeError, DataError):
            return None
        return None if table.events else int(table.codes[0, 0])

    def _add(self, row: int, token: bytes, code: int) -> bool:
        tokens, number = self._tokens, self._n_tokens
        stop = self._n_bytes + len(token)
        end = stop + -stop % WORD_BYTES
        if self._of_variable[row] == self._limits[row] or end > _MAX_TEXT_BYTES:
            return False
        if end > tokens.text.size:
            larger = np.zeros(2 * end, np.uint8)
            larger[: self._n_bytes] = tokens.text[: self._n_bytes]
            self._tokens = tokens = tokens._replace(text=larger)
        tokens.text[self._n_bytes : stop] = np.frombuffer(token, np.uint8)
        tokens.starts[number], tokens.stops[number] = self._n_bytes, stop
        tokens.codes[number] = code
        first, mask = int(tokens.first_slots[row]), int(tokens.masks[row])
        plain = token[1:-1] if token.startswith(b'"') else token
        put(tokens.slots[first : first + mask + 1], hash_of(plain), number)
        if token.startswith(b'"') and token.count(b'"') == 2:
            put(tokens.word_slots[first : first + mask + 1], hash_of_words(token), number)
        self._n_bytes, self._n_tokens = end, number + 1
        self._of_variable[row] += 1
        return True


_MAX_UNFIT_SHARE: Final = 1 / 8
"""Of the lines; beyond, reading all of them as columns is no slower."""
_MAX_APART: Final = 16
"""Runs of lines that go to the monitor as they are; each costs about as much as 500 codes."""
_LONGEST_REST: Final = 256


class ScanningDecoder:
    """Decodes chunks of lines with a scanner that rests when it does not help.

    Lines that do not fit are read one by one and get their codes from the library. Those that the
    library must see as they are, because there is something new in them, become batches of their
    own in between. If too many do not fit, the chunk is left to others, and so are the next ones: 1
    after the first time, then 2, 4 and so on, until a chunk goes well again. A record beyond
    ``limits`` is set aside.
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
        elif self._scanner is None or self._scanner.schema != wanted:
            self._n_rest, self._next_rest = 0, 1
            self._scanner = Scanner(wanted)
        return self._scanner

    def _read(
        self, scanner: Scanner, data: bytes, is_unicode: bool, place: Place
    ) -> tuple[list[Rows], list[Rejected]] | None:
        found = scanner.scan(data, is_unicode)
        found.fits[found.stops - found.starts > self.limits.record_bytes] = False
        unfit = np.flatnonzero(~found.fits)
        if not len(unfit):
            return [EncodedTable(scanner.schema, found.codes)], []
        if len(unfit) > max(1, len(found.fits) * _MAX_UNFIT_SHARE):
            return None
        lines = Spans(found.starts, found.stops, np.zeros(len(found.fits), np.bool_))
        text = Text(data, np.frombuffer(data, np.uint8), lines, is_unicode)
        records, rejected = decode_records(text, unfit.tolist(), place, self.limits)
        good = [record for record in records if record is not None]
        read = dict(zip(unfit.tolist(), records, strict=True))
        kept = np.ones(len(found.fits), np.bool_)
        kept[[row for row, record in read.items() if record is None]] = False
        codes = scanner.encode(good)
        if codes is not None:
            found.codes[:, unfit[kept[unfit]]] = codes
            left = found.codes if kept.all() else found.codes[:, kept]
            return [EncodedTable(scanner.schema, np.ascontiguousarray(left))], rejected
        apart = {row: record for row, record in read.items() if record is not None}
        batches = _interleaved(scanner.schema, found.codes, kept, apart)
        return None if batches is None else (batches, rejected)


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
        batches += tables_of([apart[row] for row in run.tolist()])
        start = int(run[-1]) + 1
    return batches + _codes_between(schema, codes, kept, start, len(kept))


def _codes_between(
    schema: Schema, codes: NDArray[np.uint8], kept: NDArray[np.bool_], start: int, stop: int
) -> list[Rows]:
    part = codes[:, start:stop][:, kept[start:stop]]
    return [EncodedTable(schema, np.ascontiguousarray(part))] if part.shape[1] else []
