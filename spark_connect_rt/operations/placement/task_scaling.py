"""The leader's look at sinks that have ``tasks.max.auto``, and the change of ``tasks.max`` that follows from it.

Owns the thread and its memory; what is wished for decides ``operations.placement.autoscale``. A change goes the way of a
user's: the leader writes the connector's configuration, its worker makes task configurations, a rebalance gives them
out.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from typing import Any

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.base.clock import Clock
from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.config.task_range import TASKS_AUTO, TaskRange
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.overview.worker_shares import SHARES, Share, shares_of
from spark_connect_rt.operations.placement.autoscale import Look, ScaleMemory, ScaleRules, decide
from spark_connect_rt.rest.group_reads import GroupReads, unanswered
from spark_connect_rt.runtime.group_events import RecordEvent
from spark_connect_rt.runtime.herder.api import HerderViews
from spark_connect_rt.runtime.herder.requests_api import PatchConfig, Request

LOOK_EACH_S = 10.0
RATES_KEPT = 3  # their mean is the pace: one of five seconds alone may be that of a batch
WRITE_LIMIT_S = 60.0
RULES = ScaleRules()
log = logging.getLogger(__name__)

Submit = Callable[[Request[Any]], Future[Any]]


class TaskScaling:
    """A service of every worker; only the leader's does something."""

    def __init__(
        self,
        views: HerderViews,
        reads: GroupReads,
        submit: Submit,
        clock: Clock,
        record_event: RecordEvent,
        resolve: Resolve,
        rules: ScaleRules | None = None,
    ) -> None:
        self._views = views
        self._reads = reads
        self._resolve = resolve
        self._submit = submit
        self._clock = clock
        self._record_event = record_event
        self._rules = rules or RULES
        self.look_each_s = LOOK_EACH_S
        self._memories: dict[str, ScaleMemory] = {}
        self._rates: dict[str, deque[float]] = {}
        self.rounds = Repeated(
            "task-scaling", self.look, lambda: self.look_each_s, "tasks.max does not follow the load any more"
        )

    def look(self) -> None:
        """Look at every connector that has the setting, once; on a worker that does not lead: forget."""
        ranges = self._ranges() if self._views.is_leader() else {}
        for name in [connector for connector in self._memories if connector not in ranges]:
            del self._memories[name]
            self._rates.pop(name, None)
        if not ranges:
            return
        answers = self._reads.ask(SHARES)
        shares, complete = shares_of(answers), not unanswered(answers)
        for name, (bounds, tasks) in ranges.items():
            try:
                self._look_at(name, bounds, tasks, shares.get(name) if complete else None)
            except (ConnectError, LateError) as error:
                log.warning("connector=%s tasks.max cannot be changed: %s", name, error)

    def _ranges(self) -> dict[str, tuple[TaskRange, int]]:
        """Return the connectors that have the setting: name -> its bounds and tasks.max; what cannot be read is not."""
        found = {}
        for name in self._views.list_connectors():
            try:
                config = self._views.connector_config(name).only((TASKS_AUTO, "tasks.max")).resolved(self._resolve)
                if config.get(TASKS_AUTO):
                    found[name] = (TaskRange.of(config[TASKS_AUTO]), int(config.get("tasks.max", "1")))
            except (
                ConnectError,
                ValueError,
            ):  # deleted just now, nothing answers its reference, or from before it was checked
                continue
        return found

    def _look_at(self, name: str, bounds: TaskRange, tasks: int, share: Share | None) -> None:
        status = self._views.connector_status(name)
        if status.type != "sink":
            return
        runs = bool(status.tasks) and all(task.state == "RUNNING" for task in status.tasks)
        rates = self._rates.setdefault(name, deque(maxlen=RATES_KEPT))
        rates.append(share.records_per_second if share else 0.0)
        lag = share.lag if share and runs else None
        look = Look(self._clock.monotonic_ms(), tasks, lag, sum(rates) / len(rates))
        memory, wish = decide(self._memories.get(name, ScaleMemory()), look, bounds, self._rules)
        self._memories[name] = memory
        if wish.tasks == tasks:
            return
        patch: Mapping[str, str | None] = {"tasks.max": str(wish.tasks)}
        self._submit(PatchConfig(name, patch)).result(WRITE_LIMIT_S)
        said = f"tasks.max {tasks} becomes {wish.tasks}: {wish.why}"
        log.info("connector=%s %s", name, said)
        self._record_event("config", said, connector=name)
