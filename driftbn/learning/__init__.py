"""Learning the structure of a table: PC, FSBN and SSBN."""

from driftbn.learning.base import IndependenceTest, SearchCost
from driftbn.learning.independence import ChiSquareTest
from driftbn.learning.learner import LearnedStructure, StructureLearner, learn_structure
from driftbn.learning.limits import Overrun
from driftbn.learning.orientation import extend_to_dag
from driftbn.learning.rdsa import RdsaTally
from driftbn.learning.separators import SeparatorMap

__all__ = [
    "ChiSquareTest",
    "IndependenceTest",
    "LearnedStructure",
    "Overrun",
    "RdsaTally",
    "SearchCost",
    "SeparatorMap",
    "StructureLearner",
    "extend_to_dag",
    "learn_structure",
]
