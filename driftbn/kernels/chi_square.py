"""Conditional independence on packed tables: Pearson's chi-square, G, and what a test tells."""

from __future__ import annotations

import numpy as np

from driftbn.kernels.compiled import inlined, kernel, open_kernel
from driftbn.kernels.counting import (
    BEGIN,
    COUNT,
    N_STRATA,
    NEXT,
    NUMBERED,
    SLOT,
    SORTED,
    TARGET,
    complete_stratum,
    count_by_rows,
    count_strata,
    count_three,
    count_two,
    find_split,
    make_next_stratum,
    n_levels_met,
    number_rows,
    same_stratum,
    sort_rows_by,
)
from driftbn.kernels.evidence import Evidence, Floats, Ints, Workspace


@inlined
def table_statistic(  # type: ignore[no-untyped-def]
    cells: Ints, column: Floats, n_x: int, n_y: int, entropy: Floats
):
    """Return chi-square (or G, if ``entropy`` is given) and degrees of freedom of one table.

    ``cells[i * n_y + j]`` counts level i against level j; empty rows and columns take no degree of
    freedom. ``column`` is scratch.
    """
    if entropy.shape[0] > 0:
        return _g_statistic(cells, n_x, n_y, entropy)
    if n_x == 2 and n_y == 2:
        return _fourfold_statistic(cells[0], cells[1], cells[2], cells[3])
    total = 0
    n_columns = 0
    for j in range(n_y):
        count = 0
        for i in range(n_x):
            count += cells[i * n_y + j]
        total += count
        column[j] = 1.0 / count if count > 0 else 0.0
        n_columns += count > 0
    n_used = 0
    value = 0.0
    for i in range(n_x):
        count = 0
        part = 0.0
        for j in range(n_y):
            n = cells[i * n_y + j]
            count += n
            part += np.float64(n * n) * column[j]
        if count > 0:
            n_used += 1
            value += part / count
    dof = (n_used - 1) * (n_columns - 1)
    if dof <= 0:
        return 0.0, 0
    return total * (value - 1.0), dof


@inlined
def _fourfold_statistic(a: int, b: int, c: int, d: int):  # type: ignore[no-untyped-def]
    """Return chi-square of two by two cells, which takes one division."""
    margins = np.float64((a + b) * (c + d)) * np.float64((a + c) * (b + d))
    if margins == 0.0:
        return 0.0, 0
    cross = np.float64(a * d - b * c)
    return (a + b + c + d) * cross * cross / margins, 1


@inlined
def _g_statistic(  # type: ignore[no-untyped-def]
    cells: Ints, n_x: int, n_y: int, entropy: Floats
):
    """Return G, twice the sum of n ln n over cells less margins plus total."""
    total = 0
    n_columns = 0
    value = 0.0
    for j in range(n_y):
        count = 0
        for i in range(n_x):
            count += cells[i * n_y + j]
            value += entropy[cells[i * n_y + j]]
        total += count
        value -= entropy[count]
        n_columns += count > 0
    n_used = 0
    for i in range(n_x):
        count = 0
        for j in range(n_y):
            count += cells[i * n_y + j]
        value -= entropy[count]
        n_used += count > 0
    dof = (n_used - 1) * (n_columns - 1)
    if dof <= 0:
        return 0.0, 0
    return 2.0 * (value + entropy[total]), dof


# Conditional independence tests on packed tables.

DEPENDENT = 0
INDEPENDENT = 1
UNDECIDED = 2  # too few rows to tell: the search takes it for independent and counts it
OPEN = 3  # strata not yet counted may change the answer
ROWS_PER_DOF = 5  # a conditional test with fewer rows per degree of freedom decides nothing
# A word of a three-way count costs 0.4 ns, a row of the sorted pass 1.2 ns (5000 rows).
WORDS_PER_ROW = 3


@inlined
def _marginal_statistic(  # type: ignore[no-untyped-def]
    evidence: Evidence, cells: Ints, column: Floats, x: int, y: int
):
    """Return statistic and degrees of freedom of x and y without a condition."""
    first = evidence.first
    n_x = first[x + 1] - first[x]
    n_y = first[y + 1] - first[y]
    if evidence.joint.shape[0] > 0:
        for i in range(n_x):
            for j in range(n_y):
                cells[i * n_y + j] = evidence.joint[first[x] + i, first[y] + j]
    else:
        count_by_rows(evidence.codes[x], evidence.codes[y], n_x, n_y, cells)
    return table_statistic(cells, column, n_x, n_y, evidence.entropy)


@inlined
def _outcome(evidence: Evidence, statistic: float, dof: int, scale: float) -> int:
    """Judge a whole statistic."""
    if dof == 0:
        return UNDECIDED
    return DEPENDENT if statistic > evidence.critical[dof] * scale else INDEPENDENT


@inlined
def _outcome_so_far(
    evidence: Evidence, statistic: float, dof: int, most_dof: int, scale: float
) -> int:
    """Judge a statistic that can only grow, with degrees of freedom between the two given."""
    n_rows = evidence.codes.shape[1]
    if n_rows < ROWS_PER_DOF * dof:
        return UNDECIDED
    if n_rows >= ROWS_PER_DOF * most_dof and statistic > evidence.critical[most_dof] * scale:
        return DEPENDENT
    return OPEN


@open_kernel
def test_conditional(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, x: int, y: int, members: Ints, scale: float
):
    """Test x and y given ``members``; return outcome, statistic and degrees of freedom.

    Counting stops as soon as the answer cannot change, so statistic and degrees of freedom are
    whole only if ``scale`` is infinite or the outcome is independent.
    """
    first = evidence.first
    if len(members) == 0:
        statistic, dof = _marginal_statistic(evidence, work.cells, work.column, x, y)
        return _outcome(evidence, statistic, dof, scale), statistic, dof
    if len(members) == 1 and evidence.joint.shape[0] > 0:
        z = members[0]
        n_counts = (first[x + 1] - first[x] - 1) * (first[y + 1] - first[y] - 1)
        n_counts *= first[z + 1] - first[z] - 1
        if n_counts * evidence.bits.shape[1] <= WORDS_PER_ROW * evidence.codes.shape[1]:
            return _test_given_one(evidence, work, x, y, z, scale)
    entry = find_split(evidence, work, x, members)
    if work.entry_place[entry, SORTED]:
        return _test_sorted(evidence, work, y, entry, scale)
    outcome, statistic, dof = _test_masked(evidence, work, y, entry, scale)
    if outcome == OPEN:
        return _test_coded(evidence, work, y, entry, scale)
    return outcome, statistic, dof


@inlined
def _test_given_one(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, x: int, y: int, z: int, scale: float
):
    """Test with one condition, whose margins all stand in the pair counts.

    So the degrees of freedom are known before a word is read, and only inner cells are counted.
    """
    first, joint, bits, cells = evidence.first, evidence.joint, evidence.bits, work.cells
    x0, y0 = first[x], first[y]
    n_x = first[x + 1] - x0
    n_y = first[y + 1] - y0
    dof = 0
    for c in range(first[z], first[z + 1]):
        dof += (n_levels_met(joint[c], x0, x0 + n_x) - 1) * (
            n_levels_met(joint[c], y0, y0 + n_y) - 1
        )
    if dof == 0 or evidence.codes.shape[1] < ROWS_PER_DOF * dof:
        return UNDECIDED, 0.0, dof
    limit = evidence.critical[dof] * scale
    rest = work.rest
    for i in range(n_x):
        for j in range(n_y):
            rest[i * n_y + j] = joint[x0 + i, y0 + j]
    statistic = 0.0
    last_z = first[z + 1] - 1
    for c in range(first[z], last_z):
        for i in range(n_x - 1):
            for j in range(n_y - 1):
                n = 0
                if joint[c, x0 + i] > 0 and joint[c, y0 + j] > 0 and rest[i * n_y + j] > 0:
                    n = count_three(bits[x0 + i], bits[y0 + j], bits[c])
                cells[i * n_y + j] = n
        complete_stratum(cells, joint[c, x0 : x0 + n_x], joint[c, y0 : y0 + n_y])
        for k in range(n_x * n_y):
            rest[k] -= cells[k]
        part, _ = table_statistic(cells, work.column, n_x, n_y, evidence.entropy)
        statistic += part
        if statistic > limit:
            return DEPENDENT, statistic, dof
    part, _ = table_statistic(rest, work.column, n_x, n_y, evidence.entropy)
    statistic += part
    return _outcome(evidence, statistic, dof, scale), statistic, dof


@inlined
def _test_masked(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, y: int, entry: int, scale: float
):
    """Test against masks, made as far as the test needs them; OPEN if there is no room for more."""
    place = work.entry_place[entry]
    target = work.cursor[TARGET]
    y0 = evidence.first[y]
    n_y = evidence.first[y + 1] - y0
    most = (evidence.first[target + 1] - evidence.first[target] - 1) * (n_y - 1)
    cells = work.cells
    statistic = 0.0
    dof = 0
    m = place[BEGIN]
    while m < place[BEGIN] + place[COUNT] or make_next_stratum(evidence, work, entry):
        after = _stratum_end(work, m, place[BEGIN] + place[COUNT])
        for i in range(after - m):
            rest = work.mask_total[m + i]
            for j in range(n_y - 1):
                n = count_two(work.masks[m + i], evidence.bits[y0 + j]) if rest > 0 else 0
                cells[i * n_y + j] = n
                rest -= n
            cells[i * n_y + n_y - 1] = rest
        part, part_dof = table_statistic(cells, work.column, after - m, n_y, evidence.entropy)
        statistic += part
        dof += part_dof
        left = place[N_STRATA] - 1 - work.mask_stratum[m]
        outcome = _outcome_so_far(evidence, statistic, dof, dof + left * most, scale)
        if outcome != OPEN:
            return outcome, statistic, dof
        m = after
    if place[NEXT] < place[N_STRATA]:
        return OPEN, statistic, dof
    return _outcome(evidence, statistic, dof, scale), statistic, dof


@inlined
def _stratum_end(work: Workspace, begin: int, end: int) -> int:
    """Return where the masks of the stratum of mask ``begin`` end."""
    after = begin + 1
    while after < end and work.mask_stratum[after] == work.mask_stratum[begin]:
        after += 1
    return after


@inlined
def _test_coded(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, y: int, entry: int, scale: float
):
    """Test against numbered strata: one histogram pass, then one small table a stratum."""
    place = work.entry_place[entry]
    if not place[NUMBERED]:
        number_rows(evidence, work, entry)
    target = work.cursor[TARGET]
    n_x = evidence.first[target + 1] - evidence.first[target]
    n_y = evidence.first[y + 1] - evidence.first[y]
    n_cells = n_x * n_y
    histogram, row_code, code = work.histogram, work.row_code[place[SLOT]], evidence.codes[y]
    for c in range(place[N_STRATA] * n_cells):
        histogram[c] = 0
    for r in range(code.shape[0]):
        histogram[np.int64(row_code[r]) * n_y + code[r]] += 1
    statistic = 0.0
    dof = 0
    for s in range(place[N_STRATA]):
        total = 0
        for c in range(n_cells):
            work.cells[c] = histogram[s * n_cells + c]
            total += work.cells[c]
        if total < 2:
            continue
        part, part_dof = table_statistic(work.cells, work.column, n_x, n_y, evidence.entropy)
        statistic += part
        dof += part_dof
        bound = dof + (place[N_STRATA] - 1 - s) * (n_x - 1) * (n_y - 1)
        outcome = _outcome_so_far(evidence, statistic, dof, bound, scale)
        if outcome != OPEN:
            return outcome, statistic, dof
    return _outcome(evidence, statistic, dof, scale), statistic, dof


@inlined
def _test_sorted(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, y: int, entry: int, scale: float
):
    """Test against rows sorted by stratum."""
    slot = work.entry_place[entry, SLOT]
    n_strata = work.entry_place[entry, N_STRATA]
    target = work.cursor[TARGET]
    n_x = evidence.first[target + 1] - evidence.first[target]
    n_y = evidence.first[y + 1] - evidence.first[y]
    code = evidence.codes[y]
    offset, n_levels = work.row_strata[slot], work.row_levels[slot]
    cells = work.cells
    bound = 0
    for s in range(n_strata):
        bound += (n_levels[s] - 1) * (min(n_y, offset[s + 1] - offset[s]) - 1)
    statistic = 0.0
    dof = 0
    for s in range(n_strata):
        for c in range(n_x * n_y):
            cells[c] = 0
        for p in range(offset[s], offset[s + 1]):
            cells[np.int64(work.row_level[slot, p]) * n_y + code[work.row_index[slot, p]]] += 1
        part, part_dof = table_statistic(cells, work.column, n_x, n_y, evidence.entropy)
        statistic += part
        dof += part_dof
        bound -= (n_levels[s] - 1) * (min(n_y, offset[s + 1] - offset[s]) - 1) - part_dof
        outcome = _outcome_so_far(evidence, statistic, dof, bound, scale)
        if outcome != OPEN:
            return outcome, statistic, dof
    return _outcome(evidence, statistic, dof, scale), statistic, dof


@kernel
def measure_pairs(
    evidence: Evidence, cells: Ints, column: Floats, order: Ints, strength: Floats
) -> None:
    """Write for every pair its statistic without condition over the critical value.

    Above 1 the pair is dependent; -1 says that the table cannot tell. ``order``: the variables in
    the order in which their tables are laid out, which decides the last digit of a sum. ``cells``
    and ``column`` are scratch, as in a workspace.
    """
    for i in range(order.shape[0]):
        for j in range(i + 1, order.shape[0]):
            x, y = order[i], order[j]
            scale = 1.0 + evidence.excess[x] * evidence.excess[y]
            statistic, dof = _marginal_statistic(evidence, cells, column, x, y)
            ratio = -1.0 if dof == 0 else statistic / (evidence.critical[dof] * scale)
            strength[x, y] = ratio
            strength[y, x] = ratio


# The verdict of a set about a pair, which looks behind a test that cannot tell.

CONNECTED, SEPARATED, MUTE = range(3)


@inlined
def rows_suffice(evidence: Evidence, x: int, y: int, members: Ints) -> bool:
    """Whether there are enough rows for all degrees of freedom that the table may have."""
    first = evidence.first
    dof = (first[x + 1] - first[x] - 1) * (first[y + 1] - first[y] - 1)
    return evidence.codes.shape[1] >= ROWS_PER_DOF * dof * count_strata(evidence, members)


@open_kernel
def judge(evidence: Evidence, work: Workspace, pair: Ints, members: Ints) -> int:
    """Say whether the set leaves the pair CONNECTED, has it SEPARATED, or is MUTE about it.

    Two members and more are mute without a test if the table would have too few rows for its cells:
    taken for independent as one member is, they would remove every edge of fields with many levels.
    A set within whose strata the pair never varies together separates it, unless it determines one
    end: then it may act on the other end directly or only through the end that it
    determines. The first is taken to hold if every member still depends on the other end
    once the determined end is known; otherwise the set says nothing.
    """
    size = len(members)
    if size > 1 and not rows_suffice(evidence, pair[0], pair[1], members):
        return MUTE
    given = work.given
    for i in range(size):
        given[i] = members[i]
    left, right, n_given = pair[0], pair[1], size
    end = -1  # of the pair, the one whose determination is looked into
    member = size
    verdict = SEPARATED
    while True:  # one place from which tests are run keeps the compiled code small
        scale = 1.0 + evidence.excess[left] * evidence.excess[right]
        outcome, _, dof = test_conditional(evidence, work, left, right, given[:n_given], scale)
        work.tests[n_given, 0] += 1
        if end < 0:
            if outcome == DEPENDENT:
                return CONNECTED
            work.tests[size, 1] += outcome == UNDECIDED
            if dof > 0 or size == 0:
                return SEPARATED
        elif outcome == DEPENDENT:
            member += 1
            if member == size:
                return SEPARATED
        else:
            verdict = MUTE
            member = size
        if member == size:
            end += 1
            while end < 2 and not _is_determined(evidence, work, pair[end], members):
                end += 1
            if end == 2:
                return verdict
            member = 0
            given[0] = pair[end]
            right, n_given = pair[1 - end], 1
        left = members[member]


@inlined
def _is_determined(evidence: Evidence, work: Workspace, x: int, members: Ints) -> bool:
    """Whether x has one level only wherever the members have theirs."""
    if len(members) == 1 and evidence.joint.shape[0] > 0:
        for c in range(evidence.first[members[0]], evidence.first[members[0] + 1]):
            if n_levels_met(evidence.joint[c], evidence.first[x], evidence.first[x + 1]) > 1:
                return False
        return True
    n_strata = count_strata(evidence, members)
    if n_strata <= work.histogram.shape[0]:
        return _is_determined_by_table(evidence, work, x, members, n_strata)
    sort_rows_by(evidence, work, members)
    row = work.rows_a if len(members) % 2 == 0 else work.rows_b
    level_of = evidence.codes[x]
    for p in range(1, row.shape[0]):
        if level_of[row[p]] != level_of[row[p - 1]] and same_stratum(
            evidence, members, row[p - 1], row[p]
        ):
            return False
    return True


@inlined
def _is_determined_by_table(
    evidence: Evidence, work: Workspace, x: int, members: Ints, n_strata: int
) -> bool:
    """Look for a row whose stratum has shown another level of x before."""
    shown = work.histogram
    for s in range(n_strata):
        shown[s] = -1
    for r in range(evidence.codes.shape[1]):
        stratum = 0
        for z in members:
            stratum = stratum * (evidence.first[z + 1] - evidence.first[z]) + evidence.codes[z, r]
        if shown[stratum] < 0:
            shown[stratum] = evidence.codes[x, r]
        elif shown[stratum] != evidence.codes[x, r]:
            return False
    return True
