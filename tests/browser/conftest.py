"""Headless Chromium for the tests of the dashboard: the system's own, driven by Playwright's core."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # small in containers
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 20_000
WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of this directory."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="Playwright's Python package drives the browser")
    api.expect.set_options(timeout=PATIENCE_MS)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Tabs:
    """Opens pages, each with storage of its own, and keeps what went wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self.problems: list[str] = []
        self.allowed: tuple[str, ...] = ()
        self._browser = browser
        self._contexts: list[Any] = []

    def open(self, url: str, **options: Any) -> Page:
        """A page at `url`. `options` go to the browser's context."""
        context = self._browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **options})
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._on_console)
        page.goto(url)
        return page

    def close(self) -> None:
        """Close all of them."""
        for context in self._contexts:
            context.close()

    def _on_console(self, message: Any) -> None:
        # The browser itself reports every answer that is no success, and every connection that broke.
        expected = ("Failed to load resource", *self.allowed)
        if message.type in ("error", "warning") and not message.text.startswith(expected):
            self.problems.append(f"{message.type}: {message.text}")


@pytest.fixture
def tabs(chromium: Browser) -> Iterator[Tabs]:
    """Opens pages; an error or a breach of the content security policy in one of them fails the test."""
    tabs = Tabs(chromium)
    yield tabs
    tabs.close()
    assert tabs.problems == []
