"""The real TaskRunner: source and sink tasks in slices, what Spark itself reads or writes by threads of the driver.

Owns which of these a task belongs to, and the SparkSession.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.supervision import Report, report_nowhere
from spark_connect_rt.config import connectrt_config as config
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.driver.connectivity_jobs import SparkReach
from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.slice_runner import SparkSliceLauncher
from spark_connect_rt.engine.driver.slot_packing import PackingLimits
from spark_connect_rt.engine.driver.spark_session import BackgroundSession, build_session, runs_here
from spark_connect_rt.engine.formats.spark_source import TASK_CLASS, SparkSourceRunner
from spark_connect_rt.engine.previews.preview_jobs import SparkPreviews
from spark_connect_rt.engine.task_runner import (
    OnTaskEvent,
    ReadOffsets,
    Start,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
)


class DriverHosted(Protocol):
    """Runs the tasks that are Spark jobs themselves: Spark-format sinks and sources; same commands, same events."""

    def open(self, on_event: OnTaskEvent, session: Callable[[], SparkSession]) -> None:
        """Begin; ``session()`` waits for Spark and is to be called in each thread that uses it."""

    def do(self, command: TaskCommand) -> None:
        """Carry out a command for one task."""

    def close(self, timeout_ms: int) -> None:
        """Stop everything that it hosts. Blocks for up to ``timeout_ms``."""


class SparkTaskRunner:
    """The port TaskRunner, implemented on Spark."""

    def __init__(
        self,
        worker: WorkerConfig,
        clients: str,
        *,
        session_factory: Callable[[], SparkSession] | None = None,
        spark_sinks: DriverHosted | None = None,
        spark_sources: SparkSourceRunner | None = None,
        settings: EngineSettings | None = None,
        report: Report = report_nowhere,
        shipped: Sequence[str] = (),
        java_jars: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        """Begin to build the session at once, in the background.

        Args:
            worker: the worker's settings.
            clients: "package.module:factory" of the ExecutorClients, importable on executors.
            session_factory: makes the session instead; it must carry ``session.session_conf``'s settings.
            spark_sinks: hosts SPARK_SINK launches; without it they fail.
            spark_sources: hosts launches of spark_source.TASK_CLASS; without it they fail.
            settings: instead of the worker's.
            shipped: folders of plug-ins for executors on other machines.
            report: called with the part that ended by an error: Spark, the engine, the control channel.
            java_jars: finds the jars that host Java plug-ins, for executors on other machines.
        """

        def build() -> SparkSession:
            level = worker.engine.connectrt_spark_log_level
            return build_session(worker.raw, worker.group.group_id, level, shipped, java_jars)

        self._owns_session = session_factory is None
        self._session = BackgroundSession(session_factory or build, report)
        timeout_ms = worker.channel_timeout_ms
        self._launcher = SparkSliceLauncher(self._session, clients, timeout_ms, report, shipped, java_jars)
        self._engine = Engine(self._launcher, settings or engine_settings(worker.engine, runs_here(worker.raw)), report)
        self._spark_sinks = spark_sinks
        self._spark_sources = spark_sources
        self._hosted_by_driver: dict[ConnectorTaskId, DriverHosted] = {}
        self._lock = threading.Lock()

    def session(self) -> SparkSession:
        """Wait for the session; make it the calling thread's."""
        return self._session.get()

    def previews(self) -> SparkPreviews:
        """Return the runner of previews, which run outside of the engine's slots."""
        return SparkPreviews(self._launcher)

    def reach(self) -> SparkReach:
        """Return what looks from executors whether places can be reached."""
        return SparkReach(self._session)

    def await_warm(self, timeout_s: float) -> bool:
        """Wait until a task would run at once; False: not in time. Blocks."""
        return self._engine.await_warm(timeout_s)

    def open(self, on_event: OnTaskEvent, read_offsets: ReadOffsets) -> None:
        """Begin; launches made before Spark is up wait for it."""
        self._on_event = on_event
        self._engine.open(on_event, read_offsets)
        if self._spark_sinks is not None:
            self._spark_sinks.open(self._on_driver_event, self._session.get)
        if self._spark_sources is not None:
            self._spark_sources.read_offsets = read_offsets
            self._spark_sources.open(self._on_driver_event, self._session.get)

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Let executors live on only while this holds."""
        self._engine.live_while(holds_lease)

    def _on_driver_event(self, event: TaskEvent) -> None:
        if isinstance(event, TaskEnded):
            with self._lock:
                self._hosted_by_driver.pop(event.task, None)
        self._on_event(event)

    def do(self, command: TaskCommand) -> None:
        """Hand a command to what hosts its task: by the launch's kind, later as it was then."""
        host = self._host_of_new(command.launch) if isinstance(command, Start) else self._host(command.task)
        if host is not None:
            host.do(command)

    def _host(self, task: ConnectorTaskId) -> Engine | DriverHosted:
        with self._lock:
            return self._hosted_by_driver.get(task, self._engine)

    def _host_of_new(self, launch: TaskLaunch) -> Engine | DriverHosted | None:
        """Decide where a run belongs; None: nowhere here, and it has failed."""
        of_sinks, of_sources = launch.kind is TaskKind.SPARK_SINK, launch.task_class == TASK_CLASS
        if not of_sinks and not of_sources:
            return self._engine
        host: DriverHosted | None = self._spark_sinks if of_sinks else self._spark_sources
        if host is None:
            why = f"task {launch.task}: this worker was built without Spark-format {'sinks' if of_sinks else 'sources'}"
            self._on_event(TaskFailed(launch.task, launch.run, why))
            self._on_event(TaskEnded(launch.task, launch.run, drained=True))
            return None
        with self._lock:
            self._hosted_by_driver[launch.task] = host
        return host

    def close(self, timeout_ms: int) -> None:
        """Stop every run, then the engine, then Spark if it is ours."""
        for hosted in (self._spark_sinks, self._spark_sources):
            if hosted is not None:
                hosted.close(timeout_ms)
        self._engine.close(timeout_ms)
        self._session.close(stops=self._owns_session)


def engine_settings(settings: config.ConnectrtEngineSettings, here: bool = False) -> EngineSettings:
    """Return the engine's numbers of the worker's; ``here``: executors are this process's machine, its cores known."""
    shared_slots = os.cpu_count() if here else None
    limits = PackingLimits(settings.connectrt_slot_tasks_max, settings.connectrt_slots_max, shared_slots=shared_slots)
    return EngineSettings(
        slice_length_ms=settings.connectrt_slice_length_ms,
        limits=limits,
        waiting_patience_ms=settings.connectrt_executor_wait_ms,
    )
