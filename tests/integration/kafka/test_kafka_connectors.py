"""Kafka source and sink on a real broker: every byte arrives as it was; restarts, new partitions, bad input."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.development.new_project import create_project
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.connectors.topics.kafka_settings import BYTES
from spark_connect_rt.connectors.topics.kafka_sink import KafkaSinkConnector
from spark_connect_rt.connectors.topics.kafka_source import KafkaSourceConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.topics import add_partitions, read_records

LIMIT_S = 60.0
CONVERTERS = {f"{side}.converter": BYTES for side in ("key", "value", "header")}
ODD = b"\x00\xff{"  # neither text nor JSON


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = f"there-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    return name


class There:
    """Writes to the other cluster's topic."""

    def __init__(self, broker: EmbeddedKafka, topic: str) -> None:
        self.topic = topic
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def write(self, value: bytes | None, partition: int = 0, at_ms: int = 1_000, **more: Any) -> None:
        self._producer.produce(self.topic, value, partition=partition, timestamp=at_ms, **more)
        assert self._producer.flush(30) == 0


@pytest.fixture
def there(broker: EmbeddedKafka, topic: str) -> There:
    return There(broker, topic)


@pytest.fixture
def source(broker: EmbeddedKafka, topic: str) -> Iterator[Callable[..., SourceHarness]]:
    started: list[SourceHarness] = []

    def start(**settings: str) -> SourceHarness:
        config = {"source.bootstrap.servers": broker.bootstrap_servers, "topics": topic, **CONVERTERS}
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        harness = SourceHarness(KafkaSourceConnector, {name: value for name, value in config.items() if value})
        started.append(harness)
        harness.start()
        return harness

    yield start
    for source_harness in started:
        source_harness.stop()


def polled(source: SourceHarness, count: int) -> list[ProducedRecord]:
    """Poll every task until so many records came."""
    found: list[ProducedRecord] = []
    deadline = time.monotonic() + LIMIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        found += source.poll()
    return found


def values(records: Sequence[ProducedRecord]) -> list[bytes | None]:
    return sorted((record.value for record in records), key=lambda value: value or b"")


def test_keys_values_headers_and_times_arrive_as_they_were(there: There, source: Callable[..., SourceHarness]) -> None:
    there.write(ODD, key=ODD, headers=[("h", ODD), ("h", None)], at_ms=1_234)
    there.write(None, key=b"k", at_ms=1_235)  # a tombstone
    there.write(b"", at_ms=1_236)
    name = f"copy.{there.topic}"
    assert polled(source(topic_format="copy.${topic}"), 3) == [
        ProducedRecord(name, ODD, ODD, None, 1_234, (("h", ODD), ("h", None))),
        ProducedRecord(name, None, b"k", None, 1_235),
        ProducedRecord(name, b"", None, None, 1_236),
    ]


def test_columns_without_headers_carry_the_same_and_partitions_are_kept_where_wanted(
    there: There, source: Callable[..., SourceHarness]
) -> None:
    for number in range(6):
        there.write(b"%d" % number, number % 2, key=ODD, at_ms=2_000 + number)
    plain = polled(source(topic_format="copy"), 6)
    by_value = sorted(plain, key=lambda record: record.value or b"")
    assert by_value == [ProducedRecord("copy", b"%d" % n, ODD, None, 2_000 + n) for n in range(6)]
    kept = polled(source(topic_format="copy", partition_keep="true"), 6)
    assert {record.value: record.partition for record in kept} == {b"%d" % n: n % 2 for n in range(6)}


def test_offsets_are_of_the_last_record_and_a_restart_resumes_after_it(
    there: There, source: Callable[..., SourceHarness]
) -> None:
    there.write(b"a")
    there.write(b"b")
    there.write(b"c", partition=1)
    harness = source(source_cluster_alias="east")
    polled(harness, 3)
    place = {"cluster": "east", "topic": there.topic}
    offsets = {
        partition["partition"]: offset
        for partition, offset in harness.offsets.all()
        if partition.items() >= place.items()
    }
    topic_id = offsets[0].pop("topicId")
    assert offsets == {0: {"offset": 1}, 1: {"offset": 0, "topicId": topic_id}}
    there.write(b"d")
    harness.restart()
    assert values(polled(harness, 1)) == [b"d"]
    harness.stop()
    harness.offsets.put({**place, "partition": 0}, {"offset": 0})
    assert harness.hosted.connector.alter_offsets({}, [({**place, "partition": 0}, {"offset": 0})])  # type: ignore[attr-defined]
    harness.start()
    assert values(polled(harness, 2)) == [b"b", b"d"]


def test_tasks_share_the_partitions_and_new_ones_are_picked_up(
    there: There, broker: EmbeddedKafka, source: Callable[..., SourceHarness]
) -> None:
    settings = {"topics": "", "topics_regex": f"{there.topic}.*", "refresh_topics_interval_ms": "50", "tasks_max": "8"}
    harness = source(**settings)
    assert len(harness.tasks) == 2
    add_partitions(broker.bootstrap_servers, there.topic, 3)
    deadline = time.monotonic() + LIMIT_S
    while not harness.hosted.reconfigurations:
        assert time.monotonic() < deadline, "the new partition is not found"
        time.sleep(0.05)
    harness.reconfigure()
    assert len(harness.tasks) == 3
    for number in range(3):
        there.write(b"%d" % number, partition=number)
    assert values(polled(harness, 3)) == [b"0", b"1", b"2"]


def test_aborted_records_are_not_copied(
    there: There, broker: EmbeddedKafka, source: Callable[..., SourceHarness]
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": there.topic})
    producer.init_transactions()
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(there.topic, value, partition=0)
        end()
    there.write(b"z")
    assert values(polled(source(), 2)) == [b"yes", b"z"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"topics": ""}, "topics"),
        ({"topics_regex": "x"}, "topics"),
        ({"topics": "", "topics_regex": "("}, "topics.regex"),
        ({"value_converter": ""}, "value.converter"),
        ({"topic_format": " "}, "topic.format"),
    ],
)
def test_wrong_settings_are_named(source: Callable[..., SourceHarness], settings: dict[str, str], name: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        source(**settings)
    assert list(caught.value.problems) == [name]


def test_a_cluster_that_does_not_answer_and_useless_offsets_are_clear_errors(
    source: Callable[..., SourceHarness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_connect_rt.connectors.topics.kafka_source.LOOK_TIMEOUT_S", 0.5)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(RetriableError, match=f"looking for topics at {nobody}"):
        source(source_bootstrap_servers=nobody)
    place = {"cluster": "source", "topic": "t", "partition": 0}
    for partition, offset in (({"topic": "t"}, {"offset": 1}), (place, {"offset": -1}), (place, {"offset": True})):
        with pytest.raises(ConnectError):
            KafkaSourceConnector().alter_offsets({}, [(partition, offset)])
    assert KafkaSourceConnector().alter_offsets({}, [(place, None)])


def test_the_sink_writes_what_it_was_given_and_commits_behind_its_flush(broker: EmbeddedKafka, topic: str) -> None:
    config = {
        "topics": "here",
        "target.bootstrap.servers": broker.bootstrap_servers,
        "topic.format": f"{topic}",
        "partition.keep": "true",
        **CONVERTERS,
    }
    with SinkHarness(KafkaSinkConnector, config) as sink:
        sink.send("here", ODD, key=ODD, partition=1, timestamp_ms=1_234)
        sink.send("here", b"second", partition=0, timestamp_ms=1_235)
        sink.topics.append(
            [
                {
                    "topic": "here",
                    "partition": 0,
                    "key": b"k",
                    "value": None,
                    "timestamp": 1_236,
                    "headers": [{"key": "h", "value": ODD}],
                }
            ]
        )
        assert sink.deliver()
        committed = {partition.partition: offset for partition, offset in sink.commit().items()}
        assert committed == {0: 2, 1: 1}
        records = {
            (record.partition(), record.key(), record.value(), record.timestamp()[1], tuple(record.headers() or ()))
            for record in read_records(broker.bootstrap_servers, topic, 3)
        }
        assert records == {
            (1, ODD, ODD, 1_234, ()),
            (0, None, b"second", 1_235, ()),
            (0, b"k", None, 1_236, (("h", ODD),)),
        }
        sink.restart()
        sink.send("here", b"third", partition=0)
        assert sink.deliver()
        sink.commit()
        assert len(read_records(broker.bootstrap_servers, topic, 4)) == 4


def test_the_sink_refuses_what_is_not_bytes_and_a_partition_that_is_not_there(
    broker: EmbeddedKafka, topic: str
) -> None:
    config = {"topics": "here", "target.bootstrap.servers": broker.bootstrap_servers, **CONVERTERS}
    strings = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    with SinkHarness(KafkaSinkConnector, {**config, **strings}) as sink:
        sink.send("here", b"text")
        with pytest.raises(DataError, match=r"here-0@0: the value is str, not bytes\. Use org\.apache"):
            sink.deliver()
    far = {"partition.keep": "true", "topic.format": topic, "target.producer.delivery.timeout.ms": "20000"}
    with SinkHarness(KafkaSinkConnector, {**config, **far}) as sink:
        sink.send("here", b"x", partition=9)
        with pytest.raises(ConnectError):
            _ = sink.deliver() and sink.commit()
        assert sink.committed == {}


def test_late_records_are_sent_again_by_a_new_producer(topic: str) -> None:
    """One that failed answers every call with its failure: the task would never write again."""
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    hasty = {"target.producer.delivery.timeout.ms": "1000", "target.producer.request.timeout.ms": "500"}
    config = {"topics": "here", "target.bootstrap.servers": nobody, "topic.format": topic, **hasty, **CONVERTERS}
    with SinkHarness(KafkaSinkConnector, config) as sink:
        sink.send("here", b"x")
        assert sink.deliver()
        with pytest.raises(RetriableError):
            sink.commit()
        sink.send("here", b"y")
        assert sink.deliver(), "the new producer takes both"
        assert sink.committed == {}


def test_a_connector_in_development_sends_to_a_broker_and_reads_from_it(
    broker: EmbeddedKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``connectrt dev --bootstrap-servers``: real partitions and offsets, nothing committed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shown = {}
    for kind, setting in (("source", "topic"), ("sink", "topics")):
        create_project(kind, f"dev_{kind}")
        file = tmp_path / f"dev_{kind}/connector.json"
        file.write_text(file.read_text().replace(f'"{setting}": "dev_{kind}"', f'"{setting}": "{topic}"'))
        words = ["dev", str(file), "--once", "--bootstrap-servers", broker.bootstrap_servers]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        shown[kind] = [line for line in done.output.splitlines() if line.startswith(topic)]
        assert "would commit" in done.output
    assert len(shown["source"]) == 3
    without_offsets = sorted(line.partition("  offset ")[0] for line in shown["source"])
    assert sorted(shown["sink"]) == without_offsets, "the same partitions, offsets, keys and values"
    assert sorted(line.partition(" ")[2] for line in (tmp_path / "dev_sink.txt").read_text().splitlines()) == [
        "hello 0",
        "hello 1",
        "hello 2",
    ]
