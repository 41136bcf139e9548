"""States of one field given others, where rows come in bursts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from driftbn.decision.cells import divided
from driftbn.decision.comparison import deviance_p_values
from driftbn.decision.states import (
    LARGE_EFFECT,
    MIN_BACKING,
    GroupRows,
    StateRows,
    check_states,
)
from tests import reference_decision as reference

Cells = tuple[int, list[int]]  # configuration, and the states that count as one
Groups = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
EXACT = 1.0  # every p-value is given to its last digit
LOGS = np.arange(1 << 15) * np.log(np.maximum(np.arange(1 << 15), 1.0))


def marked(rows: np.ndarray, cells: list[Cells], n_states: int) -> np.ndarray:
    """Return for each row which cell it is in, ``[rows, cells]``."""
    return np.column_stack(
        [np.isin(rows, [s * n_states + j for j in states]) for s, states in cells]
    ).astype(float)


def effect_of(windows: list[list[np.ndarray]], cells: list[Cells]) -> reference.Effect:
    tables = [sum(w.sum(axis=0) for w in group) for group in windows]
    of = np.array([s for s, _ in cells])
    same = (of[:, None] == of).astype(float)
    scores = []
    for group, table in zip(windows, tables, strict=True):
        share = divided(table, table @ same)
        weight = np.sqrt(np.maximum(tables[0] + tables[1], 1.0))
        scores.append([(w - (w @ same) * share) / weight for w in group])
    if sum(float((u * u).sum()) for group in scores for u in group) < 1e-9:
        n_blocks = sum(math.ceil(len(u) / 64) for group in scores for u in group)
        return reference.Effect(1.0, 1.0, max(n_blocks - 2, 1))
    return reference.effect_of_groups(*scores, *(int(table.sum()) for table in tables))


def are_rare(
    windows: list[list[np.ndarray]], cells: list[Cells], least: float, largest: float
) -> list[bool]:
    """Return which cells few blocks of the smaller group are expected to have.

    Or few blocks of the newer group have a rare state, fewer rows than expected, and few bursts
    are expected there.
    """
    n_a, n_b = (
        [
            sum(w[:, i].sum() for w in group for i, c in enumerate(cells) if c[0] == s)
            for s, _ in cells
        ]
        for group in windows
    )
    seen = [
        np.sum([w[i : i + 64].any(axis=0) for w in group for i in range(0, len(w), 64)], axis=0)
        for group in windows
    ]
    rows = sum(w.sum(axis=0) for group in windows for w in group)
    rare = []
    for cell in range(len(cells)):
        x, y = n_a[cell], n_b[cell]
        backing = (seen[0][cell] + seen[1][cell]) * min(x, y) / max(x + y, 1)
        expected = rows[cell] * y / max(x + y, 1)
        n_new = sum(w[:, cell].sum() for w in windows[1])
        hidden = seen[1][cell] < MIN_BACKING and expected / largest < MIN_BACKING
        hidden = hidden and n_new < expected and rows[cell] < 0.5 * (x + y)
        rare.append(bool(backing < least or hidden))
    return rare


def well_backed(
    groups: Groups, cells: list[Cells], n_states: int, limits: tuple[float, float]
) -> list[Cells]:
    windows = [[marked(rows, cells, n_states) for rows in group] for group in groups]
    rare = are_rare(windows, cells, *limits)
    pooled: list[Cells] = []
    for s in dict.fromkeys(s for s, _ in cells):
        own = [(cell, bad) for cell, bad in zip(cells, rare, strict=True) if cell[0] == s]
        pooled += [cell for cell, bad in own if not bad]
        rest = [j for cell, bad in own if bad for j in cell[1]]
        pooled += [(s, rest)] if rest else []
    windows = [[marked(rows, pooled, n_states) for rows in group] for group in groups]
    rare = are_rare(windows, pooled, *limits)
    kept = [cell for cell, bad in zip(pooled, rare, strict=True) if not bad]
    return [cell for cell in kept if sum(other[0] == cell[0] for other in kept) > 1]


def compared(windows: list[list[np.ndarray]], cells: list[Cells]) -> reference.Difference:
    a, b = (sum(w.sum(axis=0) for w in group).astype(int) for group in windows)
    total = np.zeros(4)
    for s in dict.fromkeys(s for s, _ in cells):
        own = [i for i, cell in enumerate(cells) if cell[0] == s]
        total += reference.difference(a[None, own], b[None, own])
    return reference.Difference(*total.tolist())


def naive_check(
    groups: Groups, n_configurations: int, n_states: int, largest: float = 1.0
) -> tuple[float, float]:
    """Do as ``check_states`` does, row by row."""
    shape = n_configurations, n_states
    tables = [
        np.bincount(np.concatenate(list(g)), minlength=math.prod(shape)).reshape(shape).tolist()
        for g in groups
    ]
    cells: list[Cells] = []
    for s, (a, b) in enumerate(zip(*tables, strict=True)):
        cells += [(s, states) for states in reference.pooled_states(a, b) or () if states]
    if not cells:
        return 1.0, 1.0
    windows = [[marked(rows, cells, n_states) for rows in group] for group in groups]
    effect = effect_of(windows, cells)
    first = effect.effect
    if max(first, largest) > LARGE_EFFECT:
        least = MIN_BACKING if first > LARGE_EFFECT else 0.0
        cells = well_backed(groups, cells, n_states, (least, largest))
        if not cells:
            return 1.0, first
        windows = [[marked(rows, cells, n_states) for rows in group] for group in groups]
        effect = effect_of(windows, cells)
    found = compared(windows, cells)
    if found.variance <= 0.0:
        return 1.0, first
    return effect.p_value(*found[:3]), effect.effect


def library_check(
    groups: Groups, n_configurations: int, n_states: int, largest: float = 1.0
) -> tuple[float, float]:
    shape = n_configurations, n_states
    a, b = (
        np.bincount(np.concatenate(list(g)), minlength=math.prod(shape)).reshape(shape)
        for g in groups
    )
    statistics = np.array(reference.difference(a, b))
    older, newer = (
        GroupRows(np.concatenate(list(g)).astype(np.int32), [len(rows) for rows in g])
        for g in groups
    )
    return check_states(StateRows((older, newer), *shape, largest), statistics, LOGS, EXACT)


def draw_groups(seed: int, copies: int, copies_before: int) -> tuple[Groups, int, int]:
    rng = np.random.default_rng(seed)
    n_configurations, n_states = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    groups = []
    for n_windows, repeated in ((3, copies_before), (1, copies)):
        weights = rng.dirichlet(np.full(n_configurations * n_states, 0.6))
        sizes = rng.integers(300, 500, n_windows)
        drawn = [rng.choice(weights.size, n // repeated, p=weights) for n in sizes]
        groups.append([np.repeat(cells, repeated) for cells in drawn])
    return (groups[0], groups[1]), n_configurations, n_states


@pytest.mark.parametrize(("copies", "copies_before"), [(1, 1), (2, 2), (6, 6), (6, 1), (1, 6)])
@pytest.mark.parametrize("largest", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(8))
def test_states_are_checked_as_row_by_row(
    seed: int, largest: float, copies: int, copies_before: int
) -> None:
    drawn = draw_groups(seed, copies, copies_before)
    p, effect = library_check(*drawn, largest)
    expected_p, expected_effect = naive_check(*drawn, largest)
    assert effect == pytest.approx(expected_effect, rel=1e-6)
    assert p == pytest.approx(expected_p, rel=1e-5, abs=1e-250)


def bursts(n_rows: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Two states that come equally often, each row repeated."""
    return np.repeat(rng.integers(0, 2, n_rows // length), length)


def test_independent_rows_are_compared_as_they_are() -> None:
    rng = np.random.default_rng(1)
    groups = [rng.integers(0, 2, 2000) for _ in range(4)], [rng.integers(0, 2, 2000)]
    p, effect = library_check(groups, 1, 2)
    a, b = (np.bincount(np.concatenate(g))[None] for g in groups)
    assert effect < LARGE_EFFECT
    assert p == pytest.approx(deviance_p_values(np.array([reference.difference(a, b)]))[0], abs=0.1)


def test_one_more_burst_of_a_rare_state_is_no_change() -> None:
    rng = np.random.default_rng(2)
    old, new = [bursts(2000, 4, rng) for _ in range(4)], [bursts(2000, 4, rng)]
    assert library_check((old, new), 1, 3)[0] > 0.01
    new[0][640:704] = 2
    assert library_check((old, new), 1, 3)[0] > 0.01
    scattered = [rng.permutation(new[0])]
    old = [rng.permutation(cells) for cells in old]
    assert library_check((old, scattered), 1, 3)[0] < 1e-10


def test_a_state_in_many_bursts_is_a_change() -> None:
    rng = np.random.default_rng(3)
    old, new = [bursts(2000, 4, rng) for _ in range(4)], [bursts(2000, 4, rng)]
    for start in range(0, 2000, 40):
        new[0][start : start + 4] = 2
    p, effect = library_check((old, new), 1, 3)
    assert effect > LARGE_EFFECT
    assert p < 1e-4


def test_nothing_is_said_where_no_state_is_backed_well() -> None:
    """Both groups are one state, then the other: two bursts."""
    old, new = [np.repeat([0, 1], 150)], [np.repeat([0, 1], [100, 200])]
    p, effect = library_check((old, new), 1, 2)
    assert p == 1.0
    assert effect > LARGE_EFFECT


def test_bursts_of_both_states_are_rejected_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(4)
    found = [
        library_check(([bursts(2000, 5, rng) for _ in range(3)], [bursts(2000, 5, rng)]), 1, 2)[0]
        for _ in range(300)
    ]
    assert 0.02 < np.mean(np.array(found) < 0.05) < 0.09


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 1)])
def test_rows_that_become_more_or_less_bursty_are_seldom_rejected(before: int, after: int) -> None:
    rng = np.random.default_rng(5)
    found = [
        library_check(
            ([bursts(2000, before, rng) for _ in range(6)], [bursts(2000, after, rng)]), 1, 2
        )[0]
        for _ in range(300)
    ]
    assert np.mean(np.array(found) < 0.05) < 0.08


def test_a_change_is_seen_in_rows_that_become_burstier() -> None:
    rng = np.random.default_rng(6)
    old, new = [bursts(2000, 1, rng) for _ in range(4)], [bursts(2000, 4, rng)]
    turned = np.repeat(rng.random(500) < 0.5, 4)
    new[0][turned] = 1
    p, effect = library_check((old, new), 1, 2)
    assert effect > 2.0
    assert p < 1e-6


def test_a_rare_state_that_bursty_rows_do_not_have_is_no_change() -> None:
    """Two bursts of ten rows were to be expected, and none came."""
    rng = np.random.default_rng(7)
    old = [(rng.random(2000) < 0.01).astype(np.int64) for _ in range(8)]
    new = [np.zeros(2000, np.int64)]
    assert library_check((old, new), 1, 2)[0] < 1e-6
    assert library_check((old, new), 1, 2, 10.0)[0] == 1.0
    assert library_check((old, new), 1, 2, 2.0)[0] < 1e-6


def test_a_state_that_many_blocks_have_is_compared_however_bursty_other_fields_are() -> None:
    rng = np.random.default_rng(8)
    old, new = (
        [(rng.random(2000) < share).astype(np.int64) for _ in range(n)]
        for share, n in ((0.01, 8), (0.03, 1))
    )
    assert library_check((old, new), 1, 2, 50.0) == pytest.approx(library_check((old, new), 1, 2))


def test_what_was_certain_and_is_not_is_a_change_however_bursty_the_rows() -> None:
    """In one configuration, in one row of fifty, the second state always came; now the first."""
    rng = np.random.default_rng(10)
    old, new = ([(rng.random(2500) < 0.02).astype(np.int64) for _ in range(n)] for n in (8, 1))
    changed = [cells * 3 for cells in old], [cells * 2 for cells in new]
    assert library_check(changed, 2, 2, 20.0)[0] < 1e-6
    same = [cells * 3 for cells in old], [cells * 3 for cells in new]
    assert library_check(same, 2, 2, 20.0)[0] == 1.0
