"""SSBN, Smart Search of Bayesian Networks (paper, section IV)."""

from __future__ import annotations

from driftbn.learning.rdsa import UNITS
from driftbn.learning.separators import SearchPlan


def ssbn_plan(max_size: int) -> SearchPlan:
    """Plan LSPC node by node, each member of a separator gaining 1/size (equation 4)."""
    shares = tuple(UNITS // size for size in range(1, max_size + 1))
    return SearchPlan(by_node=True, stable=False, credit=(0, *shares))
