"""The settings by which variables are inferred from a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from driftbn.config import check_integer, check_number, choice
from driftbn.errors import ConfigError
from driftbn.variables import MAX_LEVELS


class MissingPolicy(StrEnum):
    """What to do with a missing value."""

    LEVEL = "level"
    """It is the level ``__missing__``."""
    REJECT = "reject"
    """It is a ``DataError``."""


@dataclass(frozen=True)
class SchemaConfig:
    """How variables are inferred from a table.

    Parameters
    ----------
    max_levels
        Levels kept per variable, the most frequent first; 2 to 250.
    numeric_bins
        Quantile bins of a numeric variable; 2 to 250.
    integer_levels
        A column of whole numbers with at most this many distinct ones has a level for each; with
        more it is numeric. 0 to 250; 0 makes every such column numeric.
    missing
        What to do with missing values.
    id_like_ratio
        A text, categorical or integer column whose distinct values are more than this share of its
        present ones is left out; above 0, at most 1. 1 keeps all columns.
    id_like_min_rows
        Present values below which no column is called id-like; at least 2.
    keep_constant
        Whether a column with one value, or with none, is a variable too. Values that differ later
        are told apart: another level is ``__other__``, and another number lies in the bin below or
        above.
    keep_duplicates
        Whether a column that repeats another one is a variable too.

    Raises
    ------
    ConfigError
        If a value is not allowed.

    Examples
    --------
    >>> SchemaConfig(numeric_bins=3, missing="reject").missing
    <MissingPolicy.REJECT: 'reject'>
    """

    max_levels: int = 32
    numeric_bins: int = 4
    integer_levels: int = 16
    missing: MissingPolicy = MissingPolicy.LEVEL
    id_like_ratio: float = 0.95
    id_like_min_rows: int = 50
    keep_constant: bool = False
    keep_duplicates: bool = False

    def __post_init__(self) -> None:
        check_integer("max_levels", self.max_levels, 2, MAX_LEVELS)
        check_integer("numeric_bins", self.numeric_bins, 2, MAX_LEVELS)
        check_integer("integer_levels", self.integer_levels, 0, MAX_LEVELS)
        check_integer("id_like_min_rows", self.id_like_min_rows, 2)
        allowed = "a number above 0 and at most 1"
        check_number("id_like_ratio", self.id_like_ratio, allowed, math.ulp(0.0), 1.0)
        for name in ("keep_constant", "keep_duplicates"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(name, getattr(self, name), "True or False")
        object.__setattr__(self, "missing", choice(MissingPolicy, "missing", self.missing))
