"""The herder as the rest of the worker sees it: reads from snapshots, requests into the loop.

Java ``DistributedHerder``, whose loop is in loop.py and whose decisions are in the steps beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from spark_connect_rt.config.config_def import ConfigKey
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.planning.config_infos import ConfigInfos
from spark_connect_rt.planning.config_patch import patched_config
from spark_connect_rt.planning.offset_changes import OffsetPair
from spark_connect_rt.planning.restart_plan import RestartRequest
from spark_connect_rt.ports.herder import (
    ConfigWritten,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    Health,
    InstanceState,
    InternalKey,
    PluginInfo,
    StoryLine,
    TaskInfo,
    WorkerProgress,
)
from spark_connect_rt.ports.loggers import LoggerLevel
from spark_connect_rt.ports.metric_names import Measured
from spark_connect_rt.ports.threads import Event
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, own_offsets
from spark_connect_rt.runtime.herder.fresh_reads import FreshReads
from spark_connect_rt.runtime.herder.loop import HerderLoop
from spark_connect_rt.runtime.herder.plugin_settings import plugin_settings
from spark_connect_rt.runtime.herder.request_threads import RequestThreads
from spark_connect_rt.runtime.herder.requests import copy_outcome
from spark_connect_rt.runtime.herder.validation import checked_config, validated
from spark_connect_rt.runtime.herder.views import Views
from spark_connect_rt.state.target_state import TargetState

log = logging.getLogger(__name__)
T = TypeVar("T")


class DistributedHerder:
    """Implements ports.herder.HerderApi."""

    def __init__(self, dependencies: HerderDependencies) -> None:
        self._deps = dependencies
        offsets = own_offsets(dependencies)
        self._views = Views(dependencies, offsets)
        self._loop = HerderLoop(dependencies, self._views, offsets)
        self._threads = RequestThreads(dependencies.threads)
        self._fresh_reads = FreshReads(dependencies, self._loop.started)

    @property
    def started(self) -> Future[None]:
        """Done once the stores are read and the group is being joined; its error says why not."""
        return self._loop.started

    @property
    def stopped(self) -> Event:
        """Set when the tick thread has ended and everything it started is closed."""
        return self._loop.stopped

    def start(self) -> None:
        """Start the tick thread; returns at once."""
        self._loop.start()

    def stop(self, timeout_s: float = 60.0) -> bool:
        """Stop work, commit, leave the group, close the stores; return whether all of it ended in time."""
        return self._loop.stop(timeout_s)

    # Reads.

    def catch_up(self) -> Future[None]:
        """See HerderApi."""
        return self._fresh_reads.read()

    def worker_id(self) -> str:
        """See HerderApi."""
        return self._deps.settings.worker_id

    def worker_url(self) -> str:
        """See HerderApi."""
        return self._deps.settings.worker_url

    def kafka_cluster_id(self) -> str:
        """See HerderApi."""
        return self._deps.kafka_cluster_id()

    def is_leader(self) -> bool:
        """See HerderApi."""
        return self._loop.view.is_leader

    def leader_url(self) -> str | None:
        """See HerderApi."""
        return self._loop.view.leader_url

    def health(self) -> Health:
        """See HerderApi."""
        return self._loop.health()

    def story(self) -> Sequence[StoryLine]:
        """See HerderApi."""
        return self._loop.story.lines()

    def progress(self) -> WorkerProgress:
        """See HerderApi."""
        view = self._loop.view
        return WorkerProgress(
            worker_id=self.worker_id(),
            worker_url=self.worker_url(),
            is_leader=view.is_leader,
            leader_url=view.leader_url,
            generation=view.generation,
            protocol=view.protocol.protocol_name if view.protocol else "",
            connectors=self._loop.worker.connector_states(),
            tasks=self._loop.worker.task_progress(),
        )

    def metrics(self) -> list[Measured]:
        """See HerderApi."""
        return self._loop.metrics.gathered()

    def internal_key(self) -> InternalKey:
        """See HerderApi."""
        settings, view = self._deps.settings, self._loop.view
        protocol = view.protocol or settings.protocol
        key = self._deps.config_store.snapshot().session_key
        return InternalKey(
            required=protocol.version >= 2,
            key=key.key if key else None,
            algorithm=key.algorithm if key else settings.key_algorithm,
            accepted_algorithms=settings.verification_algorithms,
        )

    def list_connectors(self) -> list[str]:
        """See HerderApi."""
        return self._views.list_connectors()

    def connector_info(self, name: str) -> ConnectorInfo:
        """See HerderApi."""
        return self._views.connector_info(name)

    def connector_config(self, name: str) -> Mapping[str, str]:
        """See HerderApi."""
        return self._views.connector_config(name)

    def connector_mark(self, name: str) -> object:
        """See HerderApi."""
        return self._views.connector_mark(name)

    def connector_status(self, name: str) -> ConnectorStateInfo:
        """See HerderApi."""
        return self._views.connector_status(name)

    def task_status(self, task: ConnectorTaskId) -> InstanceState:
        """See HerderApi."""
        return self._views.task_status(task)

    def task_infos(self, name: str) -> list[TaskInfo]:
        """See HerderApi."""
        return self._views.task_infos(name)

    def topics(self, name: str) -> tuple[str, ...]:
        """See HerderApi."""
        return self._views.topics(name)

    def reset_topics(self, name: str) -> None:
        """See HerderApi."""
        self._views.reset_topics(name)

    def plugins(self, connectors_only: bool) -> list[PluginInfo]:
        """See HerderApi."""
        return self._views.plugins(connectors_only)

    def plugin_settings(self, name: str, version: str | None) -> Future[list[ConfigKey]]:
        """See HerderApi."""
        return self._answer_beside(lambda: plugin_settings(self._deps, name, version))

    def validate_config(self, config: Mapping[str, str | None]) -> Future[ConfigInfos]:
        """See HerderApi."""
        return self._answer_beside(lambda: validated(self._deps, config))

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        """See HerderApi."""
        return self._deps.loggers.levels() if self._deps.loggers else {}

    def logger_level(self, name: str) -> LoggerLevel:
        """See HerderApi."""
        level = self._deps.loggers.level(name) if self._deps.loggers else None
        if level is None:
            raise NotFoundError(f"Logger {name} not found.")
        return level

    def set_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        """See HerderApi."""
        return self._deps.loggers.set_level(namespace, level, self._deps.clock.now_ms()) if self._deps.loggers else []

    # Requests.

    def put_logger_level(self, namespace: str, level: str) -> Future[None]:
        """See HerderApi."""
        return self._loop.add(
            f"set logger {namespace} {level}",
            lambda: self._loop.actions.put_logger_level(namespace, level),
            needs_group=False,
        )

    def offsets(self, name: str) -> Future[list[ConnectorOffset]]:
        """See HerderApi."""
        return self._answer_beside(lambda: self._views.offsets(name))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetPair]) -> Future[str]:
        """See HerderApi."""
        return self._modify_offsets(name, offsets)

    def reset_offsets(self, name: str) -> Future[str]:
        """See HerderApi."""
        return self._modify_offsets(name, None)

    def _modify_offsets(self, name: str, offsets: Sequence[OffsetPair] | None) -> Future[str]:
        return self._loop.add(f"modify the offsets of {name}", lambda: self._loop.offset_actions.modify(name, offsets))

    def create(self, name: str, config: Mapping[str, str], initial_state: TargetState | None) -> Future[ConfigWritten]:
        """See HerderApi."""
        return self._checked(
            name, config, f"create {name}", lambda checked: self._loop.actions.create(name, checked, initial_state)
        )

    def put_config(self, name: str, config: Mapping[str, str]) -> Future[ConfigWritten]:
        """See HerderApi."""
        return self._checked(
            name, config, f"configure {name}", lambda checked: self._loop.actions.put_config(name, checked)
        )

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Future[ConfigWritten]:
        """See HerderApi."""
        return self._answer_beside(lambda: self._patch(name, patch))

    def _patch(self, name: str, patch: Mapping[str, str | None]) -> ConfigWritten:
        limit_s = self._deps.settings.request_limit_ms / 1000
        actions, what = self._loop.actions, f"patch {name}"
        while True:
            before: Mapping[str, str] = self._loop.add(what, partial(actions.config_to_patch, name)).result(limit_s)
            checked = checked_config(self._deps, name, patched_config(before, patch))
            written: Future[ConfigWritten | None]
            written = self._loop.add(what, partial(actions.replace_config, name, before, checked))  # type: ignore[arg-type]
            answer = written.result(limit_s)
            if answer is not None:
                return answer

    def delete(self, name: str) -> Future[None]:
        """See HerderApi."""
        return self._loop.add(f"delete {name}", lambda: self._loop.actions.delete(name))

    def pause(self, name: str) -> Future[None]:
        """See HerderApi."""
        return self._set_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> Future[None]:
        """See HerderApi."""
        return self._set_target(name, TargetState.STARTED)

    def _set_target(self, name: str, target: TargetState) -> Future[None]:
        return self._loop.add(
            f"set {name} {target.value}",
            lambda: self._loop.actions.set_target_state(name, target),
            needs_group=False,
        )

    def stop_connector(self, name: str) -> Future[None]:
        """See HerderApi."""
        return self._loop.add(f"stop {name}", lambda: self._loop.actions.stop_connector(name))

    def restart(self, name: str, include_tasks: bool, only_failed: bool) -> Future[ConnectorStateInfo | None]:
        """See HerderApi."""
        request = RestartRequest(name, include_tasks, only_failed)

        def action() -> Future[Any]:
            if include_tasks or only_failed:
                return self._loop.actions.restart_by_plan(request)
            return self._loop.actions.restart_connector(name)

        return self._once_told(self._loop.add(f"restart {name}", action))

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        """See HerderApi."""
        return self._once_told(self._loop.add(f"restart task {task}", lambda: self._loop.actions.restart_task(task)))

    def _once_told(self, done: Future[T]) -> Future[T]:
        """Answer once the statuses reported so far can be read here: the client's next GET tells of its restart."""
        answer: Future[T] = Future()

        def flush() -> None:
            try:
                self._deps.status_store.flush(self._deps.settings.worker_sync_timeout_ms)
            except ConnectError as error:
                log.warning("worker=%s answers before its statuses are read: %s", self._deps.settings.worker_id, error)
            copy_outcome(done, answer)

        done.add_done_callback(lambda _: self._threads.run(flush))
        return answer

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> Future[None]:
        """See HerderApi."""
        return self._loop.add(
            f"write task configs of {name}", lambda: self._loop.actions.put_task_configs(name, configs)
        )

    def fence(self, name: str) -> Future[None]:
        """See HerderApi."""
        return self._loop.add_fencing(name)

    def _checked(
        self,
        name: str,
        config: Mapping[str, str],
        what: str,
        action: Callable[[dict[str, str]], Future[ConfigWritten]],
    ) -> Future[ConfigWritten]:
        """Validate beside the tick (it runs plug-in code), then queue the write."""
        answer: Future[ConfigWritten] = Future()

        def check_and_queue() -> None:
            try:
                checked = checked_config(self._deps, name, config)
            except Exception as error:  # noqa: BLE001 - the request's failure is its answer
                answer.set_exception(error)
                return
            queued: Future[ConfigWritten] = self._loop.add(what, lambda: action(checked))
            queued.add_done_callback(lambda done: copy_outcome(done, answer))

        self._threads.run(check_and_queue)
        return answer

    def _answer_beside(self, call: Callable[[], T]) -> Future[T]:
        """Answer a call that blocks (it asks Kafka)."""
        answer: Future[T] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():  # from here on nobody can cancel it
                return
            try:
                answer.set_result(call())
            except Exception as error:  # noqa: BLE001 - the request's failure is its answer
                answer.set_exception(error)

        self._threads.run(run)
        return answer
