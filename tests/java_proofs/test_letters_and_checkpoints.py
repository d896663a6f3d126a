"""What hosted Java connectors write beside their records: dead letters of sinks, checkpoints of mirrors; as in Java."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.java_proofs.test_apache_connectors import JSON, chain, contents, create
from tests.support.java_beside_ours import JavaBesideOurs
from tests.support.topic_content import Content

MIRROR = "org.apache.kafka.connect.mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PREFIX = "__connect.errors."
STACK = f"{PREFIX}exception.stacktrace"
GIVEN: tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (b"7", b'{"n":"1"}', []),
    (b"7", b"{oops", [("mine", b'"kept"'), ("none", None)]),  # value converter
    (None, b'{"n":"no number"}', []),  # transformation
    (b"7", b'{"n":"2"}', [("bad", b"{")]),  # header converter
    (b"{", b'{"n":"3"}', []),  # key converter
    (None, b'"no map"', []),  # transformation
)
BAD = 5
LINES = 50
pytestmark = pytest.mark.timeout(3000)


def filled(broker: EmbeddedKafka, topic: str, records: object = GIVEN) -> None:
    """Make a topic of one partition with these (key, value, headers)."""
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topic(TopicSpec(topic, 1, 1, {}))
    admin.close()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for key, value, headers in records:  # type: ignore[attr-defined]
        producer.produce(topic, value, key, partition=0, headers=headers)
    assert producer.flush(30) == 0


def test_dead_letters_of_a_java_sink_are_java_connects(
    both: JavaBesideOurs, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    filled(broker, "half-bad")
    config = {
        "connector.class": "FileStreamSink",
        "topics": "half-bad",
        "file": str(tmp_path / "{where}.txt"),
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "header.converter": JSON,
        "header.converter.schemas.enable": "false",
        **chain(c="Cast$Value", c__spec="n:int32"),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "{where}.letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    create(both, "letters", config)
    found = contents(both, "{where}.letters", BAD)
    java, ours = ([comparable(content, side) for content in found[side]] for side in ("java", "ours"))
    assert ours == java
    for theirs, own in zip(found["java"], found["ours"], strict=True):
        their_stack, our_stack = (str(dict(content.headers)[STACK], "utf-8").splitlines() for content in (theirs, own))
        assert our_stack[:2] == their_stack[:2], "the exception, and the line of Java's that raised it"


def comparable(content: Content, side: str) -> Content:
    """Return a letter without its stack, and with the connector's name as it is in Java Connect."""
    headers = (
        (name, value and value.replace(f"letters-{side}".encode(), b"letters-java"))
        for name, value in content.headers
        if name != STACK
    )
    return Content(content.key, content.value, tuple(headers))


def test_a_hosted_mirror_checkpoint_connector_translates_as_in_java_connect(
    both: JavaBesideOurs, broker: EmbeddedKafka
) -> None:
    servers = broker.bootstrap_servers
    filled(broker, "followed", [(b"k", b"%d" % number, []) for number in range(LINES)])
    follower = Consumer({"bootstrap.servers": servers, "group.id": "followers", "enable.auto.commit": False})
    follower.commit(offsets=[TopicPartition("followed", 0, LINES)], asynchronous=False)
    follower.close()
    config = {
        "source.cluster.alias": "{where}",
        "target.cluster.alias": "behind-{where}",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "offset-syncs.topic.replication.factor": "1",
    }
    source = {
        "topics": "followed",
        "replication.factor": "1",
        "offset.lag.max": "0",
        "sync.topic.acls.enabled": "false",
    }
    create(both, "followed", config | source | {"connector.class": f"{MIRROR}.MirrorSourceConnector"})
    contents(both, "{where}.followed", LINES)
    checkpoints = {
        "connector.class": f"{MIRROR}.MirrorCheckpointConnector",
        "groups": "followers",
        "emit.checkpoints.interval.seconds": "1",
        "checkpoints.topic.replication.factor": "1",
    }
    create(both, "checkpoints", config | checkpoints)
    deadline, last = time.monotonic() + 90, dict[str, Content]()
    while len(last) < 3 or {upstream_of(content) for content in last.values()} != {LINES}:
        assert time.monotonic() < deadline, last
        for where in ("java", "ours", "python"):
            topic = f"{where}.checkpoints.internal"
            if both.reader.count(topic):
                last[where] = both.reader.read(topic)[-1]
        time.sleep(0.5)
    assert last["ours"].key == (last["java"].key or b"").replace(b"java.followed", b"ours.followed")
    assert last["ours"].value == last["java"].value == last["python"].value


def upstream_of(checkpoint: Content) -> int:
    """Return the group's offset at the source that a checkpoint holds."""
    version, upstream, _ = struct.unpack(">hqq", (checkpoint.value or b"")[:18])
    assert version == 0
    return int(upstream)
