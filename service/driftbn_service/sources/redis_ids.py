"""Ids of stream entries that were given out and not yet acknowledged, held compactly."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

SEALED_AT: Final = 256
"""Ids are packed when there are so many: a packet of fewer would be larger than the ids."""

EntryId: TypeAlias = tuple[int, int]
"""Milliseconds and number, as Redis orders entries."""


def entry_id(text: bytes | str) -> EntryId:
    """Return an id for comparison.

    Examples
    --------
    >>> entry_id(b"1700000000000-10") > entry_id("1700000000000-9")
    True
    """
    time, _, number = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(time), int(number or 0)


def pack(ids: Sequence[bytes]) -> str:
    """Return ids as text: their steps are small, so that they compress well.

    Examples
    --------
    >>> ids = [b"1700000000000-%d" % number for number in range(1000)]
    >>> unpack(pack(ids)) == ids, len(pack(ids)) < 1000
    (True, True)
    """
    start = np.zeros((2, 1), "<u8")
    steps = np.diff(_parts(ids), prepend=start)
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode()


def unpack(text: str) -> list[bytes]:
    """Return the ids that ``pack`` was given."""
    parts = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u8").reshape(2, -1)
    times, numbers = np.cumsum(parts, axis=1, dtype="<u8").tolist()
    return [b"%d-%d" % pair for pair in zip(times, numbers, strict=True)]


@dataclass(frozen=True)
class _Packet:
    """Packed ids, the range of their times, and how many were given out up to their end."""

    text: str
    first: int
    last: int
    n_given: int


class GivenIds:
    """Ids in the order in which entries were given out.

    Parameters
    ----------
    saved
        What ``save`` returned; ``None`` to begin with nothing.

    Examples
    --------
    >>> given = GivenIds()
    >>> given.add([b"1-0", b"2-0"])
    >>> again = GivenIds(given.save())
    >>> again.among([b"2-0", b"3-0"])
    {b'2-0'}
    """

    def __init__(self, saved: Mapping[str, Any] | None = None) -> None:
        self._packets: list[_Packet] = []
        self._tail: list[bytes] = []
        self.n_given = 0
        self.newest: EntryId = (0, 0)
        if saved is not None:
            self.n_given = saved["n_given"] - sum(map(len, ids_in(saved)))
            for ids in ids_in(saved):
                self.add(ids)

    def add(self, ids: Sequence[bytes]) -> None:
        """Take note that entries are given out, each time in the order of their ids."""
        if ids:
            self.newest = max(self.newest, entry_id(ids[-1]))
        self._tail.extend(ids)
        self.n_given += len(ids)
        if len(self._tail) >= SEALED_AT:
            text, (first, last) = pack(self._tail), _range(self._tail)
            self._packets.append(_Packet(text, first, last, self.n_given))
            self._tail = []

    def save(self) -> dict[str, Any]:
        """Return all of it as plain values; cheap, it is called for every chunk."""
        return {
            "n_given": self.n_given,
            "packed": [packet.text for packet in self._packets],
            "ids": [text.decode() for text in self._tail],
        }

    def among(self, ids: Sequence[bytes]) -> set[bytes]:
        """Return those of ``ids`` that were given out; looks only at packets of their range."""
        if not ids:
            return set()
        first, last = _range(ids)
        found = set(self._tail)
        for packet in self._packets:
            if packet.first <= last and packet.last >= first:
                found.update(unpack(packet.text))
        return found.intersection(ids)

    def drop(self, n_given: int) -> None:
        """Forget ids that were acknowledged: whole packets of the first ``n_given``."""
        self._packets = [packet for packet in self._packets if packet.n_given > n_given]
        n_left = self.n_given - max(n_given, self.n_given - len(self._tail))
        self._tail = self._tail[len(self._tail) - max(0, n_left) :]

    def drop_after(self, last: EntryId) -> None:
        """Forget ids behind ``last``: those entries are not there any more."""
        ids = [text for part in ids_in(self.save()) for text in part if entry_id(text) <= last]
        self.n_given -= sum(map(len, ids_in(self.save())))
        self._packets, self._tail, self.newest = [], [], (0, 0)
        self.add(ids)


def ids_in(saved: Mapping[str, Any]) -> Iterator[list[bytes]]:
    """Return the ids of what ``GivenIds.save`` returned, in parts."""
    packed: Iterable[str] = saved["packed"]
    yield from map(unpack, packed)
    if saved["ids"]:
        yield [text.encode() for text in saved["ids"]]


def ids_since(n_given: int, saved: Mapping[str, Any]) -> Iterator[list[bytes]]:
    """Return the ids of what ``GivenIds.save`` returned, without the first ``n_given`` ever.

    Examples
    --------
    >>> given = GivenIds()
    >>> given.add([b"1-0", b"2-0", b"3-0"])
    >>> list(ids_since(2, given.save()))
    [[b'3-0']]
    """
    parts = list(ids_in(saved))
    n_before = saved["n_given"] - sum(map(len, parts))
    for part in parts:
        fresh = part[max(0, n_given - n_before) :]
        if fresh:
            yield fresh
        n_before += len(part)


def _parts(ids: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return times and numbers of ids, a row each."""
    return np.array(b"-".join(ids).split(b"-")).astype("<u8").reshape(-1, 2).T


def _range(ids: Sequence[bytes]) -> tuple[int, int]:
    times = _parts(ids)[0]
    return int(times.min()), int(times.max())
