"""Compiled loops over the bytes of text: lines found, arrays cut, JSON lines straight to codes.

``scan`` takes only what it knows in every byte: names of the schema, values that the library has
given a code before, numbers of a variable with bins. Everything else is a line that does not fit,
which somebody else must read.
"""

# A compiled loop cannot be cut where a branch ends, and numba sets the types inside it.
# ruff: noqa: C901, PLR0913, SIM109, SIM110
# mypy: disable-error-code="no-any-return, return-value, assignment"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftbn.kernels.compiled import inlined, kernel
from driftbn.kernels.counting import NEAR_WHOLE, level_in, place_among

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

TAB, NEWLINE, RETURN, SPACE = 9, 10, 13, 32
QUOTE, PLUS, COMMA, MINUS, POINT, ZERO, NINE = 34, 43, 44, 45, 46, 48, 57
COLON, BACKSLASH = 58, 92
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125
FIRST_VISIBLE, FIRST_WIDE = 32, 128

SKIPPED = -1  # a field that is no variable
UNFIT = -1  # a place, field, text or number that is none
ENDED = -2  # no further field

LINK_BYTES = 64  # of what stands between two values; more is read byte by byte


class Fields(NamedTuple):
    """The names that a record may have, first those of variables."""

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

    missing: Integers  # [variables]: code of an absent field, or -1 if it must be there
    others: Integers  # [variables]: code of any other value, or -1 if that is an event
    numeric: npt.NDArray[np.bool_]  # [variables]
    edges: Floats  # inner edges of all bins
    first_edges: Integers  # [variables + 1]
    scales: Floats  # [variables]
    whole: npt.NDArray[np.bool_]  # [variables]
    powers: Floats  # of ten


class Found(NamedTuple):
    """What was found, by line."""

    codes: Bytes  # [variables, lines]
    starts: Integers  # [lines]
    stops: Integers  # [lines]
    fits: npt.NDArray[np.bool_]  # [lines]
    odd: Integers  # [lines, 3]: variable and place of a value without a code; else -1


# Eight bytes of text at a time: a word has the first one lowest.


WORD_BYTES = 8
ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
QUOTES = np.uint64(0x2222_2222_2222_2222)
BACKSLASHES = np.uint64(0x5C5C_5C5C_5C5C_5C5C)
NEWLINES = np.uint64(0x0A0A_0A0A_0A0A_0A0A)
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
def places_of(bytes_: np.uint64, word: np.uint64) -> np.uint64:
    """Return a word with the highest bit set of every byte that is the one in all of ``bytes_``."""
    other = word ^ bytes_
    return ~(((other & LOW_BITS) + LOW_BITS) | other | LOW_BITS)


@inlined
def mixed(code: np.uint64, word: np.uint64) -> np.uint64:
    """Return the hash of words and one more; no product is larger than a word."""
    other = code ^ word
    return ((other & HALF_BITS) * MIX_LOW) ^ ((other >> HALF_WORD) * MIX_HIGH)


# Numbers as JSON writes them, and the bins that they are in.


MAX_DIGITS = 18  # of a number; more do not fit 63 bits
MAX_EXACT = 2**53
MAX_EXACT_POWER = 22  # of ten, that a float holds exactly
MAX_POWER = 250  # of ten, so that the product is neither too large nor too small
NEAR_LEVEL = 1e-4  # where a scaled number is nearer to another level, rounding may decide
SURE_SCALED = 1e10  # up to here its rounding error is smaller than that
NEAR = 2e-15  # a product of rounded parts is nearer to the truth than this share of it


@inlined
def number_at(data: Bytes, i: int) -> tuple[int, int, int]:
    """Return the place after a number, its digits without the sign, and the power of ten."""
    size = data.size
    digits, n_digits, power = np.int64(0), 0, 0
    if data[i] == MINUS:
        i += 1
    if i >= size or data[i] < ZERO or data[i] > NINE:
        return UNFIT, 0, 0
    leading_zero = data[i] == ZERO
    start = i
    while i < size and data[i] >= ZERO and data[i] <= NINE:
        if n_digits < MAX_DIGITS:
            digits = digits * 10 + (np.int64(data[i]) - ZERO)
        n_digits += digits > 0
        i += 1
    if leading_zero and i - start > 1:
        return UNFIT, 0, 0
    if i < size and data[i] == POINT:
        i += 1
        start = i
        while i < size and data[i] >= ZERO and data[i] <= NINE:
            if n_digits < MAX_DIGITS:
                digits = digits * 10 + (np.int64(data[i]) - ZERO)
            n_digits += digits > 0
            power -= 1
            i += 1
        if i == start:
            return UNFIT, 0, 0
    if i < size and (data[i] == 69 or data[i] == 101):  # E, e
        i += 1
        negative = i < size and data[i] == MINUS
        if i < size and (data[i] == MINUS or data[i] == PLUS):
            i += 1
        start, exponent = i, 0
        while i < size and data[i] >= ZERO and data[i] <= NINE:
            exponent = min(exponent * 10 + (np.int64(data[i]) - ZERO), 100_000)
            i += 1
        if i == start:
            return UNFIT, 0, 0
        power += -exponent if negative else exponent
    if n_digits > MAX_DIGITS:
        return UNFIT, 0, 0
    return i, digits, power


@inlined
def bin_at(data: Bytes, i: int, variable: int, variables: Variables) -> tuple[int, int]:
    """Return the place after a number and its bin; -1 if that is not sure.

    Up to 2**53 and 10**22 one operation on exact floats rounds as a parser does (Clinger 1990).
    Beyond, the result is off by a few units in the last place, which matters near an edge only.
    """
    negative = data[i] == MINUS
    i, digits, power = number_at(data, i)
    if i < 0 or abs(power) > MAX_POWER:
        return i, -1
    scale = variables.powers[abs(power)]
    value = digits * scale if power > 0 else digits / scale
    exact = digits <= MAX_EXACT and abs(power) <= MAX_EXACT_POWER
    value = -value if negative else value
    first, end = variables.first_edges[variable], variables.first_edges[variable + 1]
    place = place_among(variables.edges, first, end, value)
    if not exact:
        for k in range(max(first, place - 1), min(place + 1, end)):
            if abs(value - variables.edges[k]) <= NEAR * abs(value):
                return i, -1
        scaled = abs(value * variables.scales[variable])
        part = scaled % 1.0
        near = min(abs(part - 0.5), abs(part - NEAR_WHOLE), abs(1.0 - part - NEAR_WHOLE))
        if scaled > 0.0 and (near < NEAR_LEVEL or scaled > SURE_SCALED):
            return i, -1
    scale, whole = variables.scales[variable], variables.whole[variable]
    return i, level_in(place - first, value, scale, whole)


# A compiled loop from the bytes of JSON lines straight to codes.


HASH_START, HASH_FACTOR, HASH_MASK = 17, 16777619, 0x7FFFFFFF
MAX_PLAIN_DIGITS = 15  # of a whole number whose text is surely its own
FIRST_BITS = np.uint64(0x0101_0101_0101_0101)
BYTE_SUM = np.uint64(255)  # a word modulo it is the sum of its bytes, if that is small
FIRST_MARK, ONE = np.uint64(0x80), np.uint64(1)
SLOT_SHIFT = np.uint64(33)  # the upper bits of a product depend on all of its factors


@kernel
def scan(
    data: Bytes,
    is_unicode: bool,
    fields: Fields,
    tokens: Tokens,
    variables: Variables,
    found: Found,
) -> int:
    """Write the codes of every line that fits, and return the number of lines.

    That is ``UNFIT`` if there are more than there is room for.
    """
    size, n_lines, i = data.size, 0, 0
    fields.seen[:] = -1
    while i < size:
        i = _after_space(data, i, size)
        if i + 2 < size and data[i] == 0xEF and data[i + 1] == 0xBB and data[i + 2] == 0xBF:
            i = _after_space(data, i + 3, size)
        if i >= size or data[i] == NEWLINE:
            i += 1
            continue
        if n_lines == found.fits.size:
            return UNFIT
        start = i
        found.odd[n_lines, 0] = -1
        stop = _scan_line(data, i, n_lines, is_unicode, fields, tokens, variables, found)
        end = start if stop == UNFIT else _after_space(data, stop, size)
        fits = stop != UNFIT and (end == size or data[end] == NEWLINE)
        if not fits:
            while end < size and data[end] != NEWLINE:
                end += 1
            stop = end
            while stop > start and data[stop - 1] in (SPACE, TAB, RETURN):
                stop -= 1
        found.starts[n_lines] = start
        found.stops[n_lines] = stop
        found.fits[n_lines] = fits
        n_lines += 1
        i = end + 1
    return n_lines


@inlined
def _scan_line(
    data: Bytes,
    i: int,
    row: int,
    is_unicode: bool,
    fields: Fields,
    tokens: Tokens,
    variables: Variables,
    found: Found,
) -> int:
    """Write the codes of one line and return where its object ends."""
    n_seen, previous = 0, fields.variables.size
    while True:
        field, value = _linked_field(data, i, previous, fields)
        if field == UNFIT:
            field, value = _next_field(data, i, previous, fields)
        if field == ENDED:
            i = value
            break
        if field == UNFIT or fields.seen[field] == row:
            return UNFIT
        fields.seen[field] = row
        previous = field
        variable = fields.variables[field]
        if variable == SKIPPED:
            i = _skip_value(data, value, is_unicode)
        else:
            i = _code_value(data, value, row, variable, is_unicode, tokens, variables, found)
            n_seen += 1
        if i == UNFIT:
            return UNFIT
    if n_seen < variables.missing.size:
        for variable in range(variables.missing.size):
            if fields.seen[variable] != row:
                if variables.missing[variable] < 0:
                    return UNFIT
                found.codes[variable, row] = variables.missing[variable]
    return i


@inlined
def _linked_field(data: Bytes, i: int, previous: int, fields: Fields) -> tuple[int, int]:
    """Return the field that came next last time and the place of its value, if all is as then."""
    left = fields.link_sizes[previous]
    if left == 0 or i + LINK_BYTES > data.size:
        return UNFIT, i
    k = previous * LINK_BYTES
    while left > WORD_BYTES:
        if word_at(data, i) != word_at(fields.links, k):
            return UNFIT, i
        i += WORD_BYTES
        k += WORD_BYTES
        left -= WORD_BYTES
    if (word_at(data, i) & first_bytes(left)) != word_at(fields.links, k):
        return UNFIT, i
    return fields.followers[previous], i + left


@inlined
def _next_field(data: Bytes, i: int, previous: int, fields: Fields) -> tuple[int, int]:
    """Return the field that follows a value, or the start of a line, and the place of its value.

    At the end of the object that is ``ENDED`` and the place after it. What stands in between is
    kept, to be known by its bytes the next time.
    """
    size, after, first = data.size, i, previous == fields.variables.size
    i = _after_space(data, i, size)
    if i < size and data[i] == CLOSE_OBJECT and not first:
        return ENDED, i + 1
    if i >= size or data[i] != (OPEN_OBJECT if first else COMMA):
        return UNFIT, i
    i = _after_space(data, i + 1, size)
    if first and i < size and data[i] == CLOSE_OBJECT:
        return ENDED, i + 1
    field, i = _name(data, i, fields)
    i = _after_space(data, i, size)
    if field == UNFIT or i >= size or data[i] != COLON:
        return UNFIT, i
    i = _after_space(data, i + 1, size)
    fields.link_sizes[previous] = 0
    if i - after <= LINK_BYTES:
        link = previous * LINK_BYTES
        for k in range(LINK_BYTES):
            fields.links[link + k] = data[after + k] if k < i - after else 0
        fields.link_sizes[previous] = i - after
        fields.followers[previous] = field
    return field, i


@inlined
def _after_space(data: Bytes, i: int, size: int) -> int:
    while i < size and (data[i] == SPACE or data[i] == TAB or data[i] == RETURN):
        i += 1
    return i


@inlined
def _name(data: Bytes, i: int, fields: Fields) -> tuple[int, int]:
    """Return the field whose quoted name stands here, and the place after it."""
    size = data.size
    if i >= size or data[i] != QUOTE:
        return UNFIT, i
    i += 1
    start, code = i, HASH_START
    while i < size and data[i] != QUOTE:
        if data[i] < FIRST_VISIBLE or data[i] == BACKSLASH:
            return UNFIT, i
        code = ((code ^ np.int64(data[i])) * HASH_FACTOR) & HASH_MASK
        i += 1
    mask = fields.slots.size - 1
    slot = code & mask
    while fields.slots[slot] >= 0:
        field = fields.slots[slot]
        if _same(data, start, i, fields.text, fields.starts[field], fields.starts[field + 1]):
            return field, i + 1
        slot = (slot + 1) & mask
    return UNFIT, i


@inlined
def _same(data: Bytes, start: int, stop: int, text: Bytes, first: int, last: int) -> bool:
    if stop - start != last - first:
        return False
    for k in range(stop - start):
        if data[start + k] != text[first + k]:
            return False
    return True


@inlined
def _known_text(data: Bytes, start: int, variable: int, tokens: Tokens) -> tuple[int, int]:
    """Return the token that stands here from a quote to the next one, and the place after it."""
    i, code = start, np.uint64(0)
    while i + WORD_BYTES <= data.size:
        word = word_at(data, i)
        marks = places_of(QUOTES, word)
        if i == start:
            marks ^= FIRST_MARK
        if marks:
            until_quote = marks ^ (marks - ONE)
            word &= until_quote
            # Not by way of the token, so that the next field need not wait for it.
            stop = i + np.int64((until_quote & FIRST_BITS) % BYTE_SUM)
            code = mixed(code, word)
            mask, first = tokens.masks[variable], tokens.first_slots[variable]
            slot = np.int64(code >> SLOT_SHIFT) & mask
            while tokens.word_slots[first + slot] >= 0:
                token = tokens.word_slots[first + slot]
                if _same_words(data, start, i, word, tokens, token):
                    return token, stop
                slot = (slot + 1) & mask
            return UNFIT, stop
        code = mixed(code, word)
        i += WORD_BYTES
    return UNFIT, i


@inlined
def _same_words(
    data: Bytes, start: int, last: int, last_word: np.uint64, tokens: Tokens, token: int
) -> bool:
    """Whether the words of a token are those of a text, the last one being given."""
    k = tokens.starts[token]
    if k + last - start >= tokens.stops[token]:
        return False
    while start < last:
        if word_at(data, start) != word_at(tokens.text, k):
            return False
        start += WORD_BYTES
        k += WORD_BYTES
    return last_word == word_at(tokens.text, k)


@inlined
def _code_value(
    data: Bytes,
    i: int,
    row: int,
    variable: int,
    is_unicode: bool,
    tokens: Tokens,
    variables: Variables,
    found: Found,
) -> int:
    """Write the code of the value that stands here and return the place after it."""
    size, start, code = data.size, i, HASH_START
    plain = True  # whether the bytes of a text are the text
    if i >= size:
        return UNFIT
    is_text = data[i] == QUOTE
    if is_text:
        token, stop = _known_text(data, i, variable, tokens)
        if token >= 0:
            found.codes[variable, row] = tokens.codes[token]
            return stop
    if is_text:
        i += 1
        while i < size and data[i] != QUOTE:
            if data[i] < FIRST_VISIBLE:
                return UNFIT
            if data[i] == BACKSLASH:
                plain = False
                code = ((code ^ np.int64(data[i])) * HASH_FACTOR) & HASH_MASK
                i += 1
                if i >= size:
                    return UNFIT
            plain = plain and (data[i] < FIRST_WIDE or is_unicode)
            code = ((code ^ np.int64(data[i])) * HASH_FACTOR) & HASH_MASK
            i += 1
        if i >= size:
            return UNFIT
        i += 1
        # The library reads "3.0" as 3.
        plain = plain and not (i - start > 3 and data[i - 2] == ZERO and data[i - 3] == POINT)
    elif variables.numeric[variable] and (
        data[i] == MINUS or (data[i] >= ZERO and data[i] <= NINE)
    ):
        i, place = bin_at(data, i, variable, variables)
        found.codes[variable, row] = max(place, 0)
        return i if place >= 0 else UNFIT
    else:
        while i < size and data[i] > SPACE and data[i] != COMMA and data[i] != CLOSE_OBJECT:
            code = ((code ^ np.int64(data[i])) * HASH_FACTOR) & HASH_MASK
            plain = plain and data[i] >= ZERO and data[i] <= NINE
            i += 1
        plain = plain and i - start <= MAX_PLAIN_DIGITS
        plain = plain and i > start and (data[start] != ZERO or i - start == 1)
    mask, first = tokens.masks[variable], tokens.first_slots[variable]
    slot = code & mask
    while tokens.slots[first + slot] >= 0:
        token = tokens.slots[first + slot]
        if _same(data, start, i, tokens.text, tokens.starts[token], tokens.stops[token]):
            found.codes[variable, row] = tokens.codes[token]
            return i
        slot = (slot + 1) & mask
    if plain and variables.others[variable] >= 0:
        found.codes[variable, row] = variables.others[variable]
        return i
    found.odd[row, 0] = variable
    found.odd[row, 1] = start
    found.odd[row, 2] = i
    return UNFIT


@inlined
def _skip_value(data: Bytes, i: int, is_unicode: bool) -> int:
    """Return the place after a text, number or constant, if it is surely well formed."""
    size = data.size
    if i >= size:
        return UNFIT
    if data[i] == QUOTE:
        i += 1
        while i < size and data[i] != QUOTE:
            if data[i] < FIRST_VISIBLE or (data[i] >= FIRST_WIDE and not is_unicode):
                return UNFIT
            if data[i] == BACKSLASH:
                i += 1
                # b, f, n, r, t, slash, quote, backslash; others are rare
                if i >= size or data[i] not in (98, 102, 110, 114, 116, 47, QUOTE, BACKSLASH):
                    return UNFIT
            i += 1
        return i + 1 if i < size else UNFIT
    if data[i] == MINUS or (data[i] >= ZERO and data[i] <= NINE):
        i, _, power = number_at(data, i)
        return i if i >= 0 and abs(power) <= MAX_POWER else UNFIT
    if i + 4 <= size and data[i] == 110:  # null
        return i + 4 if data[i + 1] == 117 and data[i + 2] == 108 and data[i + 3] == 108 else UNFIT
    if i + 4 <= size and data[i] == 116:  # true
        return i + 4 if data[i + 1] == 114 and data[i + 2] == 117 and data[i + 3] == 101 else UNFIT
    if i + 5 <= size and data[i] == 102 and data[i + 1] == 97:  # false
        whole = data[i + 2] == 108 and data[i + 3] == 115 and data[i + 4] == 101
        return i + 5 if whole else UNFIT
    return UNFIT


# Compiled loops that find the records of a text.


Hashes = npt.NDArray[np.uint64]

MAX_OPENED = 64
"""Brackets of a line up to which Arrow's parser surely needs no deep stack."""


class Spans(NamedTuple):
    """Lines that are not blank, without the white space around them."""

    starts: Integers  # [lines]
    stops: Integers  # [lines]
    plain: npt.NDArray[np.bool_]  # [lines]: an object at first sight, and not deep


@kernel
def find_lines(
    data: Bytes, lines: Spans, paths: Hashes, slots: Hashes, n_most: int
) -> tuple[int, int]:
    """Write the lines of a text; return how many there are, and how many different fields.

    A field is known by the hash of its name and of those around it; they are counted up to one more
    than ``n_most``. ``paths`` has room for one hash a level and starts with a key; ``slots`` is
    empty and larger than ``n_most``.
    """
    size, n_lines, n_fields, i = data.size, 0, 0, 0
    while i < size:
        start, opened, depth, code = i, 0, 0, paths[0]
        while i < size and data[i] != NEWLINE:
            byte = data[i]
            i += 1
            if byte == QUOTE:
                i, code = _text_at(data, i, paths[depth])
            elif byte == COLON:
                n_fields += n_fields <= n_most and _put_hash(slots, code)
            elif byte == COMMA:
                code = paths[depth]
            elif byte == OPEN_OBJECT or byte == OPEN_LIST:
                opened += 1
                depth = min(depth + 1, paths.size - 1)
                paths[depth] = code
            elif byte == CLOSE_OBJECT or byte == CLOSE_LIST:
                depth = max(depth - 1, 0)
        start = line_start(data, start, i)
        stop = line_stop(data, start, i)
        i += 1
        if start < stop:
            lines.starts[n_lines] = start
            lines.stops[n_lines] = stop
            whole = data[start] == OPEN_OBJECT and data[stop - 1] == CLOSE_OBJECT
            lines.plain[n_lines] = whole and opened <= MAX_OPENED
            n_lines += 1
    return n_lines, n_fields


@inlined
def _text_at(data: Bytes, i: int, code: np.uint64) -> tuple[int, np.uint64]:
    """Return the place after a text whose first quote stands before ``i``, and its hash.

    A text that does not close ends with its line.
    """
    size = data.size
    while True:
        word = word_at(data, i) if i + WORD_BYTES <= size else _last_word(data, i)
        marks = places_of(QUOTES, word) | places_of(BACKSLASHES, word) | places_of(NEWLINES, word)
        if not marks:
            code = mixed(code, word)
            i += WORD_BYTES
            continue
        until_mark = marks ^ (marks - ONE)
        code = mixed(code, word & until_mark)
        i += np.int64((until_mark & FIRST_BITS) % BYTE_SUM)
        if i > size or data[i - 1] == NEWLINE:
            return i - 1, code
        if data[i - 1] == QUOTE:
            return i, code
        if i < size and data[i] != NEWLINE:
            code = mixed(code, np.uint64(data[i]))
            i += 1


@inlined
def _last_word(data: Bytes, i: int) -> np.uint64:
    """Return the word that starts here as if line ends stood behind the end."""
    word = NEWLINES
    for k in range(data.size - 1, i - 1, -1):
        word = word << np.uint64(8) | np.uint64(data[k])
    return word


@kernel
def _put_hash(slots: Hashes, code: np.uint64) -> bool:
    """Put a hash into a table, and say whether it is new; 0 marks an empty slot."""
    mask = slots.size - 1
    code |= np.uint64(1)
    slot = np.int64(code >> np.uint64(33)) & mask
    while slots[slot] != np.uint64(0):
        if slots[slot] == code:
            return False
        slot = (slot + 1) & mask
    slots[slot] = code
    return True


@kernel
def line_start(data: Bytes, start: int, stop: int) -> int:
    """Return where the text of a line starts, after white space and a byte order mark."""
    while start < stop and data[start] in (SPACE, TAB, RETURN):
        start += 1
    marked = start + 2 < stop and data[start] == 0xEF
    if marked and data[start + 1] == 0xBB and data[start + 2] == 0xBF:
        start += 3
        while start < stop and data[start] in (SPACE, TAB, RETURN):
            start += 1
    return start


@kernel
def line_stop(data: Bytes, start: int, stop: int) -> int:
    """Return where the text of a line stops."""
    while stop > start and data[stop - 1] in (SPACE, TAB, RETURN):
        stop -= 1
    return stop


class Items(NamedTuple):
    """How far an array of JSON was read."""

    depth: int  # brackets that are open, that of the array too; 0 behind its end
    in_text: bool
    escaped: bool  # whether a backslash stands before what comes next
    blank: bool  # whether nothing of the item that comes next was there yet
    n_items: int
    n_blank: int  # commas without an item before or after them


ITEMS = Items(1, False, False, True, 0, 0)
"""Behind the bracket that opens an array."""


@kernel
def cut_items(data: Bytes, lines: Bytes, items: Items) -> tuple[int, int, Items]:
    """Write the items of an array, each on a line of its own, into a copy of it.

    They keep their places. A line break within an item becomes a space, and within a text, where
    JSON allows none, a control character. Returns where the first and the last item end, each with
    its comma or bracket and 0 if none does, and how far the array was read: no further than its
    end.
    """
    depth, in_text, escaped, blank, n_items, n_blank = items
    first, last, i = 0, 0, 0
    while i < data.size and depth > 0:
        byte = data[i]
        if in_text:
            if byte == NEWLINE:
                lines[i] = 1
            in_text = escaped or byte != QUOTE
            escaped = byte == BACKSLASH and not escaped
        elif byte == NEWLINE:
            lines[i] = SPACE
        elif depth == 1 and (byte == COMMA or byte == CLOSE_LIST):
            lines[i] = NEWLINE
            n_blank += blank and (byte == COMMA or n_items > 0)
            n_items += 1
            blank = True
            depth -= byte == CLOSE_LIST
            last = i + 1
            first = first if first else last
        else:
            in_text = byte == QUOTE
            depth += byte == OPEN_OBJECT or byte == OPEN_LIST
            # A brace that nothing opened belongs to its item: only a bracket ends the array.
            depth -= depth > 1 and (byte == CLOSE_OBJECT or byte == CLOSE_LIST)
            blank = blank and (byte == SPACE or byte == TAB or byte == RETURN)
        i += 1
    return first, last, Items(depth, in_text, escaped, blank, n_items, n_blank)


@kernel
def count_names(data: Bytes, start: int, stop: int) -> int:
    """Count the names of all objects in a JSON text: its colons outside of texts."""
    n_names, in_text, i = 0, False, start
    while i < stop:
        byte = data[i]
        if in_text:
            i += byte == BACKSLASH
            in_text = byte != QUOTE
        else:
            in_text = byte == QUOTE
            n_names += byte == COLON
        i += 1
    return n_names
