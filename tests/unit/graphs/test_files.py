from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from driftbn import Dag, Pdag
from driftbn.errors import FormatError
from tests.networks import (
    NAMES,
    BayesianNetwork,
    graph_from_dict,
    graph_to_dict,
    load,
    read_bif,
    write_bif,
    write_dot,
)

VARIABLES = """
variable a { type discrete [ 2 ] { no, yes }; }
variable b { type discrete [ 3 ] { low, mid, high }; }
variable c { type discrete [ 2 ] { no, yes }; }
"""
ROOTS = "probability ( a ) { table 0.8, 0.2; } probability ( b ) { table 0.5, 0.25, 0.25; }"

HARD_NAMES = [
    'say "hi"', "two words", "line\nfeed", "carriage\rreturn", "tab\t", "back\\slash", "\\n", "\\",
    "", " ", " edges ", "table", "default", "variable", "a,b", "{}", "(x|y);", "// no comment",
    "/* nor this */", "a//b", "x/*y", "<b>&amp;</b>", "]]>", "ünïcödé", "日本", "0", "-1.5e3", "<5",
    ">=10", "\u2028", "\x85", "\xa0", "'single'", "#", "=",
]  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(HARD_NAMES)


@st.composite
def named_networks(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> BayesianNetwork:
    nodes = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    states = [draw(st.lists(texts, min_size=1, max_size=3, unique=True)) for _ in nodes]
    parents = [draw(st.lists(st.sampled_from(nodes[:i]), unique=True)) if i else []
               for i in range(len(nodes))]  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    cards = dict(zip(nodes, map(len, states), strict=True))
    tables = [
        rng.dirichlet([0.5] * cards[node], size=int(np.prod([cards[p] for p in above], dtype=int)))
        for node, above in zip(nodes, parents, strict=True)
    ]
    return BayesianNetwork(nodes, states, parents, tables)


def hard_network() -> BayesianNetwork:
    table = np.full((1, len(HARD_NAMES)), 1 / len(HARD_NAMES))
    n_nodes = len(HARD_NAMES)
    return BayesianNetwork(HARD_NAMES, [HARD_NAMES] * n_nodes, [[]] * n_nodes, [table] * n_nodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_known_networks_survive_bif(name: str) -> None:
    network = load(name)
    text = write_bif(network)
    assert read_bif(text) == network
    assert write_bif(read_bif(text)) == text


@pytest.mark.slow
@given(named_networks(TEXTS))
@settings(max_examples=100)
@example(hard_network())
def test_any_names_survive_bif(network: BayesianNetwork) -> None:
    assert read_bif(write_bif(network)) == network


def weather() -> BayesianNetwork:
    return BayesianNetwork(
        ["wet ground", "rain"],
        [["no", "yes"], ["none", "some", "> 5mm"]],
        [["rain"], []],
        [[[1.0, 0.0], [0.25, 0.75], [0.1, 0.9]], [[0.7, 0.2, 0.1]]],
    )


def test_bif_is_written_as_expected() -> None:
    assert write_bif(weather()).splitlines() == [
        "network unknown {",
        "}",
        'variable "wet ground" {',
        "  type discrete [ 2 ] { no, yes };",
        "}",
        "variable rain {",
        '  type discrete [ 3 ] { none, some, "> 5mm" };',
        "}",
        'probability ( "wet ground" | rain ) {',
        "  (none) 1.0, 0.0;",
        "  (some) 0.25, 0.75;",
        '  ("> 5mm") 0.1, 0.9;',
        "}",
        "probability ( rain ) {",
        "  table 0.7, 0.2, 0.1;",
        "}",
    ]


def test_entries_may_come_in_any_order() -> None:
    text = (
        VARIABLES
        + ROOTS
        + """
    probability ( c | a, b ) {
      (yes, high) 0.0, 1.0;  (no, low) 0.1, 0.9;  (yes, low) 0.2, 0.8;
      (no, high) 0.3, 0.7;  (yes, mid) 0.4, 0.6;  (no, mid) 0.5, 0.5;
    }"""
    )
    assert read_bif(text).cpt("c")[:, 0].tolist() == [0.1, 0.5, 0.3, 0.2, 0.4, 0.0]


def test_default_fills_what_entries_leave_out() -> None:
    text = VARIABLES + ROOTS + "probability (c|b) { default 0.4 0.6; (mid) 1 0; }"
    assert read_bif(text).cpt("c").tolist() == [[0.4, 0.6], [1.0, 0.0], [0.4, 0.6]]


def test_table_with_parents_has_the_states_of_the_child_slowest() -> None:
    text = VARIABLES + ROOTS + "probability (c|b) { table 0.1 0.2 0.3 0.9 0.8 0.7; }"
    assert read_bif(text).cpt("c").tolist() == [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]


def test_comments_properties_and_missing_commas_are_read_over() -> None:
    text = """
    // the dog problem
    network "with a name" { property author "someone; else"; property version 1, 2; }
    variable "light on" /* a long
       comment */ {
      property position = (10, 20) ;
      type discrete[2]{"true" "false"};
    }
    variable out { type discrete [2] {true,false}; property x; }
    probability ( "light on" ) { property note; table 0.25 .75; }
    probability ( out "light on" ) { // no bar
      ("true") 1e-1, 9E-1;
      ("false") 0.5 0.5;
    }
    """
    network = read_bif(text)
    assert network.nodes == ("light on", "out")
    assert network.parents[1] == ("light on",)
    assert network.cpt("out").tolist() == [[0.1, 0.9], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("bayes x { }", 1, "expected 'network', 'variable' or 'probability', found 'bayes'"),
        ('\n\n"network" x { }', 3, "expected 'network'"),
        ("network x", 1, "expected '{', found the end of the text"),
        ("network x { state y; }", 1, "expected 'property' or '}', found 'state'"),
        ("network x { property y", 1, "not ended by ';'"),
        ('variable "a', 1, "a quoted name begins here and is never closed"),
        ("\nvariable a /* never", 2, "a comment begins here and is never closed"),
        ("variable { }", 1, "expected the name of a variable, found '{'"),
        ("variable a\n{ }", 1, "variable 'a' has no type"),
        ("variable a {\n type discrete [ 3 ] { x, y }; }", 2, "'3' states declared, 2 listed"),
        ("variable a { type discrete [ 0 ] { }; }", 1, "must have states"),
        ("variable a { type discrete [ 2 ] { x, x }; }", 1, "each named once"),
        ("variable a { type real; }", 1, "only 'discrete' variables are read, found 'real'"),
        ("variable a { type discrete [ 2 ] { x, y } }", 1, "expected ';', found '}'"),
        ("variable a { type discrete [ 2 ] { x, y", 1, "expected the name of a state"),
        (VARIABLES + "variable a { type discrete [1] {x}; }", 5, "'a' is declared twice"),
        (VARIABLES + "probability ( z ) { }", 5, "'z' is not declared above"),
        (VARIABLES + "probability ( a | z ) { }", 5, "'z' is not declared above"),
        (VARIABLES + "probability ( a | b { }", 5, "expected the name of a parent, found '{'"),
        (VARIABLES + ROOTS, 5, "variable 'c' has no probability block"),
        (VARIABLES + ROOTS + "\n" + ROOTS, 6, "'a' has two probability blocks"),
    ],
)
def test_bad_bif_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_bif(text)
    assert str(caught.value).startswith(f"line {line}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("block", "line", "problem"),
    [
        ("(c) {\ntable 0.5, x; }", 2, "expected a number or ';', found 'x'"),
        ("(c) { table 0.5, nan; }", 1, "expected a number"),
        ("(c) { table 0.5, 1e999; }", 1, "expected a number"),
        ('(c) { table "0.5", 0.5; }', 1, "expected a number"),
        ("(c) { table 0.5, 0.5 }", 1, "expected a number or ';', found '}'"),
        ("(c) {\n table 0.5, 0.4; }", 1, "must be non-negative and sum to 1"),
        ("(c) { table -0.5, 1.5; }", 1, "must be non-negative and sum to 1"),
        ("(c) {\n table 1; }", 2, "1 numbers where 2 are needed"),
        ("(c) { }", 1, "no entry for () and no default"),
        ("(c) { table 1 0; table 1 0; }", 1, "'table' or 'default' once"),
        ("(c|a) { default 1 0;\ndefault 1 0; }", 2, "'table' or 'default' once"),
        ("(c|a) { table 1 0 1 0;\n default 1 0; }", 1, "'table' stands beside other entries"),
        ("(c|a) {\n (no) 1 0; }", 1, "'c' has no entry for ('yes',) and no default"),
        ("(c|a) {\n (no) 1 0;\n (no) 1 0; }", 3, "a second entry for ('no',)"),
        ("(c|a) {\n (maybe) 1 0; }", 2, "'a' has no state 'maybe'; it has ['no', 'yes']"),
        ("(c|a) {\n (no, low) 1 0; }", 2, "2 states for 1 parents"),
        ("(c|a) {\n (no) 1 0 0; }", 2, "3 numbers where 2 are needed"),
        ("(c|a) { default 1; }", 1, "1 numbers where 2 are needed"),
        ("(c|a) { (no) 1 0;", 1, "found the end of the text"),
    ],
)
def test_bad_probability_block_is_refused_with_its_line(
    block: str, line: int, problem: str
) -> None:
    before = VARIABLES + ROOTS + "\nprobability "
    with pytest.raises(FormatError) as caught:
        read_bif(before + block)
    assert str(caught.value).startswith(f"line {line + before.count(chr(10))}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("header", ["(c | c)", "(c | a, a)"])
def test_unsound_structure_in_bif_is_refused(header: str) -> None:
    with pytest.raises(FormatError, match=r"loop|two edges"):
        read_bif(VARIABLES + ROOTS + f"probability {header} {{ default 1 0; }}")


def test_huge_table_in_bif_is_refused_before_it_is_made() -> None:
    names = [f"v{i}" for i in range(60)]
    text = "".join(f"variable {n} {{ type discrete [2] {{x, y}}; }}\n" for n in names)
    text += f"probability ( v0 | {', '.join(names[1:])} ) {{ default 0.5 0.5; }}"
    text += "".join(f"probability ( {n} ) {{ table 1 0; }}" for n in names[1:])
    with pytest.raises(FormatError, match=f"line 61: a table of {2**60} cells"):
        read_bif(text)


@given(st.text(alphabet='variable ab{}()[]|,;"\\/*\n0.5', max_size=60))
@settings(max_examples=200)
def test_any_text_is_read_as_bif_or_refused(text: str) -> None:
    try:
        read_bif(text)
    except FormatError:
        return


def test_dot_has_arrows_and_lines_in_order() -> None:
    graph = Pdag("cab", [("c", "a")], [("b", "a")])
    assert write_dot(graph).splitlines() == [
        "digraph {",
        '  "a";',
        '  "b";',
        '  "c";',
        '  "c" -> "a";',
        '  "a" -> "b" [dir=none];',
        "}",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("plain", '  "plain";'),
        ("a b", '  "a b";'),
        ("<b>", '  "<b>";'),
        ('5"', r'  "5\"" [label="5\""];'),
        ("C:\\N", r'  "C:\\N" [label="C:\\N"];'),
        ("a\nb", r'  "a\nb" [label="a\nb"];'),
        ("a&lt;", r'  "a&lt;" [label="a&amp;lt;"];'),
        ('"; evil [', r'  "\"; evil [" [label="\"; evil ["];'),
    ],
)
def test_dot_names_are_escaped(name: str, line: str) -> None:
    assert write_dot(Dag([name])).splitlines()[1] == line


def dot_identifiers(text: str) -> list[str]:
    """Undo the escapes of the names that nodes are declared by."""
    plain = {r"\\": "\\", r"\"": '"', r"\n": "\n", r"\r": "\r"}
    names = []
    for line in text.split("\n"):
        found = re.fullmatch(r'  "((?:[^"\\]|\\.)*)"(?: \[label=".*"\])?;', line, re.DOTALL)
        if found:
            names.append(re.sub(r"\\.", lambda pair: plain[pair[0]], found[1]))
    return names


@given(st.lists(TEXTS, unique=True, max_size=6))
@settings(deadline=None)
def test_dot_names_can_be_told_apart(names: list[str]) -> None:
    assert dot_identifiers(write_dot(Dag(names))) == sorted(names)


@given(st.lists(st.text(max_size=5), unique=True, min_size=3, max_size=5))
@settings(deadline=None)
def test_graphs_survive_json(names: list[str]) -> None:
    graph = Pdag(names, [(names[0], names[1])], [(names[1], names[2])])
    assert graph_from_dict(json.loads(json.dumps(graph_to_dict(graph)))) == graph


def test_json_form_is_the_documented_one() -> None:
    assert graph_to_dict(Pdag("abc", [("b", "a")], [("c", "b")])) == {
        "format": "driftbn-graph",
        "version": 1,
        "nodes": ["a", "b", "c"],
        "directed": [["b", "a"]],
        "undirected": [["b", "c"]],
    }


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": "graphml"}, "format is 'graphml'; it must be 'driftbn-graph'"),
        ({"version": 2}, "version is 2; it must be 1"),
        ({"version": True}, "version is True"),
        ({"version": "1"}, "version is '1'"),
        ({"nodes": None}, "nodes must be a list, found NoneType"),
        ({"nodes": "ab"}, "nodes must be a list, found str"),
        ({"nodes": ["a", 1]}, "nodes must be strings, found 1"),
        ({"nodes": ["a", "a"]}, "not sound: node 'a' is named twice"),
        ({"directed": {}}, "directed must be a list"),
        ({"directed": ["ab"]}, "directed must hold pairs of names, found 'ab'"),
        ({"directed": [["a", "b", "c"]]}, "pairs of names"),
        ({"directed": [["a", 1]]}, "pairs of names"),
        ({"undirected": [["a"]]}, "undirected must hold pairs"),
        ({"undirected": [["a", "z"]]}, "not sound: no variable 'z'"),
        ({"undirected": [["a", "a"]]}, "loop"),
        ({"directed": [["a", "b"]], "undirected": [["a", "b"]]}, "two edges"),
    ],
)
def test_bad_json_graph_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        graph_from_dict(graph_to_dict(Dag("ab")) | change)
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "null", '"graph"', "1"])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="must be a JSON object"):
        graph_from_dict(json.loads(text))
