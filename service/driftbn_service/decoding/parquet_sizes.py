"""What a Parquet file becomes in memory, told before anything is allocated.

The footer says where pages are, and the header of each page how many values and bytes it becomes;
that is what Arrow makes room for, whatever else the footer says. Both are structs of
``parquet.thrift`` in Thrift's compact protocol. They are read here and not asked of Arrow, which
ends the process over some that are damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

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

_Struct = dict[int, Any]
ReadAt = Callable[[int, int], bytes]
"""Returns bytes of a file from a place on: so many, or fewer at its end."""


@dataclass(frozen=True)
class Leaf:
    """A column of plain values.

    Parameters
    ----------
    path
        Names that lead to it.
    is_text
        Whether its values have no fixed width.
    width
        Bytes of a value; of a text, of the code that stands for it.
    """

    path: tuple[str, ...]
    is_text: bool
    width: int


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
    """What a column of a row group becomes."""

    n_values: int
    n_bytes: int
    largest_page: int
    dictionary_bytes: int
    delta_page: int  # the largest of those in which a bit may stand for the value before


def read_footer(read: ReadAt, n_file_bytes: int, max_bytes: int) -> Footer:
    """Return the footer of a file.

    Raises
    ------
    ValueError
        If there is none, or it is larger than ``max_bytes``.
    """
    tail = read(max(0, n_file_bytes - _TAIL_BYTES), _TAIL_BYTES)
    size = int.from_bytes(tail[:4], "little")
    if len(tail) < _TAIL_BYTES or tail[4:] != _MAGIC or size + _TAIL_BYTES > n_file_bytes:
        raise ValueError("no Parquet footer")
    if size > max_bytes:
        raise ValueError(f"a footer of {size} bytes, where {max_bytes} are allowed")
    fields = _Reader(read(n_file_bytes - _TAIL_BYTES - size, size), 4 * size).struct()
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
    """The pages of a file, a bounded number of them.

    Parameters
    ----------
    read
        Reads the file.
    """

    def __init__(self, read: ReadAt) -> None:
        self._read = read
        self._n_left = MAX_PAGES

    def sizes(self, column: _Struct) -> Sizes:
        """Return what a column of a row group becomes.

        Raises
        ------
        ValueError
            If a page cannot be read, or there are too many.
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
            header = reader.struct()
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
    """Reads values of Thrift's compact protocol, with a bound on the steps that takes."""

    def __init__(self, data: bytes, max_steps: int) -> None:
        self.at = 0
        self._data = data
        self._n_left = max_steps

    def struct(self, depth: int = 0) -> _Struct:
        """Return the fields of a struct by their numbers."""
        found: _Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # true and false, which in a struct have no bytes of their own
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind == 9 and depth < _MAX_DEPTH:
            return self._list(depth + 1)
        if kind == 12 and depth < _MAX_DEPTH:
            return self.struct(depth + 1)
        raise ValueError("no struct of Parquet")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        size = self._varint() if head >> 4 == 15 else head >> 4
        kind = head & 15
        if kind in (1, 2):  # in a list each has a byte
            kind = 3
        if size > len(self._data) - self.at:
            raise ValueError("a list in Parquet that is longer than its bytes")
        return [self._value(kind, depth) for _ in range(size)]

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _bytes(self, n_bytes: int) -> bytes:
        start, self.at = self.at, self.at + n_bytes
        return self._data[start : self.at]

    def _byte(self) -> int:
        at = self.at
        self.at, self._n_left = at + 1, self._n_left - 1
        if at >= len(self._data) or self._n_left < 0:
            raise ValueError("a struct of Parquet that does not end")
        return self._data[at]
