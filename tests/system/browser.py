"""A real browser without a screen, and what is noted while it looks at a page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    StorageState,
    sync_playwright,
)

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SCREENSHOTS = "PAGE_SCREENSHOTS"
"""Environment variable with a folder: pictures of the page are kept there."""
WINDOW = {"width": 1440, "height": 900}
SETTLED_MS = 1_000
"""Time for a change of colours before a picture is taken."""
LIMIT_MS = 60_000
"""How long the browser waits for what it is told to find, on a busy machine too."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium that Playwright installed, else the system's."""
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        program = own if Path(own).exists() else next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None:
            pytest.skip("no Chromium is installed: apt-get install chromium fonts-dejavu-core")
        browser = playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()


def profile(
    browser: Browser, base_url: str, *, scheme: str = "light", cookies: StorageState | None = None
) -> BrowserContext:
    """Make a browser's profile: cookies and a cache of its own, which live until it is closed.

    :param scheme: ``light`` or ``dark``, as the person's system has it.
    :param cookies: of an earlier login; None for a stranger.
    """
    context = browser.new_context(
        base_url=base_url,
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": WINDOW["width"], "height": WINDOW["height"]},
        timezone_id="America/New_York",
        locale="en-US",
        storage_state=cookies,
    )
    context.set_default_timeout(LIMIT_MS)
    return context


@dataclass(kw_only=True)
class Visitor:
    """A person at a browser.

    :param errors: what the page's scripts complained of. :param hosts: what was asked for anything.
    """

    page: Page
    base_url: str
    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    @classmethod
    @contextmanager
    def come(
        cls, browser: Browser, base_url: str, *, cookies: StorageState | None = None
    ) -> Iterator[Visitor]:
        """Open a window of a new profile, whose cache is empty."""
        with closing(profile(browser, base_url, cookies=cookies)) as own, cls.open(own, base_url) as visitor:
            yield visitor

    @classmethod
    @contextmanager
    def open(cls, context: BrowserContext, base_url: str) -> Iterator[Visitor]:
        """Open a window of a profile, and close it at the end."""
        page = context.new_page()
        visitor = cls(page=page, base_url=base_url)
        page.on("console", visitor._said)
        page.on("pageerror", lambda error: visitor.errors.append(str(error)))
        page.on("request", lambda request: visitor._asked(request.url))
        try:
            yield visitor
        finally:
            page.close()

    def sign_in(self, user: str, password: str) -> None:
        """Fill in the form that Airflow shows to a stranger, and wait until it lets in."""
        self.page.goto("/")
        self.page.locator("input[name=username]").fill(user)
        self.page.locator("input[name=password]").fill(password)
        self.page.locator("button[type=submit]").click()
        self.page.wait_for_url(lambda url: "/auth/login" not in url)
        self.page.get_by_text("Home", exact=True).first.wait_for()

    def picture(self, name: str, of: Locator | None = None) -> None:
        """Keep a picture of the window, or of a part of it, where pictures are asked for."""
        if folder := os.environ.get(SCREENSHOTS):
            (of or self.page).screenshot(path=Path(folder) / f"{name}.png")

    def pictures(self, name: str, of: Locator | None = None) -> None:
        """Keep a picture in the light and one in the dark, likewise; the page follows the person's system."""
        for scheme in ("dark", "light") if SCREENSHOTS in os.environ else ():
            self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            self.page.wait_for_timeout(SETTLED_MS)
            self.picture(f"{name}-{scheme}", of)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} {message.location}")

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob"):
            self.hosts.add(f"{parts.scheme}://{parts.netloc}")
