"""driftbn watches event streams and says when the relations between their fields change."""

from driftbn.config import Algorithm, ColliderRule, Knowledge, LearnerConfig, Statistic, WarmStart
from driftbn.diff import StructureDiff, compare, shd
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
from driftbn.graph import Dag, Edge, Pdag
from driftbn.learning import LearnedStructure, SearchCost, extend_to_dag, learn_structure
from driftbn.schema import Schema, SchemaConfig

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "ColliderRule",
    "ConfigError",
    "Dag",
    "DataError",
    "DriftbnError",
    "Edge",
    "FormatError",
    "GraphError",
    "Knowledge",
    "KnowledgeError",
    "LearnedStructure",
    "LearnerConfig",
    "MissingExtraError",
    "Pdag",
    "Schema",
    "SchemaConfig",
    "SearchCost",
    "Statistic",
    "StructureDiff",
    "UnknownVariableError",
    "VariableMismatchError",
    "WarmStart",
    "compare",
    "extend_to_dag",
    "learn_structure",
    "shd",
]
