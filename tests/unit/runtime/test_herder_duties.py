"""Session keys, health, time-outs, the story: what the herder owes besides running work."""

import pytest

from spark_connect_rt.errors import BadConfigError, TimedOutError
from spark_connect_rt.runtime.herder.herder_requests import DeleteConnector, SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, source


def session_keys(cluster: InProcessCluster) -> int:
    return sum(record.key == b"session-key" for record in cluster.config_topic.records())


def test_the_leader_writes_one_session_key_and_everybody_knows_it(cluster: InProcessCluster) -> None:
    first = cluster.add_worker()
    cluster.until(lambda: first.herder.views.internal_key().key is not None)
    second = cluster.add_worker()
    cluster.until_stable()
    assert first.herder.views.internal_key() == second.herder.views.internal_key()
    assert first.herder.views.internal_key().required
    assert session_keys(cluster) == 1


def test_a_session_key_is_replaced_when_it_is_too_old() -> None:
    with InProcessCluster(worker_config={"inter.worker.key.ttl.ms": "30"}) as cluster:
        cluster.add_worker()
        cluster.until(lambda: session_keys(cluster) >= 3)


def test_followers_keep_handing_in_while_keys_change_under_their_hands() -> None:
    faults.clear()
    with InProcessCluster(worker_config={"inter.worker.key.ttl.ms": "15"}) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        for name in ("a", "b", "c", "d"):
            create(cluster, name, source(records=3))
        cluster.until(lambda: all(cluster.states(n) == {n: "RUNNING", f"{n}-0": "RUNNING"} for n in "abcd"))
        assert any(method == "POST" for method, _ in cluster.peers.requests)
        assert session_keys(cluster) >= 3


def test_only_the_sessioned_protocol_signs() -> None:
    with InProcessCluster(worker_config={"connect.protocol": "compatible"}) as cluster:
        worker = cluster.add_worker()
        cluster.until_stable()
        assert not worker.herder.views.internal_key().required
        assert session_keys(cluster) == 0


def test_a_request_that_waits_too_long_says_what_the_worker_was_doing() -> None:
    faults.clear()
    with InProcessCluster() as cluster:
        worker = cluster.add_worker("w1")
        cluster.until_stable()
        worker.member.cut_off()
        loop = worker.herder._loop
        loop._requests._limit_ms = 20
        loop._state.resolved = False
        waiting = worker.herder.submit(DeleteConnector("a"))
        with pytest.raises(TimedOutError, match=r"^Request timed out\. The (worker is|last operation) .*began at 20"):
            waiting.result(10)
        worker.member.reconnect()


def test_health_is_starting_until_the_worker_is_in_the_group(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    assert worker.herder.views.health().status in {"starting", "healthy"}
    cluster.until(lambda: worker.herder.views.health().status == "healthy")


def test_a_topic_that_cannot_be_used_stops_the_start_and_is_named() -> None:
    cluster = InProcessCluster()
    cluster.status_topic.cleanup_policy = "delete"
    worker = cluster.add_worker("w1")
    with pytest.raises(BadConfigError, match=r"cleanup\.policy"):
        worker.herder.started.result(10)
    assert worker.herder.stopped.wait(10)
    assert worker.herder.views.health().status == "unhealthy"


def test_the_event_log_gives_the_reasons_in_order(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source())
    cluster.until(lambda: any("task a-0 is RUNNING" in line.reason for line in worker.herder.views.events()))
    told = [line.reason for line in worker.herder.views.events()]
    reasons = iter(told)
    for expected in (
        "joins with config offset -1",
        "leads; writes a new session key",
        "asks to rejoin: connectors were created or deleted",
        "starts 1 connectors and 0 tasks",
        "writes 1 task configs of a: 0 tasks become 1",
        "starts 0 connectors and 1 tasks",
        "task a-0 is RUNNING",
    ):
        assert any(expected in reason for reason in reasons), f"{expected!r} is not in order in {told}"


def test_reads_answer_while_a_connector_blocks_its_own_stop(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source())
    cluster.until(lambda: worker.running_tasks() == {"a-0"})
    gate = faults.blocks("a.stop")
    worker.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)
    cluster.until(lambda: cluster.states("a")["a-0"] == "PAUSED")
    assert worker.herder.views.list_connectors() == ["a"]
    create(cluster, "b", source())
    cluster.until(lambda: cluster.states("b") == {"b": "RUNNING", "b-0": "RUNNING"})
    gate.set()
    cluster.until(lambda: cluster.states("a")["a"] == "PAUSED")
