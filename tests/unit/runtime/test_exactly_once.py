"""A group with exactly-once sources: fenced before they start, offsets in the records' transactions (KIP-618)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from spark_connect_rt.api.connector import ConnectorTransactionBoundaries
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.interfaces import ProducerProperties
from spark_connect_rt.runtime.herder.herder_requests import (
    ModifyOffsets,
    PutConfig,
    ReadOffsets,
    RestartTask,
    SetTargetState,
)
from spark_connect_rt.testing.in_process_cluster import LEADER_ID, InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import placement
from spark_connect_rt.testing.memory_connectors import MemorySource, MemorySourceTask, faults
from spark_connect_rt.testing.memory_transactions import MemoryFencedWriter
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.key_places import Write
from spark_connect_rt.topics.offset_records import decode_key, decode_value
from tests.unit.runtime.cluster_stories import create, emitted, expected, source


class BoundarySource(MemorySource):
    """Its tasks say where transactions end."""

    def task_class(self) -> type[SourceTask]:
        return BoundarySourceTask

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        return ConnectorTransactionBoundaries.SUPPORTED


class BoundarySourceTask(MemorySourceTask):
    """Commits behind every third record; drops the third three; leaves what is behind the last end open."""

    def poll(self) -> Sequence[SourceRecord] | None:
        records = super().poll()
        ends = self.context.transaction_context
        assert ends is not None
        for record in records or ():
            position = int((record.source_offset or {})["position"])
            if position == 9:
                ends.abort_transaction(record)
            elif position % 3 == 0:
                ends.commit_transaction(record)
        return records


ENABLED = {"exactly.once.source.support": "enabled"}


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    with InProcessCluster(worker_config=ENABLED) as cluster:
        yield cluster


def offsets_in(cluster: InProcessCluster, topic: str = "offsets") -> list[tuple[str, int]]:
    """Return (task, position) of the records of an offset topic, in order."""
    records = cluster.topics.logs[topic].records()
    found = [(decode_key(record.key)[1], decode_value(record.value)) for record in records]
    return [(str((partition or {})["task"]), int((offset or {})["position"])) for partition, offset in found]


def record_of(cluster: InProcessCluster, connector: str) -> int | None:
    return cluster.leader()._deps.config_store.snapshot().task_count_record(connector)  # type: ignore[attr-defined]


def test_records_and_offsets_are_written_by_the_tasks_own_transactions(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    create(cluster, "a", source(records=250, tasks=2))
    cluster.until(lambda: len(emitted(cluster)) == 500)
    cluster.until(lambda: {("a-0", 250), ("a-1", 250)} <= set(offsets_in(cluster)))
    assert emitted(cluster) == sorted(expected("a-0", 250) + expected("a-1", 250))
    assert set(cluster.topics.epochs) == {"memory-a-0", "memory-a-1"}
    assert record_of(cluster, "a") == 2
    assert cluster.transactions.fenced == []  # a connector's first tasks have no zombies


def test_new_task_configurations_fence_every_task_of_the_old_ones(cluster: InProcessCluster) -> None:
    for name in ("w1", "w2"):
        cluster.add_worker(name)
    create(cluster, "a", source(records=50, tasks=3))
    cluster.until(lambda: len(emitted(cluster)) == 150)
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=80, tasks=2))))
    cluster.until(lambda: len(emitted(cluster)) == 150 + 60)
    assert cluster.transactions.fenced == ["memory-a-0", "memory-a-1", "memory-a-2"]
    cluster.until(lambda: record_of(cluster, "a") == 2)
    assert sorted(set(emitted(cluster))) == emitted(cluster)
    # A follower's tasks ask the leader, by the signed request between workers.
    assert ("PUT", "/connectors/a/fence") in cluster.peers.requests


def test_one_task_before_and_after_needs_no_round(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    create(cluster, "a", source(records=20))
    cluster.until(lambda: len(emitted(cluster)) == 20)
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=30))))
    cluster.until(lambda: len(emitted(cluster)) == 30)
    assert cluster.transactions.fenced == []
    assert cluster.topics.epochs == {"memory-a-0": 2}


def test_a_task_that_cannot_be_fenced_has_failed_and_a_restart_tries_again(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    create(cluster, "a", source(records=20, tasks=2))
    cluster.until(lambda: len(emitted(cluster)) == 40)
    cluster.transactions.refuse = ConnectError("not authorized")
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=30, tasks=2))))
    cluster.until(lambda: "FAILED" in cluster.states("a").values())
    failed = [number for number in (0, 1) if cluster.states("a").get(f"a-{number}") == "FAILED"]
    status = cluster.leader().views.task_status(ConnectorTaskId("a", failed[0]))
    assert "Failed to perform round of zombie fencing: not authorized" in (status.trace or "")
    for number in failed:
        cluster.leader().submit(RestartTask(ConnectorTaskId("a", number))).result(10)
    cluster.until(lambda: len(emitted(cluster)) == 60)


def test_fenced_round_records_once_the_group_was_asked(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = cluster.add_worker("w1")
    create(cluster, "a", source(records=20, tasks=2))
    cluster.until(lambda: len(emitted(cluster)) == 40)
    shut_out = cluster.transactions.fence

    def shut_out_and_be_shut_out(producers: Sequence[ProducerProperties], timeout_ms: int) -> None:
        shut_out(producers, timeout_ms)
        MemoryFencedWriter(cluster.config_topic, LEADER_ID).claim(1)

    monkeypatch.setattr(cluster.transactions, "fence", shut_out_and_be_shut_out)
    store = worker.herder._deps.config_store
    tries: list[int] = []
    write = store.put_task_count_record
    monkeypatch.setattr(store, "put_task_count_record", lambda name, count: (tries.append(count), write(name, count)))
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=30, tasks=2))))
    cluster.until(lambda: len(emitted(cluster)) == 60)
    cluster.until(lambda: set(cluster.states("a").values()) == {"RUNNING"})
    assert tries == [2, 2]
    assert cluster.transactions.fenced == ["memory-a-0", "memory-a-1"]
    assert "InvalidStateError" not in caplog.text


def test_a_fenced_producer_fails_its_task_and_says_so(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    create(cluster, "b", source(records=100_000))
    cluster.until(lambda: len(emitted(cluster)) > 1_000)
    cluster.topics.claim("memory-b-0")
    cluster.until(lambda: cluster.states("b").get("b-0") == "FAILED")
    assert "newer producer" in (cluster.leader().views.task_status(ConnectorTaskId("b", 0)).trace or "")
    written = sorted(int(value.partition(":")[2]) for value in emitted(cluster) if value.startswith("b-0"))
    assert written == list(range(len(written)))
    cluster.leader().submit(RestartTask(ConnectorTaskId("b", 0))).result(10)
    cluster.until(lambda: sum(value.startswith("b-0") for value in emitted(cluster)) > len(written))
    written = sorted(int(value.partition(":")[2]) for value in emitted(cluster) if value.startswith("b-0"))
    assert written == list(range(len(written)))


def test_own_offset_topic_is_written_in_the_transaction_and_the_worker_topic_follows(
    cluster: InProcessCluster,
) -> None:
    cluster.add_worker("w1")
    create(cluster, "a", source(records=40, **{"offsets.storage.topic": "own"}))
    cluster.until(lambda: len(emitted(cluster)) == 40)
    cluster.until(lambda: ("a-0", 40) in offsets_in(cluster, "own") and ("a-0", 40) in offsets_in(cluster))
    (listed,) = cluster.leader().submit(ReadOffsets("a")).result(10)
    assert (listed.partition, listed.offset) == ({"task": "a-0"}, {"position": 40})


@pytest.mark.parametrize("own", [{}, {"offsets.storage.topic": "own"}])
def test_offsets_are_altered_and_reset_in_a_transaction_after_a_round(
    cluster: InProcessCluster, own: dict[str, str]
) -> None:
    cluster.add_worker("w1")
    create(cluster, "a", source(records=40, tasks=2, **own))
    cluster.until(lambda: len(emitted(cluster)) == 80)
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
    cluster.until(lambda: set(cluster.states("a")) == {"a"})
    cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", [({"task": "a-0"}, {"position": 35})])))
    assert cluster.transactions.fenced == ["memory-a-0", "memory-a-1"]
    assert ("a-0", 35) in offsets_in(cluster, "own" if own else "offsets")
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STARTED)))
    cluster.until(lambda: len(emitted(cluster)) == 85)
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
    cluster.until(lambda: set(cluster.states("a")) == {"a"})
    cluster.on_leader(lambda herder: herder.submit(ModifyOffsets("a", None)))
    cluster.until(lambda: cluster.leader().submit(ReadOffsets("a")).result(10) == [])


def test_a_connector_says_where_its_transactions_end() -> None:
    faults.clear()
    with InProcessCluster({"BoundarySource": BoundarySource}, worker_config=ENABLED) as cluster:
        cluster.add_worker("w1")
        config = {**source(records=14), "connector.class": "BoundarySource", "transaction.boundary": "connector"}
        create(cluster, "a", config)
        kept = [number for number in range(12) if number not in (6, 7, 8)]
        cluster.until(lambda: len(emitted(cluster)) == len(kept))
        cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
        cluster.until(lambda: set(cluster.states("a")) == {"a"})
        assert emitted(cluster) == sorted(f"a-0:{number}" for number in kept)  # 12 and 13 were never committed
        assert offsets_in(cluster) == [("a-0", position) for position in (3, 6, 9, 12)]


def test_required_is_granted_only_to_connectors_that_say_they_can(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    cluster.until_stable()
    with pytest.raises(BadConfigError) as refused:
        create(cluster, "a", source(records=1, **{"exactly.once.support": "required"}))
    assert "does not implement the API required for preflight validation" in str(refused.value)
    with pytest.raises(BadConfigError) as refused:
        create(cluster, "a", source(records=1, **{"transaction.boundary": "connector"}))
    assert "does not support connector-defined transaction boundaries" in str(refused.value)


def test_an_own_topic_without_transactions_holds_the_offsets_that_count() -> None:
    faults.clear()
    with InProcessCluster() as plain:
        plain.add_worker("w1")
        create(plain, "a", source(records=40, **{"offsets.storage.topic": "own"}))
        plain.until(lambda: len(emitted(plain)) == 40)
        plain.until(lambda: ("a-0", 40) in offsets_in(plain, "own") and ("a-0", 40) in offsets_in(plain))
        assert plain.topics.epochs == {}
        plain.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
        plain.until(lambda: set(plain.states("a")) == {"a"})
        plain.on_leader(lambda herder: herder.submit(ModifyOffsets("a", [({"task": "a-0"}, {"position": 38})])))
        plain.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STARTED)))
        plain.until(lambda: len(emitted(plain)) == 42)


def test_transaction_leaves_no_older_offset_in_another_partition(cluster: InProcessCluster) -> None:
    """Partitions were added to the offset topic, and an old record of the task's key lies in another one."""
    topic = cluster.offset_topic
    cluster.add_worker("w")
    create(cluster, "a", source(records=3))
    cluster.until(lambda: offsets_in(cluster)[-1:] == [("a-0", 3)])
    (key,) = {record.key or b"" for record in topic.records()}
    topic.add_partition()
    home = placement(key, 2)
    topic.timestamp_ms = 1_000
    topic.write_placed([Write(key, topic.records()[-1].value, 1 - home, 500)])
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=9))))

    def live() -> list[int]:
        last = {record.partition: record.value for record in topic.records()}
        return [partition for partition, value in last.items() if value is not None]

    cluster.until(lambda: emitted(cluster) == expected("a-0", 9) and live() == [home])
