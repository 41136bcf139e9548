"""The canonical text of a value, which decides what is one category.

- a boolean is ``true`` or ``false``;
- a whole number of any type is its integer text, so ``3`` and ``3.0`` are ``3``;
- any other number is its shortest exact decimal text, so ``0.5`` is ``0.5``;
- text stands as it is, spaces and case included, so ``"3"`` is ``3`` and ``"007"`` is not ``7``;
  only the usual text of a whole float loses its ``.0``, so ``"3.0"`` is ``3``;
- bytes are read as UTF-8, with backslash escapes for what is not UTF-8;
- ``None``, NaN, NaT, ``pandas.NA`` and Arrow nulls are ``__missing__``.

Texts ``__missing__`` and ``__other__`` in the data mean what they say.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final
from uuid import UUID

import numpy as np

from driftbn.variables import MISSING

ALLOWED: Final = "a cell must be text, a number, a boolean or missing"
"""What an error says about a value of another type."""
_WHOLE_FLOAT_TEXT: Final = re.compile(r"(-?(?:0|[1-9]\d*))\.0", re.ASCII)


def canonical_text(value: object) -> str:
    """Return the text that stands for a value; equal texts are one category.

    Raises
    ------
    TypeError
        If the value is no text, number, boolean or missing value.

    Examples
    --------
    >>> [canonical_text(v) for v in (3, 3.0, "3", "3.0", True, 0.5, " x", None)]
    ['3', '3', '3', '3', 'true', '0.5', ' x', '__missing__']
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        match = _WHOLE_FLOAT_TEXT.fullmatch(value)
        return str(int(match[1])) if match else str(value)
    if value is None or is_missing(value):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Real | Decimal):
        return _number_text(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not allowed: {ALLOWED}")


def declared_text(value: object) -> str:
    """Return the canonical text of a declared category.

    Only such a one can be of another type than a cell may be, such as an interval; it goes by its
    ``str``.
    """
    try:
        return canonical_text(value)
    except TypeError:
        return str(value)


def is_missing(value: object) -> bool:
    """Whether a value is NaN or NaT, which differ from themselves, or ``pandas.NA``.

    ``pandas.NA`` answers a comparison with itself.
    """
    equal = value == value
    return equal is value if not isinstance(equal, bool | np.bool_) else not equal


def _number_text(value: Any) -> str:
    if isinstance(value, Integral) or (math.isfinite(value) and value == int(value)):
        return str(int(value))
    return repr(float(value))
