"""The leader's look at how much every worker has to do, and the swaps of tasks that follow from it.

Owns the thread and its memory, and both ends of the read; ``group.load`` decides the swaps. The herder revokes what
changes places in one round and gives it out in the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.config.group_config import PlacementSettings
from spark_connect_rt.group.load import LoadMemory, LoadRules, Samples, TaskLoadSample, decide, loads_of
from spark_connect_rt.rest.peers import GroupReads, WorkerAnswer, unanswered
from spark_connect_rt.runtime.group_events import RecordEvent
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.herder.herder_requests import Request, SwapTasks

LOADS = "placement.loads"
LOOK_EACH_S = 30.0
SERVE_LIMIT_S = 30.0
RULES = LoadRules()
log = logging.getLogger(__name__)

Submit = Callable[[Request[Any]], Future[Any]]


class LoadWatch:
    """A service of every worker; only the leader's looks."""

    def __init__(
        self,
        views: HerderViews,
        reads: GroupReads,
        submit: Submit,
        clock: Clock,
        record_event: RecordEvent,
        settings: PlacementSettings,
    ) -> None:
        self._views = views
        self._reads = reads
        self._submit = submit
        self._clock = clock
        self._record_event = record_event
        self._settings = settings
        self._memory = LoadMemory()
        self._before: tuple[int, Samples] | None = None
        self.rounds = Repeated("load-watch", self.look, lambda: LOOK_EACH_S, "tasks are not moved by load any more")
        reads.serve(LOADS, lambda _: self.own_loads())

    def own_loads(self) -> list[list[Any]]:
        """Return [connector, task, records a second, lag, CPU seconds] of every task that runs here."""
        return [
            [task.task.connector, task.task.task, task.records_per_s, task.lag, task.cpu_seconds]
            for task in self._views.progress().tasks
        ]

    def look(self) -> None:
        """Look once, where this worker leads and tasks may change places; else forget."""
        standing = self._views.standing()
        if not standing.is_leader or not self._settings.by_load(standing.own_group):
            self._memory, self._before = LoadMemory(), None
            return
        if len(self._reads.workers()) < 2:
            return
        answers = self._reads.ask(LOADS)
        if unanswered(answers):
            return  # half a picture is useless
        now_ms, samples = self._clock.monotonic_ms(), samples_of(answers)
        before, self._before = self._before, (now_ms, samples)
        if before is None:
            return
        loads = loads_of(samples, before[1], (now_ms - before[0]) / 1000)
        self._memory, swaps = decide(self._memory, loads, now_ms, RULES)
        if not swaps:
            return
        self._submit(SwapTasks(swaps)).result(SERVE_LIMIT_S)
        for swap in swaps:
            said = f"{swap.hot} moves from {swap.giver} to {swap.taker} because of its load, and {swap.cold} moves back"
            log.info("%s", said)
            self._record_event("rebalance", said, connector=swap.hot.connector, task=swap.hot.task)


def samples_of(answers: list[WorkerAnswer] | Any) -> dict[str, Mapping[ConnectorTaskId, TaskLoadSample]]:
    """Return worker's URL -> its tasks; a line that cannot be read is left out."""
    found: dict[str, Mapping[ConnectorTaskId, TaskLoadSample]] = {}
    for answer in answers:
        tasks: dict[ConnectorTaskId, TaskLoadSample] = {}
        for line in answer.answer if isinstance(answer.answer, list) else ():
            try:
                connector, number, rate, lag, cpu = line
                sample = TaskLoadSample(
                    float(rate), None if lag is None else int(lag), None if cpu is None else float(cpu)
                )
                tasks[ConnectorTaskId(str(connector), int(number))] = sample
            except (TypeError, ValueError):
                continue
        found[answer.worker.url] = tasks
    return found
