"""Values and arrays as bytes and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbn.errors import FormatError
from driftbn.snapshot import MAGIC, pack, unpack

numbers = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | numbers | st.text(max_size=5)
names = st.text(max_size=4).filter(lambda name: name != "__array__")
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4)
)


@pytest.mark.slow
@given(found=st.dictionaries(names, values, max_size=5))
@settings(max_examples=60)
def test_plain_values_come_back_as_they_were(found: dict[str, Any]) -> None:
    assert unpack("k", 1, pack("k", 1, found)) == found


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


def test_the_same_values_give_the_same_bytes() -> None:
    def make() -> bytes:
        return pack("k", 1, {"b": np.arange(5.0), "a": [np.zeros(3, np.uint8), None, "x"]})

    assert make() == make()


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


def test_every_cut_is_noticed() -> None:
    data = example()
    for n_bytes in range(len(data)):
        with pytest.raises(FormatError):
            unpack("example", 3, data[:n_bytes])


def test_bytes_after_the_end_are_noticed() -> None:
    with pytest.raises(FormatError, match="damaged"):
        unpack("example", 3, example() + b"\0")


def test_another_kind_or_version_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"kind 'example'.*'monitor'"):
        unpack("monitor", 3, example())
    with pytest.raises(FormatError, match=r"version 3 .*must be 4"):
        unpack("example", 4, example())


def test_something_else_is_refused() -> None:
    for data in (b"", b"PK\x03\x04", b"{}", b"\x80\x04\x95"):
        with pytest.raises(FormatError, match="no state of driftbn"):
            unpack("example", 3, data)


def test_the_header_can_be_read_by_anyone() -> None:
    data = example()
    assert data.startswith(MAGIC)
    start = len(MAGIC)
    length = int.from_bytes(data[start : start + 8], "big")
    header = json.loads(data[start + 40 : start + 40 + length])
    assert (header["kind"], header["version"]) == ("example", 3)
    assert header["values"] == {"x": {"__array__": 0}, "y": "text"}
