"""What the scanner of JSON lines is told and what it finds; the bytes that mean something."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TAB, NEWLINE, RETURN, SPACE = 9, 10, 13, 32
QUOTE, PLUS, COMMA, MINUS, POINT, ZERO, NINE = 34, 43, 44, 45, 46, 48, 57
COLON, BACKSLASH, OPEN_OBJECT, CLOSE_OBJECT = 58, 92, 123, 125
FIRST_VISIBLE, FIRST_WIDE = 32, 128

SKIPPED = -1  # a field that is no variable
UNFIT = -1  # a place, field, text or number that is none
ENDED = -2  # no further field

LINK_BYTES = 64  # of what stands between two values; more is read byte by byte


class Fields(NamedTuple):
    """The names that a record may have."""

    text: Bytes  # their UTF-8, one after the other
    starts: Integers  # [fields + 1]
    variables: Integers  # [fields]: row of the codes, or SKIPPED
    slots: Integers  # [power of two]: field by hash, or -1
    followers: Integers  # [fields + 1]: what came after it last, after the last one what came first
    links: Bytes  # [(fields + 1) * LINK_BYTES]: all that stood between their values then
    link_sizes: Integers  # [fields + 1]: bytes of it, or 0 if it is not known
    seen: Integers  # [fields]: the last row that had it; scratch


class Tokens(NamedTuple):
    """Values with a known code, by the bytes that stand for them."""

    text: Bytes  # each from the start of a word, with zeros up to the next
    starts: Integers  # [tokens]
    stops: Integers  # [tokens]
    codes: Bytes  # [tokens]
    slots: Integers  # token by hash, or -1; a part for each variable
    word_slots: Integers  # the same for texts, by the hash of their words
    first_slots: Integers  # [variables]
    masks: Integers  # [variables]: slots of its part, less one


class Variables(NamedTuple):
    """What is asked of each variable."""

    fields: Integers  # [variables]
    missing: Integers  # [variables]: code of an absent field, or -1 if it must be there
    others: Integers  # [variables]: code of any other value, or -1 if that is an event
    numeric: npt.NDArray[np.bool_]  # [variables]
    edges: Floats  # inner edges of all bins
    first_edges: Integers  # [variables + 1]
    powers: Floats  # of ten


class Found(NamedTuple):
    """What was found, by line."""

    codes: Bytes  # [variables, lines]
    starts: Integers  # [lines]
    stops: Integers  # [lines]
    fits: npt.NDArray[np.bool_]  # [lines]
    odd: Integers  # [lines, 3]: variable and place of a value without a code; else -1
