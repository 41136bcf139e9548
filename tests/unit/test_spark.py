"""The part of Spark's adapter that needs no Spark running."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pyarrow as pa
import pytest

from driftbn import DriftMonitor, MonitorConfig

if importlib.util.find_spec("pyspark") is None:
    if os.environ.get("CI") == "true":
        pytest.fail("Spark is not installed; CI must test its adapter", pytrace=False)
    pytest.skip("Spark is not installed: pip install 'driftbn[spark]'", allow_module_level=True)

from driftbn.errors import ConfigError
from driftbn.spark import TRANSFORM, LiveMonitor, LiveMonitors, Packing, monitor_stream


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


@pytest.mark.parametrize("order", ["n", "at", "name"])
def test_records_come_in_order_out_of_parts_that_were_packed_by_key(order: str) -> None:
    n_rows, keys = 1000, ["a", None, "b c", "é"]
    mixed = np.random.default_rng(3).permutation(n_rows)
    fields = pa.table(
        {
            "n": pa.array(range(n_rows)),
            "at": pa.array([None if i % 7 == 0 else i / 4 for i in range(n_rows)]),
            "name": pa.array([f"{i:04}" for i in range(n_rows)]),
            "yes": pa.array([None if i % 5 == 0 else i % 3 == 0 for i in range(n_rows)]),
        }
    )
    if order == "at":
        fields = fields.set_column(1, "at", [[i / 4 for i in range(n_rows)]])
    key = pa.array([keys[i * 7 % 11 % 4] for i in range(n_rows)])
    packing = Packing(MonitorConfig(time_column="at"), fields.schema, order, timed=True)
    rows = fields.add_column(0, "__driftbn_key", key).take(mixed)
    batches = rows.to_batches(max_chunksize=100)
    parts = [*packing.pack(iter(batches[:6])), *packing.pack(iter(batches[6:]))]
    found = pa.Table.from_batches(parts)
    for name in keys:
        mine = [row for row in found.to_pylist() if row["key"] == name]
        numbers = [i for i in range(n_rows) if key[i].as_py() == name]
        expected = fields.take(numbers)
        newest = max(i for i in expected["at"].to_pylist() if i is not None)
        assert max(row["newest"] for row in mine) == newest * 1e6
        unpacked = packing.unpack(row["rows"] for row in mine)
        assert unpacked.equals(expected)


@pytest.mark.parametrize(("backend", "watermark"), [("other", None), (TRANSFORM, "1 hour")])
def test_a_backend_that_is_not_there_or_knows_no_watermark_is_refused(
    backend: str, watermark: str | None
) -> None:
    with pytest.raises(ConfigError, match=r"backend.*applyInPandasWithState"):
        monitor_stream(None, "k", MonitorConfig(), order="n", watermark=watermark, backend=backend)
