"""Several fields of each row as one number."""

from __future__ import annotations

import numpy as np

from driftbn.decision.cells import divided


def test_dividing_by_nothing_gives_nothing() -> None:
    assert divided(np.array([1.0, 4.0]), np.array([0.0, 2.0])).tolist() == [0.0, 2.0]
    assert divided(np.array([[6], [3]]), np.array([3, 0])).tolist() == [[2.0, 0.0], [1.0, 0.0]]
