"""Values and arrays as bytes and back."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn import DriftMonitor, datasets
from driftbn.errors import FormatError
from driftbn.snapshot import pack, unpack

names = st.text(max_size=4).filter(lambda name: name != "__array__")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        np.zeros((0, 5), np.int32),
        np.array(3.5),
        np.array([np.nan, np.inf, -0.0]),
        np.array([True, False]),
        np.arange(12).reshape(3, 4).T,
    ],
    ids=["bytes", "empty", "scalar", "not finite", "flags", "transposed"],
)
def test_arrays_come_back_as_they_were(array: np.ndarray) -> None:
    found = unpack("k", 1, pack("k", 1, {"deep": [{"x": array}, array[..., None]]}))
    stored = found["deep"][0]["x"]
    assert (stored.dtype, stored.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(stored, array)
    np.testing.assert_array_equal(found["deep"][1], array[..., None])


@pytest.mark.parametrize("array", [np.array([{}, 1], object), np.array([(None,)], [("a", object)])])
def test_objects_are_not_stored(array: np.ndarray) -> None:
    with pytest.raises(FormatError, match="cannot be stored"):
        pack("k", 1, {"x": [array]})


def example() -> bytes:
    return pack("example", 3, {"x": np.arange(50), "y": "text"})


def test_every_changed_byte_is_noticed() -> None:
    data = example()
    for at in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(FormatError):
            unpack("example", 3, bytes(damaged))


def test_another_kind_or_version_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"kind 'example'.*'monitor'"):
        unpack("monitor", 3, example())
    with pytest.raises(FormatError, match=r"version 3 .*must be 4"):
        unpack("example", 4, example())


@pytest.mark.slow
@given(
    n_levels=st.lists(st.integers(1, 256), min_size=1, max_size=12),
    n_rows=st.integers(0, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=100)
def test_codes_of_any_levels_come_back_as_they_were(
    n_levels: list[int], n_rows: int, seed: int
) -> None:
    codes = np.random.default_rng(seed).integers(0, n_levels, (n_rows, len(n_levels)), np.uint8).T
    np.testing.assert_array_equal(unpack("k", 1, pack("k", 1, {"codes": codes}))["codes"], codes)


@pytest.mark.slow
def test_the_state_of_a_stream_is_small_and_does_not_grow() -> None:
    monitor, sizes = DriftMonitor(window=500), []
    for seed in range(50):
        monitor.update(datasets.sample(datasets.asia(), 500, seed))
        sizes.append(len(monitor.snapshot()))
    assert max(sizes[30:]) < 12 * 1024
    assert max(sizes[30:]) < 1.1 * min(sizes[30:])


RELEASED = Path(__file__).with_name("snapshots")


def kept_stream(start: int, stop: int) -> list[dict[str, Any]]:
    """Return records of the stream whose snapshots are kept, after 560 of them."""
    return [
        {"x": n % 3, "y": "no" if n % 3 and n % 7 else "yes", "z": n * n % 11 / 4}
        for n in range(start, stop)
    ]


@pytest.mark.parametrize("path", sorted(RELEASED.glob("*.bin")), ids=lambda path: path.stem)
def test_snapshots_of_released_versions_are_read(path: Path) -> None:
    monitor = DriftMonitor.restore(path.read_bytes())
    assert monitor.config.windows.size == 100
    assert monitor.schema is not None
    assert monitor.schema.names == ("x", "y", "z")
    assert monitor.n_pending == 60
    (report,) = monitor.update(kept_stream(560, 600))
    assert (report.index, report.first_record, report.last_record) == (5, 500, 599)
    assert report.decision.reference_windows >= 1
    assert DriftMonitor.restore(monitor.snapshot()).update(kept_stream(600, 700))


WAITING = [
    {"x": 3, "y": None, "z": "__other__", "t": date(2024, 1, 1)},
    {"x": 2**60, "y": True, "z": "\ud800", "t": None},
    {"x": -1, "y": False, "z": 1.5, "t": date(2024, 1, 2)},
    {"x": None, "y": None, "z": 2**53 + 1, "t": None},
]


@pytest.mark.parametrize("path", sorted(RELEASED.glob("waiting/*.bin")), ids=lambda path: path.stem)
def test_records_that_wait_are_read_from_snapshots_of_released_versions(path: Path) -> None:
    monitor, fresh = DriftMonitor.restore(path.read_bytes()), DriftMonitor(window=100)
    fresh.update(WAITING)
    assert monitor.tail() == fresh.tail()
    reports = [one.update(WAITING * 30) for one in (monitor, fresh)]
    assert reports[0] == reports[1] != ()
    assert monitor.schema == fresh.schema


def test_records_that_wait_take_little_room() -> None:
    monitor = DriftMonitor(window=5000)
    monitor.update(datasets.sample(datasets.alarm(), 2500, 1))
    assert len(monitor.tail()) < 18 * 1024


def test_what_is_read_when_it_is_asked_for_is_all_of_it() -> None:
    monitor = DriftMonitor(window=100)
    monitor.update(kept_stream(0, 430))
    data = monitor.snapshot()
    asked = DriftMonitor.restore(data)
    assert repr(asked) == repr(monitor).replace("window 3: stable", "no window yet")
    assert asked.snapshot() == data
    assert asked.calibration().window_rows == 100
    for one in (monitor, accepted := DriftMonitor.restore(data)):
        one.accept()
    assert accepted.snapshot() == monitor.snapshot() != data
    asked.reset()
    assert asked.snapshot() == DriftMonitor(window=100).snapshot()


def test_core_and_tail_are_the_snapshot_in_two_parts() -> None:
    monitor = DriftMonitor(window=100)
    assert DriftMonitor.restore(monitor.core(), monitor.tail()).n_pending == 0
    core = monitor.core()
    for start in range(0, 500, 35):
        had_reports = monitor.update(kept_stream(start, start + 35))
        core = monitor.core() if had_reports else core
        other = DriftMonitor.restore(core, monitor.tail())
        assert other.snapshot() == monitor.snapshot()


def test_core_and_tail_are_not_taken_for_each_other_or_for_a_snapshot() -> None:
    monitor = DriftMonitor(window=100)
    core, tail = monitor.core(), monitor.tail()
    for parts in ((core,), (tail,), (tail, core), (monitor.snapshot(), tail)):
        with pytest.raises(FormatError, match="kind"):
            DriftMonitor.restore(*parts)
