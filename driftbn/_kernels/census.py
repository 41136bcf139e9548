"""The census of separators: of each pair with common neighbours, all sets that separate it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.evidence import Ints
from driftbn._kernels.search import BEGIN, END, FINISHED, READY, WIDTH, Mask, Question
from driftbn._kernels.subsets import Subsets, begin_subsets, next_subset
from driftbn.compiled import inlined, open_kernel

Small = npt.NDArray[np.int32]

# Places in the cursor and in the plan.
SIDE, SIZE, OPEN, LISTED = range(4)
MAX_SIZE, MAX_SETS = range(2)


class Census(NamedTuple):
    """Which sets around a pair separate it, counted by the nodes they hold.

    A pair is visited from both of its ends, all pairs of one end together, so that what was
    computed for a target and a set serves every node tested against them.
    """

    adjacent: Mask  # [nodes, nodes]
    sides: Ints  # [2 * pairs, 3]; target, other end, pair; sorted
    asked: Ints  # [pairs]; sets tried
    asked_with: Small  # [pairs, nodes]; of them, those that hold the node
    found: Ints  # [pairs]; sets that separate
    found_with: Small  # [pairs, nodes]
    subsets: Subsets
    question: Question
    cursor: Ints  # [4]
    plan: Ints  # [2]


@open_kernel
def ask_census(census: Census) -> int:
    """Write the next question; return READY or FINISHED."""
    cursor, span = census.cursor, census.question.span
    while cursor[SIDE] < census.sides.shape[0]:
        if span[BEGIN] < span[END]:
            return READY
        if cursor[OPEN]:
            _fill_block(census)
            cursor[OPEN] = span[END] > 0
        else:
            _open_next(census)
    return FINISHED


@open_kernel
def tell_census(census: Census, found: int) -> None:
    """Take the answer; what of the block comes after the found set is the next question."""
    span = census.question.span
    if found < 0:
        span[BEGIN] = span[END]
        return
    pair = census.sides[census.cursor[SIDE], 2]
    census.found[pair] += 1
    for i in range(span[WIDTH]):
        census.found_with[pair, census.question.sets[found, i]] += 1
    span[BEGIN] = found + 1


@inlined
def withdraw(census: Census, row: int) -> None:
    """Take back a set of the question that can say nothing about the pair."""
    pair = census.sides[census.cursor[SIDE], 2]
    census.asked[pair] -= 1
    for i in range(census.question.span[WIDTH]):
        census.asked_with[pair, census.question.sets[row, i]] -= 1


@inlined
def _open_next(census: Census) -> None:
    """Go to the next size that has sets to offer, or else to the next side."""
    cursor = census.cursor
    cursor[SIZE] += 1
    target, other = census.sides[cursor[SIDE], 0], census.sides[cursor[SIDE], 1]
    count = 0
    for z in range(census.adjacent.shape[0]):
        if census.adjacent[target, z]:
            census.subsets.candidates[count] = z
            census.subsets.tallies[count] = 0
            count += 1
    if cursor[SIZE] > min(count, census.plan[MAX_SIZE]):
        cursor[SIZE] = 0
        cursor[SIDE] += 1
        return
    begin_subsets(census.subsets, count, cursor[SIZE])
    census.question.pair[0] = target
    census.question.pair[1] = other
    cursor[OPEN], cursor[LISTED] = 1, 0


@inlined
def _place_in_listing(neighbours: npt.NDArray[np.bool_], members: Ints, size: int) -> int:
    """Return how many sets of neighbours come before the members, which are neighbours."""
    left = _n_neighbours(neighbours)
    before = 0
    met = 0
    z = 0
    while met < size:
        if neighbours[z]:
            left -= 1
            if z == members[met]:
                met += 1
            else:  # sets that have z here and any later neighbours after it
                before += _n_subsets(left, size - met - 1)
        z += 1
    return before


@inlined
def _n_neighbours(neighbours: npt.NDArray[np.bool_]) -> int:
    count = 0
    for z in range(neighbours.shape[0]):
        count += neighbours[z]
    return count


@inlined
def _n_subsets(n_members: int, size: int) -> int:
    """Count the subsets of a size, as far as 2**40: more are never listed."""
    count = 1
    for i in range(size):
        count = min(count * (n_members - i) // (i + 1), 2**40)
    return count


@inlined
def _fill_block(census: Census) -> None:
    """Write the next sets around the target that were not asked around the other end."""
    cursor, question = census.cursor, census.question
    target, other = census.sides[cursor[SIDE], 0], census.sides[cursor[SIDE], 1]
    pair = census.sides[cursor[SIDE], 2]
    size = cursor[SIZE]
    around_other = census.adjacent[other]
    capped = _n_subsets(_n_neighbours(around_other), size) > census.plan[MAX_SETS]
    count = 0
    while count < question.sets.shape[0] and cursor[LISTED] < census.plan[MAX_SETS]:
        if not next_subset(census.subsets, question.sets[count]):
            break
        cursor[LISTED] += 1
        members = question.sets[count]
        repeated = other < target
        for i in range(size):
            repeated = repeated and around_other[members[i]]
        if repeated and capped:
            repeated = _place_in_listing(around_other, members, size) < census.plan[MAX_SETS]
        if repeated:
            continue
        census.asked[pair] += 1
        for i in range(size):
            census.asked_with[pair, question.sets[count, i]] += 1
        count += 1
    question.span[BEGIN] = 0
    question.span[END] = count
    question.span[WIDTH] = size
