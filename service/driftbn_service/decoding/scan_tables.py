"""The tables by which the scanner knows names and values, made from a schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from driftbn.schema import MissingPolicy, Schema, Variable, VariableKind
from driftbn_service.decoding.scan_forms import LINK_BYTES, SKIPPED, Fields, Tokens, Variables
from driftbn_service.decoding.scan_kernel import HASH_FACTOR, HASH_MASK, HASH_START, SLOT_SHIFT
from driftbn_service.decoding.scan_words import MIX_HIGH, MIX_LOW, WORD_BYTES


def fields_of(schema: Schema) -> Fields:
    """Return the names that are no event, first those of variables."""
    # A field without a name is left out wherever records are read.
    names = list(dict.fromkeys((*schema.expected, "")))
    texts = [name.encode("utf-8", "surrogatepass") for name in names]
    slots = np.full(_power_of_two(4 * len(names)), -1, np.int64)
    for number, text in enumerate(texts):
        put(slots, hash_of(text), number)
    rows = [schema.index(name) if name in schema else SKIPPED for name in names]
    starts = np.cumsum([0, *map(len, texts)])
    return Fields(
        np.frombuffer(b"".join(texts) + b"\0", np.uint8),
        starts.astype(np.int64),
        np.array(rows, np.int64),
        slots,
        np.zeros(len(names) + 1, np.int64),
        np.zeros((len(names) + 1) * LINK_BYTES, np.uint8),
        np.zeros(len(names) + 1, np.int64),
        np.full(len(names), -1, np.int64),
    )


def variables_of(schema: Schema) -> Variables:
    """Return what is asked of the variables."""
    variables = schema.variables
    reject = schema.missing is MissingPolicy.REJECT
    pooled = [v.pooled and v.kind is not VariableKind.NUMERIC for v in variables]
    n_edges = [len(variable.edges) for variable in variables]
    return Variables(
        np.arange(len(variables)),
        np.array([-1 if reject else v.missing_code for v in variables], np.int64),
        np.array([v.other_code if p else -1 for v, p in zip(variables, pooled, strict=True)], int),
        np.array([v.kind is VariableKind.NUMERIC for v in variables], np.bool_),
        np.array([edge for v in variables for edge in v.edges], np.float64),
        np.cumsum([0, *n_edges]).astype(np.int64),
        np.array([float(f"1e{power}") for power in range(309)]),
    )


def room_for_tokens(schema: Schema) -> tuple[Tokens, list[int]]:
    """Return room for values, and how many there may be of each variable."""
    sizes = [_power_of_two(8 * v.cardinality + 32) for v in schema.variables]
    limits = [size // 2 for size in sizes]
    n_tokens = sum(limits)
    firsts = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    tokens = Tokens(
        np.zeros(4096, np.uint8),
        np.zeros(n_tokens, np.int64),
        np.zeros(n_tokens, np.int64),
        np.zeros(n_tokens, np.uint8),
        np.full(sum(sizes), -1, np.int64),
        np.full(sum(sizes), -1, np.int64),
        firsts,
        np.array(sizes, np.int64) - 1,
    )
    return tokens, limits


def likely_tokens(variable: Variable) -> list[bytes]:
    """Return how the values of a variable are usually written.

    Every level must be here as text and, if it is a whole number, as that: where any other value
    has the code of ``__other__``, what is not here is taken for another.
    """
    if variable.kind is VariableKind.NUMERIC:
        return [b"null"]
    tokens = [orjson.dumps(text) for text in _encodable(variable.labels)]
    bare = [text.encode() for text in _encodable(variable.levels) if _is_bare(text)]
    return [b"null", *tokens, *bare]


def _encodable(texts: Sequence[str]) -> list[str]:
    """Return texts that JSON can hold: no halves of surrogate pairs."""
    return [text for text in texts if text.encode("utf-8", "replace").decode() == text]


def _is_bare(text: str) -> bool:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, bool | int | float)


def put(slots: NDArray[np.int64], code: int, number: int) -> None:
    """Enter a number under a hash."""
    slot = code & (len(slots) - 1)
    while slots[slot] >= 0:
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = number


def hashed(token: bytes) -> bytes:
    """Return the part of a value that the kernel hashes: a text without its quotes."""
    return token[1:-1] if token.startswith(b'"') else token


def hash_of(text: bytes) -> int:
    """Return the hash that the kernel makes byte by byte."""
    code = HASH_START
    for byte in text:
        code = ((code ^ byte) * HASH_FACTOR) & HASH_MASK
    return code


def hash_of_words(token: bytes) -> int:
    """Return the hash that the kernel makes of a text with its quotes."""
    code = 0
    for start in range(0, len(token), WORD_BYTES):
        high, low = divmod(
            code ^ int.from_bytes(token[start : start + WORD_BYTES], "little"), 2**32
        )
        code = (low * int(MIX_LOW)) ^ (high * int(MIX_HIGH))
    return code >> int(SLOT_SHIFT)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
