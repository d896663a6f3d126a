"""Answers of the overview for the whole group: pages, one connector whole, the workers.

Owns what is put together from several sources for one answer; the rows themselves are group_rows'.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.errors import ConnectError, ForbiddenError
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.operations.overview.model import (
    ConnectorDetail,
    CoursePoint,
    GroupInfo,
    GroupWorkerRow,
    OverviewChange,
    OverviewPage,
    TaskRow,
)
from spark_connect_rt.operations.overview.rows import GroupRows
from spark_connect_rt.operations.overview.selection import OverviewQuery
from spark_connect_rt.operations.overview.worker_shares import CONNECTOR, WORKER, counters_of, course_of
from spark_connect_rt.rest.peers import ASK_LIMIT_MS, JAVA, GroupReads, GroupWorker, WorkerAnswer, unanswered
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.values import TaskState
from spark_connect_rt.topics.aggregate_state import aggregate_state

VERSION_AGAIN_S = 60.0
Hide = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Returns a connector's configuration as it may be shown."""


class GroupOverview:
    """Implements operations.overview.model.Overview."""

    def __init__(
        self,
        views: HerderViews,
        reads: GroupReads,
        rows: GroupRows,
        clock: Clock,
        hide: Hide,
        peers: PeerClient | None = None,
    ) -> None:
        """``peers`` None: no Java worker is asked for its version."""
        self._views = views
        self._reads = reads
        self._rows = rows
        self._clock = clock
        self._hide = hide
        self._peers = peers
        self._versions: dict[str, tuple[float, str | None]] = {}  # of Java workers, and when to ask again

    def page(self, wanted: OverviewQuery) -> OverviewPage:
        """See ``Overview.page``."""
        return self._rows.page(wanted)

    def changes(self, since_ms: int) -> OverviewChange:
        """See ``Overview.changes``."""
        return self._rows.changes(since_ms)

    def connector(self, name: str) -> ConnectorDetail:
        """See ``Overview.connector``."""
        status = self._views.connector_status(name)  # NotFoundError
        config = self._hide(self._views.connector_config(name).written())
        answers = self._reads.ask(CONNECTOR, {"name": name})
        counters, row = counters_of(answers), self._rows.looked().get(name)
        named = {instance.worker_id for instance in (status.connector, *status.tasks)}
        return ConnectorDetail(
            name=name,
            type=status.type,
            class_name=config.get("connector.class", ""),
            state=status.connector.state,
            aggregate=aggregate_state(status.connector.state, Counter(task.state for task in status.tasks)),
            worker_id=status.connector.worker_id,
            records_per_second=row.records_per_second if row else None,
            lag=row.lag if row else None,
            errors=row.errors if row else None,
            last_error=row.last_error if row else None,
            last_error_at_ms=row.last_error_at_ms if row else None,
            restart=row.restart if row else status.connector.restart,
            stalled=row.stalled if row else None,
            abnormal=row.abnormal if row else False,
            why=row.why if row else "",
            trace=status.connector.trace,
            version=status.connector.version,
            config=config,
            topics=self._topics(name),
            tasks=[_task(task, counters.get(task.id, {})) for task in status.tasks],
            course=[CoursePoint(*point) for point in course_of(answers)],
            unanswered=[worker for worker in unanswered(answers) if worker.worker_id in named],
            at_ms=self._clock.now_ms(),
        )

    def _topics(self, name: str) -> tuple[str, ...]:
        try:
            return self._views.topics(name)
        except ForbiddenError:  # tracking is off
            return ()

    def group(self) -> GroupInfo:
        """See ``Overview.group``."""
        standing = self._views.standing()
        answers = self._reads.ask(WORKER)
        return GroupInfo(
            group_id=standing.group_id,
            kafka_cluster_id=self._views.kafka_cluster_id(),
            protocol=standing.protocol,
            leader=next((answer.worker.worker_id for answer in answers if answer.worker.leader), None),
            generation=standing.generation,
            workers=[self._worker(answer) for answer in answers],
            at_ms=self._clock.now_ms(),
        )

    def _worker(self, answer: WorkerAnswer) -> GroupWorkerRow:
        worker, said = answer.worker, answer.answer if not answer.why and isinstance(answer.answer, Mapping) else None
        version, reachable = (said.get("version"), True) if said else (None, answer.runtime != "unknown")
        if answer.runtime == JAVA:
            version = self._java_version(worker)
            reachable = version is not None
        connectors, tasks = (said["connectors"], said["tasks"]) if said else self._by_statuses(worker.worker_id)
        return GroupWorkerRow(
            worker.worker_id,
            worker.url,
            worker.leader,
            worker.this,
            answer.runtime,
            version,
            reachable,
            answer.why,
            said.get("health") if said else None,
            connectors,
            tasks,
            said.get("records_per_second") if said else None,
            said.get("memory_bytes") if said else None,
            said.get("started_ms") if said else None,
            said.get("open_files") if said else None,
            said.get("open_files_max") if said else None,
        )

    def _by_statuses(self, worker_id: str) -> tuple[list[str], list[str]]:
        """Return what a worker that does not say it runs, as it reported."""
        return self._rows.reported_by(worker_id)

    def _java_version(self, worker: GroupWorker) -> str | None:
        again_s, version = self._versions.get(worker.worker_id, (0.0, None))
        if self._peers is None or time.monotonic() < again_s:
            return version
        try:
            answer = self._peers.request("GET", worker.url, timeout_ms=ASK_LIMIT_MS)
            version = str(decode_json(answer.body)["version"]) if answer.status == 200 else None
        except (ConnectError, LookupError, TypeError):
            version = None
        self._versions[worker.worker_id] = (time.monotonic() + (VERSION_AGAIN_S if version else 5.0), version)
        return version


def _task(task: TaskState, counted: Mapping[str, object]) -> TaskRow:
    return TaskRow(
        id=task.id,
        state=task.state,
        worker_id=task.worker_id,
        trace=task.trace,
        restart=task.restart,
        stalled=task.progress.reason if task.progress else None,
        **dict(counted),  # type: ignore[arg-type]
    )
