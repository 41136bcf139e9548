"""Eight bytes of text at a time: a word has the first one lowest."""

# mypy: disable-error-code="no-any-return, return-value"

from __future__ import annotations

import numpy as np

from driftbn.kernels.compiled import inlined
from driftbn_service.decoding.scan_forms import Bytes

WORD_BYTES = 8
ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
QUOTES = np.uint64(0x2222_2222_2222_2222)
HALF_WORD = np.uint64(32)
HALF_BITS = np.uint64(0xFFFF_FFFF)
MIX_LOW, MIX_HIGH = np.uint64(0x9E37_79B1), np.uint64(0x85EB_CA77)  # primes


@inlined
def word_at(data: Bytes, i: int) -> np.uint64:
    """Return the word that starts here; the compiler makes one instruction of it."""
    at = np.uint64(i)
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@inlined
def first_bytes(n_bytes: int) -> np.uint64:
    """Return a word of which the first bytes, from 1 to 8, are set."""
    return ALL_BITS >> np.uint64(8 * (WORD_BYTES - n_bytes))


@inlined
def quotes_in(word: np.uint64) -> np.uint64:
    """Return a word with the highest bit of every byte set that is a quote."""
    other = word ^ QUOTES
    return ~(((other & LOW_BITS) + LOW_BITS) | other | LOW_BITS)


@inlined
def mixed(code: np.uint64, word: np.uint64) -> np.uint64:
    """Return the hash of words and one more; no product is larger than a word."""
    other = code ^ word
    return ((other & HALF_BITS) * MIX_LOW) ^ ((other >> HALF_WORD) * MIX_HIGH)
