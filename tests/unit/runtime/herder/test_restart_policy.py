"""When a FAILED task is started again, and when no more."""

import traceback
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.base.traces import error_of
from spark_connect_rt.config.management_config import HealthSettings
from spark_connect_rt.errors import DataError
from spark_connect_rt.runtime.herder import health as restart_policy
from spark_connect_rt.runtime.herder.health import Failure, RestartVerdict

POLICY = HealthSettings.of(
    {
        "errors.restart.policy": "backoff",
        "errors.restart.delay.ms": 100,
        "errors.restart.delay.max.ms": 1_000,
        "errors.restart.max": 4,
        "errors.restart.window.ms": 60_000,
        "errors.restart.poison": 3,
    }
)
BAD_LINE = "ValueError: line 7 is bad"


def decide_restart(policy: Any, seen: Any, chance: float = 0.5) -> RestartVerdict:
    return restart_policy.decide_restart(policy, seen, chance)


def failures(*at_ms: int, error: str = "OSError: away", moved: bool = False) -> list[Failure]:
    return [Failure(moment, error, moved) for moment in at_ms]


def test_the_wait_doubles_up_to_the_longest() -> None:
    delays = []
    for count in range(1, 5):
        at = list(range(0, count * 10, 10))
        verdict = decide_restart(POLICY, failures(*at))
        assert verdict.attempt == count
        assert verdict.at_ms is not None
        delays.append(verdict.at_ms - at[-1])
    assert delays == [100, 200, 400, 800]
    patient = replace(POLICY, errors_restart_max=1_000, errors_restart_poison=1_000)
    assert decide_restart(patient, failures(*range(900))).at_ms == 899 + 1_000


def test_a_budget_that_is_spent_ends_it_and_says_so() -> None:
    verdict = decide_restart(POLICY, failures(0, 10, 20, 30, 40))
    assert (verdict.attempt, verdict.at_ms) == (4, None)
    assert verdict.stopped == "4 restarts within 60000 ms did not help"


def test_failures_older_than_the_window_do_not_count() -> None:
    verdict = decide_restart(POLICY, failures(0, 10, 20, 30, 60_025))
    assert (verdict.attempt, verdict.at_ms) == (2, 60_025 + 200)


def test_the_same_error_at_the_same_offset_is_poison() -> None:
    first = Failure(0, BAD_LINE, moved=True)
    twice = [first, *failures(10, error=BAD_LINE)]
    assert decide_restart(POLICY, twice).at_ms is not None
    verdict = decide_restart(POLICY, [*twice, *failures(20, error=BAD_LINE)])
    assert verdict.at_ms is None
    assert verdict.stopped == f"failed 3 times with the same error and no committed offset in between: {BAD_LINE}"


@pytest.mark.parametrize(
    "other",
    [
        Failure(20, BAD_LINE, moved=True),  # it got on: this is another record
        Failure(20, "ValueError: line 8 is bad", moved=False),
    ],
)
def test_progress_or_another_error_is_not_poison(other: Failure) -> None:
    assert decide_restart(POLICY, [*failures(0, 10, error=BAD_LINE), other]).at_ms is not None


@pytest.mark.parametrize(
    "error",
    [
        "ConnectionRefusedError: [Errno 111]",
        "psycopg.OperationalError: the server closed the connection",
        "spark_connect_rt.errors.TimedOutError: no answer",
        "httpx.ConnectError: all attempts failed",
    ],
)
def test_an_unreachable_target_is_not_poison(error: str) -> None:
    assert decide_restart(POLICY, failures(0, 10, 20, error=error)).at_ms is not None


def test_poison_can_be_switched_off() -> None:
    policy = replace(POLICY, errors_restart_poison=0, errors_restart_delay_ms=1, errors_restart_max=10)
    assert decide_restart(policy, failures(0, 1, 2, 3, 4, error=BAD_LINE)).at_ms == 4 + 16


def test_the_error_of_a_trace_is_its_class_and_whole_message() -> None:
    try:
        try:
            raise OSError("gone")
        except OSError as error:
            raise DataError("line 3:\nnote: it is empty") from error
    except DataError:
        trace = traceback.format_exc()
    assert error_of(trace) == "spark_connect_rt.errors.DataError: line 3:\nnote: it is empty"
    assert error_of("The engine ended task a-0 though nobody asked for it.").startswith("The engine ended")
    assert error_of("") == "(no trace)"


def test_a_connector_says_it_else_the_worker_else_the_default() -> None:
    worker = HealthSettings.of({"errors.restart.policy": "backoff", "errors.restart.max": "7"})
    settings = worker.overridden({"errors.restart.max": "2", "errors.restart.poison": "${x:y}"})
    assert settings.errors_restart_policy == "backoff"
    assert (settings.errors_restart_max, settings.errors_restart_poison) == (2, 3)
    assert HealthSettings.of({}).errors_restart_policy == "none"


def test_restarts_of_what_failed_together_are_spread() -> None:
    first = [decide_restart(POLICY, failures(0), chance).at_ms for chance in (0.0, 0.5, 1.0)]
    assert first == [80, 100, 120]
    longest = failures(*range(0, 40, 10))
    assert decide_restart(replace(POLICY, errors_restart_max=10), [*longest, *failures(50)], 1.0).at_ms == 50 + 1_000
