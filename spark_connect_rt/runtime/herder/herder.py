"""The herder as the rest of the worker sees it: views to read, requests into the loop.

Java ``DistributedHerder``. Its loop is in loop.py, and its decisions are in ``steps`` and ``requests``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from spark_connect_rt.base.concurrency import ElasticPool, Event, answered, copy_outcome
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import ConnectError, ForbiddenError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, source_offset_stores
from spark_connect_rt.runtime.herder.herder_requests import (
    CatchUp,
    ConfigRequest,
    CreateConnector,
    DescribePlugin,
    HerderRequest,
    PatchConfig,
    PutConfig,
    ReadOffsets,
    Request,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetLoggerLevel,
    SetTargetState,
    ValidateConfig,
    patched_config,
)
from spark_connect_rt.runtime.herder.loop import HerderLoop
from spark_connect_rt.runtime.herder.validation import checked_config, plugin_settings, validated
from spark_connect_rt.runtime.herder.views import ConnectorViews
from spark_connect_rt.runtime.herder.worker_views import WorkerViews
from spark_connect_rt.runtime.values import ConfigWritten
from spark_connect_rt.runtime.worker.java_launches import expected
from spark_connect_rt.topics.config_records import TargetState

log = logging.getLogger(__name__)


class FreshReads:
    """Reads the config topic to its end for a client that found nothing, so that it sees the writes of other workers.

    Any thread may call it, but never the tick. One read runs at a time and serves every call before its begin.
    """

    def __init__(self, deps: HerderDependencies, started: Future[None]) -> None:
        self._deps = deps
        self._started = started
        self._lock = threading.Lock()
        self._waiting: list[Future[None]] = []
        self._reading = False

    def read(self) -> Future[None]:
        """Return a Future that is done after the read. It never fails, even if the topic cannot be read."""
        asked: Future[None] = Future()
        with self._lock:
            self._waiting.append(asked)
            if self._reading:
                return asked
            self._reading = True
        self._deps.threads.start("read-config", self._run)
        return asked

    def _run(self) -> None:
        while True:
            with self._lock:
                served, self._waiting = self._waiting, []
                if not served:
                    self._reading = False
                    return
            self._read()
            for asked in served:
                if asked.set_running_or_notify_cancel():
                    asked.set_result(None)

    def _read(self) -> None:
        limit_ms = self._deps.settings.worker_sync_timeout_ms
        try:
            # Before the start has ended there is no snapshot at all: nothing is missing because of that.
            self._started.exception(limit_ms / 1000)
            self._deps.config_store.refresh(limit_ms)
        except (ConnectError, TimeoutError) as error:
            log.warning(
                "worker=%s answers with the state that it has read so far: %s", self._deps.settings.worker_id, error
            )


REQUESTS_AT_ONCE = 64  # of plug-ins' code: one that never returns holds up others only when all are kept like that
_REQUEST = "herder-request"
T = TypeVar("T")


class DistributedHerder:
    """Implements runtime.herder.herder_api.HerderApi over one HerderLoop, for a worker of a group."""

    def __init__(self, dependencies: HerderDependencies) -> None:
        self._deps = dependencies
        offsets = source_offset_stores(dependencies)
        self._loop = HerderLoop(dependencies, ConnectorViews(dependencies, offsets), offsets)
        self.views = WorkerViews(dependencies, offsets, self._loop)
        self._threads = ElasticPool(dependencies.threads, at_most=REQUESTS_AT_ONCE)
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

    def submit(self, request: Request[T]) -> Future[T]:
        """Serve a request at once, on another thread (it runs plug-in code or asks Kafka), or on the tick."""
        return self._serve(cast(HerderRequest, request))  # every subclass of Request is one of these

    def _serve(self, request: HerderRequest) -> Future[Any]:  # noqa: C901 - a table: one line for each request
        match request:
            case CatchUp():
                return self._fresh_reads.read()
            case SetLoggerLevel():
                return answered(lambda: self._set_logger_level(request))
            case ResetTopics(name):
                return answered(lambda: self._reset_topics(name))
            case ReadOffsets(name):
                return self._beside(lambda: self.views.offsets(name))
            case DescribePlugin(name, version):
                return self._beside(lambda: plugin_settings(self._deps, name, version))
            case ValidateConfig(config):
                return self._beside(lambda: validated(self._deps, config))
            case PatchConfig(name, patch, expected):
                return self._beside(lambda: self._patch(name, patch, expected))
            case CreateConnector() | PutConfig():
                return self._checked(request)
            case SetTargetState(_, TargetState.STARTED):
                return self._resumed(request)
            case RestartConnector() | RestartTask():
                return self._once_readable(self._loop.submit(request))
            case _:
                return self._loop.submit(request)

    def _set_logger_level(self, request: SetLoggerLevel) -> Sequence[str]:
        if self._deps.loggers is None:
            return []
        namespace, level = request.namespace, request.level
        details = {"logger": namespace, "level": level, "scope": "worker"}
        text = f"logger {namespace} is at {level} on this worker"
        self._deps.record_event("logger", text, details=details, key=request.event_key)
        return self._deps.loggers.set_level(namespace, level, self._deps.clock.now_ms())

    def _reset_topics(self, name: str) -> None:
        if not self._deps.settings.topic_tracking:
            raise ForbiddenError("Topic tracking is disabled.")
        if not self._deps.settings.topic_tracking_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
        self._deps.status_store.reset_topics(name)

    def _patch(self, name: str, patch: Mapping[str, str | None], expected: int | None) -> ConfigWritten:
        limit_s = self._deps.settings.request_limit_ms / 1000
        actions, what = self._loop.actions, f"patch {name}"
        while True:
            before: Mapping[str, str] = self._loop.add(what, partial(actions.config_to_patch, name, expected)).result(
                limit_s
            )
            checked = checked_config(self._deps, name, patched_config(before, patch))
            written: Future[ConfigWritten | None]
            written = self._loop.add(what, partial(actions.replace_config, name, before, checked))  # type: ignore[arg-type]
            answer = written.result(limit_s)
            if answer is not None:
                return answer

    def _checked(self, request: ConfigRequest) -> Future[ConfigWritten]:
        """Validate on another thread (it runs plug-in code), then queue the write."""

        def check_and_queue() -> Future[ConfigWritten]:
            if self._will_run(request):
                self._get_ready(request.name, StoredConfig(request.config))
            checked = checked_config(self._deps, request.name, request.config)
            if isinstance(request, CreateConnector):
                return self._loop.creates.submit(replace(request, config=checked))
            return self._loop.submit(replace(request, config=checked))

        return self._beside(check_and_queue)

    def _beside(self, call: Callable[[], T | Future[T]]) -> Future[T]:
        """Run a call that may block or that runs plug-in code on another thread. The number of threads is bounded."""
        return self._threads.answer(_REQUEST, call)

    def _will_run(self, request: ConfigRequest) -> bool:
        if isinstance(request, CreateConnector):
            return request.initial_state in (None, TargetState.STARTED)
        return self._deps.config_store.snapshot().target_state(request.name) in (None, TargetState.STARTED)

    def _resumed(self, request: SetTargetState) -> Future[None]:
        """Start the JVM of its tasks while a connector that was stopped splits its work."""
        config = self._deps.config_store.snapshot().connector_config(request.name)
        if config is not None:
            self._beside(lambda: self._get_ready(request.name, config))
        return self._loop.submit(request)

    def _get_ready(self, name: str, config: StoredConfig) -> None:
        """Announce tasks to the runner that are likely to run here, before their connector is asked about them."""
        members = len(self._loop.view.member_urls)
        deps = self._deps
        found = expected(name, config, members, deps.settings.worker, deps.plugins, deps.resolve)
        if found is not None:
            self._deps.runner.do(found)

    def _once_readable(self, done: Future[T]) -> Future[T]:
        """Answer once the statuses reported so far can be read here: the client's next GET shows its restart."""
        answer: Future[T] = Future()

        def flush() -> None:
            try:
                self._deps.status_store.flush(self._deps.settings.worker_sync_timeout_ms)
            except ConnectError as error:
                log.warning(
                    "worker=%s answers before it has read its statuses: %s", self._deps.settings.worker_id, error
                )
            copy_outcome(done, answer)

        done.add_done_callback(lambda _: self._beside(flush))
        return answer
