"""The search for separators and their census: subsets by tally, questions and answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.chi_square import MUTE, SEPARATED, judge
from driftbn.kernels.compiled import inlined, kernel, open_kernel
from driftbn.kernels.evidence import Evidence, Ints, Workspace

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


@inlined
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


# Questions and answers.

Mask = npt.NDArray[np.bool_]
Small = npt.NDArray[np.int32]

# What ``ask`` returns.
FINISHED = 0
READY = 1
NO_ROOM = 2  # the heap of subsets must grow before the search can go on

NO_SEPARATOR = -1
UNLIMITED = 2**40  # sets: more than any search gets through

# Sets that a pair is offered however often sets of their size were in vain.
FEWEST_SETS = 3
# A tally counts before any strength: more than the strengths of ten members come to.
TALLY_SHIFT = 24
STRENGTH_MAX = 2**20

# Places in the cursor, in the plan, and in the question's span.
PHASE, LISTED, OPEN, OPENED_AT_SIZE, SIZE, QUEUED, NEXT, OFFERED, SIDE = range(9)
BY_NODE, STABLE, MAX_SIZE, MAX_SETS, CENSUS_SIZE = range(5)
BEGIN, END, WIDTH = range(3)
RECALL, LEVELS, OVER = range(3)  # phases: what separated before, sets by size, then the census


class Question(NamedTuple):
    """A pair and a block of sets of one size to try in order."""

    pair: Ints  # [2]; target and the node tested against it
    sets: Ints  # [block, members]; members in rising order
    span: Ints  # [3]; rows of ``sets`` to try, from and to, and their size


class Census(NamedTuple):
    """Which sets around a pair separate it, counted by the nodes they hold.

    A pair is visited from both of its ends, all pairs of one end together, so that what was
    computed for a target and a set serves every node tested against them.
    """

    sides: Ints  # [2 * pairs, 3]; target, other end, pair; sorted
    asked: Ints  # [pairs]; sets tried
    asked_with: Small  # [pairs, nodes]; of them, those that hold the node
    found: Ints  # [pairs]; sets that separate
    found_with: Small  # [pairs, nodes]


class Search(NamedTuple):
    """Everything the search knows; nodes are in the order of the test."""

    adjacent: Mask  # [nodes, nodes]; symmetric
    pool: Mask  # [nodes, nodes]; ``adjacent`` as it was when the present size began
    fixed: Mask  # [nodes, nodes]; edges that are never tested
    tallies: Ints  # [nodes, nodes]; RDSA of a node (column) for a target (row), in units
    strength: Ints  # [nodes, nodes]; association without condition, at most STRENGTH_MAX
    gain: Ints  # [members + 1]; what each member of a separator of that size gains, in units
    recalled: npt.NDArray[np.int16]  # [pairs, members]; separators of an earlier run
    recalled_size: npt.NDArray[np.int8]  # [pairs]; NO_SEPARATOR where there was none
    separator: npt.NDArray[np.int16]  # [pairs, members]
    separator_size: npt.NDArray[np.int8]  # [pairs]; NO_SEPARATOR while adjacent
    covered: npt.NDArray[np.int16]  # [nodes, nodes]; bit by size: (target, other) listed to the end
    queue: Ints  # [nodes]; the target's neighbours in the order of asking
    subsets: Subsets
    question: Question
    cursor: Ints  # [9]
    plan: Ints  # [5]
    census: Census  # of no pair until the search is over


@inlined
def pair_index(x: int, y: int) -> int:
    """Return the place of the pair in a list of all pairs, whatever the order of x and y."""
    low, high = min(x, y), max(x, y)
    return high * (high - 1) // 2 + low


@open_kernel
def ask(search: Search) -> int:
    """Write the next question of search or census; return READY, FINISHED or NO_ROOM."""
    state = _ask_search(search)
    return _ask_census(search) if state == FINISHED else state


@inlined
def _ask_search(search: Search) -> int:
    cursor = search.cursor
    while cursor[PHASE] != OVER:
        if cursor[PHASE] == RECALL:
            if _ask_recalled(search):
                return READY
            cursor[PHASE] = LEVELS if search.plan[MAX_SIZE] > 0 else OVER
            cursor[SIZE] = 1
            search.question.pair[0] = 0
            _refill_pool(search)
            _fill_queue(search)
        elif cursor[OPEN]:
            if not has_room(search.subsets):
                return NO_ROOM
            if _fill_block(search):
                return READY
            if has_room(search.subsets):
                _close_in_vain(search)
        elif not _open_next_pair(search):
            cursor[PHASE] = OVER
    return FINISHED


@open_kernel
def tell(search: Search, found: int) -> None:
    """Take the answer: the row of the question's sets that separates the pair, or -1."""
    if search.cursor[PHASE] == OVER:
        _tell_census(search, found)
    elif found >= 0:
        _tell_search(search, found)


@inlined
def _tell_search(search: Search, found: int) -> None:
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
    search.cursor[OFFERED] = min(2 * search.cursor[OFFERED], search.plan[MAX_SETS])


@inlined
def _close_in_vain(search: Search) -> None:
    """Leave a pair that no set has separated, and offer the target's next one half as many.

    Neighbours come with the weakest association first, so what is cut short are the strong ones
    around a node of which no other could be separated either.
    """
    cursor = search.cursor
    cursor[OPEN] = 0
    if search.plan[BY_NODE] and search.plan[MAX_SETS] < UNLIMITED:
        cursor[OFFERED] = max(FEWEST_SETS, cursor[OFFERED] // 2)


@inlined
def _fill_queue(search: Search) -> None:
    """Line up the target's neighbours by rising strength, then by index."""
    target, queue = search.question.pair[0], search.queue
    count = 0
    for y in range(search.adjacent.shape[0]):
        if search.adjacent[target, y] and not search.fixed[target, y]:
            k = count
            while k > 0 and search.strength[target, queue[k - 1]] > search.strength[target, y]:
                queue[k] = queue[k - 1]
                k -= 1
            queue[k] = y
            count += 1
    search.cursor[QUEUED] = count
    search.cursor[NEXT] = 0
    search.cursor[OFFERED] = search.plan[MAX_SETS]


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
    """Have the first ``count`` sets tried, of this size."""
    question.span[BEGIN] = 0
    question.span[END] = count
    question.span[WIDTH] = size


@inlined
def _open_next_pair(search: Search) -> bool:
    """Move on to the next pair that has sets to offer; false when the search is over."""
    cursor, pair = search.cursor, search.question.pair
    while True:
        if cursor[NEXT] == cursor[QUEUED]:
            if not _next_target(search):
                return False
            _fill_queue(search)
            continue
        x, y = pair[0], search.queue[cursor[NEXT]]
        cursor[NEXT] += 1
        if not search.adjacent[x, y]:
            continue
        pair[1] = y
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
    """List x's neighbours other than y as candidates; return their number.

    Equal tallies go by the weaker of a candidate's associations with the two ends.
    """
    pool = search.pool if search.plan[STABLE] else search.adjacent
    count = 0
    for z in range(pool.shape[0]):
        if pool[x, z] and z != y:
            search.subsets.candidates[count] = z
            weaker = min(search.strength[x, z], search.strength[y, z])
            search.subsets.tallies[count] = (search.tallies[x, z] << TALLY_SHIFT) + weaker
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
    while count < room and cursor[LISTED] < cursor[OFFERED]:
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


# The census of separators, which finds colliders.


@inlined
def _ask_census(search: Search) -> int:
    cursor, span = search.cursor, search.question.span
    while cursor[SIDE] < search.census.sides.shape[0]:
        if span[BEGIN] < span[END]:
            return READY
        if cursor[OPEN]:
            _fill_block_of_side(search)
            cursor[OPEN] = span[END] > 0
        else:
            _open_next_side(search)
    return FINISHED


@inlined
def _tell_census(search: Search, found: int) -> None:
    """Take the answer; what of the block comes after the found set is the next question."""
    census, question = search.census, search.question
    span = question.span
    if found < 0:
        span[BEGIN] = span[END]
        return
    pair = census.sides[search.cursor[SIDE], 2]
    census.found[pair] += 1
    for i in range(span[WIDTH]):
        census.found_with[pair, question.sets[found, i]] += 1
    span[BEGIN] = found + 1


@inlined
def _withdraw(search: Search, row: int) -> None:
    """Take back a set of the question that can say nothing about the pair."""
    census, question = search.census, search.question
    pair = census.sides[search.cursor[SIDE], 2]
    census.asked[pair] -= 1
    for i in range(question.span[WIDTH]):
        census.asked_with[pair, question.sets[row, i]] -= 1


@inlined
def _open_next_side(search: Search) -> None:
    """Go to the next size that has sets to offer, or else to the next side."""
    cursor, subsets = search.cursor, search.subsets
    cursor[SIZE] += 1
    target, other = search.census.sides[cursor[SIDE], 0], search.census.sides[cursor[SIDE], 1]
    count = 0
    for z in range(search.adjacent.shape[0]):
        if search.adjacent[target, z]:
            subsets.candidates[count] = z
            subsets.tallies[count] = 0
            count += 1
    if cursor[SIZE] > min(count, search.plan[CENSUS_SIZE]):
        cursor[SIZE] = 0
        cursor[SIDE] += 1
        return
    begin_subsets(subsets, count, cursor[SIZE])
    search.question.pair[0] = target
    search.question.pair[1] = other
    cursor[OPEN], cursor[LISTED] = 1, 0


@inlined
def _place_in_listing(neighbours: Mask, members: Ints, size: int) -> int:
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
def _n_neighbours(neighbours: Mask) -> int:
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
def _fill_block_of_side(search: Search) -> None:
    """Write the next sets around the target that were not asked around the other end."""
    cursor, question, census = search.cursor, search.question, search.census
    target, other = census.sides[cursor[SIDE], 0], census.sides[cursor[SIDE], 1]
    pair = census.sides[cursor[SIDE], 2]
    size = cursor[SIZE]
    around_other = search.adjacent[other]
    capped = _n_subsets(_n_neighbours(around_other), size) > search.plan[MAX_SETS]
    count = 0
    while count < question.sets.shape[0] and cursor[LISTED] < search.plan[MAX_SETS]:
        if not next_subset(search.subsets, question.sets[count]):
            break
        cursor[LISTED] += 1
        members = question.sets[count]
        repeated = other < target
        for i in range(size):
            repeated = repeated and around_other[members[i]]
        if repeated and capped:
            repeated = _place_in_listing(around_other, members, size) < search.plan[MAX_SETS]
        if repeated:
            continue
        census.asked[pair] += 1
        for i in range(size):
            census.asked_with[pair, question.sets[count, i]] += 1
        count += 1
    _set_span(question, count, size)


# Questions answered from packed tables without leaving compiled code.

PAUSED = 3  # the allotted number of tests is used up; call again to go on


@kernel
def pursue_search(search: Search, evidence: Evidence, work: Workspace, n_tests: int) -> int:
    """Run the search for about ``n_tests`` tests; return PAUSED, FINISHED or NO_ROOM."""
    question = search.question
    limit = np.sum(work.tests[:, 0]) + n_tests
    while np.sum(work.tests[:, 0]) < limit:
        state = _ask_search(search)
        if state != READY:
            return state
        size = question.span[WIDTH]
        for k in range(question.span[BEGIN], question.span[END]):
            if judge(evidence, work, question.pair, question.sets[k, :size]) == SEPARATED:
                _tell_search(search, k)
                break
    return PAUSED


@kernel
def pursue_census(search: Search, evidence: Evidence, work: Workspace, n_tests: int) -> int:
    """Run the census of a search that is over; in one kernel with it both would be slower."""
    question = search.question
    limit = np.sum(work.tests[:, 0]) + n_tests
    while np.sum(work.tests[:, 0]) < limit:
        state = _ask_census(search)
        if state != READY:
            return state
        k = question.span[BEGIN]
        verdict = judge(evidence, work, question.pair, question.sets[k, : question.span[WIDTH]])
        if verdict == SEPARATED:
            _tell_census(search, k)
        else:
            if verdict == MUTE:
                _withdraw(search, k)
            question.span[BEGIN] = k + 1
    return PAUSED
