"""The page in a real browser: fixtures for tests, and what they ask again and again.

Screenshots go to the directory that DRIFTBN_ARTEFACTS names, or else to a temporary one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.page_data import all_publications, serving
from tests.services.process import missing

try:
    from playwright.sync_api import Browser, Page, expect, sync_playwright
except ImportError:  # the fixture says so
    Browser = Page = expect = sync_playwright = None

__all__ = ["DESK", "PHONE", "Page", "Visitor", "at_window", "colour", "expect"]

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
DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PATIENCE = 60_000
"""Milliseconds; a machine that runs other tests as well takes its time."""
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if sync_playwright is None:
        missing("playwright is not installed: pip install playwright")
    if not Path(CHROMIUM).exists():
        missing("Chromium is not installed: it comes with the package chromium")
    with sync_playwright() as started:
        expect.set_options(timeout=PATIENCE)
        found = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with all kinds of monitors, in which nothing happens."""
    with serving(tmp_path_factory.mktemp("page")) as (service, found):
        for publications in all_publications():
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
