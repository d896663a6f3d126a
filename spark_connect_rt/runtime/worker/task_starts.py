"""Tasks of this worker that have no run: those whose connector is still being asked, and those that failed before one.

Only a connector's code knows what its tasks are (source or sink, class, version), and that may block. It is
imported and asked on its own thread, once for all tasks of the connector that wait for it. The tick comes back
for what is known. A connector that never answers keeps its own tasks waiting, until they are stopped.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from spark_connect_rt.base.concurrency import Threads
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.group.work_plan import Life, RunningWork
from spark_connect_rt.runtime.worker.launches import ConnectorFacts, TaskSpec

log = logging.getLogger(__name__)

Ask = Callable[[StoredConfig], ConnectorFacts]
"""Makes a connector of this configuration and asks it; may block, raises what the connector's code raises."""


@dataclass(frozen=True, slots=True)
class Known:
    """A task whose connector has answered. ``facts`` None: it failed, ``trace`` says how."""

    spec: TaskSpec
    key: Any
    facts: ConnectorFacts | None
    trace: str


@dataclass(slots=True)
class _Question:
    """One connector, asked once. Written by its thread, read by the tick once ``answered``."""

    config: StoredConfig
    facts: ConnectorFacts | None = None
    trace: str = ""
    answered: bool = False


@dataclass(slots=True)
class _Unstarted:
    spec: TaskSpec
    actual: RunningWork
    trace: str = ""


class TaskStarts:
    """The tick's; ``actual_of`` may be read by any thread."""

    def __init__(self, ask: Ask, threads: Threads, changed: Callable[[ConnectorTaskId | None, str], None]) -> None:
        """``changed`` takes a task whose ``actual_of`` is another, and a sentence on what the tick is to come back for.

        It is also called on the thread that asks a connector, without a task.
        """
        self._ask = ask
        self._threads = threads
        self._changed = changed
        self._lock = threading.Lock()
        self._tasks: dict[ConnectorTaskId, _Unstarted] = {}
        self._questions: dict[str, _Question] = {}

    def add(self, spec: TaskSpec, key: Any) -> None:
        """Have a task's connector asked; it is among ``take_known`` afterwards."""
        with self._lock:
            self._tasks[spec.task] = _Unstarted(spec, RunningWork(key, spec.paused, Life.ALIVE))
        self._changed(spec.task, "")
        connector, config = spec.task.connector, spec.connector_config
        question = self._questions.get(connector)
        if question is None or question.config != config:
            self._questions[connector] = question = _Question(config)
            self._threads.start(f"task-class-{connector}", lambda: self._find_out(connector, question))

    def take_known(self) -> Iterator[Known]:
        """Yield what is known now, in the order it was added; it is no more among these. To be called at every tick."""
        for task, start in list(self._tasks.items()):
            question = self._questions.get(task.connector)
            if start.actual.life is Life.ALIVE and question is not None and question.answered:
                with self._lock:
                    del self._tasks[task]
                yield Known(start.spec, start.actual.key, question.facts, question.trace)
        self._forget_questions()

    def failed(self, spec: TaskSpec, key: Any, trace: str) -> None:
        """Keep a task that cannot have a run."""
        with self._lock:
            self._tasks[spec.task] = _Unstarted(spec, RunningWork(key, spec.paused, Life.FAILED), trace)
        self._changed(spec.task, "")

    def actual_of(self, task: ConnectorTaskId) -> RunningWork | None:
        """Return how a task stands that is being started, None when it is not among these."""
        with self._lock:
            start = self._tasks.get(task)
            return None if start is None else start.actual

    def trace_of(self, task: ConnectorTaskId) -> str | None:
        """Return why a task FAILED, None when it did not, or is not among these."""
        start = self._tasks.get(task)
        return start.trace if start is not None and start.actual.life is Life.FAILED else None

    def switch(self, task: ConnectorTaskId, paused: bool) -> bool:
        """Pause or resume a task; False: it is not among these."""
        start = self._tasks.get(task)
        if start is not None:
            start.spec, start.actual = (
                replace(start.spec, paused=paused),
                replace(start.actual, mode=paused),
            )
            self._changed(task, "")
        return start is not None

    def stop(self, task: ConnectorTaskId) -> bool:
        """Stop waiting for a task's connector; False: the task does not wait here."""
        start = self._tasks.get(task)
        if start is None or start.actual.life is not Life.ALIVE:
            return False
        start.actual = replace(start.actual, life=Life.STOPPED)
        self._changed(task, f"{task} stopped before a run began")
        return True

    def stop_all(self) -> None:
        """Stop waiting for every connector."""
        for task in list(self._tasks):
            self.stop(task)

    def forget(self, task: ConnectorTaskId) -> None:
        """Drop a task that is over."""
        with self._lock:
            self._tasks.pop(task, None)

    def _forget_questions(self) -> None:
        """The next start asks once more: also one whose connector never answered the last time."""
        waited_for = {task.connector for task, start in self._tasks.items() if start.actual.life is Life.ALIVE}
        self._questions = {name: question for name, question in self._questions.items() if name in waited_for}

    def _find_out(self, connector: str, question: _Question) -> None:
        try:
            question.facts = self._ask(question.config)
        except BaseException:  # noqa: BLE001 - the connector's code: its failure is that of the tasks
            question.trace = traceback.format_exc()
        question.answered = True
        self._changed(None, f"tasks of {connector} can start")
