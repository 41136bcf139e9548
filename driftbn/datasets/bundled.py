"""The networks that come with the package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from driftbn.errors import ConfigError
from driftbn.formats import read_bif
from driftbn.network import BayesianNetwork

NAMES = ("alarm", "asia")
"""What `load` knows."""


@cache
def load(name: str) -> BayesianNetwork:
    """Return a bundled network by name.

    Parameters
    ----------
    name
        ``"asia"`` (8 nodes, Lauritzen and Spiegelhalter 1988) or ``"alarm"`` (37 nodes, Beinlich
        and others 1989).

    Raises
    ------
    ConfigError
        If there is no such network.

    Examples
    --------
    >>> load("asia")
    <BayesianNetwork: 8 nodes, 8 arcs>
    """
    if name not in NAMES:
        raise ConfigError("name", name, f"one of {', '.join(NAMES)}")
    text = resources.files("driftbn.datasets").joinpath(f"{name}.bif").read_text("utf-8")
    return read_bif(text)


def asia() -> BayesianNetwork:
    """Return the Asia network: 8 binary nodes, 8 arcs.

    Examples
    --------
    >>> asia().dag.parents("dysp")
    ('bronc', 'either')
    """
    return load("asia")


def alarm() -> BayesianNetwork:
    """Return the Alarm network: 37 nodes with 2 to 4 states, 46 arcs.

    Examples
    --------
    >>> alarm()
    <BayesianNetwork: 37 nodes, 46 arcs>
    """
    return load("alarm")
