"""How the page is used, in a real browser: live, by keyboard, with a token, at any size."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.services import browser as services
from tests.services.browser import DESK, PHONE, Visitor, at_window, expect
from tests.services.page_data import HOSTILE, serving, vitals
from tests.services.process import free_port

# Fixtures, which a module has by holding them.
address, artefacts = services.address, services.artefacts
browser, visitor = services.browser, services.visitor

AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
RENDERED_SECONDS = 30.0
"""A generous bound for a graph of 200 fields, from the address to the picture."""


def test_news_arrive_by_themselves(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path) as (service, address):
        service.publish(vitals()[:20])
        page = visitor.open(f"{address}/#stream=vitals")
        at_window(page, 19)
        expect(page.locator("#connection")).to_have_text("Live")
        service.publish(vitals()[20:21])
        at_window(page, 20)
        expect(page.locator("#level")).to_have_text("Changed (open)")
        expect(page.locator(".toast")).to_contain_text("Drift in vitals")
        expect(page.locator("#announcer")).to_contain_text("KINKEDTUBE")
        expect(page.locator('.episode[data-state="open"]')).to_contain_text("KINKEDTUBE")
        page.click("#earlier")
        at_window(page, 19)
        service.publish(vitals()[21:23])
        expect(page.locator("#newest")).to_have_text("Newest (2 new)")
        assert page.get_attribute("#graph", "data-window") == "19"
        assert visitor.complaints == []


def test_an_open_episode_is_accepted_with_the_token(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path, token="right") as (service, address):
        service.publish(vitals()[:21])
        page = visitor.open(f"{address}/#stream=vitals", wait=False)
        page.fill("#token", "right")
        page.keyboard.press("Enter")
        at_window(page, 20)
        page.click(".acceptance summary")
        page.fill(".acceptance input", "as <b>planned</b>")
        page.keyboard.press("Enter")
        expect(page.locator(".acceptance p")).to_contain_text("Accepted")
        (wanted,) = service.store.wanted()
        assert (wanted.comment, wanted.key, wanted.episode is None) == (
            "as <b>planned</b>", "", False,
        )  # fmt: skip
        page.reload()
        expect(page.locator("#inspector")).to_contain_text("by somebody: as <b>planned</b>")


def test_the_page_finds_back_to_a_service_that_was_away(visitor: Visitor, tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, port) as (service, address):
        service.publish(vitals()[:4])
        page = visitor.open(f"{address}/#stream=vitals")
        expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator("#connection")).to_have_text("Reconnecting")
    with serving(tmp_path, port) as (service, address):
        service.publish(vitals()[4:6])
        expect(page.locator("#connection")).to_have_text("Live")
        at_window(page, 5)


def test_a_first_window_is_waited_for(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path) as (service, address):
        page = visitor.open(f"{address}/#stream=vitals", wait=False)
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
    page = visitor.open(f"{address}/#stream=vitals")
    page.focus("#monitor")
    page.keyboard.type("eu")
    expect(page.locator("#monitor-list .choice").first).to_contain_text("checkout / eu")
    page.keyboard.press("Enter")
    at_window(page, 11)
    assert "stream=checkout&key=eu" in page.url
    assert page.input_value("#monitor") == "checkout / eu"


def test_hostile_names_are_only_text(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=checkout&key=eu")
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
    page = visitor.open(f"{address}/#stream=vitals&window=20")
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
    assert value.startswith("Window 20: Changed")
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


def test_keys_go_through_the_episodes_and_are_listed(visitor: Visitor, address: str) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    at_window(page, 20)
    page.keyboard.press("p")
    expect(page.locator("#inspector-title")).to_have_text("Episode 1")
    page.keyboard.press("n")
    expect(page.locator("#inspector-title")).to_have_text("Episode 2")
    page.keyboard.press("n")
    expect(page.locator("#inspector-title")).to_have_text("Episode 3")
    page.keyboard.press("n")
    expect(page.locator("#announcer")).to_contain_text("There is no later episode")
    page.keyboard.press("?")
    expect(page.locator("#help-dialog")).to_be_visible()
    expect(page.locator("#help-dialog")).to_contain_text("next and previous episode")
    page.keyboard.press("Escape")
    expect(page.locator("#help-dialog")).to_be_hidden()


def test_a_link_lays_out_the_same_for_two_people(visitor: Visitor, tmp_path: Path) -> None:
    places = "() => driftbn.cy.nodes().map((node) => [node.id(), node.position()])"
    with serving(tmp_path) as (service, address):
        service.publish(vitals()[:21])
        link = f"{address}/#stream=vitals&window=20"
        first = visitor.open(link)
        at_window(first, 20)
        service.publish(vitals()[21:])
        later = visitor.open(link, viewport=PHONE)
        at_window(later, 20)
        assert first.evaluate(places) == later.evaluate(places)


def test_picture_and_report_can_be_kept(visitor: Visitor, address: str, artefacts: Path) -> None:
    page = visitor.open(f"{address}/#stream=vitals&window=20")
    at_window(page, 20)
    for button, name, start in (
        ("#picture", "vitals-window-20.png", b"\x89PNG"),
        ("#report", "vitals-window-20.html", b"<!doctype html>"),
    ):
        with page.expect_download() as waiting:
            page.click(button)
        kept = artefacts / name
        waiting.value.save_as(kept)
        assert waiting.value.suggested_filename == name
        assert kept.read_bytes().startswith(start)
    assert "'KINKEDTUBE' and 'BP'" in kept.read_text("utf-8").replace("&#x27;", "'")


def test_an_open_episode_is_never_called_calm(visitor: Visitor, tmp_path: Path) -> None:
    with serving(tmp_path) as (service, address):
        service.publish(vitals()[:11])
        page = visitor.open(f"{address}/#stream=vitals")
        at_window(page, 10)
        assert vitals()[10].report["decision"]["level"] == "stable"
        expect(page.locator("#level")).to_have_text("Changed (open)")


def test_200_fields_are_drawn_soon_and_answer_to_a_click(
    visitor: Visitor, address: str, artefacts: Path
) -> None:
    started = time.monotonic()
    page = visitor.open(f"{address}/#stream=turbine&window=7")
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
    page = visitor.open(f"{address}/#stream=telemetry")
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
    page = visitor.open(f"{address}/#stream=vitals&window=20", viewport=PHONE, has_touch=True)
    at_window(page, 20)
    page.screenshot(path=artefacts / "page-phone.png", full_page=True)
    top = "(id) => document.getElementById(id).getBoundingClientRect().top"
    assert page.evaluate(top, "inspector") < page.evaluate(top, "graph")
    for width in (PHONE["width"], 380):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "view", ["window", "episode", "table", "field", "phone", "choices", "help", "empty"]
)
def test_axe_finds_nothing_to_complain_about(
    visitor: Visitor, address: str, scheme: str, view: str
) -> None:
    hashes = {"episode": "#stream=vitals&window=9&episode=0", "empty": "#stream=new-stream"}
    page = visitor.open(
        f"{address}/{hashes.get(view, '#stream=vitals&window=20')}",
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
    if view == "help":
        page.keyboard.press("?")
    if view == "choices":
        page.focus("#monitor")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("() => axe.run()")
    assert [
        (item["id"], [node["html"] for node in item["nodes"]]) for item in found["violations"]
    ] == []


def test_the_page_needs_nothing_but_its_own_files(visitor: Visitor, address: str) -> None:
    asked: list[str] = []
    page = visitor.open(f"{address}/#stream=quiet", wait=False)
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector("#graph[data-window]", state="attached")
    assert len(asked) > 10
    assert all(url.startswith(address) for url in asked)
