from __future__ import annotations

import re
import struct
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from driftbn_service import page
from driftbn_service.commands import MAX_PIXELS, png_renderer

from driftbn import Dag, Pdag
from driftbn.datasets import alarm, asia, random_dag
from driftbn.explain.layout import Layout, arrange
from driftbn.explain.picture import legend_of, picture_of, scene_of_graph, scene_of_graphs
from driftbn.explain.svg import DARK, LIGHT, NODE_HEIGHT, Drawing

WIDTH = 90.0


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def arranged(dag: Dag) -> Layout:
    return arrange(dag, dict.fromkeys(dag.nodes, WIDTH))


def overlaps(layout: Layout) -> list[tuple[str, str]]:
    pairs = combinations(sorted(layout.centres), 2)
    return [
        (a, b)
        for a, b in pairs
        if abs(layout.centres[a][0] - layout.centres[b][0]) < WIDTH - 1e-9
        and abs(layout.centres[a][1] - layout.centres[b][1]) < NODE_HEIGHT - 1e-9
    ]


@pytest.mark.parametrize(
    "dag",
    [asia().dag, alarm().dag, random_dag(100, 130, seed=1), Dag(f"n{i}" for i in range(30))],
    ids=["asia", "alarm", "random", "without edges"],
)
def test_no_two_nodes_overlap(dag: Dag) -> None:
    assert overlaps(arranged(dag)) == []


def test_every_edge_points_down() -> None:
    dag = alarm().dag
    layout = arranged(dag)
    assert layout.routes.keys() == set(dag.edges)
    for u, v in dag.edges:
        assert layout.centres[u][1] < layout.centres[v][1]


def test_routes_begin_and_end_at_the_borders_of_their_nodes() -> None:
    layout = arranged(alarm().dag)
    for (u, v), points in layout.routes.items():
        for node, (x, y), side in ((u, points[0], 1), (v, points[-1], -1)):
            assert y == pytest.approx(layout.centres[node][1] + side * NODE_HEIGHT / 2)
            assert abs(x - layout.centres[node][0]) < WIDTH / 2


def test_routes_pass_no_node() -> None:
    layout = arranged(alarm().dag)
    for edge, points in layout.routes.items():
        for node, (x, y) in layout.centres.items():
            for px, py in points[1:-1]:
                inside = abs(px - x) < WIDTH / 2 and abs(py - y) < NODE_HEIGHT
                assert not inside, (edge, node)


def test_a_tree_is_drawn_without_crossings() -> None:
    edges = [("a", "e"), ("a", "c"), ("c", "b"), ("c", "g"), ("e", "d"), ("e", "f")]
    layout = arranged(Dag("abcdefg", edges))
    lines = [points for points in layout.routes.values() if points[0][1] > 2 * NODE_HEIGHT]
    for first, second in combinations(lines, 2):
        assert (first[0][0] - second[0][0]) * (first[-1][0] - second[-1][0]) >= 0


def test_a_star_is_broken_into_several_rows() -> None:
    layout = arranged(
        Dag([f"n{i:03d}" for i in range(150)], [("n000", f"n{i:03d}") for i in range(1, 150)])
    )
    assert layout.width < 6 * layout.height
    assert overlaps(layout) == []


def picture(graph: Dag | Pdag, heading: str = "") -> Drawing:
    return picture_of(heading, (), scene_of_graph(graph))


def difference(previous: Dag | Pdag, current: Dag | Pdag) -> Drawing:
    return picture_of("", (), scene_of_graphs(previous, current))


@pytest.mark.slow
@pytest.mark.parametrize("n_nodes", [2, 30, 200])
def test_pictures_grow_with_the_graph(n_nodes: int) -> None:
    width, height = size_of(
        png_renderer("x.png")(picture(random_dag(n_nodes, n_nodes // 2, seed=1)))
    )
    assert width * height > 900 * n_nodes
    assert max(width, height) <= MAX_PIXELS


def test_a_difference_shows_each_kind_of_change() -> None:
    before = Pdag("abcd", [("a", "b")], [("b", "c")])
    changed = [
        before,
        Pdag("abcd", [("a", "b")], [("b", "c"), ("c", "d")]),
        Pdag("abcd", [("a", "b")]),
        Pdag("abcd", [("b", "a")], [("b", "c")]),
        Pdag("abcd", [("a", "b"), ("b", "c")]),
        Pdag("abcd", [], [("a", "b"), ("b", "c")]),
        Pdag("abcde", [("a", "b")], [("b", "c")]),
        Pdag("abc", [("a", "b")], [("b", "c")]),
    ]
    assert len({difference(before, after) for after in changed}) == len(changed)


def test_the_legend_has_what_the_picture_has() -> None:
    scene = scene_of_graphs(Dag("abc", [("a", "b"), ("b", "c")]), Dag("abd", [("b", "a")]))
    texts = [key.text for key in legend_of(scene)]
    assert texts == ["− removed", "⇄ reversed", "≠ is in one of the graphs only"]  # noqa: RUF001
    assert [key.text for key in legend_of(scene_of_graph(Dag("ab", [("a", "b")])))] == ["kept"]


def test_arrows_in_a_cycle_are_drawn() -> None:
    cycle = Pdag("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert picture(cycle).body.count("<polygon") == 3
    back = Pdag("abc", [("b", "a"), ("c", "b"), ("a", "c")])
    assert difference(cycle, back).body.count("⇄ reversed") == 4  # three signs and the legend


@pytest.mark.parametrize(
    "name", ['"quoted"', "two\nlines", "$math$", "\x1b[2J", "漢字", "\ud800", "x" * 300, " ", "&<"]
)
def test_any_name_can_be_drawn(name: str) -> None:
    drawing = picture(Dag([name, "b"], [(name, "b")]), name[:20])
    ElementTree.fromstring(drawing.document())
    assert size_of(png_renderer("x.png")(drawing))


@pytest.mark.parametrize("kind", ["added", "removed", "reversed", "changed"])
def test_a_change_has_one_colour_in_picture_and_page(kind: str) -> None:
    theme = (Path(page.__file__).parent / "css" / "theme.css").read_text()
    assert re.findall(rf"--{kind}: (#\w+);", theme) == [LIGHT[kind], DARK[kind]]
