"""A whole worker group in one process: real herders and stores over in-memory topics, group and engine.

Owns the wiring and a patient ``until``. For connector authors and for tests of the runtime: no broker, no Spark, no
HTTP. A worker can be stopped, or killed so that the others notice only by its missing heartbeats.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.base.loggers import ROOT, LoggerLevel
from spark_connect_rt.base.supervision import Supervisor
from spark_connect_rt.errors import ConnectError, NotFoundError, RetriableError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.group.peers import PeerAnswer, SignatureVerdict, verify
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, HerderSettings
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.herder.herder_requests import FenceZombies, PutTaskConfigs
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.testing.memory_connectors import MemorySink, MemorySource
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_group import MemoryGroup, MemoryGroupMember
from spark_connect_rt.testing.memory_sink_group import MemoryConsumerGroups, MemoryGroupOffsets
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.memory_transactions import MemoryFencedWriter, MemoryTransactions, TopicsWithLogs
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore

T = TypeVar("T")

LIMIT_S = 15.0
LEADER_ID = "connect-cluster-memory"  # transactional id of the leader's writes


class MemoryLoggers:
    """Port Loggers over a mapping: twin of ``app.logging_setup`` whose levels no logging obeys."""

    def __init__(self) -> None:
        self._levels = {ROOT: LoggerLevel("INFO")}

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Return every logger with its own level."""
        return dict(self._levels)

    def level(self, name: str) -> LoggerLevel | None:
        """Return a logger's own level, None if it has none."""
        return self._levels.get(name)

    def set_level(self, namespace: str, level: str, now_ms: int) -> Sequence[str]:
        """Set the level of a logger and of all loggers below it; return the names of the changed ones."""
        below = ROOT if namespace == ROOT else f"{namespace}."
        names = {namespace, *(name for name in self._levels if below == ROOT or name.startswith(below))}
        changed = sorted(name for name in names if name not in self._levels or self._levels[name].level != level)
        self._levels.update(dict.fromkeys(changed, LoggerLevel(level, now_ms)))
        return changed


@dataclass(frozen=True, slots=True)
class _Facts:
    """A plug-in as the catalogue describes it."""

    cls: type[Any]
    type: str
    version: str | None
    java_class: str
    location: str = "bundled"
    is_java: bool = False
    content: str = ""


class MemoryPlugins:
    """Port PluginCatalog over a mapping of names to classes."""

    def __init__(self, classes: Mapping[str, type[Any]]) -> None:
        self._classes = dict(classes)

    def find(self, name: str, kind: str = "") -> _Facts:
        """Return the plug-in with this class name. Raises NotFoundError: it is unknown."""
        if name not in self._classes:
            raise NotFoundError(f"Failed to find any class that implements Connector and which name matches {name}")
        cls = self._classes[name]
        return _Facts(cls, "sink" if "Sink" in cls.__name__ else "source", "1.0", name)

    def class_of(self, name: str, kind: str = "") -> type[Any]:
        """Return the class of ``find(name)``. Raises NotFoundError: it is unknown."""
        return self.find(name).cls

    def versions(self, name: str) -> Sequence[str]:
        """Return the version "1.0" of a known plug-in, nothing for an unknown one."""
        return ["1.0"] if name in self._classes else []

    def list(self, connectors_only: bool) -> Sequence[_Facts]:
        """Return every plug-in, sorted by name. All of them are connectors."""
        return [self.find(name) for name in sorted(self._classes)]


class InProcessPeers:
    """Port PeerClient: reaches the herders of one cluster by their URLs; internal requests only."""

    def __init__(self, workers: Mapping[str, DistributedHerder]) -> None:
        self._workers = workers
        self.requests: list[tuple[str, str]] = []

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        """Send a request to the herder of the worker with this URL, after checking its signature.

        Raises RetriableError: no worker of the cluster has this URL.
        """
        parts = urlsplit(url)
        herder = self._workers.get(f"{parts.scheme}://{parts.netloc}/")
        if herder is None:
            raise RetriableError(f"{url} is not reachable")
        self.requests.append((method, parts.path))
        key = herder.views.internal_key()
        if key.required and verify(key.key, key.accepted_algorithms, headers or {}, body) is not SignatureVerdict.VALID:
            return PeerAnswer(403, b"")
        connector = unquote(parts.path.split("/")[2])
        try:
            if parts.path.endswith("/fence"):
                herder.submit(FenceZombies(connector)).result(timeout_ms / 1000)
            else:
                herder.submit(PutTaskConfigs(connector, json.loads(body or b"[]"))).result(timeout_ms / 1000)
        except ConnectError as error:
            return PeerAnswer(409, str(error).encode())
        return PeerAnswer(204, b"")

    def close(self) -> None:
        """Do nothing: there are no connections."""


class InProcessWorker:
    """One worker of the cluster."""

    def __init__(
        self,
        herder: DistributedHerder,
        member: MemoryGroupMember,
        runner: MemoryTaskRunner,
        loggers: MemoryLoggers,
        supervisor: Supervisor,
        events: EventMemory,
    ) -> None:
        self.herder = herder
        self.member = member
        self.runner = runner
        self.loggers = loggers
        self.supervisor = supervisor
        self.events = events

    def running_tasks(self) -> set[str]:
        """Return the tasks that run here, by name."""
        return {str(task.task) for task in self.herder.views.progress().tasks if task.state == "RUNNING"}


class InProcessCluster:
    """Workers that share topics and a group. A context manager: leaving it stops every worker."""

    def __init__(
        self,
        plugins: Mapping[str, type[Any]] | None = None,
        worker_config: Mapping[str, str] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._classes: dict[str, type[Any]] = {
            "MemorySource": MemorySource,
            "MemorySink": MemorySink,
            "StringConverter": StringConverter,
            "SimpleHeaderConverter": SimpleHeaderConverter,
            **(plugins or {}),
        }
        self._config = {
            "header.converter": "SimpleHeaderConverter",
            "scheduled.rebalance.max.delay.ms": "0",
            "group.id": "memory",
            **(worker_config or {}),
        }
        self._timing = timing or Timing()
        self._numbers = itertools.count(1)
        self.group = MemoryGroup()
        self.topics = TopicsWithLogs()
        self.consumer_groups = MemoryConsumerGroups()
        self.config_topic = MemoryLogTopic("configs")
        self.status_topic = MemoryLogTopic("statuses")
        self.offset_topic = MemoryLogTopic("offsets")
        self.topics.logs["offsets"] = self.offset_topic
        self.transactions = MemoryTransactions(self.topics)
        self.workers: dict[str, InProcessWorker] = {}
        self.on_made: Callable[[str, HerderDependencies, DistributedHerder], None] | None = None  # before its start
        self._by_url: dict[str, DistributedHerder] = {}
        self.peers = InProcessPeers(self._by_url)

    def __enter__(self) -> InProcessCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_worker(self, name: str | None = None, config: Mapping[str, str] | None = None) -> InProcessWorker:
        """Start one more worker; it joins by itself."""
        name = name or f"w{next(self._numbers)}"
        clock = SystemClock()
        plugins = MemoryPlugins(self._classes)
        url = f"http://{name}:8083/"
        member = self.group.member(name, timing=self._timing)
        supervisor = Supervisor()
        clients = MemoryExecutorClients(self.topics, plugins.class_of)
        runner = MemoryTaskRunner(clients, report=supervisor.failed)
        raw = {**self._config, **(config or {})}
        loggers = MemoryLoggers()
        events = EventMemory(clock, f"{name}:8083")
        resolve = ConfigProviders.from_config(raw, plugins.class_of).resolve
        worker_config = worker_settings(raw, resolve)
        writer = MemoryFencedWriter(self.config_topic, LEADER_ID) if worker_config.group.fences_leader else None
        dependencies = HerderDependencies(
            settings=HerderSettings.of(f"{name}:8083", url, worker_config),
            clock=clock,
            member=member,
            config_store=ConfigStore(MemoryCompactedLog(self.config_topic, report=supervisor.failed), clock, writer),
            status_store=StatusStore(MemoryCompactedLog(self.status_topic, report=supervisor.failed), clock),
            offset_store=OffsetStore(
                MemoryCompactedLog(self.offset_topic, report=supervisor.failed), may_write=member.in_contact
            ),
            runner=runner,
            sink_groups=self.consumer_groups.member,
            plugins=plugins,
            loggers=loggers,
            peers=self.peers,
            new_key=lambda size: bytes(range(size)),
            group_offsets=MemoryGroupOffsets(self.consumer_groups),
            transactions=self.transactions,
            supervisor=supervisor,
            open_offsets=self._own_offsets,
            resolve=resolve,
            record_event=events,
        )
        herder = DistributedHerder(dependencies)
        worker = self.workers[name] = InProcessWorker(herder, member, runner, loggers, supervisor, events)
        self._by_url[url] = herder
        if self.on_made is not None:
            self.on_made(name, dependencies, herder)
        herder.start()
        return worker

    def _own_offsets(self, topic: str, config: Mapping[str, str]) -> OffsetStore:
        log = self.topics.logs.setdefault(topic, MemoryLogTopic(topic))
        return OffsetStore(MemoryCompactedLog(log))

    def stop_worker(self, name: str) -> None:
        """Stop a worker in order."""
        worker = self.workers.pop(name)
        self._by_url.pop(worker.herder.views.progress().worker_url, None)
        if not worker.herder.stop(LIMIT_S):
            raise AssertionError(f"{name} did not stop: {worker.herder.views.events()[-5:]}")

    def write(self, topic: str, values: Sequence[str], partition: int = 0) -> None:
        """Append records to a topic, creating it with as many partitions as are needed."""
        self.consumer_groups.set_partitions(topic, partition + 1)
        self.topics.append([{"topic": topic, "partition": partition, "value": v.encode()} for v in values])
        where = TopicPartition(topic, partition)
        self.consumer_groups.set_end(where, self.topics.end(where))

    def until(self, fact: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Wait for a fact. Raises AssertionError with every worker's last sentences when time is up."""
        end_s = time.monotonic() + limit_s
        while not fact():
            if time.monotonic() > end_s:
                raise AssertionError(f"not within {limit_s} s:\n{self.describe()}")
            time.sleep(0.002)

    def until_stable(self) -> None:
        """Wait until every worker has adopted one generation and one of them leads."""

        def stable() -> bool:
            progress = [worker.herder.views.progress() for worker in self.workers.values()]
            generations = {p.generation for p in progress}
            healthy = all(worker.herder.views.health().status == "healthy" for worker in self.workers.values())
            led = len({p.leader_url for p in progress} - {None}) == 1 and all(p.leader_url for p in progress)
            return healthy and led and len(generations) == 1 and sum(p.is_leader for p in progress) == 1

        self.until(stable)

    def leader(self) -> DistributedHerder:
        """Wait until a worker leads (none does during a rebalance); return its herder."""
        self.until(lambda: self._leading() is not None)
        return self._leading() or self.leader()  # again: it may have stepped down meanwhile

    def _leading(self) -> DistributedHerder | None:
        return next((worker.herder for worker in self.workers.values() if worker.herder.views.is_leader()), None)

    def on_leader(self, request: Callable[[DistributedHerder], Future[T]], limit_s: float = LIMIT_S) -> T:
        """Send a request to the leader and wait for the answer."""
        self.until_stable()
        return request(self.leader()).result(limit_s)

    def states(self, connector: str) -> dict[str, str]:
        """Return the states that REST would show: the connector's name and its tasks'."""
        herder = next(iter(self.workers.values())).herder
        try:
            status = herder.views.connector_status(connector)
        except NotFoundError:
            return {}
        tasks = {f"{connector}-{task.id}": task.state for task in status.tasks}
        return {connector: status.connector.state, **tasks}

    def describe(self) -> str:
        """Return the last report of every worker."""
        lines: list[str] = []
        for name, worker in self.workers.items():
            lines.append(f"{name}: {worker.herder.views.progress()}")
            lines += [f"  {line.step}: {line.reason}" for line in worker.herder.views.events()[-12:]]
        return "\n".join(lines)

    def close(self) -> None:
        """Stop every worker, one after the other."""
        for name in list(self.workers):
            self.stop_worker(name)
