"""JSON arrays cut into items, so that a large one need not fit into memory."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

from driftbn_service.sources.lines import Lines
from driftbn_service.tables import TableFormat

_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_MATTERS: Final = np.isin(np.arange(256), list(b'"[]{},'))
_STEPS: Final = np.zeros(256, np.int32)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_NEWLINES_TO_SPACES: Final = bytes.maketrans(b"\n", b" ")


class _Structure:
    """Where in an array of JSON a text is: in how many brackets, and whether in quotes."""

    def __init__(self) -> None:
        self._depth = 1
        self._in_text = False
        self._escaping = False

    def ends(self, text: bytes) -> npt.NDArray[np.int64]:
        """Return where items end, each with its comma or bracket.

        Nothing is said about what follows the end of the array.
        """
        if self._escaping and text:
            text = b" " + text[1:]
            self._escaping = False
        if b"\\" in text:
            text = _ESCAPED.sub(b"  ", text)
            self._escaping = text.endswith(b"\\")
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(_MATTERS[codes])
        marks = codes[places]
        in_text = (np.cumsum(marks == ord('"'), dtype=np.uint8) + self._in_text) & 1 == 1
        depths = self._depth + np.cumsum(np.where(in_text, 0, _STEPS[marks]))
        if len(places):
            self._in_text, self._depth = bool(in_text[-1]), int(depths[-1])
        closed = np.flatnonzero(depths == 0)
        n_inside = int(closed[0]) + 1 if len(closed) else len(places)
        ends = ~in_text & ((marks == ord(",")) & (depths == 1) | (depths == 0))
        found: npt.NDArray[np.int64] = places[:n_inside][ends[:n_inside]] + 1
        return found


class JsonItems(Lines):
    """Items of an array, each handed on as a line; a text that begins otherwise has lines.

    What follows the end of the array is read as one more item, and refused as such unless it is
    blank.

    Parameters
    ----------
    max_record_bytes
        How much white space may stand before the array.
    """

    kind = TableFormat.NDJSON
    by_line = False

    def __init__(self, max_record_bytes: int) -> None:
        self._max_record_bytes = max_record_bytes
        self._skipping = _Structure()

    def prefix(self, text: bytes, *, ended: bool) -> int | None:
        """Pass over the opening bracket, and see whether there is one."""
        start = super().prefix(text, ended=ended)
        if start is None:
            return None
        rest = text[start:].lstrip()
        if not rest and not ended and len(text) <= self._max_record_bytes:
            return None
        self.by_line = not rest.startswith(b"[")
        return start if self.by_line else len(text) - len(rest) + 1

    def whole(self, text: bytes, start: int, stop: int) -> int:
        """Look for the last comma or bracket between items."""
        if self.by_line:
            return super().whole(text, start, stop)
        ends = _Structure().ends(text[start:stop])
        return start + int(ends[-1]) if len(ends) else start

    def skip(self, text: bytes, *, first: bool) -> int:
        """Go on after the item."""
        if self.by_line:
            return super().skip(text, first=first)
        if first:
            self._skipping = _Structure()
        ends = self._skipping.ends(text)
        return int(ends[0]) if len(ends) else 0

    def lines(self, text: bytes) -> bytes:
        """Write a line end for each comma or bracket between items, and none elsewhere."""
        if self.by_line:
            return text
        line = bytearray(text.translate(_NEWLINES_TO_SPACES))
        start = 0
        while start < len(text):
            ends = _Structure().ends(text[start:])
            if not len(ends):
                break
            np.frombuffer(line, np.uint8)[start + ends - 1] = ord("\n")
            start += int(ends[-1])
        return bytes(line)
