"""Two brokers: the coordinator appears late, moves, dies and comes back, and a group goes on. Times are printed.

In the end there are three, for a partition that loses both of its replicas, and what was written to one of them only.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_connect_rt.app.quickstart.embedded_cluster import EmbeddedKafkaCluster
from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.group.member import ContactLost
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.membership.group_member import KafkaGroupMember
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.records.pipeline.columns import produce_batch
from tests.contract.batch_clients_contract import rows_of
from tests.contract.group_member_contract import Herder, settled, until
from tests.integration.kafka.test_column_transactions import new_transactional_producer
from tests.support.group_members import new_member

MOVED_NODE = 2  # the one whose going leaves a controller
OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True)
class Cluster:
    kafka: EmbeddedKafkaCluster
    topics_at_first: frozenset[str]

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})

    def bring_back(self, node: int) -> None:
        """Start a broker again and wait until it leads what it led before."""
        self.kafka.broker(node).start()
        self.kafka.await_brokers(len(self.kafka.nodes))
        end = time.monotonic() + 30
        while not self._leads(node):
            assert time.monotonic() < end, f"node {node} leads no partition of {OFFSETS_TOPIC}"
            time.sleep(0.1)

    def _leads(self, node: int) -> bool:
        topic = self.admin.list_topics(OFFSETS_TOPIC, timeout=10).topics[OFFSETS_TOPIC]
        return any(partition.leader == node for partition in topic.partitions.values())

    def settings(self, group: str, **more: str) -> dict[str, str]:
        times = {"session.timeout.ms": "20000", "heartbeat.interval.ms": "500"}
        return {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": group, **times, **more}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    # Leaders go back home at once; Kafka looks every five minutes.
    home = {"leader.imbalance.check.interval.seconds": "1", "leader.imbalance.per.broker.percentage": "0"}
    spoken = {"org.apache.kafka.coordinator.group": "info"}
    options = {"properties": home, "log_levels": spoken, "die_with_parent": True}
    with EmbeddedKafkaCluster(directory, 2, java=java, **options) as kafka:  # type: ignore[arg-type]
        topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=10).topics
        yield Cluster(kafka, frozenset(topics))


def coordinator_of(herder: Herder) -> int:
    """Return the port of the broker that the member heartbeats to."""
    member = herder.member
    assert isinstance(member, KafkaGroupMember)
    link = member._io._link
    return -1 if link is None else int(link._quick.port)


def pair_on(cluster: Cluster, node: int) -> tuple[str, list[Herder]]:
    """Return a group whose coordinator is ``node``, and two settled members of it."""
    port = cluster.kafka.broker(node).port
    for _ in range(50):
        group = f"connect-{uuid.uuid4().hex[:8]}"
        first = Herder("a", new_member(cluster.settings(group), client_id="a"))
        until(first.is_settled, [first])
        if coordinator_of(first) == port:
            break
        first.member.stop()
    else:
        raise AssertionError(f"no group of 50 is coordinated by node {node}")
    herders = [first, Herder("b", new_member(cluster.settings(group), client_id="b"))]
    until(lambda: settled(*herders), herders)
    return group, herders


def beat_since(herders: list[Herder], since_ms: int, port: int) -> bool:
    """Every member has had a heartbeat answered by the broker at ``port`` that was sent after ``since_ms``."""
    members = [herder.member for herder in herders]
    return all(
        isinstance(member, KafkaGroupMember) and member.state.last_contact_ms > since_ms for member in members
    ) and all(coordinator_of(herder) == port for herder in herders)


def moved(cluster: Cluster, herders: list[Herder], what: str) -> None:
    """Await the other broker's answers; nobody lost contact, and the generation is the one it was."""
    generations = [herder.last() for herder in herders]
    seen = [len(herder.seen) for herder in herders]
    begun_s, now_ms = time.monotonic(), herders[0].member.now_ms()  # type: ignore[attr-defined]
    until(lambda: beat_since(herders, now_ms, cluster.kafka.broker(1).port), herders, limit_s=60)
    print(f"{what}: every member had an answer of the new coordinator after {time.monotonic() - begun_s:.1f} s")
    assert not any(herder.saw(ContactLost, since) for herder, since in zip(herders, seen, strict=True))
    assert [herder.last() for herder in herders] == generations
    assert settled(*herders)


def believes(admin: KafkaAdmin, node: int) -> None:
    """Have a client take ``node`` for the controller: brokers of KRaft name one of them at random."""
    end = time.monotonic() + 30
    with admin._admin.use() as client:
        while client.list_topics(timeout=10).controller_id != node:
            assert time.monotonic() < end, f"no broker names node {node}"
    assert admin.describe_topic(OFFSETS_TOPIC) is not None


def test_the_offsets_topic_is_made_when_the_first_member_asks_for_its_coordinator(cluster: Cluster) -> None:
    assert OFFSETS_TOPIC not in cluster.topics_at_first
    herder = Herder("a", new_member(cluster.settings(f"connect-{uuid.uuid4()}")))
    try:
        until(herder.is_settled, [herder])
        assert OFFSETS_TOPIC in cluster.admin.list_topics(timeout=10).topics
    finally:
        herder.member.stop()


def test_servers_that_are_gone_do_not_keep_a_member_out(cluster: Cluster) -> None:
    gone = ",".join(f"127.0.0.1:{port}" for port in free_ports(3))
    servers = f"{gone},{cluster.kafka.broker(1).bootstrap_servers}"
    herder = Herder("a", new_member(cluster.settings("connect-dead-first") | {"bootstrap.servers": servers}))
    try:
        until(herder.is_settled, [herder])
    finally:
        herder.member.stop()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_coordinator_that_goes_costs_neither_generation_nor_work(cluster: Cluster, end: str) -> None:
    """Asked to stop it hands the group over; killed, its partitions get another leader once it is fenced (3 s)."""
    _, herders = pair_on(cluster, MOVED_NODE)
    broker = cluster.kafka.broker(MOVED_NODE)
    admin = KafkaAdmin({"bootstrap.servers": cluster.kafka.bootstrap_servers})
    believes(admin, MOVED_NODE)
    try:
        getattr(broker, end)()
        assert admin.describe_topic(OFFSETS_TOPIC, 20_000) is not None, "it asks another than the controller it knew"
        moved(cluster, herders, f"coordinator's broker: {end}")
    finally:
        cluster.bring_back(MOVED_NODE)
        for herder in herders:
            herder.member.stop()


def test_a_reader_follows_leaders_that_move(cluster: Cluster) -> None:
    topic, servers = f"led-{uuid.uuid4().hex[:8]}", cluster.kafka.bootstrap_servers
    KafkaAdmin({"bootstrap.servers": servers}).create_topic(TopicSpec(topic, 4, 2))
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "acks": "1"})
    consumer = FetchConsumer({"bootstrap.servers": servers, "reconnect.backoff.max.ms": "200"})
    consumer.assign({TopicPartition(topic, number): 0 for number in range(4)})
    places: set[tuple[int, int]] = set()

    def has_read(count: int) -> bool:
        for number in range(4):
            producer.produce(topic, b"x", partition=number)
        producer.poll(0)
        batch = consumer.poll(100, 100)
        places.update((row["partition"], row["offset"]) for row in (rows_of(batch) if batch is not None else []))
        return all(len([1 for place in places if place[0] == number]) >= count for number in range(4))

    until(lambda: has_read(5), [], limit_s=60)
    try:
        cluster.kafka.broker(MOVED_NODE).kill()
        before = len(places)
        until(lambda: has_read(before), [], limit_s=90)
    finally:
        cluster.bring_back(MOVED_NODE)
    assert producer.flush(60) == 0
    consumer.close()


def test_transactions_continue_when_their_coordinator_and_leaders_move(cluster: Cluster) -> None:
    """Each number is committed once: 4 producers, so that some have their coordinator on the broker that is killed."""
    topic, servers = f"moved-{uuid.uuid4().hex[:8]}", cluster.kafka.bootstrap_servers
    KafkaAdmin({"bootstrap.servers": servers}).create_topic(TopicSpec(topic, 4, 2))
    settings = {"request.timeout.ms": "3000"}
    producers = [new_transactional_producer(servers, f"{topic}-{number}", **settings) for number in range(4)]
    assert MOVED_NODE in [producer._coordinator._node for producer in producers]

    def write(number: int) -> None:
        for producer in producers:
            producer.begin()
            producer.produce(produce_batch(topic, pa.array([f"{number}"]), pa.array([f"{number}"])))
        for producer in producers:
            producer.commit(60_000)

    write(0)
    try:
        for producer in producers:
            producer.begin()
            producer.produce(produce_batch(topic, pa.array(["1"]), pa.array(["1"])))
            producer.flush(60_000)
        cluster.kafka.broker(MOVED_NODE).kill()
        for producer in producers:
            producer.commit(60_000)
        write(2)
    finally:
        cluster.bring_back(MOVED_NODE)
    write(3)
    consumer = FetchConsumer({"bootstrap.servers": servers, "isolation.level": "read_committed"})
    places = [TopicPartition(topic, number) for number in range(4)]
    consumer.assign(dict.fromkeys(places, 0))
    ends, values = consumer.end_offsets(places), list[int]()

    def at_end() -> bool:
        batch = consumer.poll(100, 100)
        values.extend(int(row["value"]) for row in (rows_of(batch) if batch is not None else []))
        return batch is None and all(consumer.position(place) >= ends[place] for place in places)

    until(at_end, [], limit_s=60)
    assert sorted(values) == sorted([*range(4)] * 4)
    consumer.close()
    for producer in producers:
        producer.close()


def test_the_brokers_log_says_why_members_join_and_leave(cluster: Cluster) -> None:
    group, (first, second) = pair_on(cluster, 1)
    before = first.last()
    leader, other = sorted((first, second), key=lambda herder: herder.member.member_id() != before.leader_id)  # type: ignore[union-attr]
    leader.member.request_rejoin("revoked work has stopped")
    until(lambda: settled(leader, other) and leader.last() != before, [leader, other])
    gone = leader.member.member_id()
    leader.member.leave("taking too long to read the log")
    other.member.stop()
    leader.member.stop()
    log = cluster.kafka.broker(1).log_file
    end = time.monotonic() + 30
    while True:
        lines = [line for line in log.read_text(encoding="utf-8").splitlines() if group in line]
        told = "\n".join(lines)
        left = [line for line in lines if "taking too long to read the log" in line]
        if left and "revoked work has stopped" in told and "the worker is stopping" in told:
            break
        assert time.monotonic() < end, told
        time.sleep(0.05)
    assert any(re.search(rf"\b{re.escape(gone)}\b", line) for line in left), left


def leader_of(cluster: Cluster, topic: str) -> int:
    return int(cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)


def in_sync(cluster: Cluster, topic: str) -> set[int]:
    return set(cluster.admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)


def write(cluster: Cluster, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.kafka.bootstrap_servers, "log_level": 0, "acks": "1"})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(60) == 0


def test_a_reader_goes_back_to_where_an_unclean_election_cut_the_log(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The follower stands still while its leader goes on, then leads itself: what it missed is lost."""
    topic, leader, follower = f"cut-{uuid.uuid4().hex[:8]}", MOVED_NODE, cluster.kafka.add()
    wanted = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(topic, 1, replica_assignment=[[leader, follower]], config=wanted)
    admin = cluster.admin  # it must outlive its answer
    admin.create_topics([new])[topic].result(60)
    until(lambda: in_sync(cluster, topic) == {leader, follower}, [], limit_s=60)
    write(cluster, topic, "a", "b")
    consumer = FetchConsumer({"bootstrap.servers": cluster.kafka.bootstrap_servers, "reconnect.backoff.max.ms": "200"})
    rows: list[tuple[int, str]] = []

    def has_read(count: int) -> bool:
        batch = consumer.poll(100, 100)
        rows.extend((row["offset"], row["value"].decode()) for row in (rows_of(batch) if batch is not None else []))
        return len(rows) >= count

    consumer.assign({TopicPartition(topic, 0): 0})
    until(lambda: has_read(2), [], limit_s=60)
    os.kill(cluster.kafka.broker(follower).pid, signal.SIGSTOP)
    until(lambda: in_sync(cluster, topic) == {leader}, [], limit_s=60)
    write(cluster, topic, "lost", "lost", "lost")
    until(lambda: has_read(5), [], limit_s=60)
    with caplog.at_level(logging.WARNING):
        cluster.kafka.broker(leader).kill()
        until(lambda: leader_of(cluster, topic) == -1, [], limit_s=60)
        os.kill(cluster.kafka.broker(follower).pid, signal.SIGCONT)
        until(lambda: leader_of(cluster, topic) == follower, [], limit_s=60)
        write(cluster, topic, "C", "D", "E", "F", "G")  # longer than before: no offset is out of range
        until(lambda: has_read(10), [], limit_s=60)
    consumer.close()
    assert rows[:5] == [(0, "a"), (1, "b"), (2, "lost"), (3, "lost"), (4, "lost")]
    assert rows[5:] == [(2, "C"), (3, "D"), (4, "E"), (5, "F"), (6, "G")]
    assert f"{topic}-0: the log was truncated to offset 2 by an unclean leader election" in caplog.text
