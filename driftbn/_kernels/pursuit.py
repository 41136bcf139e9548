"""Questions of the search answered from packed tables without leaving compiled code."""

from __future__ import annotations

import numpy as np

from driftbn._kernels.census import Census, ask_census, tell_census, withdraw
from driftbn._kernels.evidence import Evidence, Workspace
from driftbn._kernels.search import BEGIN, END, READY, WIDTH, Search, ask, tell
from driftbn._kernels.verdict import MUTE, SEPARATED, judge
from driftbn.compiled import kernel

PAUSED = 3  # the allotted number of tests is used up; call again to go on


@kernel
def pursue_search(search: Search, evidence: Evidence, work: Workspace, n_tests: int) -> int:
    """Run the search for about ``n_tests`` tests; return PAUSED, FINISHED or NO_ROOM."""
    question = search.question
    limit = np.sum(work.tests[:, 0]) + n_tests
    while np.sum(work.tests[:, 0]) < limit:
        state = ask(search)
        if state != READY:
            return state
        size = question.span[WIDTH]
        for k in range(question.span[BEGIN], question.span[END]):
            if judge(evidence, work, question.pair, question.sets[k, :size]) == SEPARATED:
                tell(search, k)
                break
    return PAUSED


@kernel
def pursue_census(census: Census, evidence: Evidence, work: Workspace, n_tests: int) -> int:
    """Run the census for about ``n_tests`` tests; return PAUSED or FINISHED."""
    question = census.question
    limit = np.sum(work.tests[:, 0]) + n_tests
    while np.sum(work.tests[:, 0]) < limit:
        state = ask_census(census)
        if state != READY:
            return state
        k = question.span[BEGIN]
        verdict = judge(evidence, work, question.pair, question.sets[k, : question.span[WIDTH]])
        if verdict == SEPARATED:
            tell_census(census, k)
        else:
            if verdict == MUTE:
                withdraw(census, k)
            question.span[BEGIN] = k + 1
    return PAUSED
