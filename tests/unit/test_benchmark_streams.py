"""The benchmarks on real and wandering streams: orders, places, scores, what wanders."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks.faults import Fault, Source
from tests.benchmarks.real import Stream, Verdict, judged, places, score, shuffled
from tests.benchmarks.wander import Case, hidden_mode, load, retail, run_case, tilted, wandering

CALM = Verdict(False, True)


def numbered(n_rows: int) -> Stream:
    times = pd.date_range("2024-01-01", periods=n_rows, freq="h")
    table = pd.DataFrame({"time": times, "x": range(n_rows), "y": range(n_rows)})
    return Stream("numbered", Source(10, "time"), table)


@pytest.mark.parametrize("block", [1, 7, 10])
def test_shuffling_moves_whole_blocks_and_leaves_the_clock(block: int) -> None:
    stream = numbered(100)
    found = shuffled(stream, block, seed=1).table
    assert sorted(found.x) == list(range(100))
    assert list(found.x) == list(found.y) != list(range(100))
    assert list(found.time) == list(stream.table.time)
    assert (np.diff(found.x) != 1).sum() <= 100 // block


def test_places_are_inside_the_stream_at_and_between_boundaries() -> None:
    for n_windows in (17, 45, 67):
        found = places(n_windows, 8)
        assert len(found) == 8
        assert 0 < found[0] <= found[-1] < n_windows - 2
        assert {round(place % 1, 1) for place in found} == {0.0, 0.4}


@dataclass
class Said:
    """A run of which all verdicts are known."""

    verdicts: list[Verdict]
    later: list[Verdict]
    stream: Stream = field(default_factory=lambda: numbered(100))

    def broken(self, fault: Fault, first: int, end: int) -> list[Verdict]:
        return self.later[: end - first]


def alarm(*names: str) -> Verdict:
    return Verdict(True, True, names[0], names)


def scored(clean: Verdict, *later: Verdict, start: int = 50) -> dict[str, bool]:
    run = Said([CALM] * 5 + [clean] + [CALM] * 4, list(later))
    found = score(run, Fault("stuck", ("x",), start, 100, seed=1))._asdict()
    return {name: value for name, value in found.items() if value is True}


def test_a_fault_is_scored_up_to_its_first_fully_broken_window() -> None:
    assert scored(CALM, alarm("x", "y"), CALM, CALM).keys() == {
        "seen",
        "named",
        "new",
        "first",
        "new_soon",
    }
    assert scored(CALM, alarm("y", "x"), CALM, CALM).keys() == {"seen", "named", "new", "new_soon"}
    assert scored(CALM, CALM, alarm("x"), CALM).keys() == {"new_soon"}
    assert "seen" in scored(CALM, CALM, alarm("x"), CALM, start=54)


def test_what_the_clean_stream_names_too_is_not_new() -> None:
    found = scored(alarm("x"), alarm("x"), CALM, CALM)
    assert found.keys() == {"clean_alarm", "seen", "named", "first"}


def test_a_tilt_changes_only_its_node() -> None:
    network = load("asia")
    found = tilted(network, {"smoke": np.array([0.5, 0.0])})
    changed = [
        node for node in network.nodes if not np.array_equal(network.cpt(node), found.cpt(node))
    ]
    assert changed == ["smoke"]


def test_a_hidden_mode_lasts_as_long_as_it_says() -> None:
    moves = hidden_mode(100, load("asia"), ["smoke"], np.random.default_rng(1))
    modes = np.concatenate([modes for modes, _ in islice(moves, 20)])
    assert len(modes) / (np.diff(modes) != 0).sum() == pytest.approx(100, rel=0.15)


def test_a_network_is_another_one_from_its_window_on() -> None:
    network, rng = load("asia"), np.random.default_rng(1)
    after = tilted(network, {"smoke": np.array([9.0, 0.0])})
    moves = hidden_mode(50, network, ["xray"], rng)
    shares = [
        float((np.asarray(batch["smoke"]) == 0).mean())
        for batch in islice(wandering(moves, network, after, 2, rng), 4)
    ]
    assert shares == pytest.approx([0.5, 0.5, 1.0, 1.0], abs=0.05)


def test_the_shop_moves_only_where_it_is_told_to() -> None:
    days = [
        list(islice(retail(parts, np.random.default_rng(1)), 20)) for parts in ("", "inflation")
    ]
    still, dearer = ([float(day["price"].mean()) for day in some] for some in days)
    assert np.std(still) < 0.5
    assert dearer[-1] > 1.03 * dearer[0]


def test_equal_seeds_give_equal_outcomes() -> None:
    case = Case("hidden mode", "six", n_fields=1, n_before=3, seed=1)
    outcomes = [run_case(case), run_case(case)]
    told = [[verdict._replace(learn=0, decide=0) for verdict in o.before] for o in outcomes if o]
    assert told[0] == told[1]
    assert len(told[0]) == 2  # the first window is learned


def test_windows_before_the_first_ones_asked_for_are_not_counted() -> None:
    class Result:
        order, verdicts = "real", [alarm("x"), Verdict(False, False), CALM, alarm("x")]

    assert judged([Result()], 1) == [CALM, alarm("x")]
