"""A whole worker group of a simulation: real herders, stores and assignors in processes that freeze and die.

Owns the wiring of one cluster on one scheduler. simulated_faults.py decides about faults, and simulated_invariants.py
checks what must hold. No thread of the machine, no clock of the machine, no socket.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from spark_connect_rt.base.supervision import Report, SupervisedPart
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.group.peers import PeerAnswer, SignatureVerdict, verify
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, HerderSettings
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.herder.herder_requests import PutTaskConfigs
from spark_connect_rt.testing.in_process_cluster import MemoryPlugins
from spark_connect_rt.testing.memory_connectors import MemorySource
from spark_connect_rt.testing.memory_sink_group import MemoryConsumerGroups, MemoryGroupOffsets
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore
from tests.support.simulation.simulated_group import SimulatedGroup, SimulatedMember
from tests.support.simulation.simulated_invariants import GroundTruth
from tests.support.simulation.simulated_log import Link, SimulatedLog, SimulatedTopic
from tests.support.simulation.simulated_slices import SimulatedSliceLauncher, SliceTimes
from tests.support.simulation.simulated_threads import WALL_CLOCK_START_MS, Scheduler, SimulatedProcess

MOST_TASKS = 4  # of one connector
T = TypeVar("T")

_PLUGINS = MemoryPlugins(
    {
        "MemorySource": MemorySource,
        "StringConverter": StringConverter,
        "SimpleHeaderConverter": SimpleHeaderConverter,
    }
)
_CONFIG = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "header.converter": "SimpleHeaderConverter",
}


@dataclass(eq=False, slots=True)
class SimulatedWorker:
    """One worker: its process, its way to the brokers, its herder."""

    name: str
    process: SimulatedProcess
    link: Link
    member: SimulatedMember
    slices: SimulatedSliceLauncher
    logs: tuple[SimulatedLog, ...]
    config_store: ConfigStore
    herder: DistributedHerder
    stopping: bool = False

    @property
    def in_service(self) -> bool:
        """Return whether the worker lives and was not asked to stop."""
        return self.process.alive and not self.stopping


class SimulatedPeers:
    """Port PeerClient of one worker: requests between workers travel, and may not arrive."""

    def __init__(self, cluster: SimulatedCluster, process: SimulatedProcess) -> None:
        self._cluster = cluster
        self._process = process

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        """Send a request to another worker's herder. Raises RetriableError: the worker does not live."""
        parts = urlsplit(url)
        worker = self._cluster.workers.get(parts.netloc.partition(":")[0])
        if worker is None or not worker.process.alive:
            raise RetriableError(f"{url} is not reachable")
        herder = worker.herder
        key = herder.views.internal_key()
        if key.required and verify(key.key, key.accepted_algorithms, headers or {}, body) is not SignatureVerdict.VALID:
            return PeerAnswer(403, b"")
        connector = unquote(parts.path.split("/")[2])
        answer = herder.submit(PutTaskConfigs(connector, json.loads(body or b"[]")))
        try:
            wait_for(self._process, answer, timeout_ms)
        except ConnectError as error:
            return PeerAnswer(409, str(error).encode())
        return PeerAnswer(204, b"")

    def close(self) -> None:
        """Do nothing: there are no connections."""


def wait_for(process: SimulatedProcess, answer: Future[T], timeout_ms: int) -> T:
    """Wait for an answer on a thread of ``process``. Raises its error, TimedOutError."""
    done = process.event()
    answer.add_done_callback(lambda _: done.set())
    if not done.wait(timeout_ms / 1000):
        raise TimedOutError(f"no answer within {timeout_ms} ms")
    return answer.result(0)


class SimulatedCluster:
    """Workers that share topics and a group."""

    def __init__(
        self,
        scheduler: Scheduler,
        worker_config: Mapping[str, str] | None = None,
        timing: Timing | None = None,
        times: SliceTimes | None = None,
        engine: EngineSettings | None = None,
        busy_share: float = 0.0,
    ) -> None:
        self.scheduler = scheduler
        self.truth = GroundTruth()
        self.timing = timing or Timing()
        self.times = times or SliceTimes()
        self._engine = engine or EngineSettings()
        self._busy_share = busy_share
        self.group = SimulatedGroup(scheduler)
        self.config_topic = SimulatedTopic("configs")
        self.status_topic = SimulatedTopic("statuses")
        self.offset_topic = SimulatedTopic("offsets", self.truth.offsets_written)
        self.group.on_generation = self._note_generation
        self.workers: dict[str, SimulatedWorker] = {}  # also those that are dead
        self._processes: list[SimulatedProcess] = []  # also those whose worker was replaced
        self.consumer_groups = MemoryConsumerGroups()
        self._config = {**_CONFIG, **(worker_config or {})}

    def add_worker(self, name: str, config: Mapping[str, str] | None = None) -> SimulatedWorker:
        """Start a worker; one of that name that died is replaced."""
        scheduler = self.scheduler
        process, link = SimulatedProcess(scheduler, name), Link(scheduler)
        self._processes.append(process)
        member = self.group.join_member(name, process, link, self.timing)
        slices = SimulatedSliceLauncher(process, self.truth, self.times, self._busy_share)
        configs = SimulatedLog(self.config_topic, process, link)
        statuses = SimulatedLog(self.status_topic, process, link)
        offsets = SimulatedLog(self.offset_topic, process, link, self.timing.session_ms - self.timing.lease_ms)
        config_store = ConfigStore(configs, scheduler)
        herder = DistributedHerder(
            HerderDependencies(
                settings=HerderSettings.of(
                    f"{name}:8083", f"http://{name}:8083/", worker_settings({**self._config, **(config or {})})
                ),
                clock=scheduler,
                member=member,
                config_store=config_store,
                status_store=StatusStore(statuses, scheduler, threads=process),
                offset_store=OffsetStore(offsets, process, member.in_contact),
                runner=Engine(slices, self._engine, _raising(scheduler), process, scheduler),
                sink_groups=self.consumer_groups.member,
                plugins=_PLUGINS,
                peers=SimulatedPeers(self, process),
                group_offsets=MemoryGroupOffsets(self.consumer_groups),
                new_key=lambda size: bytes(scheduler.between(0, 255) for _ in range(size)),
                threads=process,
            )
        )
        worker = SimulatedWorker(
            name, process, link, member, slices, (configs, statuses, offsets), config_store, herder
        )
        self.workers[name] = worker
        herder.start()
        return worker

    def crash(self, name: str) -> None:
        """kill -9: its data in flight may be lost, and its coordinator notices only the missing heartbeats."""
        worker = self.workers[name]
        worker.process.kill()
        worker.member.vanish()
        for log in worker.logs:
            log.stop()

    def stop(self, name: str) -> None:
        """Stop a worker in order, as SIGTERM does."""
        worker = self.workers[name]
        if worker.in_service:
            worker.stopping = True

            def leave() -> None:
                worker.herder.stop(120.0)
                worker.process.later(1_000, lambda: self._gone(worker))

            worker.process.start("sigterm", leave)

    def _note_generation(self, number: int, leader_id: str, protocol: str) -> None:
        leader = leader_id.rpartition("-")[0]
        self.truth.history.append(("generation", leader, f"{number} ({protocol})"))

    def _gone(self, worker: SimulatedWorker) -> None:
        worker.process.kill()

    def in_service(self) -> list[SimulatedWorker]:
        """Return the workers that live and were not asked to stop."""
        return [worker for worker in self.workers.values() if worker.in_service]

    def leader(self) -> SimulatedWorker | None:
        """Return a worker that believes it leads, if there is one."""
        return next((worker for worker in self.in_service() if worker.herder.views.is_leader()), None)

    def until(self, fact: Callable[[], bool], limit_ms: int = 120_000) -> None:
        """Run until a fact holds. Raises AssertionError with everybody's last sentences when time is up."""
        end_ms = self.scheduler.at_ms + limit_ms
        while not fact():
            if self.scheduler.at_ms > end_ms or not self.scheduler.step():
                raise AssertionError(f"not within {limit_ms} ms:\n{self.describe()}")

    def run_for(self, duration_ms: int) -> None:
        """Let virtual time pass, and everything that is due meanwhile happen."""
        end_ms = self.scheduler.at_ms + duration_ms
        reached = self.scheduler.later(duration_ms, lambda: None)
        while self.scheduler.at_ms < end_ms:
            self.scheduler.step()
        reached.cancel()

    def unsettled(self) -> str | None:
        """Return why the cluster is not settled, None when it is (S3).

        Settled: every worker in service has adopted one generation and config offset, and every configured task
        lives exactly once, on a worker in service.
        """
        workers = self.in_service()
        views = {worker.name: (worker.herder.views.progress().generation, _offset(worker)) for worker in workers}
        if len(set(views.values())) != 1 or any(w.herder.views.health().status != "healthy" for w in workers):
            return f"workers differ: {views}, {[w.herder.views.health().status for w in workers]}"
        must, may = expected_tasks(workers[0])
        alive = {str(task): [side.worker for side in sides] for task, sides in self.truth.alive.items() if sides}
        if not must <= alive.keys() <= must | may:
            return f"wanted tasks {sorted(must)}, alive {alive}"
        names = {worker.name for worker in workers}
        strangers = {task: on for task, on in alive.items() if not names.issuperset(on)}
        return f"tasks on workers out of service: {strangers}" if strangers else None

    def close(self) -> None:
        """Kill every process and free its threads."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.unwind()

    def describe(self) -> str:
        """Return the last report of every worker."""
        lines: list[str] = [f"t={self.scheduler.at_ms} ms"]
        for name, worker in self.workers.items():
            state = "alive" if worker.in_service else "out of service"
            frozen = ", frozen" if worker.process.frozen else ""
            lines.append(f"{name} ({state}{frozen}): {worker.member.state.phase} {worker.herder.views.progress()}")
            lines += [
                f"  {line.at_ms - WALL_CLOCK_START_MS} {line.step}: {line.reason}"
                for line in worker.herder.views.events()[-14:]
            ]
            lines += [f"  waits: {where}" for where in worker.process.stacks()]
        return "\n".join(lines)


def _raising(scheduler: Scheduler) -> Report:
    """Return a report of a part that ended which ends the schedule."""

    def report(part: SupervisedPart, error: BaseException | str) -> None:
        scheduler.failures.append(error if isinstance(error, BaseException) else RuntimeError(f"{part}: {error}"))

    return report


def expected_tasks(worker: SimulatedWorker) -> tuple[set[str], set[str]]:
    """Return which tasks must live by the configuration this worker knows, and which others may.

    A PAUSED connector keeps its tasks. When it is configured again, its task set is older than its configuration. After
    a compaction, a worker that reads the topic from its beginning takes that set for a deleted connector's, as Java
    does. A resume repairs that. Until then its tasks may live, but need not.
    """
    snapshot = worker.config_store.snapshot()
    must: set[str] = set()
    may: set[str] = set()
    for name in snapshot.connectors():
        config = snapshot.connector_config(name) or NO_SETTINGS
        target = snapshot.target_state(name)
        if target is TargetState.STARTED:
            must |= {f"{name}-{number}" for number in range(int(config.written()["tasks.max"]))}
        elif (
            target is TargetState.PAUSED and snapshot.applied_config(name) == config and name not in snapshot.overtaken
        ):
            must |= {f"{name}-{number}" for number in range(snapshot.task_count(name))}
        elif target is TargetState.PAUSED:
            may |= {f"{name}-{number}" for number in range(MOST_TASKS)}
    return must, may


def _offset(worker: SimulatedWorker) -> int:
    return worker.config_store.snapshot().offset


def memory_source(tasks: int, **more: Any) -> dict[str, str]:
    """Return the configuration of a source with that many tasks."""
    return {"connector.class": "MemorySource", "topic": "t", "tasks.max": str(tasks), **more}
