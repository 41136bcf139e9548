"""What an Arrow stream or a Parquet file becomes in memory, told before anything is allocated.

Only what is needed to add sizes up is read here; what is damaged is left to Arrow.

- A compressed buffer of an Arrow message says in its first eight bytes how large it is
  decompressed, and Arrow makes that much room. The layout is that of ``Message.fbs``.
- The footer of a Parquet file says where pages are, and the header of each page how many values and
  bytes it becomes; that is what Arrow makes room for, whatever else the footer says. Both are
  structs of ``parquet.thrift`` in Thrift's compact protocol. They are read here and not asked of
  Arrow, which ends the process over some that are damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

Bytes: TypeAlias = bytes | memoryview

MAGIC: Final = b"ARROW1"
"""The first and the last bytes of an Arrow file, which is a stream between a head and a footer."""
FILE_HEAD_BYTES: Final = 8
_CONTINUED: Final = b"\xff\xff\xff\xff"  # before the size of a message since version 0.15
_DICTIONARY, _ROWS = 2, 3  # kinds of messages that have a body of columns
_NO_MESSAGE: Final = "no message of an Arrow stream"
_BYTE, _SHORT, _INT, _UINT, _LONG = map(struct.Struct, ("<B", "<H", "<i", "<I", "<q"))
_STORED: Final = -1  # the size of a buffer that compression would not have made smaller


class Message(NamedTuple):
    parts: tuple[Bytes, ...]  # the message with its body, as it stands in the stream
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


def read_messages(read: Callable[[int], Bytes], max_bytes: int) -> Iterator[Message]:
    """Yield the messages of a stream, up to its end or to where it breaks off.

    ``read`` returns the next so many bytes, or fewer at the end. ``max_bytes`` bounds a message as
    it stands in the stream. Raises ``ValueError`` if something is no message, or is too large.
    """
    while len(head := bytes(read(4))) == 4:
        head += bytes(read(4)) if head == _CONTINUED else b""
        size = int.from_bytes(head[-4:], "little", signed=True)
        metadata = read(_checked_size(size, max_bytes))
        if not size or len(metadata) < size:
            yield Message((head, metadata), 0, 0)
            return
        try:
            message = _Table(metadata, *_UINT.unpack_from(metadata))
            size = _checked_size(message.number(_LONG, 3), max_bytes)
            body = read(size)
            n_cells, n_bytes = _measured(message, body) if len(body) == size else (0, 0)
            yield Message((head, metadata, body), n_cells, n_bytes)
        except struct.error as error:
            raise ValueError(f"{_NO_MESSAGE}: {error}") from error


def reader_of(data: Bytes) -> Callable[[int], Bytes]:
    """Return what reads bytes one part after the other, none of them copied."""
    left = memoryview(data)

    def read(n_bytes: int) -> Bytes:
        nonlocal left
        part, left = left[:n_bytes], left[n_bytes:]
        return part

    return read


def _checked_size(size: int, max_bytes: int) -> int:
    if not 0 <= size <= max_bytes:
        raise ValueError(f"a message of {size} bytes, where {max_bytes} are allowed")
    return size


def _measured(message: _Table, body: Bytes) -> tuple[int, int]:
    """Return the cells and the bytes that a message becomes."""
    kind = message.number(_BYTE, 1)
    if kind not in (_DICTIONARY, _ROWS):
        return 0, 0
    batch = message.table(2) if kind == _ROWS else message.table(2).table(1)
    n_rows = batch.number(_LONG, 0)
    lengths = batch.longs(1)[::2]  # of columns; beside each stands how many cells are null
    buffers = batch.longs(2)  # where each starts, and its size
    sizes: Sequence[int] = buffers[1::2]
    if batch.at_field(3):  # compressed
        pairs = zip(buffers[::2], sizes, strict=True)
        sizes = [_plain_size(body, start, size) for start, size in pairs]
    if min((n_rows, *lengths, *sizes)) < 0:
        raise ValueError(f"{_NO_MESSAGE}: a size is negative")
    return max(n_rows, sum(lengths)), sum(sizes)


def _plain_size(body: Bytes, start: int, size: int) -> int:
    if not size:
        return 0
    plain: int
    (plain,) = _LONG.unpack_from(body, start)
    return size if plain == _STORED else plain


class _Table:
    """A table of a flatbuffer: fields by number, each of which may be absent."""

    def __init__(self, data: Bytes, at: int) -> None:
        self._data = data
        self._at = at
        fields = at - _INT.unpack_from(data, at)[0]
        (size,) = _SHORT.unpack_from(data, fields)
        self._offsets = struct.unpack_from(f"<{size // 2}H", data, fields)[2:]

    def at_field(self, number: int) -> int:
        """Return where a field stands; 0 if it is absent."""
        offset: int = self._offsets[number] if number < len(self._offsets) else 0
        return self._at + offset if offset else 0

    def number(self, form: struct.Struct, number: int) -> int:
        at = self.at_field(number)
        value: int = form.unpack_from(self._data, at)[0] if at else 0
        return value

    def table(self, number: int) -> _Table:
        return _Table(self._data, self._target(number))

    def longs(self, number: int) -> tuple[int, ...]:
        """Return a list of pairs of long integers, nodes or buffers, one after the other."""
        if not self.at_field(number):
            return ()
        start = self._target(number)
        (n_pairs,) = _UINT.unpack_from(self._data, start)
        return struct.unpack_from(f"<{2 * n_pairs}q", self._data, start + 4)

    def _target(self, number: int) -> int:
        at = self.at_field(number)
        offset: int = _UINT.unpack_from(self._data, at)[0]
        return at + offset


# Parquet.

MAX_PAGES: Final = 1 << 16
"""Pages that are looked at; each takes about 10 microseconds."""
_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
_HEADER_BYTES: Final = 1 << 16
_MAX_DEPTH: Final = 64  # of a schema; Arrow goes down in it by recursion
_WIDTHS: Final = {0: 1, 2: 8, 3: 12, 5: 8}  # of a value, by physical type; others have 4
_TEXT: Final = 6
_DICTIONARY_PAGE: Final = 2
_DELTA_BYTE_ARRAY: Final = 7
"""An encoding in which a bit may stand for a copy of the value before, however long."""

_MAX_SHIFT: Final = 63  # of the last seven bits of an integer

_Struct = dict[int, Any]
ReadAt = Callable[[int, int], bytes]
"""Returns bytes of a file from a place on: so many, or fewer at its end."""


@dataclass(frozen=True)
class Leaf:
    path: tuple[str, ...]  # names that lead to it
    is_text: bool  # whether its values have no fixed width
    width: int  # bytes of a value; of a text, of the code that stands for it


class RowGroup(NamedTuple):
    """Rows of a file that are stored together."""

    n_rows: int
    columns: list[_Struct]


class Footer(NamedTuple):
    """What a footer says, as far as it matters here."""

    n_rows: int
    leaves: list[Leaf]
    groups: list[RowGroup]

    def delta_columns(self) -> set[int]:
        """Return the columns with pages that Arrow cannot give as codes."""
        return {
            i
            for group in self.groups
            for i, column in enumerate(group.columns)
            if _DELTA_BYTE_ARRAY in _list(_struct(column, 3), 2)
        }


class Sizes(NamedTuple):
    n_values: int
    n_bytes: int
    largest_page: int
    dictionary_bytes: int
    delta_page: int  # the largest of those in which a bit may stand for the value before


def read_footer(read: ReadAt, n_file_bytes: int, max_bytes: int) -> Footer:
    """Return the footer of a file.

    Raises ``ValueError`` if there is none, or it is larger than ``max_bytes``.
    """
    tail = read(max(0, n_file_bytes - _TAIL_BYTES), _TAIL_BYTES)
    size = int.from_bytes(tail[:4], "little")
    if len(tail) < _TAIL_BYTES or tail[4:] != _MAGIC or size + _TAIL_BYTES > n_file_bytes:
        raise ValueError("no Parquet footer")
    if size > max_bytes:
        raise ValueError(f"a footer of {size} bytes, where {max_bytes} are allowed")
    fields = _Reader(read(n_file_bytes - _TAIL_BYTES - size, size), size).read()
    groups = [RowGroup(_whole(group, 3), _items(group, 1)) for group in _items(fields, 4)]
    return Footer(_whole(fields, 3), list(_leaves(_items(fields, 2))), groups)


def _leaves(elements: list[_Struct]) -> Iterator[Leaf]:
    """Yield the columns of a schema, which is a tree written from the top down."""
    open_groups: list[tuple[str, int]] = []  # names, and how many elements are left in them
    for i, element in enumerate(elements):
        name = _bytes(element, 4).decode("utf-8", "replace")
        n_children = _whole(element, 5, 0)
        if i and not n_children:
            names = (*(group for group, _ in open_groups[1:]), name)
            kind = _whole(element, 1)
            width = max(_WIDTHS.get(kind, 4), _whole(element, 2, 0))
            yield Leaf(names, kind == _TEXT, width)
        open_groups.append((name, n_children))
        while open_groups and not open_groups[-1][1]:
            open_groups.pop()
            if open_groups:
                group, n_left = open_groups[-1]
                open_groups[-1] = group, n_left - 1
        if len(open_groups) > _MAX_DEPTH:
            raise ValueError(f"a schema more than {_MAX_DEPTH} deep")


class Pages:
    """The pages of a file, a bounded number of them."""

    def __init__(self, read: ReadAt) -> None:
        self._read = read
        self._n_left = MAX_PAGES

    def sizes(self, column: _Struct) -> Sizes:
        """Return what a column of a row group becomes.

        Raises ``ValueError`` if a page cannot be read, or there are too many.
        """
        chunk = _struct(column, 3)
        n_wanted = _whole(chunk, 5)
        n_values = n_bytes = largest = dictionary = delta = 0
        for header in self._headers(chunk) if n_wanted else ():
            size = max(_whole(header, 2), _whole(header, 3))
            n_bytes += size
            largest = max(largest, size)
            if _whole(header, 1) == _DICTIONARY_PAGE:
                dictionary += size
            else:
                n_new, encoding = _data_page(header)
                n_values += n_new
                delta = max(delta, size if encoding == _DELTA_BYTE_ARRAY else 0)
            if n_values >= n_wanted:
                break
        return Sizes(max(n_values, n_wanted), n_bytes, largest, dictionary, delta)

    def _headers(self, chunk: _Struct) -> Iterator[_Struct]:
        at = _whole(chunk, 9)
        at = min(at, _whole(chunk, 11)) if chunk.get(11) else at
        stop = at + _whole(chunk, 7)
        while at < stop:
            self._n_left -= 1
            if self._n_left < 0:
                raise ValueError(f"more than {MAX_PAGES} pages")
            reader = _Reader(self._read(at, _HEADER_BYTES), 256)
            header = reader.read()
            yield header
            at += reader.at + _whole(header, 3)


def _data_page(header: _Struct) -> tuple[int, int | None]:
    """Return how many values a page has, and in which encoding."""
    for number, encoding in ((5, 2), (8, 4)):  # of the two kinds of pages with data
        if number in header:
            data = _struct(header, number)
            return _whole(data, 1), _whole(data, encoding)
    return 0, None


def _whole(fields: _Struct, number: int, default: int | None = None) -> int:
    value = fields.get(number, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"field {number} of a Parquet struct is no size")
    return value


def _bytes(fields: _Struct, number: int) -> bytes:
    value = fields.get(number)
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} of a Parquet struct is no text")
    return value


def _struct(fields: _Struct, number: int) -> _Struct:
    value = fields.get(number)
    if not isinstance(value, dict):
        raise ValueError(f"field {number} of a Parquet struct is no struct")
    return value


def _items(fields: _Struct, number: int) -> list[_Struct]:
    value = _list(fields, number)
    if not all(isinstance(item, dict) for item in value):
        raise ValueError(f"field {number} of a Parquet struct is no list of structs")
    return value


def _list(fields: _Struct, number: int) -> list[Any]:
    value = fields.get(number, [])
    if not isinstance(value, list):
        raise ValueError(f"field {number} of a Parquet struct is no list")
    return value


class _Reader:
    """Reads a struct of Thrift's compact protocol that has so many values at most."""

    def __init__(self, data: bytes, max_values: int) -> None:
        self.at = 0
        self._data = data
        self._n_left = max_values

    def read(self) -> _Struct:
        try:
            return self._struct(0)
        except IndexError:
            raise ValueError("a struct of Parquet that does not end") from None

    def _struct(self, depth: int) -> _Struct:
        found: _Struct = {}
        number = 0
        while head := self._byte():
            self._count(1)
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (1, 2):  # true and false, which in a struct have no bytes of their own
            return kind == 1
        if kind == 8:
            return self._bytes(self._varint())
        if kind == 12 and depth < _MAX_DEPTH:
            return self._struct(depth + 1)
        if kind == 9 and depth < _MAX_DEPTH:
            return self._list(depth + 1)
        if kind == 3:
            return self._byte()
        if kind == 7:
            return self._bytes(8)
        raise ValueError("no struct of Parquet")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size = self._varint() if head >> 4 == 15 else head >> 4
        kind = head & 15
        if kind in (1, 2):  # in a list each has a byte
            kind = 3
        if size > len(self._data) - self.at:
            raise ValueError("a list in Parquet that is longer than its bytes")
        self._count(size)
        return [self._value(kind, depth) for _ in range(size)]

    def _count(self, n_values: int) -> None:
        self._n_left -= n_values
        if self._n_left < 0:
            raise ValueError("a struct of Parquet with too many values")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        data, at, value, shift = self._data, self.at, 0, 0
        while (byte := data[at]) >= 0x80:
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if shift > _MAX_SHIFT:
                raise ValueError("an integer of Parquet of more than 64 bits")
        self.at = at + 1
        return value | byte << shift

    def _bytes(self, n_bytes: int) -> bytes:
        start, self.at = self.at, self.at + n_bytes
        return self._data[start : self.at]

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte
