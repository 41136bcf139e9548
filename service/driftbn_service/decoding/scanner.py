"""JSON lines straight to codes, once the schema is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from driftbn.errors import DataError
from driftbn.records import encode
from driftbn.schema import Schema
from driftbn_service.decoding.json_records import Record, as_batches
from driftbn_service.decoding.kernels import count_newlines
from driftbn_service.decoding.scan_forms import UNFIT, Found
from driftbn_service.decoding.scan_kernel import scan
from driftbn_service.decoding.scan_tables import (
    fields_of,
    hash_of,
    hash_of_words,
    hashed,
    likely_tokens,
    put,
    room_for_tokens,
    variables_of,
)
from driftbn_service.decoding.scan_words import WORD_BYTES

_MAX_TOKEN_BYTES: Final = 256
_MAX_TEXT_BYTES: Final = 1 << 22
"""Bytes of all values with a code: a bound, far above what schemas need."""
_MAX_ASKED: Final = 64
"""Values asked about in one text; each costs about as much as a record read the slow way."""
_MAX_REFUSED: Final = 4096
_MAX_PASSES: Final = 4
_SPARE: Final = 1.25
"""Room for lines, by those of the text before: seldom too little, and then they are counted."""


class Scanned(NamedTuple):
    """Lines of a text."""

    codes: NDArray[np.uint8]  # [variables, lines]; of any value where a line does not fit
    starts: NDArray[np.int64]  # [lines]
    stops: NDArray[np.int64]  # [lines]
    fits: NDArray[np.bool_]  # [lines]


class Scanner:
    r"""Knows by their bytes the records that a schema gives codes to.

    What a value means is asked of ``driftbn.records.encode``, once for each way to write it. So a
    line gets here the codes that it gets there, or none. Values that are events, or whose rows are
    refused, are never learned. Memory is bounded by the number of levels.

    Parameters
    ----------
    schema
        The schema of the monitor that takes the codes.

    Examples
    --------
    >>> from driftbn.schema import Variable, VariableKind
    >>> colour = Variable("colour", VariableKind.CATEGORICAL, ("blue", "red"))
    >>> scanner = Scanner(Schema([colour]))
    >>> found = scanner.scan(b'{"colour": "red"}\n{"colour": "green"}\n{}\n', True)
    >>> found.fits.tolist(), found.codes[:, found.fits].tolist()
    ([True, False, True], [[1, 3]])
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

    def scan(self, data: bytes, is_unicode: bool) -> Scanned:
        """Return the codes of the lines that fit.

        Parameters
        ----------
        data
            Lines of JSON.
        is_unicode
            Whether all of it is known to be UTF-8.
        """
        array = np.frombuffer(data, np.uint8)
        found = self._room(round(len(data) * self._lines_a_byte) + 1)
        n_left = _MAX_ASKED
        for _ in range(_MAX_PASSES):
            n_lines = self._run(array, is_unicode, found)
            if n_lines == UNFIT:
                found = self._room(int(count_newlines(array)) + 1)
                n_lines = self._run(array, is_unicode, found)
            odd = found.odd[:n_lines][~found.fits[:n_lines]]
            n_asked, learned = self._learn_odd(data, odd, n_left)
            n_left -= n_asked
            if not learned:
                break
        self._lines_a_byte = _SPARE * n_lines / max(1, len(data))
        codes = np.ascontiguousarray(found.codes[:, :n_lines])
        starts, stops, fits = found.starts[:n_lines], found.stops[:n_lines], found.fits[:n_lines]
        return Scanned(codes, starts, stops, fits)

    def encode(self, records: Sequence[Record]) -> NDArray[np.uint8] | None:
        """Return the codes of records; ``None`` if one of them is an event or is refused."""
        known = set(self.schema.expected)
        if any(not known.issuperset(record) for record in records):
            return None
        parts = []
        for part in as_batches(list(records)):
            columns = {name: [r.get(name) for r in part] for name in self.schema.names}
            try:
                table = encode(columns, self.schema)
            except DataError:
                return None
            if table.events:
                return None
            parts.append(table.codes)
        return np.hstack(parts) if parts else np.zeros((len(self.schema), 0), np.uint8)

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
        put(tokens.slots[first : first + mask + 1], hash_of(hashed(token)), number)
        if token.startswith(b'"') and token.count(b'"') == 2:
            put(tokens.word_slots[first : first + mask + 1], hash_of_words(token), number)
        self._n_bytes, self._n_tokens = end, number + 1
        self._of_variable[row] += 1
        return True
