"""Windows dealt out anew, in which nothing can have changed."""

from __future__ import annotations

import numpy as np
import pytest

from driftbn.datasets import asia, remove_edge
from driftbn.decision.comparison import Comparison
from driftbn.decision.decider import CountDecider
from driftbn.decision.evidence import WindowEvidence, learn_rows
from driftbn.decision.regime import Regime
from driftbn.decision.settings import DecisionConfig
from driftbn.decision.shadow import MIN_WINDOWS, Shadow
from driftbn.learning import StructureLearner
from tests.drift_streams import DriftStream, Repeats

NAMES = sorted(asia().nodes)
LEARNER = StructureLearner()


def windows_of(stream: DriftStream, n_windows: int, n_rows: int) -> list[WindowEvidence]:
    order = [stream.before.index(name) for name in NAMES]
    batches = stream.batches(n_rows)
    return [learn_rows(LEARNER, next(batches)[order], NAMES) for _ in range(n_windows)]


def regime_of(windows: list[WindowEvidence], config: DecisionConfig | None = None) -> Regime:
    regime = Regime(0, config or DecisionConfig(), LEARNER, windows[0])
    for window in windows[1:]:
        regime.join(regime.read(window))
    return regime


SMALL = windows_of(DriftStream(asia(), seed=1), 7, 500)


@pytest.mark.parametrize(("share", "n_due"), [(0.0, 0), (0.05, 5), (0.3, 30), (1.0, 100)])
def test_a_share_of_the_windows_is_looked_at(share: float, n_due: int) -> None:
    regime = regime_of(SMALL[:4])
    shadow = Shadow(share)
    assert sum(shadow.is_due(index, regime) for index in range(100)) == n_due


def test_a_small_reference_is_not_looked_at() -> None:
    for n_windows in range(1, 6):
        regime = regime_of(SMALL[:n_windows])
        assert Shadow(1.0).is_due(3, regime) == (n_windows >= MIN_WINDOWS)


def looked_at(shadow: Shadow, regime: Regime, answers: list[bool]) -> list[Comparison]:
    seen: list[Comparison] = []

    def is_drift(comparison: Comparison, scale: int) -> bool:
        assert comparison.b.n_rows == 500 * scale
        seen.append(comparison)
        return answers[len(seen) - 1]

    shadow.look(5, regime, regime.read(SMALL[6]), is_drift)
    return seen


def test_every_scale_is_judged_until_one_is_drift() -> None:
    regime = regime_of(SMALL[:6])
    shadow = Shadow(1.0)
    assert len(looked_at(shadow, regime, [False] * 3)) == 3
    assert (shadow.n_windows, shadow.n_alarms) == (1, 0)
    assert len(looked_at(shadow, regime, [False, True, False])) == 2
    assert (shadow.n_windows, shadow.n_alarms) == (2, 1)


def test_all_rows_are_dealt_out_once() -> None:
    regime = regime_of(SMALL[:6])
    group = regime.read(SMALL[6])
    for compared in looked_at(Shadow(1.0), regime, [False] * 3):
        rows = np.hstack([*compared.a.windows, *compared.b.windows])
        held = np.hstack([*regime.windows, *group.windows])
        assert rows.shape == held.shape
        assert sorted(map(bytes, rows.T)) == sorted(map(bytes, held.T))
        np.testing.assert_array_equal(
            compared.a.counts + compared.b.counts, regime.pool.counts + group.counts
        )
        assert compared.b.counts[:2].sum() == compared.b.n_rows


def test_a_window_is_dealt_out_the_same_way_every_time() -> None:
    regime = regime_of(SMALL[:6])
    one, other = (looked_at(Shadow(1.0), regime, [False] * 3) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        np.testing.assert_array_equal(first.b.counts, second.b.counts)


def rate(stream: DriftStream, n_rows: int, *, dependent_rows: bool = True) -> float:
    config = DecisionConfig(shadow_share=1.0, dependent_rows=dependent_rows)
    decider = CountDecider(config, LEARNER)
    for index, window in enumerate(windows_of(stream, 40, n_rows)):
        decider.decide(index, window)
    assert decider.shadow.n_windows > 10
    return decider.shadow.n_alarms / decider.shadow.n_windows


def test_independent_rows_are_seldom_called_drift() -> None:
    assert rate(DriftStream(asia(), seed=2), 1000) <= 0.06


def test_bursty_rows_are_seldom_called_drift_if_that_is_taken_out() -> None:
    assert rate(DriftStream(asia(), bursts=Repeats(5), seed=3), 1500) <= 0.06


def test_rows_of_two_regimes_dealt_out_are_no_drift() -> None:
    """Whatever the stream does, the shadow knows nothing of it."""
    after = remove_edge(asia(), "smoke", "bronc").network
    first = windows_of(DriftStream(asia(), seed=4), 6, 1000)
    (last,) = windows_of(DriftStream(after, seed=5), 1, 1000)
    regime = regime_of(first)
    group = regime.read(last)
    decider = CountDecider(DecisionConfig(), LEARNER)
    assert decider.judge(regime, group).p_value < 1e-6
    shadow = Shadow(1.0)
    for index in range(20):
        shadow.look(
            index, regime, group, lambda c, _: bool(np.min(c.node_p_values) * 8 * 3 < 0.0025)
        )
    assert shadow.n_windows == 20
    assert shadow.n_alarms <= 2
