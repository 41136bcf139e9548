"""Some windows taken together, as they are compared with others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from driftbn.decision.blocks import BlockSums
from driftbn.decision.plan import TestPlan
from driftbn.kernels.deviance import measure_association
from driftbn.kernels.evidence import Floats
from driftbn.kernels.tables import Counts
from driftbn.learning.independence import Codes, n_log_n_table

FIRST_TABLE = 1 << 16


class LogTable:
    """Values of n ln n from 0 on, made longer when more rows are compared."""

    def __init__(self) -> None:
        self._values = n_log_n_table(FIRST_TABLE)

    def up_to(self, n_rows: int) -> Floats:
        """Return values for all counts of so many rows."""
        if n_rows >= len(self._values):
            self._values = n_log_n_table(2 * n_rows)
        return self._values


LOGS = LogTable()


class Group:
    """Some windows taken together.

    Parameters
    ----------
    plan
        By what they were counted.
    counts
        The counts.
    windows
        The rows in order of time.
    effects
        Design effect of each variable; 1 if not given.
    sums
        Sums over blocks of their rows, if some are known.
    """

    def __init__(
        self,
        plan: TestPlan,
        counts: Counts,
        windows: Sequence[Codes],
        effects: Floats | None = None,
        sums: BlockSums | None = None,
    ) -> None:
        self.plan = plan
        self.counts = counts
        self.windows = tuple(windows)
        self.effects = np.ones(plan.n_nodes) if effects is None else effects
        self.sums = BlockSums(windows, plan.tables.cards) if sums is None else sums

    @property
    def n_rows(self) -> int:
        """Rows of all windows."""
        return sum(codes.shape[1] for codes in self.windows)

    @cached_property
    def information(self) -> Floats:
        """For each test of a tie half of its G and the degrees of freedom, shape [2, ties]."""
        out = np.empty((2, self.plan.n_ties))
        tables, n_nodes = self.plan.tables, self.plan.n_nodes
        logs = LOGS.up_to(self.n_rows)
        measure_association(tables, n_nodes, self.counts, logs, out[0], out[1])
        return out
