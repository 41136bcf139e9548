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
    "kernels/test_chi_square.py::test_a_later_target_does_not_see_the_splits_of_an_earlier_one",
    "kernels/test_chi_square.py::test_first_separating_set_of_several_is_returned",
    "kernels/test_chi_square.py::test_order_zero_in_one_call_is_every_pair_tested_alone",
    "kernels/test_chi_square.py::test_levels_that_do_not_occur_take_no_degree_of_freedom",
    "kernels/test_deviance.py::test_codes_with_gaps_are_counted_by_their_numbers",
    "kernels/test_deviance.py::test_moments_are_those_of_the_binomial",
    "drift/test_comparison.py::test_nodes_have_the_deviance_and_the_p_value_of_the_formula",
    "drift/test_comparison.py::test_interactions_have_the_statistic_of_the_formula",
    "drift/test_comparison.py::test_a_pair_changes_where_interaction_and_an_end_do",
    "drift/test_dispersion.py::test_moments_are_those_of_the_rows",
    "drift/test_dispersion.py::test_cells_are_the_joint_codes_of_all_rows",
    "drift/test_dispersion.py::test_scores_of_blocks_are_those_of_their_rows_added_up",
    "drift/test_dispersion.py::test_nothing_is_said_where_no_state_is_backed_well",
    "kernels/test_search.py::test_search_on_data_is_that_of_the_twin[asia-ssbn-none]",
    "kernels/test_search.py::test_directions_on_data_are_those_of_the_twin[asia-contrast]",
    "learning/test_orientation.py::test_extension_of_a_class_belongs_to_it",
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
