"""Every ``*.txt`` beside this file, run on a simulated cluster. ``--rewrite`` writes down the answers of now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.transcript import answered

FOLDER = Path(__file__).parent
STORIES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_scenario_runs_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    text = answered(path)
    if request.config.getoption("--rewrite"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_there_are_scenarios_and_each_says_why_it_exists() -> None:
    assert len(STORIES) >= 8
    assert all(path.read_text(encoding="utf-8").startswith("# ") for path in STORIES)
