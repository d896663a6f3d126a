"""However late an internal topic answers, the tick goes on: the group is heard, work stops, reads answer."""

import pytest

from spark_connect_rt.errors import ShuttingDownError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, DeleteConnector, SetTargetState
from spark_connect_rt.runtime.herder.steps import adopting
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, emitted, expected, offers_javas_names_only, source

QUICK = Timing(session_ms=300, heartbeat_ms=20, rebalance_ms=10_000)
PATIENT = Timing(session_ms=10_000, heartbeat_ms=20, rebalance_ms=60_000)  # nobody is lost on a busy machine


def running(cluster: InProcessCluster) -> list[str]:
    return sorted(task for worker in cluster.workers.values() for task in worker.running_tasks())


def last_told(cluster: InProcessCluster, name: str, step: str) -> str:
    lines = [line.reason for line in cluster.workers[name].herder.views.events() if line.step == step]
    return lines[-1] if lines else ""


def test_work_stops_at_the_session_timeout_though_a_config_write_waits() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        create(cluster, "a", source(records=5))
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        cluster.config_topic.stall(True)
        waiting = worker.herder.submit(CreateConnector("b", source(records=3), None))
        cluster.until(lambda: "writing a config for connector b" in last_told(cluster, "w1", "collect answers"))
        worker.member.cut_off()
        cluster.until(lambda: worker.herder.views.progress().tasks == ())
        assert not waiting.done()
        assert "contact lost" in last_told(cluster, "w1", "read group events")
        worker.member.reconnect()
        cluster.config_topic.stall(False)
        assert waiting.result(10).created
        cluster.until(lambda: worker.running_tasks() == {"a-0", "b-0"})


def test_the_group_rebalances_while_its_leader_waits_for_a_write() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        first = cluster.add_worker("w1")
        create(cluster, "a", source(records=5, tasks=2))
        cluster.until(lambda: first.running_tasks() == {"a-0", "a-1"})
        cluster.config_topic.stall(True)
        waiting = first.herder.submit(DeleteConnector("a"))
        cluster.until(lambda: "removing the config" in last_told(cluster, "w1", "collect answers"))
        generation = first.herder.views.progress().generation
        cluster.add_worker("w2")
        cluster.config_topic.stall(False)  # a newcomer reads the topic before it joins
        cluster.until(lambda: first.herder.views.progress().generation > generation)
        waiting.result(10)
        cluster.until(lambda: emitted(cluster) == sorted(expected("a-0", 5) + expected("a-1", 5)))
        cluster.until(lambda: not any(worker.running_tasks() for worker in cluster.workers.values()))


def test_a_second_request_waits_for_the_first_write_and_is_judged_by_what_it_left() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until(lambda: worker.herder.views.internal_key().key is not None)  # written before anything is late
        cluster.config_topic.stall(True)
        first = worker.herder.submit(CreateConnector("a", source(records=3), None))
        cluster.until(lambda: "writing a config for connector a" in last_told(cluster, "w1", "collect answers"))
        second = worker.herder.submit(DeleteConnector("a"))
        cluster.until(lambda: "1 requests wait for the config topic" in last_told(cluster, "w1", "serve requests"))
        cluster.config_topic.stall(False)
        assert first.result(10).created
        second.result(10)
        assert worker.herder.views.list_connectors() == []


def test_reads_and_health_answer_while_a_write_waits_and_the_stage_is_named() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        worker = cluster.add_worker("w1")
        create(cluster, "a", source(records=3))
        cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
        cluster.config_topic.stall(True)
        waiting = worker.herder.submit(SetTargetState("a", TargetState.STOPPED))
        cluster.until(lambda: "STOPPED target stage" in worker.herder.views.health().detail)
        health = worker.herder.views.health()
        assert health.status == "healthy"
        assert "currently writing the STOPPED target stage for connector a to the config topic" in health.detail
        assert worker.herder.views.connector_config("a").written()["topic"] == "t"
        assert [task.state for task in worker.herder.views.connector_status("a").tasks] == ["RUNNING"]
        cluster.config_topic.stall(False)
        waiting.result(10)
        cluster.until(lambda: cluster.states("a") == {"a": "STOPPED"})


class Behind:
    """Two workers, three tasks; the one that follows reads the config topic no more, the leader creates b."""

    def __init__(self, cluster: InProcessCluster, java: bool = False) -> None:
        cluster.add_worker("w1")
        worker = cluster.add_worker("w2")
        if java:
            offers_javas_names_only(worker)
        create(cluster, "a", source(records=3, tasks=4))
        cluster.until(lambda: len(running(cluster)) == 4)
        cluster.until_stable()
        self.name = next(name for name, worker in cluster.workers.items() if not worker.herder.views.is_leader())
        self.worker = cluster.workers[self.name]
        self.held = self.worker.running_tasks()
        log = self.worker.herder._deps.config_store._log
        assert isinstance(log, MemoryCompactedLog)
        self.log = log
        log.stalled = True
        create(cluster, "b", source(records=3))

    def told(self, step: str, what: str) -> bool:
        return any(line.step == step and what in line.reason for line in self.worker.herder.views.events())


SOON = {"worker.sync.timeout.ms": "40", "scheduled.rebalance.max.delay.ms": "500"}
JAVAS_TIMES = {"connectrt.lost.work.delay.ms": "0"}
OURS = {**SOON, "connectrt.lost.work.delay.ms": "0"}


def test_a_worker_behind_keeps_place_and_work_without_java_workers() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT, worker_config=OURS) as cluster:
        behind = Behind(cluster)
        cluster.until(lambda: behind.told("adopt assignment", "will read the config topic"))
        assert behind.worker.running_tasks() == behind.held
        assert behind.worker.member.state.member_id in cluster.group.member_ids
        behind.log.stalled = False
        cluster.until(lambda: running(cluster) == ["a-0", "a-1", "a-2", "a-3", "b-0"])
        cluster.until_stable()


def test_worker_that_stays_behind_stops_its_work_before_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    faults.clear()
    monkeypatch.setattr(adopting, "OWN_READ_BACKOFF_MS", 5)
    with InProcessCluster(timing=PATIENT, worker_config=OURS) as cluster:
        gates = [faults.blocks(f"a-{number}.stop_task") for number in range(4)]
        behind = Behind(cluster)
        cluster.until(lambda: behind.told("catch up on config", "leaves the group when"))
        assert behind.worker.member.state.member_id in cluster.group.member_ids
        for gate in gates:
            gate.set()
        cluster.until(lambda: running(cluster) == ["a-0", "a-1", "a-2", "a-3", "b-0"])  # all of it on the other one
        assert behind.worker.running_tasks() == set()
        behind.log.stalled = False
        cluster.until_stable()
        cluster.until(lambda: behind.worker.running_tasks() != set())


def test_next_to_java_a_worker_that_is_behind_leaves_and_works_on() -> None:
    faults.clear()
    settings = {**OURS, "scheduled.rebalance.max.delay.ms": "3000"}
    with InProcessCluster(timing=PATIENT, worker_config=settings) as cluster:
        behind = Behind(cluster, java=True)
        cluster.until(lambda: behind.told("catch up on config", "waits before it reads"))
        assert behind.worker.running_tasks() == behind.held
        behind.log.stalled = False
        cluster.until(lambda: running(cluster) == ["a-0", "a-1", "a-2", "a-3", "b-0"])
        cluster.until_stable()


def log_of(cluster: InProcessCluster, name: str) -> MemoryCompactedLog:
    log = cluster.workers[name].herder._deps.config_store._log
    assert isinstance(log, MemoryCompactedLog)
    return log


def test_a_leader_that_knows_less_than_a_member_reads_on_before_it_leads_again() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT, worker_config=JAVAS_TIMES) as cluster:
        leader = cluster.add_worker("w1")
        cluster.until_stable()  # it leads; who comes later does not
        follower = cluster.add_worker("w2")
        create(cluster, "a", source(records=3, tasks=2))
        cluster.until(lambda: len(running(cluster)) == 2)
        cluster.until_stable()
        log_of(cluster, "w1").stalled = True
        # Any worker may write that; the leader does not see it.
        follower.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)
        cluster.add_worker("w3")
        refusals = "refuses to assign: the config topic is not read yet"
        cluster.until(lambda: refusals in [line.reason for line in leader.herder.views.events()])
        cluster.until(lambda: "joins when the config topic is read" in last_told(cluster, "w1", "keep membership"))
        generation = cluster.group.generation
        log_of(cluster, "w1").stalled = False
        cluster.until_stable()
        assert cluster.group.generation <= generation + 3
        cluster.until(lambda: set(cluster.states("a").values()) == {"PAUSED"})


def test_a_leader_that_cannot_read_on_makes_room_for_one_that_can() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT, worker_config=OURS) as cluster:
        leader = cluster.add_worker("w1")
        cluster.until_stable()  # it leads; who comes later does not
        follower = cluster.add_worker("w2")
        create(cluster, "a", source(records=3, tasks=2))
        cluster.until(lambda: len(running(cluster)) == 2)
        cluster.until_stable()
        log_of(cluster, "w1").stalled = True
        follower.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)
        cluster.add_worker("w3")
        cluster.until(lambda: follower.herder.views.is_leader() or cluster.workers["w3"].herder.views.is_leader())
        cluster.until(lambda: leader.running_tasks() == set())
        follower.herder.submit(SetTargetState("a", TargetState.STARTED)).result(5)
        cluster.until(lambda: running(cluster) == ["a-0", "a-1"])
        log_of(cluster, "w1").stalled = False
        cluster.until_stable()


def test_a_stop_does_not_wait_for_a_write_and_fails_waiting_requests() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until(lambda: worker.herder.views.internal_key().key is not None)  # written before anything is late
        cluster.config_topic.stall(True)
        waiting = worker.herder.submit(CreateConnector("a", source(records=3), None))
        cluster.until(lambda: "writing a config for connector a" in last_told(cluster, "w1", "collect answers"))
        cluster.stop_worker("w1")
        with pytest.raises(ShuttingDownError):
            waiting.result(1)
        cluster.config_topic.stall(False)
