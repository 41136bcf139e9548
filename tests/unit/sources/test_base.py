"""Messages of brokers as lines."""

from __future__ import annotations

import json

import pytest
from driftbn_service.sources.base import JoinedMessages, on_lines
from hypothesis import given
from hypothesis import strategies as st

RECORDS = st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=5), st.integers()))


@pytest.mark.slow
@given(st.lists(st.tuples(RECORDS, st.sampled_from([None, 0, 2])), min_size=1, max_size=20))
def test_every_message_is_one_line_however_it_is_laid_out(
    messages: list[tuple[dict[str, object], int | None]],
) -> None:
    lines = JoinedMessages(
        [json.dumps(record, indent=indent).encode() for record, indent in messages]
    )
    found = lines.data.split(b"\n")
    assert found.pop() == b""
    assert [json.loads(line) for line in found] == [record for record, _ in messages]
    start = 0
    for number, line in enumerate(found):
        assert lines.message_at(start) == number
        assert lines.message_at(start + len(line)) == number
        start += len(line) + 1


@pytest.mark.slow
@given(st.lists(RECORDS, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n", " \n\n  "]))
def test_records_of_one_message_stay_apart(records: list[dict[str, object]], between: str) -> None:
    value = between.join(json.dumps(record, indent=1) for record in records).encode()
    lines = [line for line in on_lines(value).split(b"\n") if line.strip()]
    assert [json.loads(line) for line in lines] == records
