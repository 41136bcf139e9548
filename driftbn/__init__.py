"""driftbn watches event streams and says when the relations between their fields change."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from driftbn.config import (
        Algorithm,
        ColliderRule,
        DecisionConfig,
        DriftKind,
        ErrorPolicy,
        Knowledge,
        LearnerConfig,
        MonitorConfig,
        SchemaConfig,
        Statistic,
        WarmStart,
        WindowConfig,
    )
    from driftbn.drift.outcome import (
        Association,
        ChangeType,
        DriftDecision,
        DriftLevel,
        EdgeChange,
        NodeChange,
        Severity,
    )
    from driftbn.drift.trust import CalibrationReport
    from driftbn.errors import (
        ConfigError,
        DataError,
        DriftbnError,
        FormatError,
        GraphError,
        KnowledgeError,
        MissingExtraError,
        UnknownVariableError,
        VariableMismatchError,
    )
    from driftbn.graphs.graph import Dag, Edge, Pdag, StructureDiff, compare, shd
    from driftbn.learning import LearnedStructure, SearchCost, extend_to_dag, learn_structure
    from driftbn.monitor import DriftMonitor, compare_data
    from driftbn.report import DataComparison, WindowReport
    from driftbn.tables.schema import Schema

__version__ = "0.2.0"

__all__ = [
    "Algorithm",
    "Association",
    "CalibrationReport",
    "ChangeType",
    "ColliderRule",
    "ConfigError",
    "Dag",
    "DataComparison",
    "DataError",
    "DecisionConfig",
    "DriftDecision",
    "DriftKind",
    "DriftLevel",
    "DriftMonitor",
    "DriftbnError",
    "Edge",
    "EdgeChange",
    "ErrorPolicy",
    "FormatError",
    "GraphError",
    "Knowledge",
    "KnowledgeError",
    "LearnedStructure",
    "LearnerConfig",
    "MissingExtraError",
    "MonitorConfig",
    "NodeChange",
    "Pdag",
    "Schema",
    "SchemaConfig",
    "SearchCost",
    "Severity",
    "Statistic",
    "StructureDiff",
    "UnknownVariableError",
    "VariableMismatchError",
    "WarmStart",
    "WindowConfig",
    "WindowReport",
    "compare",
    "compare_data",
    "extend_to_dag",
    "learn_structure",
    "shd",
]

_HOMES: Final = (
    "config", "errors", "graphs.graph", "tables.schema", "drift.outcome", "learning", "monitor",
)  # fmt: skip
"""Modules that have these names, the lightest first. They are imported when a name is first used:
all of them take a second."""
_MODULES: Final = frozenset(("datasets", "river", "testing"))
"""Modules for users, which need not be imported by themselves."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"driftbn.{name}")
    for home in _HOMES if name in __all__ else ():
        found = vars(import_module(f"driftbn.{home}"))
        if name in found:
            globals()[name] = found[name]
            return found[name]
    raise AttributeError(f"module 'driftbn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES])
