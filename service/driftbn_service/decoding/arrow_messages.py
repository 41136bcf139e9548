"""Messages of an Arrow stream: what each becomes in memory, told before anything is allocated.

A compressed buffer says in its first eight bytes how large it is decompressed, and Arrow makes that
much room. Only what is needed to add these up is read here; what is damaged is left to Arrow, which
checks every message. The layout is that of ``Message.fbs`` in the Arrow format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"ARROW1"
"""The first and the last bytes of an Arrow file, which is a stream between a head and a footer."""
FILE_HEAD_BYTES: Final = 8
_CONTINUED: Final = b"\xff\xff\xff\xff"  # before the size of a message since version 0.15
_DICTIONARY, _ROWS = 2, 3  # kinds of messages that have a body of columns
_NO_MESSAGE: Final = "no message of an Arrow stream"
_STORED: Final = -1  # the size of a buffer that compression would not have made smaller


class Message(NamedTuple):
    """A message and what it becomes."""

    data: bytes  # the message with its body, as it stands in the stream
    n_cells: int  # of all columns, those within others too, or its rows if there are no columns
    n_bytes: int  # of all buffers, decompressed


def stream_end(data: bytes, n_bytes: int) -> int | None:
    """Return where the footer of an Arrow file begins, from its last bytes and its size.

    ``None`` if it does not end like one.
    """
    if data[-len(MAGIC) :] != MAGIC or len(data) < len(MAGIC) + 4:
        return None
    (n_footer,) = struct.unpack_from("<i", data, len(data) - len(MAGIC) - 4)
    end: int = n_bytes - len(MAGIC) - 4 - n_footer
    return end if FILE_HEAD_BYTES <= end <= n_bytes else None


def read_messages(read: Callable[[int], bytes], max_bytes: int) -> Iterator[Message]:
    """Yield the messages of a stream, up to its end or to where it breaks off.

    Parameters
    ----------
    read
        Returns the next so many bytes, or fewer at the end.
    max_bytes
        The largest message, as it stands in the stream.

    Raises
    ------
    ValueError
        If something is no message, or is too large.
    """
    while len(head := read(4)) == 4:
        head += read(4) if head == _CONTINUED else b""
        size = int.from_bytes(head[-4:], "little", signed=True)
        metadata = read(_checked_size(size, max_bytes))
        if not size or len(metadata) < size:
            yield Message(head + metadata, 0, 0)
            return
        try:
            message = _Table.root(metadata)
            size = _checked_size(message.number("<q", 3), max_bytes)
            body = read(size)
            data = b"".join((head, metadata, body))
            yield _measured(data, message, body) if len(body) == size else Message(data, 0, 0)
        except struct.error as error:
            raise ValueError(f"{_NO_MESSAGE}: {error}") from error


def _checked_size(size: int, max_bytes: int) -> int:
    if not 0 <= size <= max_bytes:
        raise ValueError(f"a message of {size} bytes, where {max_bytes} are allowed")
    return size


def _measured(data: bytes, message: _Table, body: bytes) -> Message:
    kind = message.number("<B", 1)
    if kind not in (_DICTIONARY, _ROWS):
        return Message(data, 0, 0)
    batch = message.table(2) if kind == _ROWS else message.table(2).table(1)
    n_rows = batch.number("<q", 0)
    lengths = [length for length, _ in batch.pairs(1)]
    sizes = [size for _, size in batch.pairs(2)]
    if batch.at_field(3):  # compressed
        sizes = [_plain_size(body, start, size) for start, size in batch.pairs(2)]
    if min((n_rows, *lengths, *sizes)) < 0:
        raise ValueError(f"{_NO_MESSAGE}: a size is negative")
    return Message(data, max(n_rows, sum(lengths)), sum(sizes))


def _plain_size(body: bytes, start: int, size: int) -> int:
    if not size:
        return 0
    plain: int
    (plain,) = struct.unpack_from("<q", body, start)
    return size if plain == _STORED else plain


class _Table(NamedTuple):
    """A table of a flatbuffer: fields by number, each of which may be absent."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, *struct.unpack_from("<I", data, 0))

    def at_field(self, number: int) -> int:
        """Return where a field stands; 0 if it is absent."""
        (back,) = struct.unpack_from("<i", self.data, self.at)
        fields, entry = self.at - back, 4 + 2 * number
        (size,) = struct.unpack_from("<H", self.data, fields)
        (offset,) = struct.unpack_from("<H", self.data, fields + entry) if entry < size else (0,)
        return self.at + offset if offset else 0

    def number(self, form: str, number: int) -> int:
        at = self.at_field(number)
        value: int = struct.unpack_from(form, self.data, at)[0] if at else 0
        return value

    def table(self, number: int) -> _Table:
        return _Table(self.data, self._target(number))

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """Return a list of pairs of long integers: nodes or buffers."""
        if not self.at_field(number):
            return []
        start = self._target(number)
        (n_items,) = struct.unpack_from("<I", self.data, start)
        numbers = struct.unpack_from(f"<{2 * n_items}q", self.data, start + 4)
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _target(self, number: int) -> int:
        at = self.at_field(number)
        offset: int = struct.unpack_from("<I", self.data, at)[0]
        return at + offset
