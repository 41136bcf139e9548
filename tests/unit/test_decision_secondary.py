import json
import subprocess
import sys

import numpy as np
import pytest

from driftbn.decision import secondary
from driftbn.decision.secondary import MAX_HISTORY, HammingDecider, make_secondary
from driftbn.errors import ConfigError, DataError, FormatError, MissingExtraError
from driftbn.monitor_config import DecisionRule

RIVER = [DecisionRule.ADWIN, DecisionRule.PAGE_HINKLEY, DecisionRule.KSWIN]


def shifting(n_values: int = 600, every: int = 150, seed: int = 3) -> list[float]:
    """Distances whose mean jumps to and fro."""
    rng = np.random.default_rng(seed)
    means = np.where(np.arange(n_values) // every % 2, 30, 5)
    return rng.poisson(means).astype(float).tolist()


def decide(decider: HammingDecider, values: list[float], start: int = 0) -> list[int]:
    return [i for i, value in enumerate(values, start) if decider.update(i, value)]


class TestThreshold:
    def test_only_what_is_above_is_drift(self):
        decider = make_secondary(DecisionRule.THRESHOLD, 5, 0.01)
        assert decide(decider, [0, 5, 5.5, 6, 1]) == [2, 3]
        assert decider.last_drift == 3

    def test_it_remembers_no_distances(self):
        decider = make_secondary(DecisionRule.THRESHOLD, 5, 0.01)
        decide(decider, [1.0] * 10)
        assert decider.state()["history"] == []

    def test_zero_is_a_threshold(self):
        assert decide(make_secondary("threshold", 0, 0.01), [0, 1]) == [1]


class TestRiver:
    @pytest.mark.parametrize("rule", RIVER)
    def test_jump_is_found_and_a_level_series_is_not(self, rule):
        drifts = decide(make_secondary(rule, None, 0.001), shifting(400, 200))
        assert any(200 <= index < 240 for index in drifts)
        assert decide(make_secondary(rule, None, 0.001), [5.0] * 400) == []

    @pytest.mark.parametrize("rule", RIVER)
    def test_two_deciders_decide_alike(self, rule):
        values = shifting(seed=8)
        first, second = (make_secondary(rule, None, 0.01) for _ in range(2))
        drifts = decide(first, values)
        assert drifts == decide(second, values) != []
        assert first.state() == second.state()

    def test_adwin_is_as_river_has_it_but_for_the_clock(self):
        drift = pytest.importorskip("river.drift")
        theirs = drift.ADWIN(delta=0.01, clock=1)
        expected = []
        for index, value in enumerate(shifting()):
            theirs.update(value)
            if theirs.drift_detected:
                expected.append(index)
        assert decide(make_secondary("adwin", None, 0.01), shifting()) == expected

    @pytest.mark.parametrize("rule", ["adwin", "kswin"])
    def test_alpha_is_how_readily_drift_is_seen(self, rule):
        firsts = []
        for alpha in (0.2, 1e-12):
            drifts = decide(make_secondary(rule, None, alpha), shifting(220, 110))
            firsts.append(min(drifts, default=220))
        assert firsts[0] < firsts[1]

    def test_absent_river_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "river.drift", None)
        with pytest.raises(MissingExtraError, match=r"'adwin' needs the extra 'river'"):
            make_secondary("adwin", None, 0.01)
        assert make_secondary("threshold", 1, 0.01).update(0, 2)

    def test_river_is_not_imported_before_it_is_needed(self):
        code = "import sys, driftbn.decision.secondary; sys.exit('river' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestState:
    @pytest.mark.parametrize("rule", RIVER)
    @pytest.mark.parametrize("n_before", [0, 1, 99, 131, 165, 310])
    def test_restored_decider_goes_on_alike(self, rule, n_before):
        values = shifting()
        decider = make_secondary(rule, None, 0.01)
        decide(decider, values[:n_before])
        restored = HammingDecider.from_state(json.loads(json.dumps(decider.state())))
        rest = decide(decider, values[n_before:], n_before)
        assert rest == decide(restored, values[n_before:], n_before) != []
        assert decider.state() == restored.state()

    @pytest.mark.parametrize("rule", RIVER)
    def test_restored_decider_goes_on_alike_when_old_distances_were_forgotten(
        self, rule, monkeypatch
    ):
        monkeypatch.setattr(secondary, "MAX_HISTORY", 120)
        values = np.random.default_rng(5).poisson(5, 400).astype(float).tolist() + shifting()
        decider = make_secondary(rule, None, 0.001)
        restored = decider
        for index, value in enumerate(values):
            if index % 37 == 0:
                restored = HammingDecider.from_state(decider.state())
            assert decider.update(index, value) == restored.update(index, value)
            assert len(decider.state()["history"]) <= 120
        assert decider.last_drift == restored.last_drift is not None

    def test_memory_is_bounded(self):
        decider = make_secondary("page_hinkley", None, 0.01)
        assert decide(decider, [5.0] * (MAX_HISTORY + 10)) == []
        assert len(decider.state()["history"]) == MAX_HISTORY // 2 + 9

    def test_threshold_and_last_drift_are_restored(self):
        decider = make_secondary("threshold", 5, 0.01)
        decide(decider, [6.0])
        restored = HammingDecider.from_state(decider.state())
        assert (restored.last_drift, restored.threshold) == (0, 5)

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"rule": "counts"},
            {"threshold": None},
            {"alpha": 2.0},
            {"history": None},
            {"history": [-1.0]},
            {"history": ["a"]},
            {"last_drift": "x"},
        ],
    )
    def test_what_is_no_state_is_refused(self, change):
        state = make_secondary("threshold", 5, 0.01).state() | change
        with pytest.raises(FormatError, match="decider state"):
            HammingDecider.from_state(state)

    def test_state_without_a_field_is_refused(self):
        state = make_secondary("threshold", 5, 0.01).state()
        del state["alpha"]
        with pytest.raises(FormatError, match="alpha"):
            HammingDecider.from_state(state)


class TestRefusals:
    @pytest.mark.parametrize("rule", ["counts", "hddm", None])
    def test_other_rules_are_refused(self, rule):
        with pytest.raises(ConfigError, match="'adwin', 'page_hinkley', 'kswin', 'threshold'"):
            make_secondary(rule, None, 0.01)

    @pytest.mark.parametrize(("rule", "threshold"), [("adwin", 3), ("threshold", None)])
    def test_threshold_goes_with_its_rule_only(self, rule, threshold):
        with pytest.raises(ConfigError, match="threshold"):
            make_secondary(rule, threshold, 0.01)

    @pytest.mark.parametrize(
        ("threshold", "alpha", "field"), [(-1, 0.01, "threshold"), (3, 0.0, "alpha")]
    )
    def test_numbers_out_of_range_are_refused(self, threshold, alpha, field):
        with pytest.raises(ConfigError) as caught:
            make_secondary("threshold", threshold, alpha)
        assert caught.value.field == field

    @pytest.mark.parametrize("hamming", [-1, float("nan"), float("inf")])
    def test_what_is_no_distance_is_refused_and_forgotten(self, hamming):
        decider = make_secondary("page_hinkley", None, 0.01)
        with pytest.raises(DataError, match="window 4"):
            decider.update(4, hamming)
        assert decider.state()["history"] == []
