"""Which Chromium the tests drive: the machine's, else playwright's own. ``python -m tests.browser.chromium`` gets one.

Debian's package where root may install it, else playwright's download; where neither can be, the command is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMED = "CONNECTRT_CHROMIUM"  # a path
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_HOW = (
    "the browser tests need a Chromium and found none. As root on Debian: apt-get install chromium; elsewhere: "
    f"python -m playwright install --with-deps chromium; or {NAMED}=/path/of/a/chromium"
)


def find_chromium() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    if named := os.environ.get(NAMED):
        return named
    for name in _NAMES:
        # /usr/bin/chromium-browser of Ubuntu is a shell script that asks for a snap
        if (found := shutil.which(name)) and not _asks_for_snap(Path(found)):
            return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def chromium() -> str:
    """Return the path of a Chromium. Raises RuntimeError with the command that gets one."""
    found = find_chromium()
    if found is None:
        raise RuntimeError(_HOW)
    return found


def _asks_for_snap(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(4096)
    return head.startswith(b"#!") and b"snap" in head


def install() -> int:
    """Get a Chromium if there is none; return an exit code."""
    if find_chromium() is not None:
        return 0
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    commands: list[list[str]] = []
    if root and shutil.which("apt-get"):
        commands.append(["sh", "-c", "apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium"])
    playwright = [sys.executable, "-m", "playwright", "install"]
    commands.append([*playwright, *(["--with-deps"] if root else []), "chromium"])
    for command in commands:
        print(f"no Chromium for the browser tests: {' '.join(command)}", flush=True)
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=600)
        if done.returncode == 0 and find_chromium() is not None:
            return 0
    print(_HOW, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(install())
