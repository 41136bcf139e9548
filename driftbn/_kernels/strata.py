"""Splitting the rows by a conditioning set, remembered per target."""

from __future__ import annotations

import numpy as np

from driftbn._kernels.compiled import kernel
from driftbn._kernels.bits import intersect
from driftbn._kernels.evidence import N_ENTRIES, Evidence, Ints, Workspace

SORTED = -1  # in entry_place: the entry's rows are sorted, not masked


@kernel
def forget(work: Workspace, target: int) -> None:
    """Drop all remembered splits and start with ``target``."""
    work.cursor[0] = target
    for i in range(1, 4):
        work.cursor[i] = 0
    for i in range(work.entry_hash.shape[0]):
        work.entry_hash[i] = -1


@kernel
def find_split(evidence: Evidence, work: Workspace, target: int, members: Ints) -> int:
    """Return the entry that holds the rows split by ``members``; make it if it is not there."""
    if work.cursor[0] != target:
        forget(work, target)
    slot = _hash_slot(work, members)
    if work.entry_hash[slot] >= 0:
        return work.entry_hash[slot]
    n_masks = evidence.first[target + 1] - evidence.first[target]
    for z in members:
        n_masks *= evidence.first[z + 1] - evidence.first[z]
    masked = n_masks <= work.scratch.shape[1]
    if (
        work.cursor[1] == N_ENTRIES
        or (masked and work.cursor[2] + n_masks > work.masks.shape[0])
        or (not masked and work.cursor[3] == work.row_index.shape[0])
    ):
        forget(work, target)
        slot = _hash_slot(work, members)
    entry = work.cursor[1]
    work.cursor[1] += 1
    work.entry_hash[slot] = entry
    for i in range(len(members)):
        work.entry_set[entry, i] = members[i]
    work.entry_place[entry, 0] = len(members)
    if masked:
        _split_into_masks(evidence, work, entry)
    else:
        _sort_rows(evidence, work, entry)
    return entry


@kernel
def _hash_slot(work: Workspace, members: Ints) -> int:
    """Return the slot where this set is, or the free one where it belongs."""
    size = work.entry_hash.shape[0]
    key = np.uint64(14695981039346656037)
    for z in members:
        key = (key ^ np.uint64(z)) * np.uint64(1099511628211)
    slot = np.int64((key ^ (key >> np.uint64(29))) % np.uint64(size))
    while work.entry_hash[slot] >= 0:
        entry = work.entry_hash[slot]
        same = work.entry_place[entry, 0] == len(members)
        for i in range(len(members)):
            same = same and work.entry_set[entry, i] == members[i]
        if same:
            return slot
        slot = (slot + 1) % size
    return slot


@kernel
def _split_into_masks(evidence: Evidence, work: Workspace, entry: int) -> None:
    """Store a bit set for each stratum and target level that has rows, in canonical order."""
    first = evidence.first
    n_members = work.entry_place[entry, 0]
    z = work.entry_set[entry, 0]
    count = first[z + 1] - first[z]
    here = work.scratch[0]
    there = work.scratch[1]
    for m in range(count):
        for w in range(evidence.bits.shape[1]):
            here[m, w] = evidence.bits[first[z] + m, w]
    for i in range(1, n_members):
        z = work.entry_set[entry, i]
        refined = 0
        for m in range(count):
            for level in range(first[z], first[z + 1]):
                if intersect(here[m], evidence.bits[level], there[refined]) > 0:
                    refined += 1
        here, there, count = there, here, refined
    target = work.cursor[0]
    begin = work.cursor[2]
    end = begin
    for m in range(count):
        stratum_begin = end
        for level in range(first[target], first[target + 1]):
            total = intersect(here[m], evidence.bits[level], work.masks[end])
            if total > 0:
                work.mask_stratum[end] = m
                work.mask_total[end] = total
                end += 1
        if end - stratum_begin < 2:  # one level of the target: this stratum can tell nothing
            end = stratum_begin
    work.cursor[2] = end
    work.entry_place[entry, 1] = begin
    work.entry_place[entry, 2] = end


@kernel
def _sort_rows(evidence: Evidence, work: Workspace, entry: int) -> None:
    """Sort the rows by stratum and drop the strata in which the target does not vary."""
    slot = work.cursor[3]
    work.cursor[3] += 1
    members = work.entry_set[entry, : work.entry_place[entry, 0]]
    _sort_by(evidence, work, members)
    row = work.rows_a if len(members) % 2 == 0 else work.rows_b
    level_of = evidence.codes[work.cursor[0]]
    n_rows = level_of.shape[0]
    kept = 0
    end = 0
    begin = 0
    work.row_strata[slot, 0] = 0
    while begin < n_rows:
        after = begin + 1
        varies = False
        while after < n_rows and _same_stratum(evidence, members, row[begin], row[after]):
            varies = varies or level_of[row[after]] != level_of[row[begin]]
            after += 1
        if varies:
            for p in range(begin, after):
                work.row_index[slot, end] = row[p]
                work.row_level[slot, end] = level_of[row[p]]
                end += 1
            work.row_levels[slot, kept] = _n_levels(work, slot, work.row_strata[slot, kept], end)
            kept += 1
            work.row_strata[slot, kept] = end
        begin = after
    work.entry_place[entry, 1] = SORTED - slot
    work.entry_place[entry, 2] = kept


@kernel
def _sort_by(evidence: Evidence, work: Workspace, members: Ints) -> None:
    """Sort the rows by the members' codes: a radix sort, last member first.

    The result is in ``rows_a`` after an even number of members, else in ``rows_b``.
    """
    source, sink = work.rows_a, work.rows_b
    for r in range(source.shape[0]):
        source[r] = r
    for i in range(len(members) - 1, -1, -1):
        z = members[i]
        code = evidence.codes[z]
        place = 0
        for level in range(evidence.first[z + 1] - evidence.first[z]):
            work.place[level] = place
            place += evidence.totals[evidence.first[z] + level]
        for p in range(source.shape[0]):
            r = source[p]
            sink[work.place[code[r]]] = r
            work.place[code[r]] += 1
        source, sink = sink, source


@kernel
def _same_stratum(evidence: Evidence, members: Ints, r: int, q: int) -> bool:
    for z in members:
        if evidence.codes[z, r] != evidence.codes[z, q]:
            return False
    return True


@kernel
def _n_levels(work: Workspace, slot: int, begin: int, end: int) -> int:
    """Count the different target levels among sorted rows."""
    seen = work.place
    for level in range(seen.shape[0]):
        seen[level] = 0
    count = 0
    for p in range(begin, end):
        level = work.row_level[slot, p]
        count += 1 - seen[level]
        seen[level] = 1
    return count
