"""FSBN, Fast Search of Bayesian Networks (paper, section IV)."""

from __future__ import annotations

from driftbn.learning.rdsa import UNITS
from driftbn.learning.separators import SearchPlan


def fsbn_plan(max_size: int) -> SearchPlan:
    """Plan LSPC node by node, each member of a separator gaining 1 (LSPC line 16, equation 2)."""
    return SearchPlan(by_node=True, stable=False, credit=(0,) + (UNITS,) * max_size)
