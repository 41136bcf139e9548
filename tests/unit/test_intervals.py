"""Intervals of shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from driftbn.intervals import wilson_interval


@given(data=st.data(), n=st.integers(1, 5000))
def test_limits_are_those_of_wilsons_rule(data: st.DataObject, n: int) -> None:
    n_hits = data.draw(st.integers(0, n))
    expected = binomtest(n_hits, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(n_hits, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


@given(data=st.data(), n=st.integers(1, 5000))
def test_the_share_itself_lies_inside(data: st.DataObject, n: int) -> None:
    n_hits = data.draw(st.integers(0, n))
    low, high = wilson_interval(n_hits, n)
    assert 0.0 <= low <= n_hits / n + 1e-12
    assert n_hits / n - 1e-12 <= high <= 1.0


def test_nothing_is_known_of_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_more_looks_make_the_interval_narrower() -> None:
    widths = [high - low for low, high in (wilson_interval(n // 10, n) for n in (10, 100, 1000))]
    assert widths == sorted(widths, reverse=True)
