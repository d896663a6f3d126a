"""What is abnormal about a connector, in one line for those who are woken by it. Pure.

Owns the order: what stands first is what to look at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONG_MS = 60_000  # UNASSIGNED or RESTARTING: for a rebalance it is normal
LINE = 300  # characters
_PASSING = ("UNASSIGNED", "RESTARTING")
_RAISED = re.compile(r"(?:Caused by: )?(?:[A-Za-z_$][\w$]*\.)+([A-Z][\w$]*)(?:: |$)")  # a class with its package
_SENTENCE = 3  # words: fewer say nothing without the class, as in UnknownHostException: db.local


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """What is known of a connector (``task`` None) or of one of its tasks."""

    task: int | None
    state: str
    worker_id: str = ""
    error: str = ""  # one line
    since_ms: int = 0  # since 1970: when the state was written, or first seen; 0: unknown
    next_attempt_ms: int | None = None  # it is restarted by itself then
    given_up: str = ""  # why it is not restarted by itself any more
    stalled: str = ""  # why it moves nothing

    @property
    def is_quiet(self) -> bool:
        """Return whether time alone makes nothing abnormal of it, as long as its worker is there."""
        return not (self.state == "FAILED" or self.state in _PASSING or self.stalled)


def last_line(trace: str | None) -> str:
    """Return the line of a trace that says what went wrong, cut to what a page has room for.

    Python's traces say it last. Java's say it first; the last cause is what says why. The class goes without its
    package, and a sentence without the class.
    """
    lines = [line.strip() for line in (trace or "").strip().splitlines() if line.strip()]
    if not lines:
        return ""
    causes = [line for line in lines if line.startswith("Caused by: ")]
    is_java = any(line.startswith("at ") for line in lines)
    line = _without_package(causes[-1] if causes else lines[0] if is_java else lines[-1])
    return line if len(line) <= LINE else f"{line[: LINE - 1]}…"


def _without_package(line: str) -> str:
    raised = _RAISED.match(line)
    if raised is None:
        return line.removeprefix("Caused by: ")
    words = line[raised.end() :]
    return words if len(words.split()) >= _SENTENCE else f"{raised[1]}: {words}" if words else raised[1]


def why_abnormal(
    instances: Sequence[InstanceFacts],
    now_ms: int,
    *,
    members: frozenset[str] | None = None,
    lag: int | None = None,
    lag_grows: bool = False,
) -> str:
    """Return why somebody should look, in one line; empty: it is normal.

    Args:
        instances: the connector and its tasks.
        now_ms: since 1970.
        members: ids of the group's workers, and of those that left it just now; None or empty: not known.
        lag: records it is behind.
        lag_grows: over all of the last ten minutes.
    """
    tasks = sum(instance.task is not None for instance in instances)
    failed = [instance for instance in instances if instance.state == "FAILED"]
    passing = [instance for instance in instances if instance.state in _PASSING and _long(instance, now_ms)]
    gone = [instance for instance in instances if _is_gone(instance, members)]
    stalled = [instance for instance in instances if instance.stalled]
    said = [
        _failed(failed, tasks),
        f"{_names(gone, tasks)}: worker {gone[0].worker_id} has left the group" if gone else "",
        f"{_names(passing, tasks)} {passing[0].state} for {_time(now_ms - passing[0].since_ms)}" if passing else "",
        f"{_names(stalled, tasks)} moves nothing: {stalled[0].stalled}" if stalled else "",
        f"its lag has grown for ten minutes, to {lag} records" if lag_grows else "",
    ]
    line = "; ".join(filter(None, said))
    return line if len(line) <= 2 * LINE else f"{line[: 2 * LINE - 1]}…"


def _failed(failed: Sequence[InstanceFacts], tasks: int) -> str:
    if not failed:
        return ""
    first = failed[0]
    given_up = next((instance.given_up for instance in failed if instance.given_up), "")
    words = f"{_names(failed, tasks)} FAILED" + (f": {first.error}" if first.error else "")
    if given_up:
        return f"{words} (no further restart: {given_up})"
    return f"{words} (restarts automatically)" if first.next_attempt_ms is not None else words


def _names(instances: Sequence[InstanceFacts], tasks: int) -> str:
    """Return who it is about: the connector, task 3, or 2 of 5 tasks."""
    of_tasks = [instance for instance in instances if instance.task is not None]
    if len(of_tasks) < len(instances):
        return "the connector" + (f" and {len(of_tasks)} of {tasks} tasks" if of_tasks else "")
    return f"task {of_tasks[0].task}" if len(of_tasks) == 1 else f"{len(of_tasks)} of {tasks} tasks"


def _long(instance: InstanceFacts, now_ms: int) -> bool:
    return instance.since_ms > 0 and now_ms - instance.since_ms >= LONG_MS


def _is_gone(instance: InstanceFacts, members: frozenset[str] | None) -> bool:
    return (
        bool(members)
        and bool(instance.worker_id)
        and instance.state not in _PASSING
        and instance.worker_id not in (members or ())
    )


def _time(passed_ms: int) -> str:
    seconds = passed_ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3600} h"


def any_loud(instances: Iterable[InstanceFacts]) -> bool:
    """Return whether the verdict may change by time alone."""
    return not all(instance.is_quiet for instance in instances)
