"""The page in a real browser, on real histories.

Screenshots go to the directory that DRIFTBN_ARTEFACTS names, or else to a temporary one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.page_data import (
    HOSTILE,
    checkout,
    serving,
    telemetry,
    turbine,
    vitals,
)
from tests.services.process import free_port, missing

try:
    from playwright.sync_api import Browser, Page, expect, sync_playwright
except ImportError:
    missing("playwright is not installed: pip install playwright")

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PATIENCE = 60_000
"""Milliseconds; a machine that runs other tests as well takes its time."""
RENDERED_SECONDS = 30.0
"""A generous bound for a graph of 200 fields, from the address to the picture."""
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
"""
_EDGE = """([source, target]) => {
  const edge = driftbn.cy.edges().filter((item) =>
    [item.data("source"), item.data("target")].sort().join() === [source, target].sort().join());
  return edge.empty() ? null : {
    kind: edge.data("kind"), confirmed: edge.data("confirmed"), colour: edge.style("line-color"),
    dashes: edge.style("line-style"), label: edge.style("label"), arrow: edge.style("target-arrow-shape"),
  };
}"""
_PLACES = "() => Object.fromEntries(driftbn.cy.nodes().map((node) => [node.id(), node.position()]))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        missing("Chromium is not installed: it comes with the package chromium")
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with all kinds of monitors, in which nothing happens."""
    with serving(tmp_path_factory.mktemp("page")) as (service, found):
        for publications in (vitals(), checkout("eu"), checkout("us-east"), turbine(), telemetry()):
            service.publish(publications)
        yield found


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("DRIFTBN_ARTEFACTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Visitor:
    """Opens the page and keeps what the browser complains about."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.complaints: list[str] = []

    def open(self, url: str, *, wait: bool = True, **options: Any) -> Page:
        options = {"viewport": DESK, "color_scheme": "light", "reduced_motion": "reduce"} | options
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(_WATCH)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)
        if wait:
            page.wait_for_selector("#graph[data-window]", state="attached")
        return page

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    found = Visitor(browser)
    yield found
    found.close()


def at_window(page: Page, index: int) -> None:
    page.wait_for_selector(f'#graph[data-window="{index}"]', state="attached")


def colour(page: Page, name: str) -> str:
    """Return a colour of the style sheet as the browser writes it."""
    return str(
        page.evaluate(
            """(name) => {
              const probe = document.createElement("i");
              probe.style.color = `var(--${name})`;
              document.body.append(probe);
              const found = getComputedStyle(probe).color;
              probe.remove();
              return found.replaceAll(" ", "");
            }""",
            name,
        )
    )


def test_page_loads_without_a_complaint_of_the_browser(
    visitor: Visitor, address: str, artefacts: Path
) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20")
    expect(page.locator("#connection")).to_have_text("Live")
    page.screenshot(path=artefacts / "page-light.png")
    assert page.evaluate("() => window.violations") == []
    assert visitor.complaints == []


@pytest.mark.parametrize(
    ("window", "ends", "kind", "dashes"),
    [
        (8, ["MINVOLSET", "VENTMACH"], "lost", "dashed"),
        (14, ["MINVOLSET", "VENTMACH"], "gained", "solid"),
        (20, ["KINKEDTUBE", "BP"], "gained", "solid"),
    ],
)
def test_an_injected_change_has_its_colour_dash_and_word(
    visitor: Visitor, address: str, window: int, ends: list[str], kind: str, dashes: str
) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window={window}")
    at_window(page, window)
    edge = page.evaluate(_EDGE, ends)
    assert (edge["kind"], edge["confirmed"], edge["dashes"]) == (kind, True, dashes)
    assert edge["label"] == kind
    assert edge["colour"].replace(" ", "") == colour(page, kind)
    row = page.locator('#edge-rows tr[data-confirmed="true"]')
    assert row.get_attribute("data-kind") == kind


def test_a_field_with_another_rule_is_marked(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=26")
    at_window(page, 26)
    node = page.evaluate(
        """() => {
          const node = driftbn.cy.getElementById("HRBP");
          return [node.data("label"), node.style("border-color").replaceAll(" ", "")];
        }"""
    )
    assert node == ["Δ HRBP", colour(page, "changed")]


def test_an_edge_without_direction_has_no_arrow(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=14")
    at_window(page, 14)
    arrows = page.evaluate(
        """() => Object.fromEntries([true, false].map((told) => [told, [...new Set(driftbn.cy.edges()
          .filter((edge) => edge.hasClass("directed") === told)
          .map((edge) => edge.style("target-arrow-shape")))]]))"""
    )
    assert arrows == {"true": ["triangle"], "false": ["none"]}


def test_what_no_test_confirms_is_shown_when_asked_for(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20")
    at_window(page, 20)
    changed = "() => driftbn.cy.edges('.gained, .lost, .turned').length"
    assert page.evaluate(changed) == 1
    page.check("#noise")
    assert page.evaluate(changed) == 7


def test_explanation_names_the_edge_and_how_sure_it_is(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20")
    words = page.locator("#inspector")
    expect(words).to_contain_text("A dependency appeared between 'KINKEDTUBE' and 'BP'")
    expect(words).to_contain_text("touches BP itself")
    expect(words).to_contain_text("Look for what changed at the source")
    page.locator(".change-row").click()
    expect(words.locator("h3").first).to_have_text("KINKEDTUBE → BP")
    expect(words).to_contain_text("BP now depends on KINKEDTUBE. Before, it did not.")
    expect(words).to_contain_text("× 10⁻")
    expect(words.locator(".history li").first).to_contain_text("gained")


def test_a_click_on_an_edge_of_the_graph_explains_it(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20")
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
    page = visitor.open(f"{address}/#monitor=vitals")
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
    page = visitor.open(f"{address}/#monitor=vitals&window=9&episode=0", color_scheme="dark")
    at_window(page, 9)
    expect(page.locator("#inspector-title")).to_have_text("Episode 0")
    expect(page.locator('.episode[aria-pressed="true"]')).to_contain_text("#0")
    dimmed, lit = page.evaluate(
        "() => [driftbn.cy.edges('.dim').length, driftbn.cy.edges().not('.dim').map((edge) => edge.data('kind'))]"
    )
    assert dimmed > 30
    assert lit == ["lost"]
    page.screenshot(path=artefacts / "page-dark.png")


def test_choosing_an_episode_goes_to_its_window(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals")
    page.locator(".episode", has_text="KINKEDTUBE").click()
    at_window(page, 21)
    assert "episode=2" in page.url
    expect(page.locator("#inspector")).to_contain_text("KINKEDTUBE")


def test_news_arrive_by_themselves(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path) as (service, address):
        service.publish(vitals()[:20])
        page = visitor.open(f"{address}/#monitor=vitals")
        at_window(page, 19)
        expect(page.locator("#connection")).to_have_text("Live")
        service.publish(vitals()[20:21])
        at_window(page, 20)
        expect(page.locator("#level")).to_have_text("Drift")
        expect(page.locator(".toast")).to_contain_text("Drift in vitals")
        expect(page.locator("#announcer")).to_contain_text("KINKEDTUBE")
        expect(page.locator('.episode[data-state="open"]')).to_contain_text("KINKEDTUBE")
        page.click("#earlier")
        at_window(page, 19)
        service.publish(vitals()[21:23])
        expect(page.locator("#newest")).to_have_text("Newest (2 new)")
        assert page.get_attribute("#graph", "data-window") == "19"
        assert visitor.complaints == []


def test_the_page_finds_back_to_a_service_that_was_away(visitor: Visitor, tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, port) as (service, address):
        service.publish(vitals()[:4])
        page = visitor.open(f"{address}/#monitor=vitals")
        expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#connection")).to_have_text("Reconnecting")
    with serving(tmp_path, port) as (service, address):
        service.publish(vitals()[4:6])
        expect(page.locator("#connection")).to_have_text("Live")
        at_window(page, 5)


def test_a_first_window_is_waited_for(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path) as (service, address):
        page = visitor.open(f"{address}/#monitor=vitals", wait=False)
        expect(page.locator("#empty")).to_contain_text("Waiting for the first window")
        expect(page.locator("#connection")).to_have_text("Live")
        service.publish(vitals()[:1])
        at_window(page, 0)
        expect(page.locator("#level")).to_have_text("Learning")
        expect(page.locator("#empty")).to_be_hidden()


def test_the_token_is_asked_for_until_it_is_right(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path, token="right") as (service, address):
        service.publish(vitals()[:2])
        page = visitor.open(f"{address}/", wait=False)
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-words")).to_contain_text("not accepted")
        page.fill("#token", "right")
        page.keyboard.press("Enter")
        at_window(page, 1)
        expect(page.locator("#connection")).to_have_text("Live")
        assert page.evaluate("() => [sessionStorage.length, localStorage.length]") == [1, 0]


def test_monitors_are_switched_by_their_name(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals")
    page.focus("#monitor")
    page.keyboard.type("eu")
    expect(page.locator("#monitor-list .choice").first).to_contain_text("checkout / eu")
    page.keyboard.press("Enter")
    at_window(page, 11)
    assert "monitor=checkout&key=eu" in page.url
    assert page.input_value("#monitor") == "checkout / eu"


def test_hostile_names_are_only_text(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=checkout&key=eu")
    at_window(page, 11)
    page.keyboard.press("/")
    page.keyboard.type("<script")
    page.keyboard.press("Enter")
    expect(page.locator("#inspector h3").first).to_have_text(HOSTILE)
    page.click("#as-table")
    assert page.evaluate(
        "() => [window.harmed, document.querySelectorAll('main script').length]"
    ) == [
        None,
        0,
    ]
    assert visitor.complaints == []


def test_everything_can_be_reached_by_the_keyboard(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20")
    at_window(page, 20)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to what changed"
    page.keyboard.press("ArrowLeft")
    at_window(page, 19)
    page.focus("#slider")
    page.keyboard.press("ArrowRight")
    at_window(page, 20)
    value = page.get_attribute("#slider", "aria-valuetext")
    assert value is not None
    assert value.startswith("Window 20: Drift")
    page.keyboard.press("Home")
    at_window(page, 0)
    page.keyboard.press("End")
    at_window(page, 31)
    page.focus("#as-graph")
    page.keyboard.press("/")
    page.keyboard.type("hrb")
    page.keyboard.press("Enter")
    expect(page.locator("#inspector h3").first).to_have_text("HRBP")
    page.focus("#as-table")
    page.keyboard.press("Enter")
    expect(page.locator("#table-view")).to_be_visible()
    page.locator("#edge-rows button").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#inspector-title")).to_have_text("Relation")
    page.keyboard.press("Escape")
    expect(page.locator("#inspector-title")).to_have_text("This window")


def test_200_fields_are_drawn_soon_and_answer_to_a_click(
    visitor: Visitor, address: str, artefacts: Path
) -> None:
    started = time.monotonic()
    page = visitor.open(f"{address}/#monitor=turbine&window=7")
    at_window(page, 7)
    assert time.monotonic() - started < RENDERED_SECONDS
    assert page.evaluate("() => driftbn.cy.nodes().length") == 200
    page.screenshot(path=artefacts / "page-200-fields.png")
    place = page.evaluate(
        """() => {
          const node = driftbn.cy.nodes(".hot")[0];
          const middle = node.renderedPosition();
          const box = document.getElementById("graph").getBoundingClientRect();
          return {name: node.id(), at: [middle.x + box.left, middle.y + box.top]};
        }"""
    )
    page.mouse.click(*place["at"])
    expect(page.locator("#inspector h3").first).to_have_text(place["name"])
    page.click("#earlier")
    at_window(page, 6)


def test_2000_windows_can_be_gone_through(visitor: Visitor, address: str, artefacts: Path) -> None:
    page = visitor.open(f"{address}/#monitor=telemetry")
    at_window(page, 1999)
    box = page.locator("#evidence-chart .u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 10, steps=60)
    page.mouse.up()
    shown = int(page.input_value("#slider"))
    assert 450 < shown < 550
    at_window(page, shown)
    page.screenshot(path=artefacts / "page-2000-windows.png")
    assert visitor.complaints == []


def test_a_phone_shows_all_without_scrolling_sideways(
    visitor: Visitor, address: str, artefacts: Path
) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20", viewport=PHONE, has_touch=True)
    at_window(page, 20)
    page.screenshot(path=artefacts / "page-phone.png", full_page=True)
    for width in (PHONE["width"], 380):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "view", ["window", "episode", "table", "field", "phone", "choices", "empty"]
)
def test_axe_finds_nothing_to_complain_about(
    visitor: Visitor, address: str, scheme: str, view: str
) -> None:
    hashes = {"episode": "#monitor=vitals&window=9&episode=0", "empty": "#monitor=new-stream"}
    page = visitor.open(
        f"{address}/{hashes.get(view, '#monitor=vitals&window=20')}",
        wait=view != "empty",
        color_scheme=scheme,
        viewport=PHONE if view == "phone" else DESK,
    )
    if view == "empty":
        expect(page.locator("#empty")).to_be_visible()
    if view == "table":
        page.click("#as-table")
    if view == "field":
        page.locator(".change-row").click()
        page.locator("#inspector .chip").first.click()
    if view == "choices":
        page.focus("#monitor")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("() => axe.run()")
    assert [
        (item["id"], [node["html"] for node in item["nodes"]]) for item in found["violations"]
    ] == []


def test_the_theme_is_switched_and_kept(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#monitor=vitals&window=20")
    assert page.get_attribute("html", "data-theme") == "light"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    assert page.evaluate(_EDGE, ["KINKEDTUBE", "BP"])["colour"].replace(" ", "") == colour(
        page, "gained"
    )
    page.reload()
    page.wait_for_selector("#graph[data-window]", state="attached")
    assert page.get_attribute("html", "data-theme") == "dark"


def test_the_page_needs_nothing_but_its_own_files(visitor: Visitor, address: str) -> None:
    asked: list[str] = []
    page = visitor.open(f"{address}/#monitor=quiet", wait=False)
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector("#graph[data-window]", state="attached")
    assert len(asked) > 10
    assert all(url.startswith(address) for url in asked)
