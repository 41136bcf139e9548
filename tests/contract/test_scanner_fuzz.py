"""The compiled scanner against the slow path: the same codes or the same rejection."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from driftbn_service.records import Decoded, Decoder, Rows, scanner
from numpy.typing import NDArray

from driftbn import Schema
from driftbn.config import MissingPolicy
from driftbn.errors import DataError
from tests.decoding import chunk, n_rows_of, records_of
from tests.encoded import EncodedTable, Exclusion, ExclusionReason, Variable, VariableKind, encode

N_LINES, N_CHUNKS = 102_000, 60
CATEGORICAL, NUMERIC = VariableKind.CATEGORICAL, VariableKind.NUMERIC
VARIABLES = [
    Variable("colour", CATEGORICAL, ("blue", "red", "Zoë")),
    Variable("city", CATEGORICAL, ("3", "bern", "true", "a longer name of a city"), pooled=True),
    Variable("size", NUMERIC, edges=(-1.0, 0.1, 0.30000000000000004, 1e20)),
    Variable("speed", NUMERIC, edges=(-1.0, 0.1, 3.5), scale=100.0, whole=True),
    Variable("load", NUMERIC, edges=(-1.0, 0.5), scale=377.7),
    Variable("whole", VariableKind.INTEGER, ("-1", "0", "2")),
    Variable("größe", CATEGORICAL, ("x",)),
]
IGNORED = [Exclusion("id", ExclusionReason.ID_LIKE, "")]
TEXTS = ["blue", "red", "Zoë", "bern", "3", "3.0", "007", "true", "x", "", "__missing__", 'q"\\\n']
NUMBERS = [0, -0.0, 2, -1, 2.0, 3, 3.0, 0.1, 0.3, 0.1 + 0.2, 1e20, 1e300, -1e-300, 2**53 + 1, 2**64]
BYTES = b'{}[]",:\\0123456789.eE+-tfnu \t\r\x00\x1f\x7f\xc3\xab\xff\xef\xbb\xbf'
WRITTEN = ["01", "1.", "-", "1e", "1E+2", "2.000", "1e400", "0e999", "NaN", "nul", "[]"]
WRITTEN.append('"\\u0072ed"')


def value_text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(WRITTEN)
    value: Any = rng.choice(TEXTS if kind < 0.6 else NUMBERS)
    if kind > 0.9:
        value = rng.choice([None, True, False, rng.uniform(-2, 2), {"k": 1}, [1]])
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def fitting_line(rng: random.Random) -> bytes:
    """Return a line as most of a stream are, now and then without a field."""
    record = {
        "colour": rng.choice(["blue", "red"]),
        "city": rng.choice(["bern", "thun", 3]),
        "size": round(rng.uniform(-2, 2), 3),
        "speed": round(rng.uniform(-2, 5), rng.choice([2, 2, 3, 17])),
        "load": rng.uniform(-2, 2),
        "whole": rng.choice([-1, 0, 2]),
        "größe": "x",
        "id": rng.randrange(10**6),
    }
    if rng.random() < 0.05:
        del record[rng.choice(list(record))]
    return json.dumps(record, ensure_ascii=False).encode()


def odd_line(rng: random.Random) -> bytes:
    """Return a line of known names with any values, written in any way."""
    names = rng.choices(["colour", "city", "size", "whole", "größe", "id", "new", ""], k=4)
    colon, comma = rng.choice([(":", ","), (": ", ", "), (" :\t", " ,")])
    fields = comma.join(f'"{name}"{colon}{value_text(rng)}' for name in names)
    return (rng.choice(["", " ", "\ufeff"]) + "{" + fields + "}" + rng.choice(["", "\r"])).encode()


def damaged(line: bytes, rng: random.Random) -> bytes:
    """Return a line of which some bytes are others, more or fewer."""
    text = bytearray(line)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.randrange(3)] = rng.choices(BYTES, k=rng.randrange(3))
    return bytes(text).replace(b"\n", b"")


def chunks_of_lines(n_lines: int, rng: random.Random) -> Iterator[bytes]:
    for number in range(N_CHUNKS):
        share = (0.02, 0.1, 0.7)[number % 3]
        lines = [fitting_line(rng) for _ in range(n_lines // N_CHUNKS)]
        for row in range(len(lines)):
            if rng.random() < share:
                lines[row] = odd_line(rng) if rng.random() < 0.5 else damaged(lines[row], rng)
        yield b"\n".join(lines)


def codes_of(batches: Sequence[Rows], schema: Schema) -> NDArray[np.uint8]:
    """Return the codes of all rows in their order; those of a row that is refused are 255."""
    tables = [rows for rows in batches if not isinstance(rows, EncodedTable)]
    records = [record for table in tables for record in _records(table, schema)]
    found = iter(_encoded(records, schema).T if records else ())
    parts = [
        rows.codes.T if isinstance(rows, EncodedTable) else [next(found) for _ in range(len(rows))]
        for rows in batches
    ]
    return np.vstack([np.asarray(part) for part in parts])


def _records(table: pa.Table, schema: Schema) -> list[dict[str, Any]]:
    known = [name for name in schema.names if name in table.column_names]
    return records_of(table.select(known)) if known else [{}] * len(table)


def _encoded(records: list[dict[str, Any]], schema: Schema) -> NDArray[np.uint8]:
    columns = {name: [record.get(name) for record in records] for name in schema.names}
    try:
        return encode(columns, schema).codes
    except DataError:
        if len(records) == 1:
            return np.full((len(schema), 1), 255, np.uint8)
        middle = len(records) // 2
        return np.hstack([_encoded(part, schema) for part in (records[:middle], records[middle:])])


def outcome(decoded: Decoded, schema: Schema) -> tuple[Any, list[tuple[str, str, bytes]]]:
    rejected = [(item.place, item.reason.value, item.record) for item in decoded.rejected]
    return codes_of(decoded.batches, schema).tolist(), rejected


@pytest.mark.parametrize(
    ("missing", "n_lines"),
    [
        pytest.param(MissingPolicy.LEVEL, N_LINES, marks=pytest.mark.slow),
        (MissingPolicy.LEVEL, N_LINES // 40),
        (MissingPolicy.REJECT, N_LINES // 40),
    ],
)
def test_the_scanner_gives_the_codes_or_the_rejection_of_the_slow_path(
    missing: MissingPolicy, n_lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "_MAX_UNFIT_SHARE", 1.0)
    monkeypatch.setattr(scanner, "_MAX_APART", N_LINES)
    schema = Schema(VARIABLES, IGNORED, missing)
    fast, slow = (Decoder(max_record_bytes=300) for _ in range(2))
    fast.use_schema(schema)
    n_scanned = 0
    for data in chunks_of_lines(n_lines, random.Random(7)):
        by_scanner = fast.decode(chunk(data))
        assert outcome(by_scanner, schema) == outcome(slow.decode(chunk(data)), schema)
        codes = [rows for rows in by_scanner.batches if isinstance(rows, EncodedTable)]
        n_scanned += sum(map(n_rows_of, codes))
    assert n_scanned > n_lines / 3


def test_the_scanner_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'{"colour":"red","city":"bern","size":1,"whole":0}\n' * 3
    for setting, is_on in (("on", True), ("off", False)):
        monkeypatch.setenv("DRIFTBN_SCANNER", setting)
        decoder = Decoder(max_record_bytes=100)
        decoder.use_schema(Schema(VARIABLES))
        (rows,) = decoder.decode(chunk(lines)).batches
        assert isinstance(rows, EncodedTable) == is_on
