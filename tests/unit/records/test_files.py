"""A file that a command is given is read in pieces, as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from driftbn_service.errors import InputError
from driftbn_service.records.files import Batch, Input
from driftbn_service.records.formats import CHUNK_BYTES

from tests.commands import feed
from tests.decoding import TableFormat, column_of, decode, rows_of


def batches_of(path: Path | str, kind: TableFormat | None = None) -> Iterator[Batch]:
    with Input(str(path), kind) as source:
        yield from source.batches(n_rows=5000)


def test_a_column_that_changes_its_type_is_read_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_rows = 2 * CHUNK_BYTES // 60
    rows = [f"{i % 3},{'x' * 60}{i % 2}" for i in range(n_rows)]
    text = "\n".join(["a,b", *rows, "late,y"]).encode()
    (tmp_path / "t.csv").write_bytes(text)
    feed(monkeypatch, text)
    for found in (batches_of(tmp_path / "t.csv"), batches_of("-", TableFormat.CSV)):
        batches = list(found)
        sizes = [len(batch.data) for batch in batches]
        assert [batch.first_row for batch in batches] == list(np.cumsum([0, *sizes[:-1]]))
        values = [value for batch in batches for value in column_of(batch.data, "a")]
        assert values == [*(i % 3 for i in range(n_rows)), "late"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[{"a":1},{"a":2}', "the array does not end"),
        ('[{"a":1},{"a":2},', "the array does not end"),
        ('[{"a":1},{"a":2},]', "a comma without an item"),
        ('[,{"a":1},{"a":2}]', "a comma without an item"),
        ('[{"a":1},{"a":2}] x', "Expecting value"),
        ('[{"a":1},{"a":2}]\n', ""),
    ],
)
@pytest.mark.parametrize("n_bytes", [1, 3, 100])
def test_an_array_is_read_as_one_that_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str, n_bytes: int
) -> None:
    monkeypatch.setattr("driftbn_service.records.files.CHUNK_BYTES", n_bytes)
    path = tmp_path / "t.json"
    path.write_text(text)
    sent = decode(text.encode(), TableFormat.JSON)
    assert [problem in found.detail for found in sent.rejected] == [True] * bool(problem)
    found: list[dict[str, object]] = []
    with pytest.raises(InputError, match=problem) if problem else nullcontext():
        for batch in batches_of(path):
            found += batch.data.to_pylist()
    assert found == [{"a": 1}, {"a": 2}] == rows_of(sent)


def test_a_file_is_not_read_before_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    line = json.dumps({"a": 1, "b": "x" * 50}) + "\n"
    n_lines = 4 * CHUNK_BYTES // len(line)
    path.write_text(line * n_lines + "{not JSON\n")
    shares = [batch.share for batch in islice(batches_of(path), 3)]
    assert all(share is not None and share < 0.9 for share in shares)
    with pytest.raises(InputError, match=f"line {n_lines + 1}: .* at character 1"):
        list(batches_of(path))
