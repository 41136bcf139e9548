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


def test_given_fields_are_broken_by_nothing_but_the_clock_fault(table: pd.DataFrame) -> None:
    for kind in KINDS:
        names = {name for fields in candidates(table, SOURCE, kind) for name in fields}
        assert names
        assert "time" not in names
        assert ("hour" in names) == (kind == "hour")
