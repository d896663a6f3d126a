"""Whether a RUNNING task moves while there is work (``task.progress.timeout.ms``). Pure; not in Java.

Owns what counts as motionless. It is said, and nothing is done about it: who may stop a slow target is the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.config.table_sink_config import TableFlushSettings

AWAY_MS = 20_000  # brokers that do not answer for so long are named: in the status within half a minute


@dataclass(frozen=True, slots=True)
class Movement:
    """What is known of one task that runs, or should; times are monotonic ms."""

    moved_at_ms: int  # it began to run, or something moved
    behind_since_ms: int | None = None  # sinks: since when records are known to wait; None: none do
    calls: Sequence[tuple[str, int]] = ()  # calls that have not returned, and since when
    patience_ms: int = 0  # it holds records back so long on purpose
    unhosted_since_ms: int | None = None  # no executor hosts it, and that takes long
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
        return Stall(movement.unhosted_since_ms, "it waits for an executor", unhosted=True)
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
