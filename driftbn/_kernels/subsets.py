"""Subsets of candidates, one at a time: by falling tally, or in lexicographic order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftbn._kernels.evidence import Ints
from driftbn.compiled import inlined, open_kernel

FRESH = -1  # no subset was given yet
DONE = -2


class Subsets(NamedTuple):
    """The subsets of one size of a candidate list, and where their listing stands.

    Candidates are sorted by falling tally, then rising index. A subset is a rising list of ranks in
    that order. Every subset but the first has one parent, got by moving its first displaced rank
    one step up the list; a parent is never worth less than its child, so a heap that starts
    with the first subset and replaces what it gives out by its (at most two) children lists all
    subsets in order while it holds no more than were given out so far plus one.
    """

    candidates: Ints  # [variables]
    tallies: Ints  # [variables]; of the candidates
    heap: Ints  # [room, 1 + members]; value, then ranks
    place: Ints  # [4]; candidates, size, entries in the heap or FRESH or DONE, whether all tie


@inlined
def begin_subsets(subsets: Subsets, count: int, size: int) -> None:
    """Start the listing of the subsets of ``size`` of the first ``count`` candidates.

    The candidates must be given in rising order with their tallies; they are sorted here.
    """
    candidates, tallies = subsets.candidates, subsets.tallies
    tied = True
    for i in range(1, count):
        node, tally = candidates[i], tallies[i]
        k = i
        while k > 0 and tallies[k - 1] < tally:
            candidates[k] = candidates[k - 1]
            tallies[k] = tallies[k - 1]
            k -= 1
        candidates[k] = node
        tallies[k] = tally
        tied = tied and tally == tallies[0] and k == i
    subsets.place[0] = count
    subsets.place[1] = size
    subsets.place[2] = FRESH if size <= count else DONE
    subsets.place[3] = tied or size == 1


@open_kernel
def next_subset(subsets: Subsets, out: Ints) -> bool:
    """Write the next subset to ``out`` in rising order of index; false when there is none."""
    if subsets.place[2] == DONE:
        return False
    size = subsets.place[1]
    if subsets.place[3]:
        if not _step(subsets):
            return False
    else:
        if subsets.place[2] == FRESH:
            _push_first(subsets)
        if subsets.place[2] == 0:
            return False
        _pop(subsets)
    ranks = subsets.heap[subsets.heap.shape[0] - 1]
    for i in range(size):
        node = subsets.candidates[ranks[1 + i]]
        k = i
        while k > 0 and out[k - 1] > node:
            out[k] = out[k - 1]
            k -= 1
        out[k] = node
    return True


@inlined
def has_room(subsets: Subsets) -> bool:
    """Whether the heap can take the children of one more subset (its last row is scratch)."""
    return subsets.place[2] + 3 < subsets.heap.shape[0]


@inlined
def _step(subsets: Subsets) -> bool:
    """Move to the next subset in lexicographic order; the ranks stand in the heap's last row."""
    count, size = subsets.place[0], subsets.place[1]
    ranks = subsets.heap[subsets.heap.shape[0] - 1]
    if subsets.place[2] == FRESH:
        subsets.place[2] = 0
        for i in range(size):
            ranks[1 + i] = i
        return True
    i = size - 1
    while i >= 0 and ranks[1 + i] == count - size + i:
        i -= 1
    if i < 0:
        subsets.place[2] = DONE
        return False
    ranks[1 + i] += 1
    for k in range(i + 1, size):
        ranks[1 + k] = ranks[k] + 1
    return True


@inlined
def _push_first(subsets: Subsets) -> None:
    subsets.place[2] = 1
    subsets.heap[0, 0] = 0
    for i in range(subsets.place[1]):
        subsets.heap[0, 0] += subsets.tallies[i]
        subsets.heap[0, 1 + i] = i


@inlined
def _pop(subsets: Subsets) -> None:
    """Take the best subset out, to the heap's last row, and put its children in."""
    heap = subsets.heap
    count, size = subsets.place[0], subsets.place[1]
    best = heap[heap.shape[0] - 1]
    _copy(heap, 0, heap.shape[0] - 1)
    subsets.place[2] -= 1
    if subsets.place[2] > 0:
        _copy(heap, subsets.place[2], 0)
        _sink(subsets)
    displaced = 0
    while displaced < size and best[1 + displaced] == displaced:
        displaced += 1
    for moved in range(max(displaced - 1, 0), min(displaced, size - 1) + 1):
        limit = count if moved == size - 1 else best[2 + moved]
        if best[1 + moved] + 1 < limit:
            _push_child(subsets, moved)


@inlined
def _push_child(subsets: Subsets, moved: int) -> None:
    heap = subsets.heap
    best = heap[heap.shape[0] - 1]
    place = subsets.place[2]
    subsets.place[2] += 1
    _copy(heap, heap.shape[0] - 1, place)
    rank = best[1 + moved]
    heap[place, 1 + moved] = rank + 1
    heap[place, 0] += subsets.tallies[rank + 1] - subsets.tallies[rank]
    while place > 0:
        parent = (place - 1) // 2
        if not _precedes(subsets, place, parent):
            break
        _swap(heap, place, parent)
        place = parent


@inlined
def _sink(subsets: Subsets) -> None:
    place = 0
    while True:
        child = 2 * place + 1
        if child >= subsets.place[2]:
            return
        if child + 1 < subsets.place[2] and _precedes(subsets, child + 1, child):
            child += 1
        if not _precedes(subsets, child, place):
            return
        _swap(subsets.heap, child, place)
        place = child


@inlined
def _copy(heap: Ints, source: int, target: int) -> None:
    for i in range(heap.shape[1]):
        heap[target, i] = heap[source, i]


@inlined
def _swap(heap: Ints, a: int, b: int) -> None:
    for i in range(heap.shape[1]):
        heap[a, i], heap[b, i] = heap[b, i], heap[a, i]


@inlined
def _precedes(subsets: Subsets, a: int, b: int) -> bool:
    """Whether heap entry a comes before b: by value, then by the rising list of indices."""
    heap, size = subsets.heap, subsets.place[1]
    if heap[a, 0] != heap[b, 0]:
        return heap[a, 0] > heap[b, 0]
    below_a = -1
    below_b = -1
    for _ in range(size):
        below_a = _next_index(subsets, a, below_a)
        below_b = _next_index(subsets, b, below_b)
        if below_a != below_b:
            return below_a < below_b
    return False


@inlined
def _next_index(subsets: Subsets, entry: int, above: int) -> int:
    """Return the smallest member of the entry that is larger than ``above``."""
    found = np.int64(2**62)
    for i in range(subsets.place[1]):
        node = subsets.candidates[subsets.heap[entry, 1 + i]]
        if above < node < found:
            found = node
    return found
