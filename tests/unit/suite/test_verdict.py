"""One more try, and what it leaves red: decided from the reports alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suite.verdict import Finished, Outcome, causes, judged, outcomes, section_of, sections, slowest, to_try_again


def line(nodeid: str, outcome: str = "passed", when: str = "call", **more: Any) -> dict[str, Any]:
    return {"$report_type": "TestReport", "nodeid": nodeid, "outcome": outcome, "when": when, "duration": 0.5, **more}


def failed(nodeid: str) -> Outcome:
    return Outcome(nodeid, 1.0, ["call: assert 1 == 2"])


def real(*tests: Outcome, code: int = 1) -> Finished:
    return Finished("real processes", code, 10.0, tests, tries_again=True)


A, B = "tests/e2e/test_a.py::test_one", "tests/integration/kafka/test_b.py::test_two[x]"


def test_the_phases_of_a_test_are_one_outcome() -> None:
    (outcome,) = outcomes([line(A, when="setup"), line(A), line(A, "failed", "teardown", longrepr="it leaks")])
    assert (outcome.nodeid, outcome.seconds, outcome.failures) == (A, 1.5, ["teardown: it leaks"])


def test_a_failure_keeps_its_trace_and_what_was_printed() -> None:
    trace = {
        "reprcrash": {"message": "assert 1 == 2"},
        "reprtraceback": {"reprentries": [{"data": {"lines": ["    assert x == 2"]}}]},
    }
    (outcome,) = outcomes([line(A, "failed", longrepr=trace, sections=[["Captured log", "a warning"]])])
    assert outcome.failures == ["call:     assert x == 2\nassert 1 == 2\n-- Captured log\na warning"]


def test_a_file_that_cannot_be_collected_is_a_failure_without_another_try() -> None:
    broken = {"$report_type": "CollectReport", "nodeid": "tests/e2e/test_a.py", "outcome": "failed", "longrepr": "no"}
    step = real(*outcomes([broken]))
    assert to_try_again([step]) == ()
    assert judged([step]).failed_tests == ["tests/e2e/test_a.py"]
    assert not judged([step]).green


def test_skipped_tests_are_not_green_and_expected_failures_are() -> None:
    skipped = judged([Finished("unit", 0, 1.0, outcomes([line(A, "skipped", "setup")]))])
    assert (skipped.green, skipped.skipped, skipped.passed) == (False, [A], 0)
    expected = judged([Finished("unit", 0, 1.0, outcomes([line(A, "skipped", wasxfail="known")]))])
    assert expected.green


def test_real_processes_get_one_more_try_and_are_flaky_when_it_passes() -> None:
    step = real(failed(A), Outcome(B, 1.0))
    assert to_try_again([step]) == (A,)
    verdict = judged([step], Finished("one more try", 0, 2.0, [Outcome(A, 2.0)]))
    assert verdict.green
    assert [(flaky.nodeid, flaky.first) for flaky in verdict.flaky] == [(A, "call: assert 1 == 2")]
    assert verdict.passed == 2


def test_test_that_fails_twice_is_red() -> None:
    verdict = judged([real(failed(A))], Finished("one more try", 1, 2.0, [failed(A)]))
    assert (verdict.green, verdict.flaky, verdict.failed_tests) == (False, [], [A])
    assert verdict.failed_steps == ["real processes"]


def test_failed_test_that_was_not_run_again_is_red() -> None:
    verdict = judged([real(failed(A), failed(B))], Finished("one more try", 2, 2.0, [Outcome(A, 2.0)]))
    assert verdict.failed_tests == [B]
    assert not verdict.green


@pytest.mark.parametrize("count", [3, 4])
def test_more_than_three_failures_are_not_repeated(count: int) -> None:
    step = real(*(failed(f"{A}[{number}]") for number in range(count)))
    assert len(to_try_again([step])) == (3 if count == 3 else 0)


def test_the_most_is_that_of_the_whole_run() -> None:
    two = [real(*(failed(f"{name}[{number}]") for number in range(2))) for name in (A, B)]
    assert to_try_again(two) == ()
    assert len(to_try_again([two[0], real(failed(B))])) == 3


def test_a_set_up_that_tests_share_is_one_failure() -> None:
    shared = [Outcome(f"{A}[{number}]", 1.0, ["setup: a broker did not come up"]) for number in range(5)]
    assert causes([*shared, failed(B)]) == 2
    assert to_try_again([real(*shared, failed(B))]) == (*(outcome.nodeid for outcome in shared), B)
    assert causes([Outcome(f"{A}[{number}]", 1.0, ["setup: x", "teardown: y"]) for number in range(5)]) == 5


def test_other_steps_never_try_again() -> None:
    unit = Finished("unit", 1, 1.0, [failed("tests/unit/test_x.py::test_y")])
    assert to_try_again([unit]) == ()
    assert not judged([unit], Finished("one more try", 0, 1.0, [Outcome("tests/unit/test_x.py::test_y")])).green


@pytest.mark.parametrize("code", [2, 3, 4, 5, -9])
def test_a_step_that_broke_off_is_red_whatever_its_tests_say(code: int) -> None:
    step = real(Outcome(A), code=code)
    assert to_try_again([step]) == ()
    assert judged([step]).failed_steps == ["real processes"]
    assert to_try_again([real(failed(A), code=code)]) == ()
    assert not judged([real(failed(A), code=code)], Finished("one more try", 0, 1.0, [Outcome(A)])).green


def test_a_check_that_fails_is_red() -> None:
    assert judged([Finished("lint", 1, 3.0)]).failed_steps == ["lint"]


def test_times_are_booked_by_folder() -> None:
    steps = [Finished("lint", 0, 3.0), real(Outcome(A, 2.0), Outcome(B, 5.0), code=0)]
    assert [(row["section"], row["tests"], row["seconds"]) for row in sections(steps)] == [
        ("lint", 0, 3.0),
        ("e2e", 1, 2.0),
        ("integration/kafka", 1, 5.0),
    ]
    assert [row["test"] for row in slowest(steps)] == [B, A]
    assert section_of("tests/unit/topics/test_x.py::test") == "unit"
    assert section_of("tests/integration/test_x.py::test") == "integration"
