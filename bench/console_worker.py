"""One worker of a group as the management API and the console meet it, its tasks moved by a thread instead of Spark.

``python -m bench.console_worker '{"port": 8083, "others": [8084], "connectors": 2000, "tasks": 5, "moving": 0.5}'``.
Stores, herder views, REST server, console and the tasks' own objects are real; topics are in memory, and each task is
given a durable batch a second, as its executor would report it, if it is one of those that move. What each task was
given is known beforehand: that is the ground truth.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from bench.rest_reads import MOCK, memory_dependencies
from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.console_app import Console
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_runner import BatchDurable, TaskKind, TaskLaunch, TaskRunning
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.operations.events.service import GroupEvents
from spark_connect_rt.operations.overview.wiring import OverviewParts, shown_configs
from spark_connect_rt.rest.peers import HttpGroupReads, HttpPeerClient
from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.worker.worker_task import TaskServices, WorkerTask
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic
from spark_connect_rt.topics import config_records, status_records
from spark_connect_rt.topics.status_records import ConnectorStatus, ConnectorStatusKey, State, TaskStatusKey
from spark_connect_rt.topics.status_store import to_fields

FAILED_EACH = 50  # one connector of so many has a FAILED task
BATCH = 10  # records of a batch
EVENTS = 1_000
TRACE = 'Traceback (most recent call last):\n  File "task.py", line 1, in poll\nValueError: no such table: orders\n'


@dataclass(frozen=True)
class Wanted:
    """What the worker is to be; ports are of 127.0.0.1, the first worker leads."""

    port: int
    others: list[int]
    connectors: int
    tasks: int  # of each connector
    moving: float  # share of the connectors whose tasks move
    leads: bool = True

    @property
    def members(self) -> list[str]:
        """Return every worker's id, in one order for all."""
        return [f"127.0.0.1:{port}" for port in sorted([self.port, *self.others])]

    def owner(self, connector: int, task: int) -> str:
        """Return the worker that runs a task."""
        return self.members[(connector + task) % len(self.members)]

    def moves(self, connector: int) -> bool:
        """Return whether the tasks of a connector move."""
        return connector < self.connectors * self.moving

    def has_failed(self, connector: int, task: int) -> bool:
        """Return whether a task is FAILED."""
        return connector % FAILED_EACH == FAILED_EACH - 1 and task == 0


def name_of(connector: int) -> str:
    """Return the name of a connector by its number."""
    return f"connector-{connector:04d}"


def main() -> int:
    """Serve until stdin ends; say ``ready`` once everything answers."""
    wanted = Wanted(**json.loads(sys.argv[1]))
    worker = ConsoleWorker(wanted)
    worker.start()
    print("ready", flush=True)
    sys.stdin.read()
    worker.stop()
    return 0


class ConsoleWorker:
    """The worker; see the module."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        worker_id = f"127.0.0.1:{wanted.port}"
        configs, statuses = MemoryLogTopic("configs"), MemoryLogTopic("statuses", partitions=5)
        self._fill(configs, statuses)
        self._peers = HttpPeerClient()
        self._deps = memory_dependencies(configs, statuses, worker_id, self._peers)
        self._herder = DistributedHerder(self._deps)
        self._lead()
        self._moving: list[WorkerTask] = []
        self._put_tasks(worker_id)
        reads = HttpGroupReads(self._herder.views, self._peers)
        self._parts = OverviewParts(self._herder.views, reads, self._deps.clock, self._peers, shown_configs(self._deps))
        self._reads = reads
        memory = EventMemory(self._deps.clock, worker_id)
        for number in range(EVENTS):
            memory("state", f"connector {name_of(number % wanted.connectors)} is RUNNING")
        events = GroupEvents(memory, reads, self._deps.clock, self._herder.views.is_leader)
        management = Management(group_reads=reads, overview=self._parts.overview, events=events)
        self._console = Console()
        app = self._console.in_front_of(create_app(self._herder, self._peers, management=management))
        self._console.asks(app)
        self._server = RestServer(app, "127.0.0.1", wanted.port)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Read the topics, serve, let tasks move."""
        self._deps.config_store.start(lambda _: None)
        self._deps.status_store.start()
        self._herder.started.set_result(None)
        self._server.start()
        self._parts.start()
        threading.Thread(target=self._move, daemon=True).start()

    def stop(self) -> None:
        """End it all."""
        self._stopped.set()
        self._console.close()
        self._parts.stop()
        self._reads.stop()
        self._server.stop()

    def _fill(self, configs: MemoryLogTopic, statuses: MemoryLogTopic) -> None:
        wanted = self._wanted
        for number in range(wanted.connectors):
            name = name_of(number)
            config = {"connector.class": MOCK, "tasks.max": str(wanted.tasks), "mock_mode": "x", "name": name}
            tasks = [ConnectorTaskId(name, task) for task in range(wanted.tasks)]
            configs.write(
                [
                    (config_records.connector_key(name), config_records.encode_properties(config)),
                    *((config_records.task_key(task), config_records.encode_properties(config)) for task in tasks),
                    (config_records.commit_key(name), config_records.encode_commit(wanted.tasks)),
                ]
            )
            key = status_records.encode_key(ConnectorStatusKey(name))
            statuses.write([(key, _status(State.RUNNING, wanted.owner(number, 0)))])
            for task in tasks:
                state = State.FAILED if wanted.has_failed(number, task.task) else State.RUNNING
                key = status_records.encode_key(TaskStatusKey(task))
                statuses.write([(key, _status(state, wanted.owner(number, task.task)))])

    def _lead(self) -> None:
        """Make this worker one of a group as its last rebalance would have left it."""
        from spark_connect_rt.group.subprotocol import ConnectProtocol
        from spark_connect_rt.runtime.herder.group_state import GroupView

        members = tuple(f"http://{member}/" for member in self._wanted.members)
        view = GroupView(
            is_leader=self._wanted.leads,
            leader_url=members[0] if not self._wanted.leads else f"http://127.0.0.1:{self._wanted.port}/",
            generation=1,
            protocol=ConnectProtocol.COMPATIBLE,
            once_stable=True,
            own_group=True,
            member_urls=members if self._wanted.leads else (),
        )
        self._herder._loop._state.view = view

    def _put_tasks(self, worker_id: str) -> None:
        nothing: Any = lambda *_, **__: None  # noqa: E731
        services = TaskServices(self._deps.clock, self._deps.runner, nothing, nothing, nothing, nothing, lambda: None)
        found = {}
        for number in range(self._wanted.connectors):
            for task in range(self._wanted.tasks):
                if self._wanted.owner(number, task) != worker_id:
                    continue
                launch = TaskLaunch(
                    ConnectorTaskId(name_of(number), task), 1, 1, TaskKind.SOURCE, "bench:Task", {}, {}, {}
                )
                worker_task = found[launch.task] = WorkerTask(launch, None, services)
                worker_task.on_event(TaskRunning(launch.task, 1))
                if self._wanted.moves(number) and not self._wanted.has_failed(number, task):
                    self._moving.append(worker_task)
        self._herder._loop.worker._tasks = found

    def _move(self) -> None:
        due_s = time.monotonic()
        while not self._stopped.wait(max(0.0, due_s - time.monotonic())):
            due_s += 1.0
            for task in self._moving:
                task.on_event(BatchDurable(task.id, 1, 1, BATCH, BATCH * 100, topics=("t",)))


def _status(state: State, worker_id: str) -> bytes:
    trace = TRACE if state is State.FAILED else None
    return status_records.encode_status(to_fields(ConnectorStatus(state, worker_id, 1, trace, "1.0")))


if __name__ == "__main__":
    sys.exit(main())
