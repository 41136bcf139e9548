"""The same records come to the same codes, however they are cut, written and decoded."""

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from driftbn.config import MonitorConfig, SchemaConfig
from tests.decoding import take, take_one_by_one

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "n", "größe", "id", 'qu"ote', "")
TEXTS = ("x", "y", "Zoë", "3", "3.0", "007", "", "__other__", "__missing__", "true", 'a"b\\', "é\n")
NUMBERS = (0, 1, 3, -7, 3.0, 0.5, 2.5, -0.0, 1e-7, 123456.789, 0.1 + 0.2, 1e22, 1e300)
WIDE = (2**53 + 1, -(2**53) - 3, 2**63 + 1, 10**25)

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(texts, numbers, st.sampled_from(WIDE), st.booleans(), st.none())
nested = st.dictionaries(st.sampled_from(("k", "")), scalars, max_size=2)
values = st.one_of(scalars, scalars, scalars, scalars, nested, st.lists(scalars, max_size=2))
usual = st.fixed_dictionaries(
    {"a": st.sampled_from(("x", "y", "Zoë")), "n": numbers, "id": st.integers(0, 10**6)}
)
odd = st.dictionaries(st.sampled_from(NAMES), values, max_size=5)
garbage = st.sampled_from(
    [b"", b"  ", b"{", b"3", b'{"a":1}{"a":2}', b'{"a":"x","a":"x"}', b'{"a":tru}', b'{"n":01}']
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Return one record as somebody may write it."""
    if draw(st.integers(0, 40)) == 0:
        return draw(garbage)
    record = draw(usual if draw(st.integers(0, 15)) else odd)
    items = draw(st.permutations(list(record.items()))) if draw(st.booleans()) else record.items()
    text = json.dumps(
        dict(items),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :  ")])),
        ensure_ascii=draw(st.booleans()),
    )
    before, after = draw(st.sampled_from([("", ""), (" ", "\r"), ("\ufeff", " ")]))
    return (before + text + after).encode()


streams = st.lists(lines(), min_size=1, max_size=60)
cuts = st.lists(st.integers(0, 60), max_size=6)


def cut(records: list[bytes], where: list[int]) -> list[bytes]:
    ends = sorted({0, len(records), *(place for place in where if place < len(records))})
    return [b"".join(line + b"\n" for line in records[a:b]) for a, b in pairwise(ends)]


def config(window: int, missing: str = "level") -> MonitorConfig:
    schema = SchemaConfig(missing=missing, max_levels=3, integer_levels=4)
    return MonitorConfig(window=window, schema=schema, on_error="reject_rows")


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(records=streams, where=cuts, window=st.integers(2, 20))
@example(records=[b'{"a":1}', b'{"a":0.5}', b'{"a":9007199254740993}'], where=[], window=2)
def test_codes_events_and_rejects_depend_on_the_records_alone(records, where, window):
    expected = take_one_by_one(records, config(window))
    by_columns = take(cut(records, []), config(window), scanner=False)
    assert by_columns[:3] == expected[:3]
    assert take(cut(records, where), config(window), scanner=False) == by_columns
    assert take(cut(records, where), config(window), scanner=True) == by_columns


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(records=streams, where=cuts)
def test_so_they_do_where_missing_values_are_rejected(records, where):
    expected = take_one_by_one(records, config(4, "reject"))
    for scanner in (False, True):
        found = take(cut(records, where), config(4, "reject"), scanner=scanner)
        assert found[:3] == expected[:3]
