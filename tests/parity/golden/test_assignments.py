"""Our leader tells made-up groups exactly what Java's told them: who starts and stops what, delay, offset."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.group import assignor as incremental
from spark_connect_rt.group import assignor as revocations
from tests.parity.golden.recordings import recording
from tests.parity.leaders import RecordedLeaders
from tests.parity.record_assignments import compare
from tests.parity.told import EVERYBODY
from tests.parity.traces import TRACES

HISTORIES: dict[str, dict[str, Any]] = recording("assignments")["histories"]
MADE_UP = [name for name in HISTORIES if name not in TRACES]


def first_difference(history: dict[str, Any]) -> str | None:
    """Live through a recorded history beside our leader; return where it goes another way."""
    try:
        rounds = compare(RecordedLeaders(history["answers"]), history["max_delay_ms"], history["steps"])
    except AssertionError as difference:
        return str(difference)
    assert rounds == len(history["answers"])
    return None


@pytest.mark.parametrize("name", TRACES)
def test_an_expected_trace_goes_as_in_java(name: str) -> None:
    max_delay_ms, steps = TRACES[name]
    recorded = HISTORIES[name]
    assert (recorded["max_delay_ms"], recorded["steps"]) == (max_delay_ms, steps), "record it again"
    assert first_difference(recorded) is None


@pytest.mark.parametrize("first", range(0, len(MADE_UP), 20))
def test_in_made_up_histories_our_leader_decides_as_javas(first: int) -> None:
    for name in MADE_UP[first : first + 20]:
        assert first_difference(HISTORIES[name]) is None, name


def test_the_recording_holds_what_the_assignors_can_do() -> None:
    answers = [answer for history in HISTORIES.values() for answer in history["answers"]]
    assert len(answers) > 1_500
    versions, errors, _, _, _, delays, members = zip(*(a[EVERYBODY] for a in answers), strict=True)
    assert set(versions) == {0, 1, 2}
    assert set(errors) == {0, 1}
    assert {0, 40, 1_600, 64_000, 300_000} <= set(delays)  # back-offs of successive revocations, the full delay
    assert max(map(len, members)) >= 8
    assert sum(" / " in str(a.values()) for a in answers) > 200


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (incremental, "fill", lambda load, items: _fill_without_levels(load, items)),
        (revocations, "_surplus", lambda total, held: {}),
        (revocations, "duplicated", lambda held: incremental.NOTHING),
        (revocations, "revoking_backoff_ms", lambda successive, limit: 0),
    ],
)
def test_the_comparison_notices_a_wrong_assignor(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(module, name, wrong)
    assert any(first_difference(history) for history in HISTORIES.values())


def _fill_without_levels(load: dict[str, Any], items: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    first = min(load)
    return {worker: (*held, *(items if worker == first else ())) for worker, held in load.items()}
