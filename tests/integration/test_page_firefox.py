"""The page in Firefox: drawn, without a complaint of axe, and used by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.firefox import Firefox
from tests.services.page_data import serving, vitals

AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"


@pytest.mark.slow
def test_firefox_shows_the_page_and_a_keyboard_is_enough(tmp_path: Path) -> None:
    browser = Firefox(tmp_path)
    browser.start()
    try:
        with serving(tmp_path / "state") as (service, address):
            service.publish(vitals()[:24])
            browser.open(f"{address}/#stream=vitals&window=20")
            browser.wait("document.querySelector('#graph[data-window=\"20\"]')")
            words = browser.run("return document.getElementById('inspector').innerText")
            assert "How it changed: among records with" in words
            browser.run(AXE.read_text("utf-8"))
            found = browser.run("return (await axe.run()).violations.map((item) => item.id)")
            assert found == []
            browser.press("p")
            browser.wait("location.hash.includes('episode=1')")
            browser.press("?")
            browser.wait("document.getElementById('help-dialog').open")
            browser.press("\ue007")  # Enter, on the button that has the focus
            browser.wait("!document.getElementById('help-dialog').open")
    finally:
        browser.stop()
