"""A page of a real browser, with what every test of the console must hold: no error, nothing axe-core calls serious."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
expect.set_options(timeout=20_000)


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


class Tab:
    """One page in a context of its own: cookies, colours, size."""

    def __init__(self, browser: Browser, url: str, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        self.url = url
        self._context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", locale="en-GB"
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
        """Fail on what axe-core finds serious or critical, and on a page wider than its window."""
        self.page.evaluate(_axe() + ";0")  # by the debugger's way: the page's own policy stays as it is
        found: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        serious = [
            f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes']][:3]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        wide, window = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window, f"the page is {wide} px wide in a window of {window} px"

    def dialog(self, act: Callable[[], None]) -> Locator:
        """Do what opens the dialog; return it, open."""
        act()
        dialog = self.page.locator("#dialog")
        expect(dialog).to_be_visible()
        return dialog

    def close(self) -> None:
        """Close it; fail on what the browser complained of."""
        self._context.close()
        left = [one for one in self.errors if not any(re.search(known, one) for known in self._expected)]
        assert left == [], "the browser complained:\n" + "\n".join(left)  # CI's short form shows the words only so

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")
