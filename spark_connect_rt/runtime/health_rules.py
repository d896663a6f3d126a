"""Whether and when a FAILED connector or task is started again by itself (``errors.restart.*``). Pure; not in Java.

Owns: back-off, budget, and telling a record that no attempt can pass from a target that is away. A failure is a fact,
the verdict follows from the failures so far and the policy; who keeps them and acts is runtime.herder.steps.health.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.config.health_config import HealthSettings

_ERROR_LINE = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?::|$)")
_FRAME = '  File "'
NOT_THE_RECORDS_FAULT = frozenset(
    {
        "RetriableError",
        "TimedOutError",
        "UnreachableError",
        "ExternalError",
        "OSError",
        "TimeoutError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "gaierror",
        "OperationalError",  # PEP 249: of the database's operation, not of what was written
        "InterfaceError",
        "httpx.ConnectError",
        "ReadTimeout",
        "ConnectTimeout",
    }
)
"""Errors, by name or the last part of it, that come from a target which is away: they never make a record poison."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of one connector or task."""

    at_ms: int  # monotonic
    error: str  # see ``error_of``
    moved: bool = True  # an offset was committed since the failure before; always so for connectors


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """What is done about the newest failure: a restart at ``at_ms``, or none any more and why."""

    attempt: int  # restarts within the window, with this one
    at_ms: int | None
    stopped: str = ""


def error_of(trace: str) -> str:
    """Return what a trace says after its frames: the error's class and its whole message."""
    lines = trace.strip().splitlines() or ["(no trace)"]
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    behind = lines[frames[-1] if frames else 0 :]
    starts = [number for number, line in enumerate(behind) if _ERROR_LINE.match(line)]
    return "\n".join(behind[starts[0] :] if starts else lines[-1:])


def decide_restart(settings: HealthSettings, failures: Sequence[Failure], chance: float) -> RestartVerdict:
    """Decide about the newest of ``failures``: oldest first, each but the last was followed by a restart.

    ``chance`` from 0 to 1 spreads the restarts of what failed at one instant (``Backoff.wait``).
    """
    newest = failures[-1]
    recent = [failure for failure in failures if newest.at_ms - failure.at_ms < settings.errors_restart_window_ms]
    attempt = len(recent)
    same = _in_a_row(failures)
    if settings.errors_restart_poison and same >= settings.errors_restart_poison and _may_be_a_record(newest.error):
        first_line = newest.error.splitlines()[0]
        return RestartVerdict(
            attempt - 1,
            None,
            f"failed {same} times with the same error and no committed offset in between: {first_line}",
        )
    if attempt > settings.errors_restart_max:
        why = f"{settings.errors_restart_max} restarts within {settings.errors_restart_window_ms} ms did not help"
        return RestartVerdict(attempt - 1, None, why)
    delays = Backoff(settings.errors_restart_delay_ms, settings.errors_restart_delay_max_ms)
    return RestartVerdict(attempt, newest.at_ms + int(delays.wait(attempt, chance)))


def _in_a_row(failures: Sequence[Failure]) -> int:
    """Return how many failures, counted back from the newest, are the same at the same offsets."""
    count = 0
    for failure in reversed(failures):
        if failure.error != failures[-1].error:
            break
        count += 1
        if failure.moved:  # what was before it was elsewhere
            break
    return count


def _may_be_a_record(error: str) -> bool:
    found = _ERROR_LINE.match(error)
    name = found["kind"] if found else ""
    return not {name, name.rpartition(".")[2]} & NOT_THE_RECORDS_FAULT
