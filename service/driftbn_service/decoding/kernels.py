"""Compiled loops that find the records of a text."""

# A compiled loop cannot be cut where a branch ends, and numba sets the types inside it.
# ruff: noqa: C901, SIM109
# mypy: disable-error-code="no-any-return, return-value, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import kernel
from driftbn_service.decoding.scan_words import mixed

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

TAB, NEWLINE, RETURN, SPACE = 9, 10, 13, 32
QUOTE, COMMA, COLON, BACKSLASH = 34, 44, 58, 92
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125

MAX_OPENED = 64
"""Brackets of a line, those in texts too, up to which Arrow's parser surely needs no deep stack."""


class Lines(NamedTuple):
    """Lines that are not blank, without the white space around them."""

    starts: Places  # [lines]
    stops: Places  # [lines]
    plain: npt.NDArray[np.bool_]  # [lines]: an object at first sight, and not deep


class CsvRecords(NamedTuple):
    """Records of CSV that are not empty."""

    starts: Places  # [records]
    stops: Places  # [records]
    n_fields: Places  # [records]


@kernel
def count_newlines(data: Bytes) -> int:
    """Count the line breaks of a text: a fifth of the time of NumPy, and others may run."""
    n_lines = 0
    for i in range(data.size):
        n_lines += data[i] == NEWLINE
    return n_lines


@kernel
def find_lines(data: Bytes, lines: Lines) -> int:
    """Write the lines of a text and return how many there are."""
    size, n_lines, i = data.size, 0, 0
    while i < size:
        start, opened = i, 0
        while i < size and data[i] != NEWLINE:
            opened += data[i] == OPEN_OBJECT or data[i] == OPEN_LIST
            i += 1
        start = line_start(data, start, i)
        stop = line_stop(data, start, i)
        i += 1
        if start < stop:
            lines.starts[n_lines] = start
            lines.stops[n_lines] = stop
            whole = data[start] == OPEN_OBJECT and data[stop - 1] == CLOSE_OBJECT
            lines.plain[n_lines] = whole and opened <= MAX_OPENED
            n_lines += 1
    return n_lines


@kernel
def line_start(data: Bytes, start: int, stop: int) -> int:
    """Return where the text of a line starts, after white space and a byte order mark."""
    while start < stop and data[start] in (SPACE, TAB, RETURN):
        start += 1
    marked = start + 2 < stop and data[start] == 0xEF
    if marked and data[start + 1] == 0xBB and data[start + 2] == 0xBF:
        start += 3
        while start < stop and data[start] in (SPACE, TAB, RETURN):
            start += 1
    return start


@kernel
def line_stop(data: Bytes, start: int, stop: int) -> int:
    """Return where the text of a line stops."""
    while stop > start and data[stop - 1] in (SPACE, TAB, RETURN):
        stop -= 1
    return stop


@kernel
def items_as_lines(data: Bytes, first: int, lines: Bytes) -> tuple[int, int]:
    """Write the items of an array, which starts before ``first``, each on a line of its own.

    They keep their places. A line break within an item becomes a space, and within a text, where
    JSON allows none, a control character. Returns where the array ends, or -1 if it does not and -2
    if its last item does not either, and how many commas have no item before or after them.
    """
    depth, in_text, empty, n_items, n_empty, i = 0, False, True, 0, 0, first
    while i < data.size:
        byte = data[i]
        lines[i] = byte
        if in_text:
            if byte == BACKSLASH and i + 1 < data.size:
                i += 1
                lines[i] = data[i] if data[i] != NEWLINE else 1
            elif byte == QUOTE:
                in_text = False
            elif byte == NEWLINE:
                lines[i] = 1
        elif byte == NEWLINE:
            lines[i] = SPACE
        elif depth == 0 and (byte == COMMA or byte == CLOSE_LIST):
            lines[i] = NEWLINE
            n_empty += empty and (byte == COMMA or n_items > 0)
            if byte == CLOSE_LIST:
                return i, n_empty
            empty, n_items = True, n_items + 1
        else:
            in_text = byte == QUOTE
            depth += byte == OPEN_OBJECT or byte == OPEN_LIST
            depth -= byte == CLOSE_OBJECT or byte == CLOSE_LIST
            empty = empty and byte in (SPACE, TAB, RETURN)
        i += 1
    return (-2 if depth or in_text else -1), n_empty


@kernel
def count_names(data: Bytes, start: int, stop: int) -> int:
    """Count the names of all objects in a JSON text: its colons outside of texts."""
    n_names, in_text, i = 0, False, start
    while i < stop:
        byte = data[i]
        if in_text:
            i += byte == BACKSLASH
            in_text = byte != QUOTE
        else:
            in_text = byte == QUOTE
            n_names += byte == COLON
        i += 1
    return n_names


@kernel
def count_fields(data: Bytes, paths: Hashes, slots: Hashes, n_most: int) -> int:
    """Count the different fields of plain lines, up to one more than ``n_most``.

    A field is known by the hash of its name and of those around it. ``paths`` has room for one
    hash a level and starts with a key; ``slots`` is empty and larger than ``n_most``.
    """
    n_fields, depth, code, i, size = 0, 0, paths[0], 0, data.size
    while i < size:
        byte = data[i]
        i += 1
        if byte == QUOTE:
            code = paths[depth]
            while i < size and data[i] != QUOTE:
                code = mixed(code, np.uint64(data[i]))
                if data[i] == BACKSLASH and i + 1 < size:
                    i += 1
                    code = mixed(code, np.uint64(data[i]))
                i += 1
            i += 1
        elif byte == COLON:
            n_fields += _put_hash(slots, code)
            if n_fields > n_most:
                return n_fields
            while i < size and data[i] == SPACE:
                i += 1
            if i < size and data[i] == QUOTE:  # a value: not needed
                i += 1
                while i < size and data[i] != QUOTE:
                    i += 1 + (data[i] == BACKSLASH)
                i += 1
        elif byte >= OPEN_LIST:  # or a letter, which is none of these
            if byte == OPEN_OBJECT or byte == OPEN_LIST:
                depth = min(depth + 1, paths.size - 1)
                paths[depth] = code
            elif byte == CLOSE_OBJECT or byte == CLOSE_LIST:
                depth = max(depth - 1, 0)
        elif byte == NEWLINE:
            depth, code = 0, paths[0]
    return n_fields


@kernel
def _put_hash(slots: Hashes, code: np.uint64) -> bool:
    """Put a hash into a table, and say whether it is new; 0 marks an empty slot."""
    mask = slots.size - 1
    code |= np.uint64(1)
    slot = np.int64(code >> np.uint64(33)) & mask
    while slots[slot] != np.uint64(0):
        if slots[slot] == code:
            return False
        slot = (slot + 1) & mask
    slots[slot] = code
    return True


@kernel
def find_csv_records(data: Bytes, records: CsvRecords) -> tuple[int, int]:
    """Write the first records of CSV, as many as there is room for.

    Returns how many there are, and the place after them. As Arrow has it, a quote opens a quoted
    field only at its start, and a record ends at a line feed, a carriage return or both.
    """
    n_records, n_fields, start, i = 0, 1, 0, 0
    quoted, field_start = False, True
    while i <= data.size:
        byte = data[i] if i < data.size else np.uint8(NEWLINE)
        if quoted and i < data.size:
            if byte == QUOTE and i + 1 < data.size and data[i + 1] == QUOTE:
                i += 1
            elif byte == QUOTE:
                quoted = False
        elif byte == NEWLINE or byte == RETURN:
            if i > start:
                records.starts[n_records] = start
                records.stops[n_records] = i
                records.n_fields[n_records] = n_fields
                n_records += 1
                if n_records == records.starts.size:
                    return n_records, min(i + 1, data.size)
            start, n_fields, field_start = i + 1, 1, True
        elif byte == COMMA:
            n_fields += 1
            field_start = True
        else:
            quoted = field_start and byte == QUOTE
            field_start = False
        i += 1
    return n_records, data.size
