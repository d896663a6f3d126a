"""A Java worker and ours, prepared for exactly-once: one leader at a time writes the config topic, all count alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import FencedError
from spark_connect_rt.kafka.writing.fenced_writer import KafkaFencedWriter
from tests.integration.kafka import test_mixed_herders as mixed
from tests.integration.kafka.test_mixed_herders import OurWorker, source, until
from tests.support.connect_rest import ConnectRest
from tests.support.java_connect import JavaConnect

PREPARING = {**mixed.TIMES, "exactly.once.source.support": "preparing"}


@pytest.fixture
def group() -> str:
    return mixed.uuid.uuid4().hex[:8]


@pytest.fixture
def java_worker(broker: EmbeddedKafka, java: Java, tmp_path: Path, group: str) -> Iterator[JavaConnect]:
    with JavaConnect(tmp_path / "java", broker.bootstrap_servers, group, properties=PREPARING, java=java) as worker:
        yield worker


def last_record(servers: str, topic: str) -> tuple[int, int]:
    """Return the offset of the last record and the log end, read without a group."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "enable.partition.eof": "true"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    consumer.assign([TopicPartition(topic, 0, 0)])
    last = -1
    while (message := consumer.poll(20)) is not None and message.error() is None:
        last = message.offset()
    consumer.close()
    return last, end


def test_the_leader_of_either_kind_claims_the_topic_and_both_count_offsets_alike(
    broker: EmbeddedKafka, java_worker: JavaConnect, tmp_path: Path, group: str
) -> None:
    servers = broker.bootstrap_servers
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}-1\n")
        assert java_worker.rest.create(name, source(tmp_path / name)).status == 201
        java_worker.rest.await_states(name, "RUNNING", ["RUNNING"])
    ours = OurWorker(servers, group, PREPARING)
    try:
        # Java leads and writes transactions. We adopt its assignment only if we count as it does (I6).
        until(lambda: len(ours.tasks()) == 1 and len(ours.herder.views.progress().connectors) == 1, ours)
        generation = ours.herder.views.progress().generation
        topic = ours.herder._deps.settings.worker.storage["config"].name
        last, end = last_record(servers, topic)
        assert end > last + 1  # the marker of the last transaction
        assert ours.herder._deps.config_store.snapshot().offset == last + 1
        assert ours.herder.views.progress().generation == generation  # nobody disagrees: no rebalance since

        # Java is gone without a word: we lead, claim what it had claimed, and write.
        java_worker.kill()
        until(lambda: ours.herder.views.is_leader() and len(ours.tasks()) == 2, ours)
        (tmp_path / "c").write_text("c-1\n")
        rest = ConnectRest(ours.url.rstrip("/"))
        assert rest.settled("POST", "/connectors", {"name": "c", "config": source(tmp_path / "c")}).status == 201
        until(lambda: len(ours.tasks()) == 3, ours)
        assert last_record(servers, topic)[1] > last_record(servers, topic)[0] + 1

        # Java comes back under our lead: it too adopts an assignment that was made from our count.
        java_worker.start()
        until(lambda: len(ours.tasks()) in (1, 2), ours, 90)
        for name in ("a", "b", "c"):
            java_worker.rest.await_states(name, "RUNNING", ["RUNNING"])

        # A zombie leader's producer, of either kind, is shut out of the topic.
        properties = {"bootstrap.servers": servers, "transactional.id": f"connect-cluster-{group}"}
        zombie = KafkaFencedWriter(topic, properties)
        zombie.claim(20_000)
        assert rest.settled("DELETE", "/connectors/c").status == 204  # we were shut out, asked the group, claimed again
        with pytest.raises(FencedError):
            zombie.write([(b"connector-zombie", b'{"properties":{"name":"zombie"}}')], 20_000)
        assert sorted(ours.herder.views.list_connectors()) == ["a", "b"]
    finally:
        ours.stop()
