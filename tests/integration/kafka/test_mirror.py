"""The mirror connectors between two real clusters: every byte, no loop, no gap, groups that fail over."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.records import Checkpoint, Heartbeat, OffsetSync
from spark_connect_rt.engine.startup.java_home import Java
from tests.integration.kafka.mirrored import LIMIT_S, Cluster, Flow, unique, until
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.worker_process import WorkerProcess
from tests.topics import add_partitions

ODD = b"\x00\xff{"  # neither text nor JSON
NUMBERS = [b"%06d" % number for number in range(60_000)]
METRIC = "kafka_connect_mirror_mirrorsourceconnector"
AGE_MS = 7_200_000  # of some records; years of it would roll the segment, and the cleaner would come
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("west")
    with EmbeddedKafka(folder, java=java, properties=AUTHORIZER, die_with_parent=True) as kafka:
        yield Cluster("A", kafka.bootstrap_servers)


@pytest.fixture(scope="module")
def east(broker: EmbeddedKafka) -> Cluster:
    return Cluster("B", broker.bootstrap_servers)


@pytest.fixture(scope="module")
def eastward(tmp_path_factory: pytest.TempPathFactory, west: Cluster, east: Cluster) -> Iterator[Flow]:
    with OurWorkerProcess(tmp_path_factory.mktemp("eastward"), east.servers, unique("eastward")) as worker:
        yield Flow(west, east, worker)


@pytest.fixture(scope="module")
def westward(tmp_path_factory: pytest.TempPathFactory, west: Cluster, east: Cluster) -> Iterator[Flow]:
    folder = tmp_path_factory.mktemp("westward")
    with OurWorkerProcess(folder, west.servers, unique("westward"), properties=EXACTLY_ONCE) as worker:
        yield Flow(east, west, worker)


def abort(cluster: Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.servers, "transactional.id": topic})
    producer.init_transactions()
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, key=value, partition=0)
        producer.flush(30)  # an abort drops what was not sent
        end()


def test_every_byte_arrives_in_its_partition_with_the_topics_settings(eastward: Flow) -> None:
    source, target = eastward.source, eastward.target
    topic = source.create(unique("t"), 3, retention_ms="3600000", cleanup_policy="compact")
    written_ms = int(time.time() * 1_000) - AGE_MS
    source.write(topic, [ODD, None, b""], 0, key=ODD, headers=[("h", ODD), ("h", None)], timestamp=written_ms)
    source.write(topic, [b"plain"], 1, key=b"k", timestamp=written_ms)
    abort(source, topic)
    eastward.start("Source", 2, topics=topic, consumer_isolation_level="read_committed")
    copy = f"A.{topic}"

    def counted(name: str) -> float:
        lines = eastward.rest.request("GET", "/admin/metrics").body.decode().splitlines()
        of_topic = [line for line in lines if line.startswith(f"{METRIC}_{name}{{") and f'topic="{copy}"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in of_topic)

    def counts() -> tuple[float, float]:
        return counted("record_count"), counted("replication_latency_ms_max")

    # At once: maxima are those of the last minute.
    until(lambda: counts() >= (5, AGE_MS), "what is copied is counted", lambda: (counts(), eastward.logs()))
    assert counted("record_count") == 5
    expected = [row for row in source.rows(topic) if row[2] != b"no"]
    assert len(expected) == 5
    until(
        lambda: target.rows(copy) == expected, f"{copy} holds {expected}", lambda: (target.rows(copy), eastward.logs())
    )
    assert target.partitions(copy) == 3  # the third one is empty
    assert (target.setting(copy, "retention.ms"), target.setting(copy, "cleanup.policy")) == ("3600000", "compact")

    source.set(topic, "retention.ms", "7200000")
    until(lambda: target.setting(copy, "retention.ms") == "7200000", "a changed setting is copied", eastward.logs)

    add_partitions(source.servers, topic, 5)
    source.write(topic, [b"late"], 4, key=b"k", timestamp=written_ms)
    until(lambda: (4, b"k", b"late", written_ms, ()) in target.rows(copy), "a new partition is copied", eastward.logs)
    assert target.partitions(copy) == 5

    def synced() -> list[tuple[int, int]]:
        decoded = [
            OffsetSync.decode(message.key(), message.value())
            for message in source.messages("mm2-offset-syncs.B.internal")
        ]
        wanted = TopicPartition(topic, 0)
        return [(sync.upstream_offset, sync.downstream_offset) for sync in decoded if sync.partition == wanted]

    # At the source "yes" has an aborted record and a marker before it.
    until(lambda: synced()[-1:] == [(5, 3)], "the last offsets are synced", lambda: (synced(), eastward.logs()))


def killed_in_mid_flow(flow: Flow, **settings: str) -> list[list[bytes | None]]:
    """Kill the worker of a flow while it copies; return what is there in each partition when all of it has come."""
    topic = flow.source.create(unique("t"), 2)
    for partition in (0, 1):
        flow.source.write(topic, NUMBERS[:30_000], partition)
    flow.start("Source", 2, topics=topic, **settings)
    copy = f"{flow.source.alias}.{topic}"

    def arrived() -> list[list[bytes | None]]:
        rows = flow.target.rows(copy)
        return [[row[2] for row in rows if row[0] == partition] for partition in (0, 1)]

    until(lambda: any(arrived()), "records flow", flow.logs)
    flow.worker.kill()
    for partition in (0, 1):
        flow.source.write(topic, NUMBERS[30_000:], partition)
    flow.worker.start()
    until(lambda: all(len(set(found)) == len(NUMBERS) for found in arrived()), "all of it arrives", flow.logs)
    return arrived()


def test_a_worker_killed_in_mid_flow_leaves_no_gap(eastward: Flow) -> None:
    for found in killed_in_mid_flow(eastward):
        assert list(dict.fromkeys(found)) == NUMBERS  # first copies, in order


def test_exactly_once_a_kill_leaves_neither_gap_nor_duplicate(westward: Flow) -> None:
    assert killed_in_mid_flow(westward, consumer_isolation_level="read_committed") == [NUMBERS, NUMBERS]


def test_two_flows_between_two_clusters_make_no_loop(eastward: Flow, westward: Flow) -> None:
    west, east = eastward.source, eastward.target
    topic = unique("both")
    for cluster in (west, east):
        cluster.create(topic)
        cluster.write(topic, [cluster.alias.encode()])
    beats = [flow.start("Heartbeat") for flow in (eastward, westward)]
    for flow in (eastward, westward):
        flow.start("Source", topics=f".*{topic}")
    until(lambda: [row[2] for row in east.rows(f"A.{topic}")] == [b"A"], "A's topic is at B", eastward.logs)
    until(lambda: [row[2] for row in west.rows(f"B.{topic}")] == [b"B"], "B's topic is at A", westward.logs)
    until(
        lambda: bool(east.partitions("A.heartbeats") and west.partitions("B.heartbeats")), "heartbeats", eastward.logs
    )
    until(lambda: bool(east.messages("A.heartbeats")), "heartbeats are copied", eastward.logs)
    heard = [Heartbeat.decode(message.key(), message.value()) for message in east.messages("A.heartbeats")]
    assert {(heartbeat.source_alias, heartbeat.target_alias) for heartbeat in heard} == {("B", "A")}
    looked = {name for cluster in (west, east) for name in cluster.admin.list_topics(timeout=10).topics}
    assert {name for name in looked if topic in name} == {topic, f"A.{topic}", f"B.{topic}"}
    for flow, name in zip((eastward, westward), beats, strict=True):
        flow.rest.delete(name)


def test_a_group_continues_at_the_other_cluster_without_a_gap(eastward: Flow) -> None:
    source, target = eastward.source, eastward.target
    topic, group = source.create(unique("orders")), unique("readers")
    copy = f"A.{topic}"
    target.create(copy)
    target.write(copy, [b"older"] * 7)  # so that offsets differ
    source.write(topic, [b"%03d" % number for number in range(500)])
    active = f"a-{group}"  # first in every round
    for name in (group, active):
        source.commit(name, topic, {0: 400})
    member = target.consumer(active)
    member.subscribe([copy])
    until(lambda: member.poll(0.1) is not None and bool(member.assignment()), "a member reads at the target")
    eastward.start("Source", topics=topic)
    until(lambda: len(target.messages(copy)) == 507, "all of it arrives", eastward.logs)
    eastward.start("Checkpoint", topics=topic, groups=f".*{group}", sync_group_offsets_enabled="true")

    def checkpoints() -> list[Checkpoint]:
        found = [
            Checkpoint.decode(message.key(), message.value()) for message in target.messages("A.checkpoints.internal")
        ]
        return [checkpoint for checkpoint in found if checkpoint.group == group]

    until(lambda: bool(checkpoints()), "a checkpoint is written", eastward.logs)
    first = checkpoints()[0]
    assert (first.partition.topic, first.upstream_offset) == (copy, 400)
    assert 8 <= first.downstream_offset <= 407  # never past the record that is read next
    until(
        lambda: target.committed(group, copy) == checkpoints()[-1].downstream_offset, "it is committed", eastward.logs
    )

    assert target.committed(active, copy) < 0  # somebody uses it there
    member.close()

    source.commit(group, topic, {0: 500})
    until(
        lambda: target.committed(group, copy) == 507,
        "the end is translated exactly",
        lambda: (checkpoints(), eastward.logs()),
    )
    target.commit(group, copy, {0: 508})  # ahead of the source: never set back
    source.write(topic, [b"500"])
    source.commit(group, topic, {0: 501})
    seen = len(checkpoints())
    until(lambda: len(checkpoints()) > seen or checkpoints()[-1].upstream_offset == 501, "it goes on", eastward.logs)
    assert target.committed(group, copy) == 508


def test_offset_syncs_at_the_target_translate_as_well(eastward: Flow) -> None:
    source, target = eastward.source, eastward.target
    topic, group = source.create(unique("orders")), unique("readers")
    copy = f"A.{topic}"
    target.create(copy)
    target.write(copy, [b"older"] * 7)
    source.write(topic, [b"%03d" % number for number in range(50)])
    source.commit(group, topic, {0: 50})
    at_target = {"offset-syncs_topic_location": "target"}
    eastward.start("Source", topics=topic, **at_target)
    eastward.start("Checkpoint", topics=topic, groups=f".*{group}", sync_group_offsets_enabled="true", **at_target)
    until(lambda: target.committed(group, copy) == 57, "it is translated", eastward.logs)
    synced = [
        OffsetSync.decode(message.key(), message.value()) for message in target.messages("mm2-offset-syncs.A.internal")
    ]
    assert TopicPartition(topic, 0) in {sync.partition for sync in synced}


def test_topics_deleted_and_created_again_are_copied_from_their_beginning(eastward: Flow) -> None:
    source, target = eastward.source, eastward.target
    full, empty, other = (source.create(unique("again")) for _ in range(3))
    source.write(full, [b"old-%d" % number for number in range(20)])
    # Nobody looks for topics meanwhile: the task itself has to bear it.
    name = eastward.start("Source", topics=f"{full},{empty},{other}", refresh_topics_interval_seconds="3600")

    def values(topic: str) -> list[bytes | None]:
        return [row[2] for row in target.rows(f"A.{topic}")]

    until(lambda: len(values(full)) == 20, "the first life of the topic is copied", eastward.logs)
    for topic in (full, empty):
        source.admin.delete_topics([topic])[topic].result(30)
        until(lambda topic=topic: source.partitions(topic) == 0, "the topic is deleted")
    source.write(other, [b"meanwhile"])
    until(lambda: values(other) == [b"meanwhile"], "the other topic goes on", eastward.logs)
    assert eastward.rest.request("POST", f"/connectors/{name}/tasks/0/restart").status == 204
    source.write(other, [b"restarted"])
    until(lambda: values(other)[-1:] == [b"restarted"], "a task begins without them", eastward.logs)
    wanted = [b"new-%d" % number for number in range(5)]
    for topic in (full, empty):
        source.create(topic)
        source.write(topic, wanted)
        until(lambda topic=topic: values(topic)[-5:] == wanted, "its second life is copied", eastward.logs)
    eastward.rest.await_states(name, "RUNNING", ["RUNNING"], LIMIT_S)


@pytest.mark.parametrize("setting", ["continue", "fail"])
def test_target_topic_created_again_is_noticed_before_a_record_is_copied(eastward: Flow, setting: str) -> None:
    topic = eastward.source.create(unique("target"))
    eastward.source.write(topic, [b"1"])
    name = eastward.start("Source", topics=topic, on_topic_recreated=setting)
    until(lambda: len(eastward.target.rows(f"A.{topic}")) == 1, "the topic is copied", eastward.logs)
    eastward.target.admin.delete_topics([f"A.{topic}"])[f"A.{topic}"].result(30)
    until(lambda: eastward.target.partitions(f"A.{topic}") == 0, "the topic is deleted")
    eastward.target.create(f"A.{topic}")
    text = f"topic A.{topic} at the target was deleted and created again"
    until(lambda: text in eastward.logs(), "it is in the log", eastward.logs)
    if setting == "fail":
        eastward.rest.await_states(name, "FAILED", ["RUNNING"], LIMIT_S)


def test_acls_are_copied_and_a_cluster_without_an_authorizer_does_not_mind(
    tmp_path_factory: pytest.TempPathFactory, westward: Flow
) -> None:
    here = westward.target  # both ends are the cluster with an authorizer, under two names
    topic = here.create(unique("t"))
    given = [
        AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:u", "*", operation, AclPermissionType.ALLOW
        )
        for operation in (AclOperation.ALL, AclOperation.WRITE)
    ]
    for done in here.admin.create_acls(given).values():
        done.result(10)
    flow = Flow(Cluster("there", here.servers), here, westward.worker)
    flow.start("Source", topics=topic)
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        f"there.{topic}",
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )

    def copied() -> list[str]:
        return [acl.operation.name for acl in here.admin.describe_acls(wanted).result(10)]

    until(lambda: copied() == ["READ"], "who may read is copied", lambda: (copied(), westward.logs()))


@pytest.fixture(scope="module", autouse=True)
def _workers_are_awaited(eastward: Flow) -> WorkerProcess:
    eastward.worker.await_answer("/connectors", LIMIT_S)
    return eastward.worker
