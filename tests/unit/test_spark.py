"""The part of Spark's adapter that needs no Spark running."""

from __future__ import annotations

import importlib.util
import os

import pytest

from driftbn import DriftMonitor

if importlib.util.find_spec("pyspark") is None:
    if os.environ.get("CI") == "true":
        pytest.fail("Spark is not installed; CI must test its adapter", pytrace=False)
    pytest.skip("Spark is not installed: pip install 'driftbn[spark]'", allow_module_level=True)

from driftbn.spark import LiveMonitor, LiveMonitors


def live(n_bytes: int) -> LiveMonitor:
    return LiveMonitor(DriftMonitor(100), b"c" * (n_bytes - 1), b"t")


def test_a_live_monitor_goes_on_only_from_the_state_that_is_stored() -> None:
    kept, one = LiveMonitors(100), live(10)
    kept.keep("k", one)
    assert kept.take("other", one.core, one.tail) is None
    assert kept.take("k", one.core, one.tail) is one.monitor
    assert kept.take("k", one.core, one.tail) is None
    kept.keep("k", one)
    assert kept.take("k", one.core, b"later") is None
    assert kept.take("k", one.core, one.tail) is None


def test_live_monitors_take_no_more_than_their_room() -> None:
    kept, ones = LiveMonitors(25), [live(10) for _ in range(3)]
    for number, one in enumerate(ones):
        kept.keep(str(number), one)
    assert kept.take("2", ones[2].core, ones[2].tail) is None
    assert kept.take("0", ones[0].core, ones[0].tail) is ones[0].monitor
    kept.keep("2", ones[2])
    assert kept.take("2", ones[2].core, ones[2].tail) is ones[2].monitor
    assert kept.take("1", ones[1].core, ones[1].tail) is ones[1].monitor
