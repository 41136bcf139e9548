from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from driftbn import ChangeType, Dag, DriftDecision, DriftLevel, EdgeChange, NodeChange, Pdag
from driftbn.config import DriftKind
from driftbn.datasets import random_dag
from driftbn.explain.html import MAX_PICTURES, NARROW_NODES, html_of
from driftbn.explain.picture import MAX_NODES, Line, LineKind, lines_of
from driftbn.explain.svg import MAX_BARS
from driftbn.report import WindowReport
from tests.encoded import SchemaEvent, SchemaEventKind
from tests.reports import (
    EpisodeEvent,
    Family,
    FamilyResult,
    UndecidedPair,
    edge_change,
    window_report,
)

STABLE = DriftDecision(
    DriftLevel.STABLE, 0.01, 0.3, (FamilyResult(Family.MECHANISM, 0.3, ("a",), 1, 4),)
)
HOSTILE = "<img src=x onerror=\"alert('1')\">\n&amp;\x00\ud800"
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checker(HTMLParser):
    """Checks that every element is closed in order, and collects what is in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def drift(*edges: EdgeChange, nodes: tuple[str, ...] = ()) -> DriftDecision:
    return DriftDecision(
        DriftLevel.DRIFT,
        0.01,
        0.0004,
        (FamilyResult(Family.ASSOCIATION, 0.0004, ("a", "b"), 1, 6, 1.2),),
        DriftKind.STRUCTURAL,
        scale=1,
        edges=edges,
        node_changes=tuple(NodeChange(name, ("z",), 0.001, 0.05) for name in nodes),
        episode=0,
        episode_event=EpisodeEvent.STARTED,
        since=3,
    )


def make_report(
    decision: DriftDecision, current: Dag, previous: Dag | None = None, index: int = 3
) -> WindowReport:
    return window_report(decision, current, previous, index=index, graph=current.to_pdag())


BEFORE = Dag("abcdef", [("a", "b"), ("b", "c"), ("d", "c"), ("c", "e")])
NOW = Dag("abcdef", [("a", "b"), ("c", "b"), ("c", "e"), ("a", "d"), ("a", "f")])
FULL = replace(
    make_report(drift(edge_change("a", "f"), nodes=("f",)), NOW, BEFORE),
    events=(SchemaEvent(SchemaEventKind.NEW_LEVEL, "a", ("x",), 1, 5),),
    excluded=(("id", "id_like"),),
    twins=(("g", "f"),),
    target="a",
    blanket=("b",),
)


def hostile_report() -> WindowReport:
    dag = Dag([HOSTILE, "b"], [(HOSTILE, "b")])
    decision = drift(edge_change(HOSTILE, "b"), nodes=(HOSTILE,))
    edge = replace(decision.edges[0], given=(HOSTILE,))
    families = (FamilyResult(Family.ASSOCIATION, 0.0004, (HOSTILE, "b"), 1, 1),)
    pairs = (UndecidedPair(HOSTILE, "b", 0.1),)
    decision = replace(decision, edges=(edge,), families=families, undecided=pairs, n_undecided=1)
    return replace(
        make_report(decision, dag),
        events=(SchemaEvent(SchemaEventKind.NEW_LEVEL, HOSTILE, (HOSTILE,), 1, 5),),
        excluded=((HOSTILE, HOSTILE),),
        twins=((HOSTILE, "b"),),
        target=HOSTILE,
        blanket=(HOSTILE,),
    )


def replay(n_windows: int, alarms: tuple[int, ...] = ()) -> list[WindowReport]:
    reports = []
    for index in range(n_windows):
        decision = STABLE
        if index in alarms:
            decision = replace(
                drift(edge_change("a", "f")), episode=alarms.index(index), since=index
            )
        reports.append(make_report(decision, NOW, BEFORE, index))
    return reports


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def drawn(page: str, name: str) -> list[ElementTree.Element]:
    return [root for root in svgs(page) if root.get("class") == name]


def graph_of(report: WindowReport) -> ElementTree.Element:
    return drawn(report.to_html(), "graph")[0]


def with_class(root: ElementTree.Element, tag: str, name: str) -> list[ElementTree.Element]:
    return [found for found in root.iter(tag) if name in found.get("class", "").split()]


# Whole pages


@pytest.mark.parametrize(
    "page",
    [
        FULL.to_html(),
        make_report(STABLE, NOW).to_html(),
        make_report(DriftDecision(DriftLevel.UNDECIDED, 0.01), Dag([])).to_html(),
        hostile_report().to_html(),
        html_of(replay(30, (4, 20))),
        html_of([hostile_report()]),
        html_of([]),
    ],
    ids=["drift", "stable", "empty", "hostile", "replay", "hostile replay", "no windows"],
)
def test_page_is_well_formed_and_needs_nothing_from_outside(page: str) -> None:
    checker = Checker(page)
    assert page.startswith("<!doctype html>")
    assert "prefers-color-scheme:dark" in page
    assert 'name="viewport"' in page
    assert not {"script", "link", "img", "iframe", "object"} & set(checker.tags)
    names = {name for name, _ in checker.attributes}
    assert not names & {"src", "srcset", "onerror", "onclick", "onload", "xlink:href"}
    assert all(value.startswith("#") for name, value in checker.attributes if name == "href")
    assert "http" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert all(svg.tag == "svg" for svg in svgs(page))
    page.encode("utf-8")


def test_hostile_names_are_shown_as_they_are_and_do_nothing() -> None:
    page = hostile_report().to_html()
    assert "<img" not in page
    assert "\x00" not in page
    assert "<img src=x onerror=\"alert('1')\">\\n&amp;\\x00\\ud800" in Checker(page).text


def test_page_has_words_tables_and_numbers() -> None:
    text = Checker(FULL.to_html()).text
    for words in (
        FULL.explain().headline,
        *FULL.explain().sentences,
        *FULL.explain().advice,
        "Changed dependencies",
        "strong: 0.112 nats (0.098 to 0.126)",
        "Changed fields",
        "strong: 0.05 nats per record",
        "Hamming distance, raw",
        "Design effect",
        "always says the same as f",
        "id_like",
        "association",
    ):
        assert words in text


# The picture


def test_lines_are_kept_added_removed_or_reversed() -> None:
    assert lines_of(FULL) == [
        Line(("a", "b"), LineKind.KEPT),
        Line(("c", "e"), LineKind.KEPT),
        Line(("a", "d"), LineKind.ADDED),
        Line(("c", "b"), LineKind.REVERSED),
        Line(("d", "c"), LineKind.REMOVED),
        Line(("a", "f"), LineKind.ADDED, confirmed=True),
    ]


def test_confirmed_change_is_drawn_even_if_the_graphs_do_not_show_it() -> None:
    removed = replace(edge_change("a", "e"), change=ChangeType.REMOVED)
    lines = lines_of(make_report(drift(removed), NOW))
    assert lines[-1] == Line(("a", "e"), LineKind.REMOVED, confirmed=True)
    root = graph_of(make_report(drift(edge_change("new", "field")), NOW))
    assert len(with_class(root, "g", "node")) == 8


def test_colour_is_not_the_only_sign() -> None:
    root = graph_of(FULL)
    signs = {text.text for text in with_class(root, "text", "sign")}
    assert signs == {"+", "−", "⇄", "+ added"}  # noqa: RUF001
    style = FULL.to_html()
    assert ".line.removed path{stroke:var(--removed);stroke-dasharray" in style
    assert ".line.reversed path{stroke:var(--reversed);stroke-dasharray" in style


def test_edge_without_a_known_direction_has_no_head() -> None:
    dag = Dag("ab", [("a", "b")])
    report = make_report(STABLE, dag)
    assert len(list(graph_of(report).iter("polygon"))) == 1
    report = replace(report, graph=Pdag("ab", [], [("a", "b")]))
    assert not list(graph_of(report).iter("polygon"))


def test_target_and_changed_fields_are_marked_in_words() -> None:
    labels = [text.text for text in graph_of(FULL).iter("text")]
    assert "◎ a" in labels
    assert "f ≠" in labels
    text = Checker(FULL.to_html()).text
    assert "◎ target" in text
    assert "≠ follows another rule" in text
    assert "◎ target" not in Checker(make_report(STABLE, NOW).to_html()).text


def test_everything_is_inside_of_the_picture() -> None:
    root = graph_of(FULL)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for rect in root.iter("rect"):
        x, y, w, h = (float(rect.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height


def test_signs_of_confirmed_changes_do_not_cover_each_other() -> None:
    dag = Dag("abcd", [("a", "b"), ("a", "c"), ("a", "d")])
    report = make_report(
        drift(edge_change("a", "b"), edge_change("a", "c"), edge_change("a", "d")), dag
    )
    places = [
        (float(text.get("x", "nan")), float(text.get("y", "nan")))
        for text in with_class(graph_of(report), "text", "sign")
    ]
    assert len(places) == 3
    for i, (x, y) in enumerate(places):
        assert all(abs(x - u) > 50 or abs(y - v) > 12 for u, v in places[:i])


def test_long_names_are_cut_in_the_picture_and_whole_in_the_table() -> None:
    name = "x" * 60
    report = make_report(drift(edge_change(name, "b")), Dag([name, "b"], [(name, "b")]))
    labels = [text.text or "" for text in graph_of(report).iter("text")]
    assert f"{'x' * 27}…" in labels
    assert name in report.to_html()


# Large graphs


def test_large_graph_is_cut_to_the_neighbours_of_changes() -> None:
    dag = random_dag(200, 250, seed=1)
    source, target = dag.edges[0]
    report = make_report(drift(edge_change(source, target)), dag)
    shown = {
        text.text
        for text in with_class(graph_of(report), "g", "node")
        for text in text.iter("text")
    }
    near = {source, target}
    for name in (source, target):
        near |= {*dag.parents(name), *dag.children(name)}
    assert shown == near
    assert f"{200 - len(near)} other fields are left out" in report.to_html()
    assert "too large to be read as a picture" in make_report(STABLE, dag).to_html()


def test_hub_with_more_neighbours_than_fit_is_cut() -> None:
    nodes = [f"n{i:03}" for i in range(150)]
    dag = Dag(nodes, [("n000", name) for name in nodes[1:]])
    report = make_report(drift(edge_change("n000", "n149")), dag)
    shown = with_class(graph_of(report), "g", "node")
    assert len(shown) == MAX_NODES
    assert "n149" in [text.text for node in shown for text in node.iter("text")]
    assert f"{150 - MAX_NODES} other fields are left out" in report.to_html()


def test_narrow_screen_gets_only_the_surroundings_of_changes() -> None:
    dag = random_dag(40, 50, seed=1)
    page = make_report(drift(edge_change(*dag.edges[0])), dag).to_html()
    whole, close = (root for root in svgs(page) if "graph" in root.get("class", ""))
    assert len(with_class(whole, "g", "node")) == 40
    assert len(with_class(close, "g", "node")) <= NARROW_NODES
    assert page.index('class="for-wide"') < page.index('class="for-narrow"')
    assert ".for-wide{display:none}" in page[page.index("max-width:640px") :]


# Replays


def test_replay_lists_each_episode_with_its_explanation_and_picture() -> None:
    reports = replay(30, (4, 20))
    page = html_of(reports)
    text = Checker(page).text
    assert "30 windows, 2 alarms" in text
    for index in (4, 20):
        assert all(sentence in text for sentence in reports[index].explain().sentences)
        assert f'href="#window-{index}"' in page
        assert page.count(f'id="window-{index}"') == 1
    assert page.count('class="graph"') == 2


def test_windows_of_an_episode_stand_together() -> None:
    reports = replay(8, (4,))
    settled = replace(STABLE, level=DriftLevel.SETTLING, episode=0, since=4)
    reports[5] = make_report(settled, NOW, BEFORE, 5)
    text = Checker(html_of(reports)).text
    assert "Episode 0: windows 4 to 5" in text
    assert reports[5].explain().headline in text


def test_timeline_shows_raw_and_confirmed_distances() -> None:
    root = drawn(html_of(replay(30, (4, 20))), "timeline")[0]
    assert len(with_class(root, "rect", "raw")) == 30
    assert len(with_class(root, "rect", "confirmed")) == 2
    assert len(with_class(root, "rect", "episode")) == 2
    assert len(with_class(root, "path", "alarm")) == 2
    bar = with_class(root, "rect", "raw")[4]
    assert bar[0].text == "window 4: raw Hamming distance 4"


def test_many_windows_share_bars_and_no_alarm_is_lost() -> None:
    reports = replay(1000, (3, 999))
    root = drawn(html_of(reports), "timeline")[0]
    assert len(with_class(root, "rect", "raw")) <= MAX_BARS
    assert len(with_class(root, "rect", "confirmed")) == 2
    assert len(with_class(root, "path", "alarm")) == 2
    assert "Each bar shows the largest of 5 windows." in html_of(reports)


def test_pictures_of_a_replay_are_limited() -> None:
    n_alarms = MAX_PICTURES + 3
    page = html_of(replay(n_alarms, tuple(range(n_alarms))))
    assert page.count('class="graph"') == MAX_PICTURES
    assert f"Only the first {MAX_PICTURES} alarms are drawn." in page
    assert page.count('id="window-') == n_alarms
