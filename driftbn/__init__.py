"""driftbn watches event streams and says when the relations between their fields change."""

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

__version__ = "0.1.0"

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
