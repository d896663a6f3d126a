"""Sinks through the whole story: what is delivered, committed, handed over."""

import threading
from collections.abc import Mapping, Set
from typing import ClassVar

from spark_connect_rt.api.config_provider import ConfigData, ConfigProvider
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.runtime.herder.herder_requests import ReadOffsets, RestartTask, SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import delivered, faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create

P0, P1 = TopicPartition("in", 0), TopicPartition("in", 1)


def sink(tasks: int = 1, **more: str) -> dict[str, str]:
    return {"connector.class": "MemorySink", "tasks.max": str(tasks), "topics": "in", **more}


def values(connector: str) -> list[str]:
    return sorted(record.value for record in delivered[connector])


def numbers(*parts: range) -> list[str]:
    return sorted(str(n) for part in parts for n in part)


def test_a_sink_reads_delivers_and_commits(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    cluster.write("in", numbers(range(50)))
    create(cluster, "s", sink())
    cluster.until(lambda: values("s") == numbers(range(50)))
    cluster.until(lambda: cluster.consumer_groups.committed("connect-s") == {P0: 50})
    cluster.until(lambda: cluster.states("s") == {"s": "RUNNING", "s-0": "RUNNING"})
    (offset,) = worker.herder.submit(ReadOffsets("s")).result(5)
    assert offset.partition == {"kafka_partition": 0, "kafka_topic": "in"}
    assert offset.offset == {"kafka_offset": 50}
    assert worker.herder.views.connector_info("s").type == "sink"
    cluster.until(lambda: worker.herder.views.topics("s") == ("in",))
    cluster.until(lambda: worker.herder.views.progress().tasks[0].lag == 0)


def test_a_stopped_worker_commits_durable_offsets_and_the_next_resumes_there(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    cluster.write("in", numbers(range(20)))
    create(cluster, "s", sink())
    cluster.until(lambda: values("s") == numbers(range(20)))
    cluster.stop_worker("w1")
    assert cluster.consumer_groups.committed("connect-s") == {P0: 20}
    cluster.write("in", numbers(range(20, 25)))
    cluster.add_worker("w2")
    cluster.until(lambda: values("s") == numbers(range(25)))
    assert len(delivered["s"]) == 25


def test_a_stopped_connector_shows_its_task_until_what_it_read_is_committed(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    cluster.write("in", numbers(range(10)))
    create(cluster, "s", sink())
    cluster.until(lambda: cluster.consumer_groups.committed("connect-s") == {P0: 10})
    gate, calls = faults.blocks("s.put"), faults.calls["s.put"]
    cluster.write("in", numbers(range(10, 15)))
    cluster.until(lambda: faults.calls["s.put"] > calls)
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("s", TargetState.STOPPED)))
    cluster.until(lambda: cluster.states("s")["s"] == "STOPPED")
    assert cluster.states("s") == {"s": "STOPPED", "s-0": "RUNNING"}
    gate.set()
    cluster.until(lambda: cluster.states("s") == {"s": "STOPPED"})
    # 15, or 10 where the put that waited was an empty one and the five were not read any more
    assert cluster.consumer_groups.committed("connect-s") == {P0: len(delivered["s"])}


def test_a_new_partition_is_read_without_a_restart(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    cluster.write("in", numbers(range(5)))
    create(cluster, "s", sink(tasks=2))
    cluster.until(lambda: values("s") == numbers(range(5)))
    cluster.write("in", numbers(range(5, 9)), partition=1)
    cluster.until(lambda: values("s") == numbers(range(9)))
    cluster.until(lambda: cluster.consumer_groups.committed("connect-s") == {P0: 5, P1: 4})
    assert len(delivered["s"]) == 9


def test_a_pattern_takes_up_topics_that_come_later(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    cluster.write("in", numbers(range(5)))
    create(cluster, "s", {"connector.class": "MemorySink", "topics.regex": "in.*"})
    cluster.until(lambda: values("s") == numbers(range(5)))
    cluster.write("inner", numbers(range(5, 9)))
    cluster.write("other", ["x"])
    cluster.until(lambda: values("s") == numbers(range(9)))
    later = TopicPartition("inner", 0)
    cluster.until(lambda: cluster.consumer_groups.committed("connect-s") == {P0: 5, later: 4})


def test_more_tasks_than_tasks_max_fail_the_connector_or_are_permitted(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    many = {"connector.class": "MemorySource", "tasks.max": "1", "split": "3", "topic": "t"}
    create(cluster, "a", many)
    create(cluster, "b", many | {"tasks.max.enforce": "False"})
    cluster.until(lambda: cluster.states("a").get("a") == "FAILED")
    running = {"b": "RUNNING", "b-0": "RUNNING", "b-1": "RUNNING", "b-2": "RUNNING"}
    cluster.until(lambda: cluster.states("b") == running)


def test_a_failing_put_fails_the_task_and_a_restart_delivers_the_rest(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    cluster.write("in", numbers(range(3)))
    faults.raises("s.put", OSError("no space left on device"))
    create(cluster, "s", sink())
    cluster.until(lambda: cluster.states("s") == {"s": "RUNNING", "s-0": "FAILED"})
    assert "no space left" in (worker.herder.views.task_status(ConnectorTaskId("s", 0)).trace or "")
    assert cluster.consumer_groups.committed("connect-s") == {}
    faults.raises("s.put", None)
    cluster.on_leader(lambda herder: herder.submit(RestartTask(ConnectorTaskId("s", 0))))
    cluster.until(lambda: values("s") == numbers(range(3)))


def test_a_paused_sink_delivers_nothing_until_it_is_resumed(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    cluster.write("in", numbers(range(3)))
    create(cluster, "s", sink())
    cluster.until(lambda: values("s") == numbers(range(3)))
    worker.herder.submit(SetTargetState("s", TargetState.PAUSED)).result(5)
    cluster.until(lambda: cluster.states("s") == {"s": "PAUSED", "s-0": "PAUSED"})
    cluster.write("in", numbers(range(3, 6)))
    worker.herder.submit(SetTargetState("s", TargetState.STARTED)).result(5)
    cluster.until(lambda: values("s") == numbers(range(6)))
    assert len(delivered["s"]) == 6


def test_sink_tasks_move_to_a_second_worker_and_nothing_is_delivered_twice() -> None:
    faults.clear()
    delivered.clear()
    with InProcessCluster(timing=Timing(400, 20, 10_000)) as cluster:
        cluster.add_worker("w1")
        cluster.write("in", numbers(range(10)))
        cluster.write("in", numbers(range(10, 20)), partition=1)
        create(cluster, "s", sink(tasks=2))
        cluster.until(lambda: values("s") == numbers(range(20)))
        second = cluster.add_worker("w2")
        cluster.until(lambda: len(second.running_tasks()) == 1)
        cluster.write("in", numbers(range(20, 24)))
        cluster.write("in", numbers(range(24, 28)), partition=1)
        cluster.until(lambda: values("s") == numbers(range(28)))
        assert len(delivered["s"]) == 28


class Noting(ConfigProvider):
    """Notes the threads that ask it."""

    asked_by: ClassVar[list[str]] = []

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        self.asked_by.append(threading.current_thread().name)
        return ConfigData(dict.fromkeys(keys or (), "earliest"), None)


def test_a_provider_of_client_settings_is_asked_on_another_thread() -> None:
    delivered.clear()
    providers = {"config.providers": "noting", "config.providers.noting.class": "Noting"}
    policy = {"connector.client.config.override.policy": "All"}
    with InProcessCluster({"Noting": Noting}, {**providers, **policy}) as cluster:
        cluster.add_worker("w1")
        cluster.write("in", numbers(range(3)))
        create(cluster, "s", sink(**{"consumer.override.auto.offset.reset": "${noting:reset}"}))
        cluster.until(lambda: cluster.states("s") == {"s": "RUNNING", "s-0": "RUNNING"})
        cluster.until(lambda: values("s") == numbers(range(3)))
    assert "sink-group-s-0" in Noting.asked_by
    assert not [name for name in Noting.asked_by if name.startswith("herder-w1")]
