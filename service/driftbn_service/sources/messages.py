"""Messages of brokers as lines: one block of bytes, and the way back from a byte to its message."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

# Between two objects that stand on lines of their own. A comma would be there if it were one value.
_BETWEEN_RECORDS = re.compile(rb"(?<=\})[ \t\r]*\n\s*(?=\{)")


def on_lines(value: bytes) -> bytes:
    r"""Return JSON records of a message so that a line break stands only between two of them.

    Inside a JSON string there is no raw line break, so that one is as good as a space.

    Examples
    --------
    >>> on_lines(b'{"a": 1,\n "b": 2}\n')
    b'{"a": 1,  "b": 2}'
    >>> on_lines(b'{"a": 1}\r\n{"a": 2}')
    b'{"a": 1}\n{"a": 2}'
    """
    records = _BETWEEN_RECORDS.split(value.strip())
    return b"\n".join(record.replace(b"\n", b" ") for record in records)


class Lines:
    r"""Messages of JSON joined to lines.

    Parameters
    ----------
    values
        The messages; one that is empty becomes a blank line.

    Examples
    --------
    >>> lines = Lines([b'{"a":\n1}', b'', b'{"a": 2}'])
    >>> lines.data
    b'{"a": 1}\n\n{"a": 2}\n'
    >>> lines.message_at(10)
    2
    """

    def __init__(self, values: Sequence[bytes]) -> None:
        self.data = b"\n".join(values) + b"\n"
        if self.data.count(b"\n") != len(values):
            values = [on_lines(value) if b"\n" in value else value for value in values]
            self.data = b"\n".join(values) + b"\n"
        self._ends = list(accumulate(len(value) + 1 for value in values))

    def message_at(self, byte: int) -> int:
        """Return the number of the message that a byte belongs to."""
        return min(bisect_right(self._ends, byte), len(self._ends) - 1)

    def place(self, describe: Callable[[int], str]) -> Callable[[int, int], str]:
        """Return what says where a record stands, from what does so for a message."""
        return lambda record, byte: describe(self.message_at(byte))
