"""What the page shows, in a real browser on real histories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.services import browser as services
from tests.services.browser import Visitor, at_window, colour, expect
from tests.services.page_data import vitals

# Fixtures, which a module has by holding them.
address, artefacts = services.address, services.artefacts
browser, visitor = services.browser, services.visitor

_EDGE = """([source, target]) => {
  const edge = driftbn.cy.edges().filter((item) =>
    [item.data("source"), item.data("target")].sort().join() === [source, target].sort().join());
  return edge.empty() ? null : {
    kind: edge.data("kind"), confirmed: edge.data("confirmed"), colour: edge.style("line-color"),
    dashes: edge.style("line-style"), label: edge.style("label"),
  };
}"""
_PLACES = "() => Object.fromEntries(driftbn.cy.nodes().map((node) => [node.id(), node.position()]))"


def _changed_pairs(report: dict[str, Any]) -> tuple[set[frozenset[str]], set[frozenset[str]]]:
    """Return the pairs with a confirmed change, and those with any difference."""
    confirmed = _pairs(report["decision"]["edges"])
    diff = report["diff"]
    return confirmed, confirmed | _pairs([*diff["added"], *diff["removed"], *diff["reversed"]])


def _pairs(edges: list[dict[str, Any]]) -> set[frozenset[str]]:
    return {frozenset((edge["source"], edge["target"])) for edge in edges}


def test_page_loads_without_a_complaint_of_the_browser(
    visitor: Visitor, address: str, artefacts: Path
) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    expect(page.locator("#connection")).to_have_text("Live")
    page.screenshot(path=artefacts / "page-light.png")
    assert page.evaluate("() => window.violations") == []
    assert visitor.complaints == []


@pytest.mark.parametrize(
    ("window", "ends", "kind", "dashes"),
    [
        (8, ["MINVOLSET", "VENTMACH"], "removed", "dashed"),
        (14, ["MINVOLSET", "VENTMACH"], "added", "solid"),
        (20, ["KINKEDTUBE", "BP"], "added", "solid"),
    ],
)
def test_an_injected_change_has_its_colour_dash_and_word(
    visitor: Visitor, address: str, window: int, ends: list[str], kind: str, dashes: str
) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window={window}")
    at_window(page, window)
    edge = page.evaluate(_EDGE, ends)
    assert (edge["kind"], edge["confirmed"], edge["dashes"]) == (kind, True, dashes)
    assert edge["label"] == kind
    assert edge["colour"].replace(" ", "") == colour(page, kind)
    row = page.locator('#edge-rows tr[data-confirmed="true"]')
    assert row.get_attribute("data-kind") == kind


def test_a_field_with_another_rule_is_marked(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=26")
    at_window(page, 26)
    node = page.evaluate(
        """() => {
          const node = driftbn.cy.getElementById("HRBP");
          return [node.data("label"), node.style("border-color").replaceAll(" ", "")];
        }"""
    )
    assert node == ["Δ HRBP", colour(page, "changed")]


def test_an_edge_without_direction_has_no_arrow(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=14")
    at_window(page, 14)
    arrows = page.evaluate(
        """() => Object.fromEntries([true, false].map((told) => [
          told,
          [...new Set(driftbn.cy.edges().filter((edge) => edge.hasClass("directed") === told)
            .map((edge) => edge.style("target-arrow-shape")))],
        ]))"""
    )
    assert arrows == {"true": ["triangle"], "false": ["none"]}


def test_what_no_test_confirms_is_shown_when_asked_for(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    at_window(page, 20)
    changed = "() => driftbn.cy.edges('.added, .removed, .reversed').length"
    confirmed, all_changed = _changed_pairs(vitals()[20].report)
    assert page.evaluate(changed) == len(confirmed)
    page.check("#noise")
    assert page.evaluate(changed) == len(all_changed) > len(confirmed)


def test_explanation_names_the_edge_and_how_sure_it_is(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    words = page.locator("#inspector")
    expect(words).to_contain_text("A dependency between 'KINKEDTUBE' and 'BP' was added")
    expect(words).to_contain_text("touches BP itself")
    expect(words).to_contain_text("Look for what changed at the source")
    page.locator(".change-row").click()
    expect(words.locator("h3").first).to_have_text("KINKEDTUBE → BP")
    expect(words).to_contain_text("BP now depends on KINKEDTUBE. Before, it did not.")
    chance = re.compile(r"come up with a probability of (0\.000\d|\d . 10⁻)")
    expect(words).to_contain_text(chance)
    expect(words.locator(".history li").first).to_contain_text("added")


def test_a_click_on_an_edge_of_the_graph_explains_it(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    at_window(page, 20)
    place = page.evaluate(
        """() => {
          const middle = driftbn.cy.edges(".confirmed")[0].renderedMidpoint();
          const box = document.getElementById("graph").getBoundingClientRect();
          return [middle.x + box.left, middle.y + box.top];
        }"""
    )
    page.mouse.move(*place)
    expect(page.locator("#hint")).to_contain_text("KINKEDTUBE → BP")
    page.mouse.click(*place)
    expect(page.locator("#inspector h3").first).to_have_text("KINKEDTUBE → BP")


def test_time_travel_keeps_every_field_in_its_place(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals")
    at_window(page, 31)
    places = page.evaluate(_PLACES)
    page.click("#earlier")
    at_window(page, 30)
    box = page.locator("#changes-chart .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=12)
    page.mouse.up()
    shown = int(page.input_value("#slider"))
    assert 13 <= shown <= 18
    at_window(page, shown)
    assert f"window={shown}" in page.url
    assert page.evaluate(_PLACES) == places
    page.click("#newest")
    at_window(page, 31)
    assert "window=" not in page.url


def test_a_link_shows_an_episode_with_the_rest_dimmed(
    visitor: Visitor, address: str, artefacts: Path
) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=9&episode=0", color_scheme="dark")
    at_window(page, 9)
    expect(page.locator("#inspector-title")).to_have_text("Episode 0")
    expect(page.locator('.episode[aria-pressed="true"]')).to_contain_text("#0")
    dimmed, lit = page.evaluate(
        """() => {
          const edges = driftbn.cy.edges();
          return [edges.filter(".dim").length, edges.not(".dim").map((edge) => edge.data("kind"))];
        }"""
    )
    assert dimmed > 30
    assert lit == ["removed"]
    page.screenshot(path=artefacts / "page-dark.png")


def test_choosing_an_episode_goes_to_its_window(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals")
    page.locator(".episode", has_text="KINKEDTUBE").click()
    at_window(page, 21)
    assert "episode=2" in page.url
    expect(page.locator("#inspector")).to_contain_text("KINKEDTUBE")


def test_the_theme_is_switched_and_kept(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    assert page.get_attribute("html", "data-theme") == "light"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate(_EDGE, ["KINKEDTUBE", "BP"])["colour"].replace(" ", "") == colour(
        page, "added"
    )
    page.reload()
    page.wait_for_selector("#graph[data-window]", state="attached")
    assert page.get_attribute("html", "data-theme") == "dark"
