"""A compiled loop from the bytes of JSON lines straight to codes.

It takes only what it knows in every byte: names of the schema, values that the library has given a
code before, numbers of a variable with bins. Everything else is a line that does not fit, which
somebody else must read.
"""

# A compiled loop cannot be cut where a branch ends, and numba sets the types inside it.
# ruff: noqa: C901, PLR0913, SIM110
# mypy: disable-error-code="no-any-return, return-value, assignment"

from __future__ import annotations

import numpy as np

from driftbn.kernels.compiled import inlined, kernel
from driftbn_service.decoding.scan_forms import (
    BACKSLASH,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    ENDED,
    FIRST_VISIBLE,
    FIRST_WIDE,
    LINK_BYTES,
    MINUS,
    NEWLINE,
    NINE,
    OPEN_OBJECT,
    POINT,
    QUOTE,
    RETURN,
    SKIPPED,
    SPACE,
    TAB,
    UNFIT,
    ZERO,
    Bytes,
    Fields,
    Found,
    Tokens,
    Variables,
)
from driftbn_service.decoding.scan_numbers import MAX_POWER, bin_at, number_at
from driftbn_service.decoding.scan_words import WORD_BYTES, first_bytes, mixed, quotes_in, word_at

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
    if n_seen < variables.fields.size:
        for variable in range(variables.fields.size):
            if fields.seen[variables.fields[variable]] != row:
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
        marks = quotes_in(word)
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
