"""What holds for all tests.

A test imports public names, and what else it needs of a room from the one helper that knows its
modules: ``encoded`` and ``intake_parts`` (tables), ``networks`` (graphs), ``reports`` (decisions),
``decoding`` (records and chunks), ``settings_files``, ``outlet_parts``, ``http_service``. Kernels,
search and statistics are tested where they are.
"""

import pytest
from hypothesis import settings

# A busy machine is no fault of the code: no example has to be done in a given time.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

QUICK = {"test_episodes.py", "test_method.py", "test_naming.py"}
"""Of the tests of the decision, which simulate level and power, those that do not."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "drift" and item.path.name not in QUICK:
            item.add_marker(pytest.mark.slow)
