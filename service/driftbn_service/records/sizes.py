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

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbn.kernels.compiled import inlined, kernel

Bytes: TypeAlias = bytes | memoryview
Array: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]

MAGIC: Final = b"ARROW1"
"""The first and the last bytes of an Arrow file, which is a stream between a head and a footer."""
FILE_HEAD_BYTES: Final = 8
_CONTINUED: Final = b"\xff\xff\xff\xff"  # before the size of a message since version 0.15
_CONTINUED_NUMBER: Final = 2**32 - 1
_DICTIONARY, _ROWS = 2, 3  # kinds of messages that have a body of columns
_NO_MESSAGE: Final = -1
_LARGEST: Final = 2**60  # that is told of a size, so that sums do not overflow
_STORED: Final = -1  # the size of a buffer that compression would not have made smaller


class Message(NamedTuple):
    data: bytes  # the message with its body, as it stands in the stream
    n_cells: int  # of all columns, those within others too, or its rows if there are no columns
    n_bytes: int  # of all buffers, decompressed


def stream_end(data: bytes, n_bytes: int) -> int | None:
    """Return where the footer of an Arrow file begins, from its last bytes and its size.

    ``None`` if it does not end like one.
    """
    if data[-len(MAGIC) :] != MAGIC or len(data) < len(MAGIC) + 4:
        return None
    n_footer = int.from_bytes(data[-len(MAGIC) - 4 : -len(MAGIC)], "little", signed=True)
    end = n_bytes - len(MAGIC) - 4 - n_footer
    return end if FILE_HEAD_BYTES <= end <= n_bytes else None


def read_messages(read: Callable[[int], bytes], max_bytes: int) -> Iterator[Message]:
    """Yield the messages of a stream, up to its end or to where it breaks off.

    ``read`` returns the next so many bytes, or fewer at the end. ``max_bytes`` bounds a message as
    it stands in the stream. Raises ``ValueError`` if something is no message, or is too large.
    """
    while len(head := read(4)) == 4:
        head += read(4) if head == _CONTINUED else b""
        size = int.from_bytes(head[-4:], "little", signed=True)
        message = head + read(_checked_size(size, max_bytes))
        if not size or len(message) < len(head) + size:
            yield Message(message, 0, 0)
            return
        end, n_cells, n_bytes = stream_sizes(message)
        if end > len(message):
            message += read(_checked_size(end - len(message), max_bytes))
            _, n_cells, n_bytes = stream_sizes(message)
        yield Message(message, n_cells, n_bytes)


def stream_sizes(data: Any) -> tuple[int, int, int]:
    """Return where the messages of a stream end, and how many cells and bytes they become.

    The end is that of a message which breaks off; such a one is not counted. Raises ``ValueError``
    if something is no message.
    """
    end, n_cells, n_bytes = _add_messages(np.frombuffer(data, np.uint8))
    if end == _NO_MESSAGE:
        raise ValueError("no message of an Arrow stream")
    return end, n_cells, n_bytes


def _checked_size(size: int, max_bytes: int) -> int:
    if not 0 <= size <= max_bytes:
        raise ValueError(f"a message of {size} bytes, where {max_bytes} are allowed")
    return size


@kernel
def _add_messages(  # noqa: C901
    data: Array,
) -> tuple[int, int, int]:
    n_cells, n_bytes, at = 0, 0, 0
    while True:
        if _number_at(data, at, 4) == _CONTINUED_NUMBER:
            at += 4
        size = _number_at(data, at, 4)
        if size <= 0:
            return at, n_cells, n_bytes
        body = at + 4 + size
        if body > data.size:
            return body, n_cells, n_bytes
        message = _target(data, at + 4)
        n_body = _long_of(data, message, 3)
        if not 0 <= n_body < _LARGEST:
            return _NO_MESSAGE, 0, 0
        at = body + n_body
        if at > data.size:
            return at, n_cells, n_bytes
        batch, kind = _target(data, _field_of(data, message, 2)), _field_of(data, message, 1)
        kind = _number_at(data, kind, 1) if kind else 0
        if kind == _DICTIONARY:
            batch = _target(data, _field_of(data, batch, 1))
        if kind in (_DICTIONARY, _ROWS):
            n_new, n_plain = _batch_sizes(data, batch, body)
            if n_new < 0:
                return _NO_MESSAGE, 0, 0
            n_cells, n_bytes = min(n_cells + n_new, _LARGEST), min(n_bytes + n_plain, _LARGEST)


@inlined
def _batch_sizes(data: Array, batch: int, body: int) -> tuple[int, int]:
    """Return the cells and the bytes that columns become; -1 if one is no size."""
    n_cells, n_bytes, least = 0, 0, _long_of(data, batch, 0)
    n_rows = least
    nodes, n_nodes = _pairs_of(data, batch, 1)  # how many cells, and how many of them are null
    for k in range(n_nodes):
        length = _number_at(data, nodes + 16 * k, 8)
        least = min(least, length)
        n_cells = min(n_cells + min(length, _LARGEST), _LARGEST)
    buffers, n_buffers = _pairs_of(data, batch, 2)  # where each starts, and its size
    is_compressed = _field_of(data, batch, 3) != 0
    for k in range(n_buffers):
        at = buffers + 16 * k
        start, size = _number_at(data, at, 8), _number_at(data, at + 8, 8)
        if is_compressed and size:
            is_inside = 0 <= start <= data.size - body - 8
            plain = _number_at(data, body + start, 8) if is_inside else -2
            size = size if plain == _STORED else plain
        least = min(least, size)
        n_bytes = min(n_bytes + min(size, _LARGEST), _LARGEST)
    if min(least, n_nodes, n_buffers) < 0:
        return -1, -1
    return max(n_rows, n_cells), n_bytes


# Flatbuffers: a table has fields by number, each of which may be absent. Places are those in the
# data; -1 is one that is not there, and what stands there is -1, too.


@inlined
def _number_at(data: Array, at: int, n_bytes: int) -> int:
    """Return a number, of which only one of eight bytes has a sign."""
    if at < 0 or at > data.size - n_bytes:
        return -1
    value = np.int64(0)
    for k in range(n_bytes):
        value |= np.int64(data[at + k]) << (8 * k)
    return value  # type: ignore[return-value]


@inlined
def _target(data: Array, at: int) -> int:
    """Return what the offset at a place points to."""
    offset = _number_at(data, at, 4)
    return at + offset if offset >= 0 else -1


@inlined
def _field_of(data: Array, table: int, number: int) -> int:
    """Return where a field of a table stands; 0 if it is absent."""
    back = _number_at(data, table, 4)
    if back < 0:
        return -1
    fields = table - (back if back < 2**31 else back - 2**32)
    if 4 + 2 * number >= _number_at(data, fields, 2):
        return 0
    offset = _number_at(data, fields + 4 + 2 * number, 2)
    return table + offset if offset > 0 else offset


@inlined
def _long_of(data: Array, table: int, number: int) -> int:
    at = _field_of(data, table, number)
    return _number_at(data, at, 8) if at else 0


@inlined
def _pairs_of(data: Array, table: int, number: int) -> tuple[int, int]:
    """Return where a list of pairs of long integers begins, and how many they are."""
    at = _field_of(data, table, number)
    if at == 0:
        return 0, 0
    start = _target(data, at)
    n_pairs = _number_at(data, start, 4)
    return (start + 4, n_pairs) if 0 <= n_pairs <= (data.size - start - 4) // 16 else (0, -1)


# Parquet.

MAX_PAGES: Final = 1 << 16
"""Pages that are looked at, so that their number bounds the time."""
_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
_HEADER_BYTES: Final = 1 << 16
_PAGE_VALUES: Final = 256  # of a header
_MAX_DEPTH: Final = 64  # of a schema; Arrow goes down in it by recursion
_WIDTHS: Final = {0: 1, 2: 8, 3: 12, 5: 8}  # of a value, by physical type; others have 4
_TEXT: Final = 6
_DICTIONARY_PAGE: Final = 2
_DELTA_BYTE_ARRAY: Final = 7
"""An encoding in which a bit may stand for a copy of the value before, however long."""

# Where the fields stand that matter: a hexadecimal digit for the number of each struct's field.
_N_ROWS, _ELEMENT, _GROUP = 0x3, 0x2, 0x4
_KIND, _WIDTH, _NAME, _N_CHILDREN = 0x21, 0x22, 0x24, 0x25
_GROUP_ROWS, _COLUMN = 0x43, 0x41
_ENCODINGS, _N_VALUES, _N_BYTES = 0x4132, 0x4135, 0x4137
_FIRST_PAGE, _FIRST_DICTIONARY = 0x4139, 0x413B
_PAGE_KIND, _PAGE_BYTES, _STORED_BYTES = 0x1, 0x2, 0x3
_VALUES, _ENCODING, _VALUES_2, _ENCODING_2 = 0x51, 0x52, 0x81, 0x84  # of two kinds of pages
_WANTED: Final = (
    *(_N_ROWS, _ELEMENT, _GROUP, _KIND, _WIDTH, _NAME, _N_CHILDREN, _GROUP_ROWS, _COLUMN),
    *(_ENCODINGS, _N_VALUES, _N_BYTES, _FIRST_PAGE, _FIRST_DICTIONARY),
    *(_PAGE_KIND, _VALUES, _ENCODING, _VALUES_2, _ENCODING_2),
)

_Struct = dict[int, Any]
ReadAt = Callable[[int, int], Bytes]
"""Returns bytes of a file from a place on: so many, or fewer at its end."""


class Leaf(NamedTuple):
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
            if _DELTA_BYTE_ARRAY in column.get(-_ENCODINGS, ())
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
    fields = _fields_of(read(n_file_bytes - _TAIL_BYTES - size, size))
    groups = [RowGroup(_whole(g, _GROUP_ROWS), _items(g, _COLUMN)) for g in _items(fields, _GROUP)]
    return Footer(_whole(fields, _N_ROWS), list(_leaves(_items(fields, _ELEMENT))), groups)


def _fields_of(data: Bytes) -> _Struct:
    """Return the fields of a footer that matter; where there are several structs, in a list."""
    array = np.frombuffer(data, np.uint8)
    room, found = _room(array.size)  # of which no more is used than there are fields
    end, n_found = _read_struct(array, 0, room, found)
    _check_end(end)
    root: _Struct = {}
    structs: list[_Struct] = []
    for path, owner, value, form in found[:n_found].tolist():
        fields = structs[owner] if owner >= 0 else root
        if form == _IS_NUMBER:
            fields[path] = value
        elif form == _IS_STRUCT:
            structs.append({})
            fields.setdefault(-path, []).append(structs[-1])
        elif form == _IS_ITEM:
            fields.setdefault(-path, []).append(value)
        else:
            fields[path] = bytes(data[value : value + form])
    return root


def _leaves(elements: list[_Struct]) -> Iterator[Leaf]:
    """Yield the columns of a schema, which is a tree written from the top down."""
    open_groups: list[tuple[str, int]] = []  # names, and how many elements are left in them
    for i, element in enumerate(elements):
        name = element.get(_NAME)
        if not isinstance(name, bytes):
            raise ValueError("a field of Parquet without a name")
        name = name.decode("utf-8", "replace")
        n_children = _whole(element, _N_CHILDREN, 0)
        if i and not n_children:
            names = (*(group for group, _ in open_groups[1:]), name)
            kind = _whole(element, _KIND)
            width = max(_WIDTHS.get(kind, 4), _whole(element, _WIDTH, 0))
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
        self._room = _room(_PAGE_VALUES)

    def sizes(self, column: _Struct) -> Sizes:
        """Return what a column of a row group becomes.

        Raises ``ValueError`` if a page cannot be read, or there are too many.
        """
        n_wanted, at = _whole(column, _N_VALUES), _whole(column, _FIRST_PAGE)
        if column.get(_FIRST_DICTIONARY):
            at = min(at, _whole(column, _FIRST_DICTIONARY))
        stop = at + _whole(column, _N_BYTES)
        sizes = np.zeros(len(Sizes._fields), np.int64)
        while at < stop and sizes[0] < n_wanted:
            part = np.frombuffer(self._read(at, _HEADER_BYTES), np.uint8)
            n_read, n_pages = _add_pages(
                part, stop - at, n_wanted, self._n_left, sizes, *self._room
            )
            _check_end(n_read)
            at += n_read
            self._n_left -= n_pages
            if self._n_left < 0:
                raise ValueError(f"more than {MAX_PAGES} pages")
        sizes[0] = max(sizes[0], n_wanted)
        return Sizes(*sizes.tolist())


def _whole(fields: _Struct, path: int, default: int | None = None) -> int:
    value = fields.get(path, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"field {path:x} of Parquet is no size")
    return value


def _items(fields: _Struct, path: int) -> list[_Struct]:
    items: list[Any] = fields.get(-path, [])
    if not all(isinstance(item, dict) for item in items):
        raise ValueError(f"field {path:x} of Parquet is no list of structs")
    return items


def _check_end(end: int) -> None:
    if end < 0:
        raise ValueError(_PROBLEMS[end])


_PROBLEMS: Final = {
    -1: "a struct of Parquet that does not end",
    -2: "an integer of Parquet of more than 64 bits",
    -3: "a struct of Parquet with too many values",
    -4: "no struct of Parquet",
    -5: "a list in Parquet that is longer than its bytes",
    -6: "a page of Parquet without its sizes",
}
_ENDLESS, _TOO_WIDE, _TOO_MANY, _NO_STRUCT, _LONG_LIST, _NO_SIZE = _PROBLEMS
_ALL_BUT_SIGN: Final = 2**63 - 1
_IS_NUMBER, _IS_ITEM, _IS_STRUCT = -1, -2, -3  # a number by itself or in a list; else bytes
_BYTE_KIND, _EIGHT_BYTES, _BYTES, _LIST, _STRUCT = 3, 7, 8, 9, 12  # kinds of values


class _Frames(NamedTuple):
    """The structs and lists that are open, by depth."""

    paths: Integers
    structs: Integers  # running number of the innermost one that was written, or -1
    numbers: Integers  # of the last field
    to_come: Integers  # values of a list; of a struct, _IS_STRUCT
    kinds: Integers  # of the values of a list


def _room(n_values: int) -> tuple[Integers, Integers]:
    """Return room for the frames, and for the fields of a struct of so many values."""
    return np.empty((5, _MAX_DEPTH + 2), np.int64), np.empty((n_values, 4), np.int64)


@kernel
def _read_struct(  # noqa: C901
    data: Array, at: int, room: Integers, found: Integers
) -> tuple[int, int]:
    """Write the fields of a struct that matter, and return where it ends and how many they are.

    The end is a key of ``_PROBLEMS`` if there is none. ``found`` has room for all values that a
    struct may have: of each the path, the running number of the struct it is in or -1, the value
    or where its bytes begin, and what it is or how many these are.
    """
    frames = _Frames(room[0], room[1], room[2], room[3], room[4])
    depth, n_values, n_found, n_structs = 0, 0, 0, 0
    _open(frames, 0, 0, -1, _IS_STRUCT, 0)
    while depth >= 0:
        path, struct, kind = frames.paths[depth], frames.structs[depth], frames.kinds[depth]
        is_item = frames.to_come[depth] >= 0
        if is_item:
            frames.to_come[depth] -= 1
            is_over = frames.to_come[depth] < 0
        else:
            at, kind, path = _next_field(data, at, frames, depth)
            is_over = kind == 0
            n_values += 1
        if is_over:
            depth -= 1
            continue
        at, value, form = _value_at(data, at, kind)
        if kind == _LIST:
            depth += 1
            _open(frames, depth, path, struct, value, form)
            n_values += value
        elif path in _WANTED and kind >= _BYTE_KIND:
            found[n_found, 0], found[n_found, 1], found[n_found, 2] = path, struct, value
            found[n_found, 3] = _IS_ITEM if is_item and form == _IS_NUMBER else form
            n_found += 1
            struct, n_structs = n_structs, n_structs + (kind == _STRUCT)
        if kind == _STRUCT:
            depth += 1
            _open(frames, depth, path, struct, _IS_STRUCT, 0)
        if at >= 0 and depth > _MAX_DEPTH:
            at = _NO_STRUCT
        if at >= 0 and n_values > len(found):
            at = _TOO_MANY
        if at < 0:
            break
    return at, n_found


@inlined
def _open(  # noqa: PLR0913
    frames: _Frames, depth: int, path: int, struct: int, to_come: int, kind: int
) -> None:
    frames.paths[depth] = path
    frames.structs[depth] = struct
    frames.numbers[depth] = 0
    frames.to_come[depth] = to_come
    frames.kinds[depth] = kind


@inlined
def _next_field(data: Array, at: int, frames: _Frames, depth: int) -> tuple[int, int, int]:
    """Return the place of a field's value, its kind and its path; kind 0 at the struct's end."""
    at, head = _byte_at(data, at)
    number = frames.numbers[depth] + (head >> 4)
    if 0 < head < 16:
        at, number = _integer_at(data, at)
    frames.numbers[depth] = number
    path = frames.paths[depth]
    known = 0 < number < 16 and 0 <= path < 0x1000
    return at, head & 15, path * 16 + number if known else -1


@inlined
def _value_at(  # noqa: C901
    data: Array, at: int, kind: int
) -> tuple[int, int, int]:
    """Return the place after a value, the value, and what it is.

    For bytes, that is where they begin and how many they are; for a list, how many values it has
    and of what kind they are; and for a list or a struct the place of what is in it.
    """
    if kind == _BYTE_KIND:
        at, value = _byte_at(data, at)
        return at, value, _IS_NUMBER
    if kind in (4, 5, 6):
        at, value = _integer_at(data, at)
        return at, value, _IS_NUMBER
    if kind in (_BYTES, _EIGHT_BYTES):
        size = 8
        if kind == _BYTES:
            at, size = _varint_at(data, at)
        if at < 0 or not 0 <= size <= data.size - at:
            return min(at, _ENDLESS), 0, 0
        return at + size, at, size
    if kind == _LIST:
        at, head = _byte_at(data, at)
        size = head >> 4
        if size == 15:
            at, size = _varint_at(data, at)
        if at < 0 or not 0 <= size <= data.size - at:
            return at if at < 0 else _LONG_LIST, 0, 0
        # A truth value has a byte in a list, and in a struct none.
        return at, size, max(head & 15, _BYTE_KIND)
    if kind == _STRUCT:
        return at, 0, _IS_STRUCT
    return (at if kind in (1, 2) else _NO_STRUCT), 0, _IS_NUMBER


@inlined
def _byte_at(data: Array, at: int) -> tuple[int, int]:
    """Return the place after a byte, and the byte; a problem is handed on."""
    if at < 0 or at >= data.size:
        return min(at, _ENDLESS), 0
    return at + 1, np.int64(data[at])  # type: ignore[return-value]


@inlined
def _integer_at(data: Array, at: int) -> tuple[int, int]:
    at, value = _varint_at(data, at)
    return at, ((value >> 1) & _ALL_BUT_SIGN) ^ -(value & 1)


@inlined
def _varint_at(data: Array, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        at, byte = _byte_at(data, at)
        if shift > 63:
            return _TOO_WIDE, value
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return at, value


@kernel
def _add_pages(  # noqa: C901, PLR0913
    data: Array,
    n_bytes: int,
    n_wanted: int,
    max_pages: int,
    sizes: Integers,
    room: Integers,
    found: Integers,
) -> tuple[int, int]:
    """Add pages to the ``Sizes`` in an array; return how many bytes and pages were passed over.

    Only the headers of pages must be in the data; where more follow, one goes on from there.
    """
    at, n_pages = 0, 0
    while at < n_bytes and sizes[0] < n_wanted and n_pages <= max_pages:
        end, n_found = _read_struct(data, at, room, found)
        if end == _ENDLESS and n_pages:
            break
        kind, size, stored, n_new, is_delta = -1, -1, -1, 0, False
        for k in range(n_found):
            path, value = found[k, 0], found[k, 2]
            if path == _PAGE_KIND:
                kind = value
            elif path == _PAGE_BYTES:
                size = value
            elif path == _STORED_BYTES:
                stored = value
            elif path in (_VALUES, _VALUES_2):
                n_new = max(n_new, value)
            elif path in (_ENCODING, _ENCODING_2):
                is_delta |= value == _DELTA_BYTE_ARRAY
        if end >= 0 and (min(kind, size, stored) < 0 or max(size, stored, n_new) >= 2**31):
            end = _NO_SIZE
        if end < 0:
            return end, n_pages
        size = max(size, stored)
        sizes[1] += size
        sizes[2] = max(sizes[2], size)
        if kind == _DICTIONARY_PAGE:
            sizes[3] += size
        else:
            sizes[0] += n_new
            sizes[4] = max(sizes[4], size if is_delta else 0)
        n_pages += 1
        at = end + stored
    return at, n_pages


def warm_up() -> None:
    """Load or compile all kernels."""
    stream_sizes(b"")
    _fields_of(b"\0")
    with suppress(ValueError):
        Pages(lambda *_: b"").sizes({_N_VALUES: 1, _FIRST_PAGE: 0, _N_BYTES: 1})
