"""A Java worker and this package's member in one group, each leading in turn: the bytes are understood both ways."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.group import assignor as incremental
from spark_connect_rt.group.assignments import NOTHING, AssignmentRound, ConnectorsAndTasks, agree_on_offset
from spark_connect_rt.group.member import Assigned, AssignmentRequired, JoinRequired
from spark_connect_rt.group.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    join_protocols,
)
from tests.support.group_members import new_member
from tests.support.java_connect import JavaConnect

SESSIONED = ConnectProtocol.SESSIONED
TIMES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
}
NAMES = ("fs1", "fs2")
EVERYTHING = ConnectorsAndTasks(NAMES, tuple(ConnectorTaskId(name, 0) for name in NAMES))


class PretendWorker:
    """Holds work without running it; answers the member as a herder would."""

    def __init__(self, bootstrap: str, group: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, **TIMES}
        self.member = new_member(settings, client_id="pretend")
        self.url = "http://127.0.0.1:1/"
        self.held = NOTHING
        self.offset = -1
        self.told: Assigned | None = None
        self.leader_url = ""
        self.memory = incremental.AssignorMemory()
        self.member.start()

    def tick(self) -> None:
        for event in self.member.poll(50):
            if isinstance(event, JoinRequired):
                held = Assignment("", "", self.offset, self.held.connectors, self.held.tasks)
                allocation = None if self.held.is_empty else held
                self.member.join(join_protocols(SESSIONED, WorkerMetadata(self.url, self.offset, allocation)))
            elif isinstance(event, AssignmentRequired):
                self._lead(event)
            elif isinstance(event, Assigned):
                self._adopt(event)

    def _lead(self, event: AssignmentRequired) -> None:
        members = {member: decode_metadata(blob) for member, blob in event.members.items()}
        offset = agree_on_offset(members, held_offset=self.offset, fresh_offset=10**6)
        assert offset is not None
        self.memory, result = incremental.assign(
            self.memory,
            AssignmentRound(
                leader_id=event.leader_id,
                members=members,
                configured=EVERYTHING,
                config_offset=max(m.config_offset for m in members.values()),
                generation=event.generation,
                last_completed_generation=self.told.generation if self.told else -1,
                max_delay_ms=0,
            ),
        )
        self.member.sync({m: encode_assignment(SESSIONED, told) for m, told in result.assignments.items()})

    def _adopt(self, event: Assigned) -> None:
        told = decode_assignment(event.assignment)
        assert not told.failed
        revoked = ConnectorsAndTasks(told.revoked_connectors, told.revoked_tasks)
        self.held = (self.held - revoked) | ConnectorsAndTasks(told.connectors, told.tasks)
        self.told, self.leader_url, self.offset = event, told.leader_url, told.config_offset
        if told.revokes:
            self.member.request_rejoin("revoked work has stopped")

    def protocol(self) -> str:
        assert self.told is not None
        return self.told.protocol

    def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, f"holds {self.held}, told {self.told}"
            self.tick()


def running_on(worker: JavaConnect) -> list[str]:
    """Return the connectors and tasks that the worker's own REST shows RUNNING on it, sorted."""
    me = f"127.0.0.1:{worker.rest_port}"
    shown = []
    for name in NAMES if worker.rest.probe() else ():
        answer = worker.rest.request("GET", f"/connectors/{name}/status")
        if answer.status == 200:
            status = answer.json()
            parts = [(name, status["connector"]), *((f"{name}-{task['id']}", task) for task in status["tasks"])]
            shown += [part for part, now in parts if (now["state"], now["worker_id"]) == ("RUNNING", me)]
    return sorted(shown)


def test_work_moves_between_a_java_worker_and_this_member(broker: EmbeddedKafka, java: Java, tmp_path: Path) -> None:
    group = f"mixed-{uuid.uuid4()}"
    (tmp_path / "in.txt").write_text("one\n", encoding="utf-8")
    oracle = JavaConnect(tmp_path / "java", broker.bootstrap_servers, group, properties=TIMES, java=java)
    follower = JavaConnect(tmp_path / "again", broker.bootstrap_servers, group, properties=TIMES, java=java)
    oracle.start()
    pretend = None
    try:
        for name in NAMES:
            created = oracle.rest.create(
                name,
                {
                    "connector.class": "FileStreamSource",
                    "file": str(tmp_path / "in.txt"),
                    "topic": name,
                    "tasks.max": "1",
                },
            )
            assert created.status == 201
            oracle.rest.await_states(name, "RUNNING", ["RUNNING"])

        # Java leads: it revokes half of its work and gives it to us in a second round.
        pretend = PretendWorker(broker.bootstrap_servers, group)
        pretend.until(lambda: len(pretend.held.connectors) == 1 and len(pretend.held.tasks) == 1)
        assert pretend.leader_url == f"http://127.0.0.1:{oracle.rest_port}/"
        assert pretend.offset > 0
        assert pretend.protocol() == "sessioned"

        # Java is killed: we lead, and hold everything.
        oracle.kill()
        pretend.until(lambda: (pretend.held - EVERYTHING).is_empty and (EVERYTHING - pretend.held).is_empty)
        assert pretend.leader_url == pretend.url
        assert pretend.protocol() == "connectrt-sessioned"  # alone: a group of our own (decision 0005)

        # Java comes back as our follower, under another name: it takes our assignment and runs its half.
        follower.launch()
        pretend.until(lambda: len(pretend.held.connectors) == 1 and len(pretend.held.tasks) == 1, limit_s=90)
        theirs = EVERYTHING - pretend.held
        wanted = sorted(str(item) for item in (*theirs.connectors, *theirs.tasks))
        pretend.until(lambda: running_on(follower) == wanted, limit_s=90)
        # A member that could not be heard in time may be between two memberships.
        pretend.until(lambda: pretend.told is not None and pretend.told.leader_id == pretend.member.member_id())
        assert pretend.protocol() == "sessioned"
    finally:
        for worker in (oracle, follower):  # before our member, whose leaving would start one more round
            worker.stop()
            worker.rest.close()
        if pretend is not None:
            pretend.member.stop()
