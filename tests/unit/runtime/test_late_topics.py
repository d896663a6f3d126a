"""However late an internal topic answers, the tick goes on: the group is heard, work stops, reads answer."""

import pytest

from spark_connect_rt.errors import ShuttingDownError
from spark_connect_rt.state.membership import Timing
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

QUICK = Timing(session_ms=300, heartbeat_ms=20, rebalance_ms=10_000)


def running(cluster: InProcessCluster) -> list[str]:
    return sorted(task for worker in cluster.workers.values() for task in worker.running_tasks())


def last_told(cluster: InProcessCluster, name: str, step: str) -> str:
    lines = [line.reason for line in cluster.workers[name].herder.story() if line.step == step]
    return lines[-1] if lines else ""


def test_work_stops_at_the_session_timeout_though_a_config_write_waits() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        create(cluster, "a", source(records=5))
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        cluster.config_topic.stall(True)
        waiting = worker.herder.create("b", source(records=3), None)
        cluster.until(lambda: "writing a config for connector b" in last_told(cluster, "w1", "collect answers"))
        worker.member.cut_off()
        cluster.until(lambda: worker.herder.progress().tasks == ())
        assert not waiting.done()
        assert "contact lost" in last_told(cluster, "w1", "hear the group")
        worker.member.reconnect()
        cluster.config_topic.stall(False)
        assert waiting.result(10).created
        cluster.until(lambda: worker.running_tasks() == {"a-0", "b-0"})


def test_the_group_rebalances_while_its_leader_waits_for_a_write() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        first = cluster.add_worker("w1")
        create(cluster, "a", source(records=5, tasks=2))
        cluster.until(lambda: first.running_tasks() == {"a-0", "a-1"})
        cluster.config_topic.stall(True)
        waiting = first.herder.delete("a")
        cluster.until(lambda: "removing the config" in last_told(cluster, "w1", "collect answers"))
        generation = first.herder.progress().generation
        cluster.add_worker("w2")
        cluster.config_topic.stall(False)  # a newcomer reads the topic before it joins
        cluster.until(lambda: first.herder.progress().generation > generation)
        waiting.result(10)
        cluster.until(lambda: emitted(cluster) == sorted(expected("a-0", 5) + expected("a-1", 5)))
        cluster.until(lambda: not any(worker.running_tasks() for worker in cluster.workers.values()))


def test_a_second_request_waits_for_the_first_write_and_is_judged_by_what_it_left() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until(lambda: worker.herder.internal_key().key is not None)  # written before anything is late
        cluster.config_topic.stall(True)
        first = worker.herder.create("a", source(records=3), None)
        cluster.until(lambda: "writing a config for connector a" in last_told(cluster, "w1", "collect answers"))
        second = worker.herder.delete("a")
        cluster.until(lambda: "1 requests wait for the config topic" in last_told(cluster, "w1", "serve requests"))
        cluster.config_topic.stall(False)
        assert first.result(10).created
        second.result(10)
        assert worker.herder.list_connectors() == []


def test_reads_and_health_answer_while_a_write_waits_and_the_stage_is_named() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        create(cluster, "a", source(records=3))
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        cluster.config_topic.stall(True)
        waiting = worker.herder.stop_connector("a")
        cluster.until(lambda: "STOPPED target stage" in worker.herder.health().detail)
        health = worker.herder.health()
        assert health.status == "healthy"
        assert "currently writing the STOPPED target stage for connector a to the config topic" in health.detail
        assert worker.herder.connector_config("a")["topic"] == "t"
        assert [task.instance.state for task in worker.herder.connector_status("a").tasks] == ["RUNNING"]
        cluster.config_topic.stall(False)
        waiting.result(10)
        cluster.until(lambda: cluster.states("a") == {"a": "STOPPED"})


def test_a_worker_that_cannot_read_far_enough_leaves_and_comes_back() -> None:
    faults.clear()
    settings = {"worker.sync.timeout.ms": "50", "scheduled.rebalance.max.delay.ms": "500"}
    with InProcessCluster(timing=QUICK, worker_config=settings) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        create(cluster, "a", source(records=3, tasks=2))
        cluster.until(lambda: len(running(cluster)) == 2)
        behind = next(name for name, worker in cluster.workers.items() if not worker.herder.is_leader())
        log = cluster.workers[behind].herder._deps.config_store._log
        assert isinstance(log, MemoryCompactedLog)
        log.stalled = True
        create(cluster, "b", source(records=3))
        cluster.until(lambda: "waits before it reads" in last_told(cluster, behind, "catch up on config"))
        log.stalled = False
        cluster.until(lambda: running(cluster) == ["a-0", "a-1", "b-0"])
        cluster.until_stable()


def test_a_stop_does_not_wait_for_a_write_and_who_waits_is_told() -> None:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until(lambda: worker.herder.internal_key().key is not None)  # written before anything is late
        cluster.config_topic.stall(True)
        waiting = worker.herder.create("a", source(records=3), None)
        cluster.until(lambda: "writing a config for connector a" in last_told(cluster, "w1", "collect answers"))
        cluster.stop_worker("w1")
        with pytest.raises(ShuttingDownError):
            waiting.result(1)
        cluster.config_topic.stall(False)
