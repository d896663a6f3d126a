"""The same requests to Java Connect and to ours, side by side: the same answers, but for the listed differences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parity.conversation import Ask, Heard, Said
from tests.parity.golden.recordings import recording
from tests.parity.live.comparison import comparable
from tests.parity.live.wanted import WANTED
from tests.parity.scripts import LONG

pytestmark = pytest.mark.timeout(600)  # the first test's set-up is both conversations, one after the other
STEPS = [step.name for step in LONG if isinstance(step, Ask)]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "differences.md"


def test_the_conversation_is_long_enough() -> None:
    assert len(set(STEPS)) == len(STEPS) >= 150


@pytest.mark.parametrize("name", STEPS)
def test_ours_answers_as_java_does(from_java: Heard, from_ours: Heard, name: str) -> None:
    assert name in from_java.answers, f"the oracle never came to {name!r}: {from_java.broke}"
    assert name in from_ours.answers, f"ours never came to {name!r}: {from_ours.broke}"
    wanted = WANTED.get(name)
    ignored = wanted.differs if wanted else frozenset()
    expected = {part: it for part, it in comparable(from_java.answers[name]).items() if part not in ignored}
    found = {part: it for part, it in comparable(from_ours.answers[name]).items() if part not in ignored}
    assert found == expected


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_wanted_difference_is_one(from_java: Heard, from_ours: Heard, name: str) -> None:
    """A line of the list that is no difference any more must go."""
    assert name in from_ours.answers, f"ours never came to {name!r}: {from_ours.broke}"
    assert comparable(from_java.answers[name]) != comparable(from_ours.answers[name])


def test_every_wanted_difference_is_explained_to_users() -> None:
    rows = set(re.findall(r"^\| \*\*(.+?)\*\* ?\|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert {wanted.heading for wanted in WANTED.values()} <= rows


@pytest.mark.parametrize("recorded", recording("rest")["answers"], ids=lambda answer: answer["name"])
def test_the_recording_is_still_what_java_says(from_java: Heard, recorded: dict[str, str]) -> None:
    """Guards the golden file against a changed script that was not recorded again."""
    if recorded["name"] not in STEPS or "PluginDesc" in recorded["body"]:
        return  # recorded beside the conversation; or it holds the recorder's folder
    assert comparable(from_java.answers[recorded["name"]]) == comparable(Said(**recorded))  # type: ignore[arg-type]
