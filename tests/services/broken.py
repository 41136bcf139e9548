"""Runs the command ``driftbn`` with monitors that fail over records with a field ``poison``.

``python -m tests.services.broken ARGUMENTS...``
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pyarrow as pa

from driftbn import DriftMonitor


def break_monitors() -> None:
    """Have monitors fail over poison, when it has already changed them."""
    update = DriftMonitor.update

    def poisoned(self: DriftMonitor, batch: Any) -> Any:
        reports = update(self, batch)
        if isinstance(batch, pa.Table) and "poison" in batch.column_names:
            raise ZeroDivisionError("poison")
        return reports

    DriftMonitor.update = poisoned  # type: ignore[method-assign]


if __name__ == "__main__":
    break_monitors()
    sys.exit(importlib.import_module("driftbn_service.cli").main(sys.argv[1:]))
