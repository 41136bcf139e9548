"""The kernels are plain Python as well: the same tests pass with the compiler switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CHOSEN = [
    "kernels/test_subsets.py::test_heap_grows_in_the_middle_of_a_listing",
    "kernels/test_subsets.py::test_a_listing_starts_afresh_after_one_that_was_left",
    "kernels/test_chi_square.py::test_a_later_target_does_not_see_the_splits_of_an_earlier_one",
    "kernels/test_chi_square.py::test_first_separating_set_of_several_is_returned",
    "kernels/test_chi_square.py::test_order_zero_in_one_call_is_every_pair_tested_alone",
    "kernels/test_chi_square.py::test_levels_that_do_not_occur_take_no_degree_of_freedom",
    "kernels/test_deviance.py::test_codes_with_gaps_are_counted_by_their_numbers",
    "kernels/test_deviance.py::test_moments_are_those_of_the_binomial",
    "kernels/test_deviance.py::test_nodes_are_compared_state_by_state",
    "kernels/test_deviance.py::test_ends_are_compared_given_each_other",
    "kernels/test_deviance.py::test_association_is_half_of_g",
    "kernels/test_deviance.py::test_change_is_that_of_b_less_that_of_both_groups",
    "kernels/test_moments.py::test_moments_are_the_products_of_the_counts_of_blocks",
    "kernels/test_moments.py::test_squares_are_those_of_the_scores_of_blocks",
    "kernels/test_states.py::test_sums_are_those_of_the_counts_of_blocks",
    "kernels/test_states.py::test_states_are_counted_block_by_block",
    "kernels/test_states.py::test_rows_are_numbered_by_their_members_the_last_one_fastest",
    "kernels/test_search.py::test_search_on_data_is_that_of_the_twin[asia-ssbn-none]",
    "kernels/test_search.py::test_directions_on_data_are_those_of_the_twin[asia-contrast]",
    "learning/test_orientation.py::test_small_graph_is_directed_as_far_as_it_can_be",
    "learning/test_orientation.py::test_anchor_without_a_common_variable_is_an_error",
]


def test_kernels_run_without_the_compiler() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"tests/unit/{test}" for test in CHOSEN)],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
