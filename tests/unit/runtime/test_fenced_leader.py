"""A group prepared for exactly-once: the leader claims the config topic, a zombie leader writes nothing (KIP-618)."""

from collections.abc import Iterator

import pytest

from spark_connect_rt.errors import NotLeaderError, RetriableError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, SetTargetState
from spark_connect_rt.testing.in_process_cluster import LEADER_ID, InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.testing.memory_transactions import MemoryFencedWriter
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, source

SLOW_TO_NOTICE = Timing(session_ms=8_000, heartbeat_ms=20, rebalance_ms=10_000)
PREPARING = {"exactly.once.source.support": "preparing"}


@pytest.fixture
def prepared() -> Iterator[InProcessCluster]:
    faults.clear()
    with InProcessCluster(timing=SLOW_TO_NOTICE, worker_config=PREPARING) as cluster:
        yield cluster


def test_every_worker_computes_the_same_offset_though_markers_take_some(prepared: InProcessCluster) -> None:
    prepared.add_worker("w1")
    prepared.add_worker("w2")
    create(prepared, "a", source(records=3, tasks=2))
    prepared.until(lambda: set(prepared.states("a").values()) == {"RUNNING"} and len(prepared.states("a")) == 3)
    prepared.until_stable()
    snapshots = [worker.herder._deps.config_store.snapshot() for worker in prepared.workers.values()]
    last = prepared.config_topic.records()[-1]
    assert {snapshot.offset for snapshot in snapshots} == {last.offset + 1}
    assert prepared.config_topic.ends() == [last.offset + 2]  # the last marker
    assert prepared.leader().views.events()


def test_writes_open_to_any_worker_are_never_fenced(prepared: InProcessCluster) -> None:
    prepared.add_worker("w1")
    follower = prepared.add_worker("w2")
    create(prepared, "a", source(records=3))
    prepared.until(lambda: set(prepared.states("a").values()) == {"RUNNING"} and len(prepared.states("a")) == 2)
    follower.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)
    prepared.until(lambda: set(prepared.states("a").values()) == {"PAUSED"})


def test_fenced_leader_asks_the_group_first_and_then_carries_the_request_out(
    prepared: InProcessCluster,
) -> None:
    worker = prepared.add_worker("w1")
    prepared.until(lambda: worker.herder.views.internal_key().key is not None)
    generation = worker.herder.views.progress().generation
    MemoryFencedWriter(prepared.config_topic, LEADER_ID).claim(1)
    assert worker.herder.submit(CreateConnector("a", source(records=3), None)).result(10).created
    assert worker.herder.views.progress().generation > generation
    assert any("shut this one out of the config topic" in line.reason for line in worker.herder.views.events())
    prepared.until(lambda: worker.running_tasks() == {"a-0"})


def test_write_of_a_zombie_leader_is_never_visible_and_its_request_is_redirected(
    prepared: InProcessCluster,
) -> None:
    zombie = prepared.add_worker("w1")
    prepared.until(lambda: zombie.herder.views.internal_key().key is not None)
    other = prepared.add_worker("w2")
    prepared.until_stable()
    assert zombie.herder.views.is_leader()
    zombie.member.cut_off()
    prepared.group.expel(zombie.member.state.member_id)
    prepared.until(lambda: other.herder.views.is_leader() and other.herder._deps.config_store.may_lead())
    assert zombie.herder.views.is_leader()  # so it believes: its session has not run out yet
    waiting = zombie.herder.submit(CreateConnector("a", source(records=3), None))
    prepared.until(lambda: any("shut this one out" in line.reason for line in zombie.herder.views.events()))
    assert other.herder.submit(CreateConnector("b", source(records=3), None)).result(10).created
    zombie.member.reconnect()
    with pytest.raises(NotLeaderError) as refused:
        waiting.result(10)
    assert refused.value.leader_url == "http://w2:8083/"
    assert b"connector-a" not in {record.key for record in prepared.config_topic.records()}


def test_a_claim_that_fails_is_tried_again_and_requests_wait_for_it(prepared: InProcessCluster) -> None:
    worker = prepared.add_worker("w1")
    prepared.until(lambda: worker.herder.views.internal_key().key is not None)
    writer = worker.herder._deps.config_store._writer
    assert isinstance(writer, MemoryFencedWriter)
    claims: list[int] = []

    def refuse(timeout_ms: int) -> None:
        claims.append(timeout_ms)
        if len(claims) == 1:
            raise RetriableError("the transaction coordinator is loading")
        MemoryFencedWriter.claim(writer, timeout_ms)

    writer.claim = refuse  # type: ignore[method-assign]
    writer.release()
    assert worker.herder.submit(CreateConnector("a", source(records=3), None)).result(10).created
    assert len(claims) == 2
