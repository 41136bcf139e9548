"""Learning the structure of a table: PC, FSBN and SSBN."""

from driftbn.learning.independence import ChiSquareTest, IndependenceTest, PackedTable, SearchCost
from driftbn.learning.learner import (
    LearnedStructure,
    LearnedWindow,
    MakeTest,
    StructureLearner,
    learn_structure,
)
from driftbn.learning.orientation import extend_to_dag
from driftbn.learning.search import Overrun, RdsaTally, SeparatorMap

__all__ = [
    "ChiSquareTest",
    "IndependenceTest",
    "LearnedStructure",
    "LearnedWindow",
    "MakeTest",
    "Overrun",
    "PackedTable",
    "RdsaTally",
    "SearchCost",
    "SeparatorMap",
    "StructureLearner",
    "extend_to_dag",
    "learn_structure",
]
