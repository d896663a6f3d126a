"""A pytest plug-in: files that took longest in the recorded run come first, so no lane is left with one at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.suite.result_file import RESULTS


def recorded_seconds(results: Path) -> dict[str, float]:
    """Return seconds by file of the recorded run; empty without one."""
    if not results.is_file():
        return {}
    files: dict[str, float] = json.loads(results.read_text(encoding="utf-8")).get("files", {})
    return files


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order files by recorded time; a file nobody has timed is taken for a long one. Tests of a file stay in order."""
    seconds = recorded_seconds(RESULTS)
    items.sort(key=lambda item: -seconds.get(item.nodeid.split("::", 1)[0], 1_000.0))
