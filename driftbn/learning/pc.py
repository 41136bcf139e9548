"""PC: all pairs of one conditioning size before the next size."""

from __future__ import annotations

from driftbn.learning.separators import SearchPlan


def pc_plan(max_size: int) -> SearchPlan:
    """Plan the order-independent PC: an edge that goes still serves the sets of its size."""
    return SearchPlan(by_node=False, stable=True, credit=(0,) * (max_size + 1))


def original_pc_plan(max_size: int) -> SearchPlan:
    """Plan the original PC: an edge that goes is gone at once; pairs in the order of names."""
    return SearchPlan(by_node=False, stable=False, credit=(0,) * (max_size + 1))
