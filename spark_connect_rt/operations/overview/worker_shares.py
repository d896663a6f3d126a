"""Reads between workers: a worker's share of every connector, a connector with all details, the worker's condition.

This module has the names and forms of these reads, and both ends of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spark_connect_rt._version import __version__
from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.descriptor_limit import descriptor_limit, open_descriptors
from spark_connect_rt.operations.overview.task_timeline import TaskCourses, TimelinePoint, added_up
from spark_connect_rt.rest.peers import GroupReads, WorkerAnswer
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.values import TableProgress
from spark_connect_rt.runtime.worker.table_progress import added_up as tables_added_up
from spark_connect_rt.runtime.worker.table_progress import progress_of

SHARES_KEPT_MS = 800  # less than ``group_overview.FRESH_MS``
SHARES, CONNECTOR, WORKER = "overview.shares", "overview.connector", "overview.worker"


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The work of a connector on a single worker or on all workers."""

    records_per_second: float
    lag: int | None
    errors: int
    lag_grows: bool


class WorkerShares:
    """The answers of this worker. Any thread may call it."""

    def __init__(
        self, views: HerderViews, courses: TaskCourses, clock: Clock, memory: Callable[[], int | None] | None = None
    ) -> None:
        """``memory`` returns the bytes that this process holds. None: the kernel's figure."""
        self._views = views
        self._courses = courses
        self._memory = memory or resident_bytes
        self._clock = clock
        self._started_ms = clock.now_ms()
        self._made: tuple[int | None, dict[str, list[Any]]] = (None, {})  # monotonic ms, and the shares

    def serve(self, reads: GroupReads) -> None:
        """Register the answers to the three reads."""
        reads.serve(SHARES, lambda _: self.shares())
        reads.serve(CONNECTOR, lambda arguments: self.connector(str(arguments.get("name", ""))))
        reads.serve(WORKER, lambda _: self.worker())

    def shares(self) -> dict[str, list[Any]]:
        """Return connector -> [records a second, lag, errors, whether the lag grows] of this worker's tasks.

        The sums are made at most once a second, however many workers ask.
        """
        made_ms, found = self._made
        now_ms = self._clock.monotonic_ms()
        if made_ms is None or now_ms - made_ms >= SHARES_KEPT_MS:
            found = self._added_up()
            self._made = (now_ms, found)
        return found

    def _added_up(self) -> dict[str, list[Any]]:
        growing, found = self._courses.growing(), dict[str, list[Any]]()
        for pace in self._views.task_paces():
            name = pace.task.connector
            share = found.get(name)
            if share is None:
                found[name] = [pace.records_per_s, pace.lag, pace.errors, name in growing]
                continue
            share[0] += pace.records_per_s
            share[1] = pace.lag if share[1] is None else share[1] + (pace.lag or 0)
            share[2] += pace.errors
        return found

    def connector(self, name: str) -> dict[str, Any]:
        """Return the counters of a connector's tasks on this worker, by number, the timeline of the last hour, and the
        progress of the tables that the tasks write.

        Workers of earlier versions refuse counters of a task that they do not know, so tables are not among these.
        """
        tasks = self._views.tasks_of(name)
        fields = ("executor", "records", "errors", "lag", "cpu_seconds")
        counted = {
            str(task.task.task): {field: getattr(task, field) for field in fields}
            | {"records_per_second": task.records_per_s}
            for task in tasks
        }
        course = [list(point) for point in self._courses.of_connector(name)]
        return {
            "tasks": counted,
            "course": course,
            "tables": [asdict(table) for task in tasks for table in task.tables],
        }

    def worker(self) -> dict[str, Any]:
        """Return the work of this worker, its health, memory and open files."""
        paces, health = self._views.task_paces(), self._views.health()
        detail = f": {health.detail}" if health.status != "healthy" and health.detail else ""
        return {
            "version": __version__,
            "health": f"{health.status}{detail}" + (f" ({health.note})" if health.note else ""),
            "connectors": sorted(self._views.connector_states()),
            "tasks": [str(task) for task in sorted(pace.task for pace in paces)],
            "records_per_second": round(sum(pace.records_per_s for pace in paces), 1),
            "memory_bytes": self._memory(),
            "open_files": open_descriptors(),
            "open_files_max": descriptor_limit().soft,
            "started_ms": self._started_ms,
        }


def shares_of(answers: Sequence[WorkerAnswer]) -> dict[str, WorkerReport]:
    """Return the share of each connector over all workers that answered. Malformed shares are left out."""
    found: dict[str, WorkerReport] = {}
    for answer in answers:
        if answer.why or not isinstance(answer.answer, Mapping):
            continue
        for name, share in answer.answer.items():
            read = _share(share)
            if read is not None:
                found[name] = read if name not in found else _sum(found[name], read)
    return found


def _share(given: Any) -> WorkerReport | None:
    try:
        rate, lag, errors, grows = given
        return WorkerReport(round(float(rate), 1), None if lag is None else int(lag), int(errors), bool(grows))
    except (TypeError, ValueError):
        return None


def _sum(share: WorkerReport, other: WorkerReport) -> WorkerReport:
    lag = other.lag if share.lag is None else share.lag + (other.lag or 0)
    rate = round(share.records_per_second + other.records_per_second, 1)
    return WorkerReport(rate, lag, share.errors + other.errors, share.lag_grows or other.lag_grows)


def counters_of(answers: Sequence[WorkerAnswer]) -> dict[int, Mapping[str, Any]]:
    """Return task number -> counters, from the workers that run the tasks."""
    tasks = [answer.answer["tasks"] for answer in answers if not answer.why]
    return {int(number): counters for found in tasks for number, counters in found.items()}


def course_of(answers: Sequence[WorkerAnswer]) -> list[TimelinePoint]:
    """Return the timeline of a connector, summed over all workers."""
    return added_up(
        [TimelinePoint(*point) for point in answer.answer["course"]] for answer in answers if not answer.why
    )


def tables_of(answers: Sequence[WorkerAnswer]) -> tuple[TableProgress, ...]:
    """Return the progress of each table of a connector, summed over all workers. Older workers report none."""
    given = [table for answer in answers if not answer.why for table in answer.answer.get("tables", ())]
    return tables_added_up(found for table in given if (found := progress_of(table)) is not None)


def resident_bytes() -> int | None:
    """Return the memory of this process in bytes, or None if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * 4096
