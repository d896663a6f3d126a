"""A page of a real browser, with what every test of the console must hold: no error, no violation by axe-core."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, ViewportSize, expect

SIZES: tuple[tuple[int, int, Literal["dark", "light"]], ...] = (
    (360, 800, "dark"),
    (390, 844, "light"),
    (1280, 800, "light"),
    (2560, 1440, "dark"),
)
"""Width, height and colours that every page is to be read in."""
_VIOLATIONS = """async () => (await axe.run({resultTypes: ["violations"]})).violations
    .map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`)
"""
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
expect.set_options(timeout=20_000)


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


class Tab:
    """One page in a context of its own: cookies, colours, size."""

    def __init__(self, browser: Browser, url: str, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        self.url = url
        self._size: ViewportSize = {"width": width, "height": height}
        self._context = browser.new_context(
            viewport=self._size, color_scheme="dark" if dark else "light", locale="en-GB"
        )
        self.page: Page = self._context.new_page()
        self.errors: list[str] = []
        self._expected: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))

    def open(self, path: str = "/") -> Page:
        """Load a page below /console."""
        self.page.goto(f"{self.url}/console{path}")
        return self.page

    def expects(self, pattern: str) -> None:
        """Let errors that match a regular expression pass: an action that is refused is one to the browser."""
        self._expected.append(pattern)

    def accessible(self) -> None:
        """Fail on every violation that axe-core finds, and on a page wider than its window."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe() + ";0")  # by the debugger's way: the page's own policy stays as it is
        violations: list[str] = self.page.evaluate(_VIOLATIONS)
        wide, window = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        where = f"{self.page.url} at {window} px"
        assert violations == [], f"{where}: {violations}"
        assert wide <= window, f"{where} is {wide} px wide"

    def accessible_in_every_size_and_colour(self) -> None:
        """Do so at 360, 390, 1,280 and 2,560 px, dark and light: one page, resized, as a window is."""
        for width, height, colours in SIZES:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.emulate_media(color_scheme=colours)
            self.accessible()

    def dialog(self, act: Callable[[], None]) -> Locator:
        """Do what opens the dialog; return it, open."""
        act()
        dialog = self.page.locator("#dialog")
        expect(dialog).to_be_visible()
        return dialog

    def close(self) -> None:
        """Close it; fail on what the browser complained of."""
        self._context.close()
        self.check()

    def clear(self) -> None:
        """Make it as good as new, at a third of what a new one costs; fail as ``close`` does."""
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.goto("about:blank")
        self._context.clear_cookies()
        self.page.set_viewport_size(self._size)
        self.page.emulate_media(color_scheme="null")
        try:
            self.check()
        finally:
            self.errors.clear()
            self._expected.clear()

    def check(self) -> None:
        """Fail on what the browser complained of."""
        left = [error for error in self.errors if not any(re.search(known, error) for known in self._expected)]
        assert left == [], "the browser complained:\n" + "\n".join(left)  # CI's short form shows the words only so

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")
