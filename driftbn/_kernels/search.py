"""The search for separators as questions and answers.

The search knows no data. ``ask`` writes the next question (a pair and a block of candidate sets,
best first) and ``tell`` takes the answer (which set separates, if any). So the same code runs over
packed tables without leaving compiled code, over a d-separation oracle, or over any test in Python,
and it can be left and resumed between any two questions, which is how deadlines hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn._kernels.evidence import Ints
from driftbn._kernels.subsets import Subsets, begin_subsets, has_room, next_subset
from driftbn.compiled import inlined, open_kernel

Mask = npt.NDArray[np.bool_]

# What ``ask`` returns.
FINISHED = 0
READY = 1
NO_ROOM = 2  # the heap of subsets must grow before the search can go on

NO_SEPARATOR = -1

# Places in the cursor, in the plan, and in the question's span.
PHASE, LISTED, OPEN, OPENED_AT_SIZE, SIZE = range(5)
BY_NODE, STABLE, MAX_SIZE, MAX_SETS = range(4)
BEGIN, END, WIDTH = range(3)
RECALL, LEVELS, OVER = range(3)  # phases: what separated before, then sets by size


class Question(NamedTuple):
    """A pair and a block of sets of one size to try in order."""

    pair: Ints  # [2]; target and the node tested against it
    sets: Ints  # [block, members]; members in rising order
    span: Ints  # [3]; rows of ``sets`` to try, from and to, and their size


class Search(NamedTuple):
    """Everything the search knows; node indices follow the order of names."""

    adjacent: Mask  # [nodes, nodes]; symmetric
    pool: Mask  # [nodes, nodes]; ``adjacent`` as it was when the present size began
    fixed: Mask  # [nodes, nodes]; edges that are never tested
    tallies: Ints  # [nodes, nodes]; RDSA of a node (column) for a target (row), in units
    gain: Ints  # [members + 1]; what each member of a separator of that size gains, in units
    recalled: npt.NDArray[np.int16]  # [pairs, members]; separators of an earlier run
    recalled_size: npt.NDArray[np.int8]  # [pairs]; NO_SEPARATOR where there was none
    separator: npt.NDArray[np.int16]  # [pairs, members]
    separator_size: npt.NDArray[np.int8]  # [pairs]; NO_SEPARATOR while adjacent
    covered: npt.NDArray[np.int16]  # [nodes, nodes]; bit by size: (target, other) listed to the end
    subsets: Subsets
    question: Question
    cursor: Ints  # [5]
    plan: Ints  # [4]


@open_kernel
def pair_index(x: int, y: int) -> int:
    """Return the place of the pair in a list of all pairs, whatever the order of x and y."""
    low, high = min(x, y), max(x, y)
    return high * (high - 1) // 2 + low


@open_kernel
def ask(search: Search) -> int:
    """Write the next question; return READY, FINISHED or NO_ROOM."""
    cursor = search.cursor
    while cursor[PHASE] != OVER:
        if cursor[PHASE] == RECALL:
            if _ask_recalled(search):
                return READY
            cursor[PHASE] = LEVELS if search.plan[MAX_SIZE] > 0 else OVER
            cursor[SIZE] = 1
            search.question.pair[0] = 0
            search.question.pair[1] = -1
            _refill_pool(search)
        elif cursor[OPEN]:
            if not has_room(search.subsets):
                return NO_ROOM
            if _fill_block(search):
                return READY
            if has_room(search.subsets):
                cursor[OPEN] = 0
        elif not _open_next_pair(search):
            cursor[PHASE] = OVER
    return FINISHED


@open_kernel
def tell(search: Search, found: int) -> None:
    """Take the answer: the row of the question's sets that separates the pair, or -1."""
    if found < 0:
        return
    question = search.question
    x, y, size = question.pair[0], question.pair[1], question.span[WIDTH]
    search.adjacent[x, y] = False
    search.adjacent[y, x] = False
    pair = pair_index(x, y)
    search.separator_size[pair] = size
    for i in range(size):
        z = question.sets[found, i]
        search.separator[pair, i] = z
        search.tallies[x, z] += search.gain[size]  # LSPC, line 16
    search.cursor[OPEN] = 0


@inlined
def _ask_recalled(search: Search) -> bool:
    """Ask of the next adjacent pair whether what separated it in an earlier run still does."""
    question = search.question
    n_nodes = search.adjacent.shape[0]
    x, y = question.pair[0], question.pair[1]
    while x < n_nodes:
        y += 1
        if y >= n_nodes:
            x += 1
            y = x
            continue
        pair = pair_index(x, y)
        size = search.recalled_size[pair]
        if size < 1 or not search.adjacent[x, y] or search.fixed[x, y]:
            continue
        question.pair[0] = x
        question.pair[1] = y
        for i in range(size):
            question.sets[0, i] = search.recalled[pair, i]
        _set_span(question, 1, size)
        return True
    return False


@inlined
def _refill_pool(search: Search) -> None:
    for x in range(search.pool.shape[0]):
        for y in range(search.pool.shape[0]):
            search.pool[x, y] = search.adjacent[x, y]


@inlined
def _set_span(question: Question, count: int, size: int) -> None:
    question.span[BEGIN] = 0
    question.span[END] = count
    question.span[WIDTH] = size


@inlined
def _open_next_pair(search: Search) -> bool:
    """Move on to the next pair that has sets to offer; false when the search is over."""
    cursor, pair = search.cursor, search.question.pair
    n_nodes = search.adjacent.shape[0]
    while True:
        x, y = pair[0], pair[1] + 1
        while y < n_nodes and (search.fixed[x, y] or not search.adjacent[x, y]):
            y += 1
        pair[1] = y
        if y == n_nodes:
            pair[1] = -1
            if not _next_target(search):
                return False
            continue
        count = _offer(search, x, y)
        if count >= cursor[SIZE]:
            begin_subsets(search.subsets, count, cursor[SIZE])
            cursor[OPENED_AT_SIZE] += 1
            cursor[OPEN], cursor[LISTED] = 1, 0
            return True


@inlined
def _next_target(search: Search) -> bool:
    """Go to the next target or size; false when there is none.

    PC walks through the targets for each size, LSPC (FSBN and SSBN) through the sizes for each
    target.
    """
    cursor, plan, pair = search.cursor, search.plan, search.question.pair
    n_nodes = search.adjacent.shape[0]
    if plan[BY_NODE]:
        cursor[SIZE] += 1
        if cursor[SIZE] > plan[MAX_SIZE] or cursor[OPENED_AT_SIZE] == 0:
            pair[0] += 1
            cursor[SIZE] = 1
        cursor[OPENED_AT_SIZE] = 0
        return pair[0] < n_nodes
    pair[0] += 1
    if pair[0] < n_nodes:
        return True
    pair[0] = 0
    cursor[SIZE] += 1
    more = cursor[OPENED_AT_SIZE] > 0 and cursor[SIZE] <= plan[MAX_SIZE]
    cursor[OPENED_AT_SIZE] = 0
    _refill_pool(search)
    return more


@inlined
def _offer(search: Search, x: int, y: int) -> int:
    """List x's neighbours other than y as candidates; return their number."""
    pool = search.pool if search.plan[STABLE] else search.adjacent
    count = 0
    for z in range(pool.shape[0]):
        if pool[x, z] and z != y:
            search.subsets.candidates[count] = z
            search.subsets.tallies[count] = search.tallies[x, z]
            count += 1
    return count


@inlined
def _fill_block(search: Search) -> bool:
    """Write the next sets of the open pair that were not asked from its other end already."""
    cursor, plan, question = search.cursor, search.plan, search.question
    x, y, size = question.pair[0], question.pair[1], cursor[SIZE]
    pool = search.pool if plan[STABLE] else search.adjacent
    known = (search.covered[y, x] >> size) & 1 == 1
    # The first set often separates; blocks grow so that few are listed in vain.
    room = min(question.sets.shape[0], max(1, cursor[LISTED]))
    count = 0
    while count < room and cursor[LISTED] < plan[MAX_SETS]:
        if not has_room(search.subsets):
            break
        if not next_subset(search.subsets, question.sets[count]):
            if count == 0:
                search.covered[x, y] |= 1 << size
            break
        cursor[LISTED] += 1
        repeated = known
        for i in range(size):
            repeated = repeated and pool[y, question.sets[count, i]]
        if not repeated:
            count += 1
    _set_span(question, count, size)
    return count > 0
