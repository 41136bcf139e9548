"""Where the state of each key is, and how much of each segment is still needed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from driftbn_service.checkpoint.manifest import Place, row_of


class StateTable:
    """The places of states by key.

    Parameters
    ----------
    places
        What it begins with.

    Attributes
    ----------
    live
        Bytes of each segment that are the state of a key.
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places: dict[str, Place] = {}
        # Kept as they are written: to encode 10,000 of them anew takes longer than all the rest.
        self._rows: dict[str, bytes] = {}
        self.live: Counter[int] = Counter()
        for key, place in places.items():
            self.set(key, place)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, key: str) -> Place:
        return self._places[key]

    def get(self, key: str) -> Place | None:
        """Return the place of a state, if there is one."""
        return self._places.get(key)

    def set(self, key: str, place: Place) -> None:
        """Enter the place of a state."""
        self.remove(key)
        self._places[key] = place
        self._rows[key] = row_of(key, place)
        self.live[place.segment] += place.length

    def remove(self, key: str) -> None:
        """Forget a key, if it is there."""
        place = self._places.pop(key, None)
        if place is not None:
            del self._rows[key]
            self.live[place.segment] -= place.length
            if not self.live[place.segment]:
                del self.live[place.segment]

    @property
    def rows(self) -> Iterable[bytes]:
        """All places, as a manifest has them."""
        return self._rows.values()

    def keys_in(self, segments: frozenset[int]) -> dict[int, list[str]]:
        """Return the keys whose states are in some segments."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        for key, place in self._places.items():
            if place.segment in segments:
                found[place.segment].append(key)
        return found


def sparse_segments(sizes: Mapping[int, int], live: Mapping[int, int]) -> tuple[int, ...]:
    """Return the segments to empty, the emptiest first; none while half of all bytes are needed.

    A segment of which nothing is needed goes by itself with the manifests that name it.

    Examples
    --------
    >>> sparse_segments({1: 100, 2: 100}, {1: 30, 2: 80})
    ()
    >>> sparse_segments({1: 100, 2: 100, 3: 100}, {1: 30, 2: 20})
    (2, 1)
    """
    used = {number: size for number, size in sizes.items() if live.get(number)}
    if 2 * sum(live[number] for number in used) >= sum(used.values()):
        return ()
    sparse = (number for number, size in used.items() if 2 * live[number] < size)
    return tuple(sorted(sparse, key=lambda number: (live[number] / used[number], number)))
