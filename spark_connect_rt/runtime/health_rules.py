"""Whether and when a FAILED connector or task is started again by itself (``errors.restart.*``). Pure; not in Java.

Owns: back-off, budget, and telling a record that no attempt can pass from a target that is away. A failure is a fact,
the verdict follows from the failures so far and the policy; who keeps them and acts is runtime.herder.steps.health.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.config.management_config import HealthSettings
from spark_connect_rt.config.spark_connectors import TableFlushSettings
from spark_connect_rt.topics.status_records import ConnectorStatus, State

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


# Which instances one restart request touches (KIP-745; Java ``RestartPlan``, ``RestartRequest``).


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What the user asked for."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> tuple[bool, bool]:
        """Order of requests: tasks or not weighs less than failed-only or all (the KIP's order)."""
        return (not self.only_failed, self.include_tasks)


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What is to be restarted: the connector or not, and tasks by number."""

    request: RestartRequest
    restart_connector: bool
    tasks: tuple[int, ...]

    def empty(self) -> bool:
        """Return whether there is nothing to restart."""
        return not (self.restart_connector or self.tasks)


def plan_restart(
    request: RestartRequest, connector: ConnectorStatus | None, tasks: Mapping[int, ConnectorStatus]
) -> RestartPlan | None:
    """Plan from the status topic's facts; None when the connector has no status at all."""
    if connector is None:
        return None

    def chosen(status: ConnectorStatus) -> bool:
        return not request.only_failed or status.state is State.FAILED

    numbers = [n for n, status in sorted(tasks.items()) if request.include_tasks and chosen(status)]
    return RestartPlan(request, chosen(connector), tuple(numbers))


def most_impactful(requests: Iterable[RestartRequest]) -> dict[str, RestartRequest]:
    """Keep one pending request a connector: the one that restarts the most."""
    kept: dict[str, RestartRequest] = {}
    for request in requests:
        known = kept.get(request.connector)
        if known is None or request.impact > known.impact:
            kept[request.connector] = request
    return kept


# Whether a RUNNING task moves while there is work (``task.progress.timeout.ms``). Pure; not in Java.
#
# Owns what counts as motionless. It is said, and nothing is done about it: who may stop a slow target is the user.


AWAY_MS = 20_000  # brokers that do not answer for so long are named: in the status within half a minute


@dataclass(frozen=True, slots=True)
class Movement:
    """What is known of one task that runs, or should; times are monotonic ms."""

    moved_at_ms: int  # it began to run, or something moved
    behind_since_ms: int | None = None  # sinks: since when records are known to wait; None: none do
    calls: Sequence[tuple[str, int]] = ()  # calls that have not returned, and since when
    patience_ms: int = 0  # it holds records back so long on purpose
    unhosted_since_ms: int | None = None  # no executor hosts it, and that takes long
    unhosted_why: str = ""  # why no process can be opened for it, as far as that is known
    unhosted_late: bool = True  # for so long that the worker is not healthy
    away: Sequence[tuple[str, int]] = ()  # clusters of which no broker answers, in words, and since when


@dataclass(frozen=True, slots=True)
class Stall:
    """Why a task is motionless, and since when, monotonic ms."""

    since_ms: int
    reason: str
    unhosted: bool = False


def unhosted_text(stalls: Mapping[str, Stall], now_ms: int) -> str:
    """Return what is to be said of tasks that wait for executors; empty: none does.

    Args:
        stalls: task -> its stall.
        now_ms: monotonic.
    """
    waiting = {task: stall.since_ms for task, stall in stalls.items() if stall.unhosted}
    if not waiting:
        return ""
    longest = min(waiting, key=lambda task: (waiting[task], task))
    return (
        f"Tasks that wait for an executor: {len(waiting)}; {longest} for {(now_ms - waiting[longest]) // 1000} s. "
        "Is the cluster full, or its master unreachable?"
    )


def stall_of(movement: Movement, now_ms: int, timeout_ms: int) -> Stall | None:
    """Return what holds a task up for ``timeout_ms`` and more; None: it moves, or has nothing to do. 0: never asked.

    That no executor hosts it is known without asking.
    """
    if movement.unhosted_since_ms is not None:
        why = f", because {movement.unhosted_why}" if movement.unhosted_why else ""
        return Stall(movement.unhosted_since_ms, f"it waits for an executor{why}", unhosted=movement.unhosted_late)
    if not timeout_ms:
        return None
    away = [(since_ms, what) for what, since_ms in movement.away if now_ms - since_ms >= AWAY_MS]
    if away:
        return Stall(*min(away))
    overdue = [(since_ms, call) for call, since_ms in movement.calls if now_ms - since_ms >= timeout_ms]
    if overdue:
        since_ms, call = min(overdue)
        return Stall(since_ms, f"{call}() has not returned")
    if movement.behind_since_ms is None:
        return None
    since_ms = max(movement.moved_at_ms, movement.behind_since_ms)
    if now_ms - since_ms < timeout_ms + movement.patience_ms:
        return None
    return Stall(since_ms, "records wait, but none of them was taken")


def patience_ms(table_config: Mapping[str, str]) -> int:
    """Return how long a task that Spark writes as a table may collect records before it writes them."""
    return TableFlushSettings.of({}).overridden(table_config).flush_interval_ms
