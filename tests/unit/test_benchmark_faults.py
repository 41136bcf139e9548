"""The faults of the benchmark on real streams break what they say, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks.faults import KINDS, Fault, Source, candidates, changed_share, drawn_fault

WINDOW = 200
SOURCE = Source(WINDOW, "time", clock="hour", group="place")
START, STOP = 2 * WINDOW + 80, 5 * WINDOW


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    n_rows = 6 * WINDOW
    warmth = np.cumsum(rng.normal(size=n_rows))
    return pd.DataFrame(
        {
            "time": pd.date_range("2024-01-01", periods=n_rows, freq="h"),
            "hour": np.arange(n_rows) % 24,
            "place": rng.choice(["north", "south"], n_rows),
            "sky": rng.choice(["clear", "grey", "rain"], n_rows),
            "warmth": warmth,
            "people": rng.poisson(200 + 5 * warmth.clip(0, 30)),
            "open": rng.random(n_rows) < 0.5,
        }
    )


def fault_of(table: pd.DataFrame, kind: str, turn: int = 0) -> Fault:
    choices = list(candidates(table, SOURCE, kind))
    order = choices[turn:] + choices[:turn]
    fault = drawn_fault(table, SOURCE, Fault(kind, (), START, STOP, seed=3), order)
    assert fault is not None
    return fault


def broken(table: pd.DataFrame, fault: Fault) -> pd.DataFrame:
    return fault.rows(table, SOURCE, 0, len(table))


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_leaves_other_rows_and_other_fields_as_they_are(
    table: pd.DataFrame, kind: str, turn: int
) -> None:
    fault = fault_of(table, kind, turn)
    found = broken(table, fault)
    assert list(found) == list(table)
    for part in (slice(0, START), slice(STOP, len(table))):
        assert (found.iloc[part].to_numpy() == table.iloc[part].to_numpy()).all()
    others = [name for name in table if name not in fault.fields]
    pd.testing.assert_frame_equal(found[others], table[others])
    assert changed_share(table, SOURCE, fault) >= 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_same_in_one_piece_and_window_by_window(
    table: pd.DataFrame, kind: str
) -> None:
    fault = fault_of(table, kind)
    whole = broken(table, fault).iloc[2 * WINDOW : 4 * WINDOW]
    pieces = [fault.rows(table, SOURCE, i * WINDOW, (i + 1) * WINDOW) for i in (2, 3)]
    for name in table:
        found = [value for piece in pieces for value in piece[name].astype(object)]
        assert pd.Series(found).equals(pd.Series(list(whole[name].astype(object)))), name


def rows(table: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, pd.DataFrame, Fault]:
    """Return the broken rows, clean and as the fault leaves them."""
    fault = fault_of(table, kind)
    return table.iloc[START:STOP], broken(table, fault).iloc[START:STOP], fault


def test_permuted_values_stay_in_their_window_and_group(table: pd.DataFrame) -> None:
    clean, found, fault = rows(table, "permuted")
    (name,) = fault.fields
    for keys in (WINDOW * 3, WINDOW * 4):
        inside = slice(keys - START, keys - START + WINDOW)
        for part in ("north", "south"):
            before, now = clean.iloc[inside], found.iloc[inside]
            assert sorted(before[name][before.place == part]) == sorted(
                now[name][now.place == part]
            )


def test_a_stuck_field_repeats_its_last_value(table: pd.DataFrame) -> None:
    _, found, fault = rows(table, "stuck")
    assert set(found[fault.fields[0]]) == {table[fault.fields[0]].iloc[START - 1]}


def test_another_unit_is_a_line_through_all_values(table: pd.DataFrame) -> None:
    clean, found, fault = rows(table, "unit")
    (name,) = fault.fields
    slope, shift = np.polyfit(clean[name], found[name], 1)
    np.testing.assert_allclose(found[name], slope * clean[name] + shift)
    assert (round(slope, 6), round(shift, 6)) != (1, 0)


def test_a_renamed_level_is_gone_and_a_new_one_has_its_rows(table: pd.DataFrame) -> None:
    clean, found, fault = rows(table, "renamed")
    (name,) = fault.fields
    (gone,) = set(clean[name]) - set(found[name])
    (new,) = set(found[name]) - set(table[name])
    assert ((found[name] == new) == (clean[name] == gone)).all()


def test_a_new_category_has_a_fifth_of_the_rows(table: pd.DataFrame) -> None:
    _, found, fault = rows(table, "new category")
    assert (~found[fault.fields[0]].isin(table[fault.fields[0]])).mean() == pytest.approx(
        0.2, abs=0.1
    )


def test_thirty_percent_are_missing_and_the_others_kept(table: pd.DataFrame) -> None:
    clean, found, fault = rows(table, "missing")
    (name,) = fault.fields
    there = found[name].notna()
    assert there.mean() == pytest.approx(0.7, abs=0.1)
    assert (found[name][there] == clean[name][there]).all()


def test_a_shifted_join_brings_the_values_of_earlier_rows(table: pd.DataFrame) -> None:
    _, found, fault = rows(table, "join")
    shifts = range(WINDOW // 20, WINDOW // 4)
    same = [
        all(list(found[n]) == list(table[n].iloc[START - k : STOP - k]) for n in fault.fields)
        for k in shifts
    ]
    assert sum(same) == 1


def test_the_hour_is_turned_by_the_same_number_everywhere(table: pd.DataFrame) -> None:
    clean, found, fault = rows(table, "hour")
    assert fault.fields == ("hour",)
    assert len(set((found.hour - clean.hour) % 24)) == 1


def test_swapped_columns_hold_each_others_values(table: pd.DataFrame) -> None:
    clean, found, fault = rows(table, "swapped")
    one, other = fault.fields
    assert list(found[one]) == list(clean[other])
    assert list(found[other]) == list(clean[one])


def test_given_fields_are_broken_by_nothing_but_the_clock_fault(table: pd.DataFrame) -> None:
    for kind in KINDS:
        names = {name for fields in candidates(table, SOURCE, kind) for name in fields}
        assert names
        assert "time" not in names
        assert ("hour" in names) == (kind == "hour")
