"""The step that makes what runs equal what ought to run. Level-triggered: it compares, it does not remember.

Owns the hand-over rules: nothing new starts while a rebalance is in progress or due, a run starts only after the
previous one ended (group.work_plan), stops never wait for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.rebalance_plan import WantedWork, applied_config, needs_rebalance, status_after_stop
from spark_connect_rt.group.work_plan import LastPlan, Life, RunningWork, TargetWork, WorkActions
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.tick import Verdict
from spark_connect_rt.runtime.worker.launches import TaskSpec
from spark_connect_rt.runtime.worker.worker import Worker
from spark_connect_rt.runtime.worker.worker_connector import ConnectorPlan
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_state import ClusterConfigState
from spark_connect_rt.topics.status_records import State

Item = str | ConnectorTaskId


class Reconciling:
    """The step ``reconcile work``: starts and stops what the assignment and target states ask for."""

    def __init__(self, deps: HerderDependencies, state: GroupState, worker: Worker) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._exactly_once = deps.settings.worker.group.exactly_once
        self._wanted = WantedWork()
        self._connector_plan: LastPlan[str] = LastPlan()
        self._task_plan: LastPlan[ConnectorTaskId] = LastPlan()
        self._restarted: list[tuple[Item, Future[None]]] = []

    def when_restarted(self, item: Item, answer: Future[None]) -> None:
        """Answer once the item's new incarnation runs, or is wanted no more; a connector's once its start returned.

        The future raises ConnectError when the connector's start failed, as in Java.
        """
        self._restarted.append((item, answer))

    def reconcile(self, now_ms: int) -> Verdict:
        """Stop, switch and start what must be."""
        snapshot = self._deps.config_store.snapshot()
        self._wanted = wanted = self._wanted.now(
            self._state.held, snapshot, self._state.restarts, exactly_once=self._exactly_once
        )
        due = needs_rebalance(self._state.adopted, snapshot)
        may_start = self._state.resolved and due is None and not self._state.stopping
        connectors = self._connector_plan.of(wanted.connectors, self._worker.connectors(), may_start)
        tasks = self._task_plan.of(wanted.tasks, self._worker.tasks(), may_start)
        if not connectors.nothing():
            self._run_connectors(connectors, wanted.connectors, snapshot)
        if not tasks.nothing():
            self._run_tasks(tasks, wanted.tasks, snapshot)
        self._worker.begin_tasks()
        self._answer_restarts(wanted)
        sentence = "" if connectors.settled() and tasks.settled() else _sentence(connectors, tasks)
        return Verdict(sentence, self._worker.abandon_overdue())

    def nothing_runs(self) -> bool:
        """Return whether everything on this worker has ended."""
        over = (Life.STOPPED, Life.FAILED)
        everything: list[RunningWork] = [*self._worker.connectors().values(), *self._worker.tasks().values()]
        return all(actual.life in over for actual in everything)

    def _run_connectors(
        self, actions: WorkActions[str], wanted: Mapping[str, TargetWork], snapshot: ClusterConfigState
    ) -> None:
        actual = self._worker.connectors()
        for name in actions.stop:
            status = status_after_stop(name, wanted.get(name), actual[name].key, snapshot)
            self._worker.stop_connector(name, status)
        for name in actions.forget:
            self._worker.forget_connector(name)
        for name in actions.switch:
            self._worker.switch_connector(name, bool(wanted[name].mode))
        for name in actions.start:
            config = snapshot.connector_config(name)
            if config is not None:
                stopped = snapshot.target_state(name) is TargetState.STOPPED
                plan = ConnectorPlan(name, config, wanted[name].key, bool(wanted[name].mode), stopped)
                self._worker.start_connector(plan)

    def _run_tasks(
        self,
        actions: WorkActions[ConnectorTaskId],
        wanted: Mapping[ConnectorTaskId, TargetWork],
        snapshot: ClusterConfigState,
    ) -> None:
        actual = self._worker.tasks()
        self._worker.stop_tasks({t: status_after_stop(t, wanted.get(t), actual[t].key, snapshot) for t in actions.stop})
        for task in actions.forget:
            self._worker.forget_task(task)
        for task in actions.switch:
            self._worker.switch_task(task, bool(wanted[task].mode))
        for task in actions.start:
            config = snapshot.task_config(task) or NO_SETTINGS
            spec = TaskSpec(task, config, applied_config(task.connector, snapshot), bool(wanted[task].mode))
            self._worker.start_task(spec, wanted[task].key)

    def _answer_restarts(self, wanted: WantedWork) -> None:
        if not self._restarted:
            return
        actual: dict[Item, RunningWork] = dict(self._worker.connectors().items())
        actual.update(self._worker.tasks().items())
        keys: dict[Item, TargetWork] = dict(wanted.connectors.items())
        keys.update(wanted.tasks.items())
        still_waiting = []
        for item, answer in self._restarted:
            restarts = item in actual and item in keys and actual[item].key == keys[item].key
            state = self._worker.connector_state(item) if restarts and isinstance(item, str) else None
            if state is State.FAILED:
                answer.set_exception(ConnectError(f"Failed to start connector: {item}"))
            elif (restarts and state is not State.UNASSIGNED) or item not in keys:
                answer.set_result(None)
            else:
                still_waiting.append((item, answer))
        self._restarted = still_waiting


def _sentence(connectors: WorkActions[str], tasks: WorkActions[ConnectorTaskId]) -> str:
    counted: list[tuple[str, Callable[[WorkActions[str] | WorkActions[ConnectorTaskId]], int]]] = [
        ("stops", lambda a: len(a.stop)),
        ("switches", lambda a: len(a.switch)),
        ("starts", lambda a: len(a.start)),
        ("waits for the end of", lambda a: len(a.waiting)),
        ("holds back", lambda a: len(a.held_back)),
    ]
    parts = [
        f"{verb} {count(connectors)} connectors and {count(tasks)} tasks"
        for verb, count in counted
        if count(connectors) or count(tasks)
    ]
    return ", ".join(parts)
