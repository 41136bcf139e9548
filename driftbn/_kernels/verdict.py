"""The verdict of a set about a pair, which looks behind a test that cannot tell."""

from __future__ import annotations

from driftbn._kernels.chi_square import DEPENDENT, UNDECIDED, test_conditional
from driftbn._kernels.contingency import n_levels_met
from driftbn._kernels.evidence import Evidence, Ints, Workspace
from driftbn._kernels.strata import count_strata, same_stratum, sort_rows_by
from driftbn.compiled import inlined, open_kernel

CONNECTED, SEPARATED, MUTE = range(3)


@open_kernel
def judge(evidence: Evidence, work: Workspace, pair: Ints, members: Ints) -> int:
    """Say whether the set leaves the pair CONNECTED, has it SEPARATED, or is MUTE about it.

    A set within whose strata the pair never varies together separates it, unless it determines one
    end: then it may act on the other end directly or only through the end that it
    determines. The first is taken to hold if every member still depends on the other end
    once the determined end is known; otherwise the set says nothing.
    """
    size = len(members)
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
