"""Networks with known truth and rows drawn from them."""

from driftbn.datasets.bundled import alarm, asia, load
from driftbn.datasets.random_networks import random_dag, random_network
from driftbn.datasets.sampling import sample, sample_codes

__all__ = ["alarm", "asia", "load", "random_dag", "random_network", "sample", "sample_codes"]
