"""XMLBIF 0.3: the Bayesian interchange format in XML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from driftbn.errors import FormatError, GraphError
from driftbn.network import MAX_CELLS, BayesianNetwork, FloatArray, checked_cpt

_TAGS = frozenset(
    (
        "BIF",
        "NETWORK",
        "NAME",
        "VARIABLE",
        "OUTCOME",
        "DEFINITION",
        "FOR",
        "GIVEN",
        "TABLE",
        "PROPERTY",
    )
)
# Characters that XML 1.0 cannot carry, not even as references (XML 1.0, production 2).
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_xmlbif(text: str) -> BayesianNetwork:
    """Read a network in XMLBIF.

    A document type may declare the elements of XMLBIF and nothing else: entities are refused, and
    nothing outside the text is fetched. White space around a name is dropped unless the element
    says ``xml:space="preserve"``.

    Parameters
    ----------
    text
        The whole file; an encoding named in it is ignored.

    Returns
    -------
    BayesianNetwork
        Nodes in the order of their ``VARIABLE`` elements.

    Raises
    ------
    FormatError
        If the text is not XMLBIF or the network not sound.

    Examples
    --------
    >>> coin = BayesianNetwork(["coin"], [["heads", "tails"]], [[]], [[[0.5, 0.5]]])
    >>> read_xmlbif(write_xmlbif(coin)) == coin
    True
    """
    network = _network_element(_parsed(text))
    states = dict(_variables(network))
    parents: dict[str, list[str]] = {}
    tables: dict[str, FloatArray] = {}
    for definition in network.iterfind("DEFINITION"):
        node = _one_text(definition, "FOR")
        if node in tables:
            raise FormatError(f"variable {node!r} has two DEFINITION elements")
        parents[node] = _texts(definition, "GIVEN")
        for name in (node, *parents[node]):
            if name not in states:
                raise FormatError(f"DEFINITION of {node!r}: no VARIABLE is called {name!r}")
        tables[node] = _table(definition, node, [len(states[p]) for p in (*parents[node], node)])
    undefined = [name for name in states if name not in tables]
    if undefined:
        raise FormatError(f"variable {undefined[0]!r} has no DEFINITION")
    try:
        return BayesianNetwork(
            states, states.values(), [parents[n] for n in states], [tables[n] for n in states]
        )
    except GraphError as error:
        raise FormatError(str(error)) from error


def write_xmlbif(network: BayesianNetwork) -> str:
    """Write a network in XMLBIF; `read_xmlbif` gives back an equal network.

    Raises
    ------
    FormatError
        If a name holds a character that XML cannot carry, such as a null.

    Examples
    --------
    >>> coin = BayesianNetwork(["coin"], [["heads", "tails"]], [[]], [[[0.5, 0.5]]])
    >>> print(write_xmlbif(coin), end="")
    <?xml version="1.0" encoding="UTF-8"?>
    <BIF VERSION="0.3">
    <NETWORK>
    <NAME>unknown</NAME>
    <VARIABLE TYPE="nature">
      <NAME>coin</NAME>
      <OUTCOME>heads</OUTCOME>
      <OUTCOME>tails</OUTCOME>
    </VARIABLE>
    <DEFINITION>
      <FOR>coin</FOR>
      <TABLE>0.5 0.5</TABLE>
    </DEFINITION>
    </NETWORK>
    </BIF>
    """
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines.append("<NAME>unknown</NAME>")
    for node, names in zip(network.nodes, network.states, strict=True):
        outcomes = [_element("OUTCOME", name) for name in names]
        lines += ['<VARIABLE TYPE="nature">', _element("NAME", node), *outcomes, "</VARIABLE>"]
    for node, parents, cpt in zip(network.nodes, network.parents, network.cpts, strict=True):
        given = [_element("GIVEN", parent) for parent in parents]
        numbers = " ".join(map(repr, cpt.ravel().tolist()))
        table = f"  <TABLE>{numbers}</TABLE>"
        lines += ["<DEFINITION>", _element("FOR", node), *given, table, "</DEFINITION>"]
    return "\n".join((*lines, "</NETWORK>", "</BIF>")) + "\n"


def _element(tag: str, name: str) -> str:
    foreign = _NOT_XML.search(name)
    if foreign:
        raise FormatError(f"name {name!r} holds {foreign[0]!r}, which XML cannot carry")
    opening = tag if name == name.strip() else f'{tag} xml:space="preserve"'
    # A bare carriage return would be read back as a line feed.
    return f"  <{opening}>{escape(name, {chr(13): '&#13;'})}</{tag}>"


def _parsed(text: str) -> ElementTree.Element:
    """Parse with expat directly, so that declarations can be refused as they are met."""
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = _refuse_entity
    parser.NotationDeclHandler = _refuse_entity
    parser.SkippedEntityHandler = _refuse_entity
    parser.ElementDeclHandler = _check_declared
    parser.AttlistDeclHandler = _check_declared
    try:
        parser.Parse(text.encode("utf-8"), True)
        return builder.close()
    except expat.ExpatError as error:
        raise FormatError(f"line {error.lineno}: not XML: {error}") from error
    except UnicodeEncodeError as error:
        raise FormatError(f"not XML: {error}") from error


def _refuse_entity(name: str, *_: Any) -> NoReturn:
    raise FormatError(f"entity {name!r}: entities and notations are not read in XMLBIF")


def _check_declared(name: str, *_: Any) -> None:
    if name not in _TAGS:
        raise FormatError(f"the document type declares {name!r}, which is no element of XMLBIF")


def _network_element(root: ElementTree.Element) -> ElementTree.Element:
    networks = root.findall("NETWORK")
    if root.tag != "BIF" or len(networks) != 1:
        raise FormatError(
            f"expected BIF with one NETWORK, found {root.tag[:60]!r} with {len(networks)}"
        )
    return networks[0]


def _variables(network: ElementTree.Element) -> Iterator[tuple[str, list[str]]]:
    seen: set[str] = set()
    for variable in network.iterfind("VARIABLE"):
        name = _one_text(variable, "NAME")
        kind = variable.get("TYPE", "nature")
        if kind != "nature":
            raise FormatError(f"variable {name!r} is of TYPE {kind!r}; only 'nature' is read")
        if name in seen:
            raise FormatError(f"variable {name!r} is declared twice")
        seen.add(name)
        outcomes = _texts(variable, "OUTCOME")
        if not outcomes:
            raise FormatError(f"variable {name!r} has no states")
        yield name, outcomes


def _texts(parent: ElementTree.Element, tag: str) -> list[str]:
    return [_text(element) for element in parent.iterfind(tag)]


def _text(element: ElementTree.Element) -> str:
    text = element.text or ""
    return text if element.get("xml:space") == "preserve" else text.strip()


def _one_text(parent: ElementTree.Element, tag: str) -> str:
    texts = _texts(parent, tag)
    if len(texts) != 1:
        raise FormatError(f"{parent.tag} has {len(texts)} {tag} elements; it must have one")
    return texts[0]


def _table(definition: ElementTree.Element, node: str, cards: list[int]) -> FloatArray:
    """Read the numbers of a definition; the child's states change fastest."""
    n_cells = math.prod(cards)
    if n_cells > MAX_CELLS:
        raise FormatError(
            f"the TABLE of {node!r} has {n_cells} cells; at most {MAX_CELLS} are read"
        )
    words = _one_text(definition, "TABLE").split()
    try:
        numbers = [float(word) for word in words]
    except ValueError as error:
        raise FormatError(f"the TABLE of {node!r}: {error}") from error
    if len(numbers) != n_cells:
        raise FormatError(f"the TABLE of {node!r} has {len(numbers)} numbers; it needs {n_cells}")
    shape = (math.prod(cards[:-1]), cards[-1])
    try:
        return checked_cpt(node, np.array(numbers).reshape(shape), shape)
    except GraphError as error:
        raise FormatError(str(error)) from error
