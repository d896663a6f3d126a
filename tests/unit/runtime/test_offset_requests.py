"""Offsets altered and reset through real herders over memory (KIP-875)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.errors import BadRequestError, ConnectError, NotFoundError, NotLeaderError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.kafka.interfaces import GroupInUseError
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, ModifyOffsets, ReadOffsets, SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySink, MemorySource, delivered, faults
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.offset_records import encode_key
from tests.unit.runtime.cluster_stories import source

P0 = TopicPartition("in", 0)
STOPPED_ONLY = "Connectors must be in the STOPPED state before their offsets can be modified"
FRAMEWORK = "The Connect framework-managed offsets for this connector have been {} successfully. However"


class CarefulSource(MemorySource):
    """Refuses position 13, knows no position 14."""

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[Any]) -> bool:
        for _, offset in offsets:
            if offset == {"position": 13}:
                raise ConnectError("thirteen is unlucky")
            if offset == {"position": 14}:
                raise NotImplementedError
            if offset == {"position": 15}:
                raise ValueError("a bug")
        return True


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    delivered.clear()
    # A session that outlasts a pause of the machine: a member that was cut off is waited for.
    timing = Timing(session_ms=120_000, rebalance_ms=120_000)
    with InProcessCluster({"CarefulSource": CarefulSource, "MemorySink": MemorySink}, timing=timing) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        cluster.until_stable()
        yield cluster
        faults.clear()


def stopped_source(cluster: InProcessCluster, connector_class: str = "MemorySource") -> dict[str, Any]:
    """Run ``a`` to position 5, stop it; return its partition."""
    config = source(records=5) | {"connector.class": connector_class}
    cluster.on_leader(lambda herder: herder.submit(CreateConnector("a", config, None)))
    cluster.until(lambda: reached(cluster, 5))
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
    cluster.until(lambda: cluster.states("a") == {"a": "STOPPED"})
    cluster.until_stable()  # the stop's last round is over: STOPPED is told before it
    return offsets(cluster)[0][0]


def reached(cluster: InProcessCluster, position: int) -> bool:
    """Ask one worker: two are not asked in the same moment, and the source may run."""
    herder = next(iter(cluster.workers.values())).herder
    known = "a" in herder.views.list_connectors()
    return known and [offset.offset for offset in herder.submit(ReadOffsets("a")).result(10)] == [
        {"position": position}
    ]


def offsets(cluster: InProcessCluster, name: str = "a") -> list[tuple[Any, Any]]:
    found = [worker.herder.submit(ReadOffsets(name)).result(10) for worker in cluster.workers.values()]
    assert all(answer == found[0] for answer in found), "what one worker answered every other one knows"
    return [(dict(offset.partition or {}), dict(offset.offset or {})) for offset in found[0]]


def test_a_source_resumes_at_the_altered_offsets(cluster: InProcessCluster) -> None:
    partition = stopped_source(cluster)
    words = cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", [(partition, {"position": 3})])))
    assert words.startswith(FRAMEWORK.format("altered"))
    assert offsets(cluster) == [(partition, {"position": 3})]
    before = len(cluster.topics.values("t"))
    next(iter(cluster.workers.values())).herder.submit(SetTargetState("a", TargetState.STARTED)).result(10)
    cluster.until(lambda: reached(cluster, 5))
    assert len(cluster.topics.values("t")) - before == 2


def test_a_reset_forgets_every_partition_and_may_be_repeated(cluster: InProcessCluster) -> None:
    partition = stopped_source(cluster, "CarefulSource")
    more = [({"p": 1}, {"position": 1}), ({"p": 2}, {"position": 2}), ({"p": 1}, None)]
    answer = cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", more)))
    assert answer == "The offsets for this connector have been altered successfully"
    assert sorted(offsets(cluster), key=str) == sorted(
        [(partition, {"position": 5}), ({"p": 2}, {"position": 2})], key=str
    )
    for _ in range(2):
        answer = cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", None)))
        assert answer == "The offsets for this connector have been reset successfully"
        assert offsets(cluster) == []


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (13, "thirteen is unlucky"),
        (14, "Failed to modify offsets for connector a because it doesn't support external modification of offsets"),
        (15, "Failed to modify offsets for source connector a"),
    ],
)
def test_offsets_that_the_connector_refuses_are_not_written(
    cluster: InProcessCluster, position: int, words: str
) -> None:
    partition = stopped_source(cluster, "CarefulSource")
    with pytest.raises(ConnectError, match=words):
        cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", [(partition, {"position": position})])))
    assert offsets(cluster) == [(partition, {"position": 5})]


def test_an_offset_beyond_64_bits_is_neither_stored_nor_handed_to_a_task(cluster: InProcessCluster) -> None:
    partition = stopped_source(cluster)
    cluster.on_leader(lambda herder: herder.submit(CreateConnector("good", source(records=3), None)))
    with pytest.raises(ConnectError, match=r"field position contains class java\.math\.BigInteger"):
        cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", [(partition, {"position": 2**64})])))
    assert offsets(cluster) == [(partition, {"position": 5})]
    # One that stands in the topic all the same fails the task that asks for it, and nobody else.
    cluster.offset_topic.write([(encode_key("a", partition), b'{"position":%d}' % 2**64)])
    cluster.leader().submit(SetTargetState("a", TargetState.STARTED)).result(10)
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "FAILED"})
    trace = lambda: cluster.leader().views.task_status(ConnectorTaskId("a", 0)).trace or ""  # noqa: E731
    cluster.until(lambda: "18446744073709551616" in trace())  # a view may have been made before the status was read
    cluster.until(lambda: cluster.states("good") == {"good": "RUNNING", "good-0": "RUNNING"})


def test_only_the_leader_and_only_of_a_stopped_connector(cluster: InProcessCluster) -> None:
    cluster.on_leader(lambda herder: herder.submit(CreateConnector("a", source(), None)))
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
    cluster.until_stable()
    follower = next(worker.herder for worker in cluster.workers.values() if not worker.herder.views.is_leader())
    with pytest.raises(NotLeaderError):
        follower.submit(ModifyOffsets("a", None)).result(10)
    with pytest.raises(NotFoundError, match="Connector none not found"):
        cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("none", None)))
    with pytest.raises(BadRequestError, match=STOPPED_ONLY):
        cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", None)))
    follower.submit(SetTargetState("a", TargetState.PAUSED)).result(10)
    with pytest.raises(BadRequestError, match=STOPPED_ONLY):
        cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", [({}, None)])))


def test_changes_of_one_connector_come_one_after_the_other(cluster: InProcessCluster) -> None:
    partition = stopped_source(cluster)
    cluster.until_stable()
    leader = cluster.leader()
    answers = [leader.submit(ModifyOffsets("a", [(partition, {"position": n})])) for n in range(1, 5)]
    assert all("altered" in answer.result(10) for answer in answers)
    assert offsets(cluster)[0][1] in [{"position": n} for n in range(1, 5)]


def test_a_sinks_group_is_changed_and_a_member_of_it_prevents_that(cluster: InProcessCluster) -> None:
    config = {"connector.class": "MemorySink", "tasks.max": "1", "topics": "in"}
    cluster.write("in", ["one", "two", "three"])
    cluster.on_leader(lambda herder: herder.submit(CreateConnector("s", config, None)))
    cluster.until(lambda: cluster.consumer_groups.committed("connect-s") == {P0: 3})
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("s", TargetState.STOPPED)))
    cluster.until(lambda: cluster.states("s") == {"s": "STOPPED"})
    at_one = [({"kafka_topic": "in", "kafka_partition": "0"}, {"kafka_offset": 1})]
    zombie = cluster.consumer_groups.member({"group.id": "connect-s"})
    zombie.subscribe(["in"], None, lambda _: None, lambda _: None, lambda _: None)
    for request in (ModifyOffsets("s", at_one), ModifyOffsets("s", None)):
        with pytest.raises(GroupInUseError, match="get rid of the zombie sink tasks"):
            cluster.on_leader(lambda herder, request=request: herder.submit(request))
    zombie.close()
    assert "altered" in cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("s", at_one)))
    assert offsets(cluster, "s") == [({"kafka_partition": 0, "kafka_topic": "in"}, {"kafka_offset": 1})]
    assert "altered" in cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("s", [(at_one[0][0], None)])))
    assert offsets(cluster, "s") == []
    assert "reset" in cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("s", None)))
    cluster.leader().submit(SetTargetState("s", TargetState.STARTED)).result(10)
    cluster.until(lambda: [record.value for record in delivered["s"]] == ["one", "two", "three"] * 2)


def test_a_rebalance_amid_a_change_is_waited_for(cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = stopped_source(cluster)
    leader = cluster.leader()
    (other,) = (worker for worker in cluster.workers.values() if worker.herder is not leader)
    deps = leader._deps  # type: ignore[attr-defined]
    refresh, disturbed = deps.config_store.refresh, threading.Event()

    def disturbed_refresh(timeout_ms: int) -> Any:
        if not disturbed.is_set():
            other.member.cut_off()  # it cannot join: the round lasts
            deps.member.request_rejoin("as told")
            while leader.views.is_leader():
                time.sleep(0.01)
            disturbed.set()
        return refresh(timeout_ms)

    monkeypatch.setattr(deps.config_store, "refresh", disturbed_refresh)
    answer = leader.submit(ModifyOffsets("a", [(partition, {"position": 2})]))
    assert disturbed.wait(10)
    cluster.until(lambda: any("wait for the rebalance" in line.reason for line in leader.views.events()))
    other.member.reconnect()
    assert "altered successfully" in answer.result(20)
    assert offsets(cluster) == [(partition, {"position": 2})]
