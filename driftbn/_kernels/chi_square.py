"""Conditional independence tests on packed tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftbn._kernels.compiled import kernel
from driftbn._kernels.bits import count_three, count_two
from driftbn._kernels.evidence import Evidence, Floats, Ints, Workspace
from driftbn._kernels.strata import SORTED, find_split

DEPENDENT = 0
INDEPENDENT = 1
UNDECIDED = 2  # too few rows to tell: the search takes it for independent and counts it
ROWS_PER_DOF = 5  # a conditional test with fewer rows per degree of freedom decides nothing
# A word of a three-way count costs 0.4 ns, a row of the sorted pass 1.2 ns (5000 rows).
WORDS_PER_ROW = 3
BLOCK_WORDS = 256  # of all level sets at once: 400 such blocks stay in a second-level cache


@kernel
def table_statistic(  # type: ignore[no-untyped-def]
    cells: Ints, column: Floats, n_x: int, n_y: int, entropy: Floats
):
    """Return chi-square (or G, if ``entropy`` is given) and degrees of freedom of one table.

    ``cells[i * n_y + j]`` counts level i against level j; empty rows and columns take no degree of
    freedom. ``column`` is scratch.
    """
    total = 0
    n_columns = 0
    for j in range(n_y):
        count = 0
        for i in range(n_x):
            count += cells[i * n_y + j]
        total += count
        column[j] = count
        n_columns += count > 0
    n_used = 0
    value = 0.0
    for i in range(n_x):
        count = 0
        for j in range(n_y):
            count += cells[i * n_y + j]
        if count == 0:
            continue
        n_used += 1
        if entropy.shape[0] > 0:
            for j in range(n_y):
                value += entropy[cells[i * n_y + j]]
            value -= entropy[count]
        else:
            part = 0.0
            for j in range(n_y):
                n = cells[i * n_y + j]
                if n > 0:
                    part += np.float64(n * n) / column[j]
            value += part / count
    dof = (n_used - 1) * (n_columns - 1)
    if dof <= 0:
        return 0.0, 0
    if entropy.shape[0] == 0:
        return total * (value - 1.0), dof
    for j in range(n_y):
        value -= entropy[np.int64(column[j])]
    return 2.0 * (value + entropy[total]), dof


@kernel
def count_pairs(evidence: Evidence) -> None:
    """Fill ``evidence.joint`` with the counts of every two levels of different variables."""
    first, bits, joint = evidence.first, evidence.bits, evidence.joint
    n_variables = first.shape[0] - 1
    n_words = bits.shape[1]
    for begin in range(0, n_words, BLOCK_WORDS):
        end = min(begin + BLOCK_WORDS, n_words)
        for x in range(n_variables):
            for y in range(x + 1, n_variables):
                for a in range(first[x], first[x + 1] - 1):
                    for b in range(first[y], first[y + 1] - 1):
                        joint[a, b] += count_two(bits[a, begin:end], bits[b, begin:end])
    for x in range(n_variables):
        for y in range(x + 1, n_variables):
            _complete_pair(evidence, x, y)


@kernel
def _complete_pair(evidence: Evidence, x: int, y: int) -> None:
    """Derive the last row and column of a pair's table from the totals, and mirror it."""
    first, totals, joint = evidence.first, evidence.totals, evidence.joint
    last_x = first[x + 1] - 1
    last_y = first[y + 1] - 1
    for a in range(first[x], last_x):
        rest = totals[a]
        for b in range(first[y], last_y):
            rest -= joint[a, b]
        joint[a, last_y] = rest
    for b in range(first[y], last_y + 1):
        rest = totals[b]
        for a in range(first[x], last_x):
            rest -= joint[a, b]
            joint[b, a] = joint[a, b]
        joint[last_x, b] = rest
        joint[b, last_x] = rest


@kernel
def test_marginal(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, x: int, y: int, scale: float
):
    """Test x and y without a condition; return outcome, statistic and degrees of freedom."""
    first = evidence.first
    n_x = first[x + 1] - first[x]
    n_y = first[y + 1] - first[y]
    if evidence.joint.shape[0] > 0:
        for i in range(n_x):
            for j in range(n_y):
                work.cells[i * n_y + j] = evidence.joint[first[x] + i, first[y] + j]
    else:
        _count_by_rows(evidence.codes[x], evidence.codes[y], n_x, n_y, work.cells)
    statistic, dof = table_statistic(work.cells, work.column, n_x, n_y, evidence.entropy)
    if dof == 0:
        return UNDECIDED, 0.0, 0
    return _outcome(statistic, evidence.critical[dof] * scale), statistic, dof


@kernel
def _count_by_rows(
    x: npt.NDArray[np.uint8], y: npt.NDArray[np.uint8], n_x: int, n_y: int, cells: Ints
) -> None:
    cells[: n_x * n_y] = 0
    for r in range(x.shape[0]):
        cells[np.int64(x[r]) * n_y + y[r]] += 1


@kernel
def _outcome(statistic: float, limit: float) -> int:
    return DEPENDENT if statistic > limit else INDEPENDENT


@kernel
def test_conditional(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, x: int, y: int, members: Ints, scale: float
):
    """Test x and y given ``members``; return outcome, statistic and degrees of freedom.

    Counting stops as soon as the answer cannot change, so statistic and degrees of freedom are
    whole only if ``scale`` is infinite or the outcome is independent.
    """
    first = evidence.first
    if len(members) == 0:
        return test_marginal(evidence, work, x, y, scale)
    if len(members) == 1 and evidence.joint.shape[0] > 0:
        z = members[0]
        n_counts = (first[x + 1] - first[x] - 1) * (first[y + 1] - first[y] - 1)
        n_counts *= first[z + 1] - first[z] - 1
        if n_counts * evidence.bits.shape[1] <= WORDS_PER_ROW * evidence.codes.shape[1]:
            return _test_given_one(evidence, work, x, y, z, scale)
    entry = find_split(evidence, work, x, members)
    if work.entry_place[entry, 1] <= SORTED:
        return _test_sorted(evidence, work, y, entry, scale)
    return _test_masked(evidence, work, y, entry, scale)


@kernel
def _test_given_one(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, x: int, y: int, z: int, scale: float
):
    """Test with one condition: the pair counts give all margins, so the degrees of freedom
    are known before a word is read and only inner cells are counted.
    """
    first, joint, bits, cells = evidence.first, evidence.joint, evidence.bits, work.cells
    x0, y0 = first[x], first[y]
    n_x = first[x + 1] - x0
    n_y = first[y + 1] - y0
    dof = 0
    for c in range(first[z], first[z + 1]):
        dof += (_n_met(joint[c], x0, x0 + n_x) - 1) * (_n_met(joint[c], y0, y0 + n_y) - 1)
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
        _complete_stratum(cells, joint[c, x0 : x0 + n_x], joint[c, y0 : y0 + n_y])
        for k in range(n_x * n_y):
            rest[k] -= cells[k]
        part, _ = table_statistic(cells, work.column, n_x, n_y, evidence.entropy)
        statistic += part
        if statistic > limit:
            return DEPENDENT, statistic, dof
    part, _ = table_statistic(rest, work.column, n_x, n_y, evidence.entropy)
    statistic += part
    return _outcome(statistic, limit), statistic, dof


@kernel
def _n_met(counts: npt.NDArray[np.int32], begin: int, end: int) -> int:
    met = 0
    for level in range(begin, end):
        met += counts[level] > 0
    return met


@kernel
def _complete_stratum(
    cells: Ints, margin_x: npt.NDArray[np.int32], margin_y: npt.NDArray[np.int32]
) -> None:
    """Derive the last row and column of one stratum from its margins."""
    n_x = margin_x.shape[0]
    n_y = margin_y.shape[0]
    for i in range(n_x - 1):
        rest = np.int64(margin_x[i])
        for j in range(n_y - 1):
            rest -= cells[i * n_y + j]
        cells[i * n_y + n_y - 1] = rest
    for j in range(n_y):
        rest = np.int64(margin_y[j])
        for i in range(n_x - 1):
            rest -= cells[i * n_y + j]
        cells[(n_x - 1) * n_y + j] = rest


@kernel
def _test_masked(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, y: int, entry: int, scale: float
):
    """Test against a split of the rows into masks."""
    begin, end = work.entry_place[entry, 1], work.entry_place[entry, 2]
    y0 = evidence.first[y]
    n_y = evidence.first[y + 1] - y0
    n_rows = evidence.codes.shape[1]
    cells = work.cells
    bound = 0
    m = begin
    while m < end:
        after, total = _stratum_end(work, m, end)
        bound += (after - m - 1) * (min(n_y, total) - 1)
        m = after
    statistic = 0.0
    dof = 0
    m = begin
    while m < end:
        after, total = _stratum_end(work, m, end)
        n_x = after - m
        for i in range(n_x):
            rest = work.mask_total[m + i]
            for j in range(n_y - 1):
                n = count_two(work.masks[m + i], evidence.bits[y0 + j]) if rest > 0 else 0
                cells[i * n_y + j] = n
                rest -= n
            cells[i * n_y + n_y - 1] = rest
        part, part_dof = table_statistic(cells, work.column, n_x, n_y, evidence.entropy)
        statistic += part
        dof += part_dof
        bound -= (n_x - 1) * (min(n_y, total) - 1) - part_dof
        if n_rows < ROWS_PER_DOF * dof:
            return UNDECIDED, statistic, dof
        if n_rows >= ROWS_PER_DOF * bound and statistic > evidence.critical[bound] * scale:
            return DEPENDENT, statistic, dof
        m = after
    if dof == 0:
        return UNDECIDED, 0.0, 0
    return _outcome(statistic, evidence.critical[dof] * scale), statistic, dof


@kernel
def _stratum_end(work: Workspace, begin: int, end: int):  # type: ignore[no-untyped-def]
    """Return where the stratum of mask ``begin`` ends and how many rows it has."""
    after = begin
    total = 0
    while after < end and work.mask_stratum[after] == work.mask_stratum[begin]:
        total += work.mask_total[after]
        after += 1
    return after, total


@kernel
def _test_sorted(  # type: ignore[no-untyped-def]
    evidence: Evidence, work: Workspace, y: int, entry: int, scale: float
):
    """Test against rows sorted by stratum."""
    slot = SORTED - work.entry_place[entry, 1]
    n_strata = work.entry_place[entry, 2]
    target = work.cursor[0]
    n_x = evidence.first[target + 1] - evidence.first[target]
    n_y = evidence.first[y + 1] - evidence.first[y]
    code = evidence.codes[y]
    n_rows = code.shape[0]
    offset, n_levels = work.row_strata[slot], work.row_levels[slot]
    cells = work.cells
    bound = 0
    for s in range(n_strata):
        bound += (n_levels[s] - 1) * (min(n_y, offset[s + 1] - offset[s]) - 1)
    statistic = 0.0
    dof = 0
    for s in range(n_strata):
        cells[: n_x * n_y] = 0
        for p in range(offset[s], offset[s + 1]):
            cells[np.int64(work.row_level[slot, p]) * n_y + code[work.row_index[slot, p]]] += 1
        part, part_dof = table_statistic(cells, work.column, n_x, n_y, evidence.entropy)
        statistic += part
        dof += part_dof
        bound -= (n_levels[s] - 1) * (min(n_y, offset[s + 1] - offset[s]) - 1) - part_dof
        if n_rows < ROWS_PER_DOF * dof:
            return UNDECIDED, statistic, dof
        if n_rows >= ROWS_PER_DOF * bound and statistic > evidence.critical[bound] * scale:
            return DEPENDENT, statistic, dof
    if dof == 0:
        return UNDECIDED, 0.0, 0
    return _outcome(statistic, evidence.critical[dof] * scale), statistic, dof


@kernel
def first_separator(
    evidence: Evidence, work: Workspace, pair: Ints, sets: Ints, span: Ints
) -> int:
    """Return the first set that separates the pair, or -1; count what was asked.

    ``span`` holds the rows of ``sets`` to try, from and to, and the size of the sets.
    """
    x, y = pair[0], pair[1]
    size = span[2]
    scale = 1.0 + evidence.excess[x] * evidence.excess[y]
    for k in range(span[0], span[1]):
        outcome, _, _ = test_conditional(evidence, work, x, y, sets[k, :size], scale)
        work.tests[size, 0] += 1
        work.tests[size, 1] += outcome == UNDECIDED
        if outcome != DEPENDENT:
            return k
    return -1


@kernel
def remove_independent(
    evidence: Evidence, work: Workspace, adjacent: npt.NDArray[np.bool_]
) -> None:
    """Test every adjacent pair without condition; remove the independent ones from ``adjacent``."""
    for x in range(adjacent.shape[0]):
        for y in range(x + 1, adjacent.shape[0]):
            if not adjacent[x, y]:
                continue
            scale = 1.0 + evidence.excess[x] * evidence.excess[y]
            outcome, _, _ = test_marginal(evidence, work, x, y, scale)
            work.tests[0, 0] += 1
            work.tests[0, 1] += outcome == UNDECIDED
            if outcome != DEPENDENT:
                adjacent[x, y] = False
                adjacent[y, x] = False
