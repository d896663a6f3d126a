"""Java client properties become librdkafka's; what has no counterpart is said; what is unsafe never passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spark_connect_rt.config.client_properties import (
    log_client_properties,
    sink_consumer_properties,
    sink_group_id,
    source_producer_properties,
)
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.client_config import ClientRole, client_config
from spark_connect_rt.testing.worker_settings import worker_settings

PRODUCER, CONSUMER, ADMIN = ClientRole.PRODUCER, ClientRole.CONSUMER, ClientRole.ADMIN
SERVERS = {"bootstrap.servers": "k:9092"}


def settings(role: ClientRole, **properties: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return client_config({**SERVERS, **named}, role).settings


def test_javas_defaults_win_where_librdkafkas_differ() -> None:
    assert client_config(SERVERS, CONSUMER).settings == {
        "bootstrap.servers": "k:9092",
        "allow.auto.create.topics": "true",
        "auto.offset.reset": "latest",
        "check.crcs": "true",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "range",
    }
    assert client_config(SERVERS, PRODUCER).settings["partitioner"] == "murmur2_random"


@pytest.mark.parametrize(
    ("role", "name", "value", "native", "expected"),
    [
        (ADMIN, "metadata.max.age.ms", "5000", "topic.metadata.refresh.interval.ms", "5000"),
        (ADMIN, "request.timeout.ms", "2147483647", "socket.timeout.ms", "300000"),
        (ADMIN, "retry.backoff.ms", "0", "retry.backoff.ms", "1"),
        (ADMIN, "send.buffer.bytes", "-1", "socket.send.buffer.bytes", "0"),
        (ADMIN, "security.protocol", "PLAINTEXT", "security.protocol", "plaintext"),
        (PRODUCER, "max.request.size", "2097152", "message.max.bytes", "2097152"),
        (PRODUCER, "buffer.memory", "33554432", "queue.buffering.max.kbytes", "32768"),
        (PRODUCER, "batch.size", "0", "batch.size", "1"),
        (CONSUMER, "fetch.max.wait.ms", "100", "fetch.wait.max.ms", "100"),
        (CONSUMER, "auto.offset.reset", "none", "auto.offset.reset", "error"),
        (CONSUMER, "queued.min.messages", "7", "queued.min.messages", "7"),
    ],
)
def test_a_name_is_translated(role: ClientRole, name: str, value: str, native: str, expected: str) -> None:
    assert client_config({**SERVERS, name: value}, role).settings[native] == expected


def test_the_level_of_the_compression_chosen_is_taken() -> None:
    levels = {"compression.gzip.level": "9", "compression.zstd.level": "3", "compression.type": "zstd"}
    assert client_config({**SERVERS, **levels}, PRODUCER).settings["compression.level"] == "3"


@pytest.mark.parametrize(
    ("java", "native"),
    [
        (
            "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "range",
        ),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
        ("org.apache.kafka.clients.consumer.RoundRobinAssignor", "roundrobin"),
    ],
)
def test_assignors_that_cannot_be_mixed_are_not(java: str, native: str) -> None:
    found = client_config({**SERVERS, "partition.assignment.strategy": java}, CONSUMER)
    assert found.settings["partition.assignment.strategy"] == native


def test_unknown_java_properties_are_reported_and_known_properties_are_not() -> None:
    given = {
        **SERVERS,
        "metric.reporters": "x.Y",
        "ssl.provider": "z",
        "interceptor.classes": "a.B",
        "max.block.ms": "5",
        "key.serializer": "x",
        "max.poll.records": "3",
    }
    assert sorted(client_config(given, PRODUCER).unmapped) == [
        "interceptor.classes",
        "metric.reporters",
        "ssl.provider",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.config",
        "debug",
    ],
)
def test_settings_that_run_or_load_something_never_pass(name: str) -> None:
    found = client_config({**SERVERS, "security.protocol": "SASL_SSL", name: "x"}, PRODUCER)
    assert name not in found.settings
    assert name in found.unmapped


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(BadConfigError) as caught:
        client_config({"linger.ms": "soon", "retries": "1", "batch.size": "big"}, PRODUCER)
    assert set(caught.value.problems) == {"linger.ms", "batch.size"}
    with pytest.raises(BadConfigError, match="by_duration"):
        settings(CONSUMER, auto_offset_reset="by_duration:PT1H")
    with pytest.raises(BadConfigError, match=r"my\.Assignor"):
        settings(CONSUMER, partition_assignment_strategy="my.Assignor")


def test_idempotence_gives_way_only_if_it_is_not_set() -> None:
    assert settings(PRODUCER, acks="1")["enable.idempotence"] == "false"
    assert settings(PRODUCER, acks="all")["enable.idempotence"] == "true"
    assert settings(PRODUCER, acks="1", enable_idempotence="true")["enable.idempotence"] == "true"
    assert settings(PRODUCER, transactional_id="t", enable_idempotence="false")["enable.idempotence"] == "true"


def test_the_new_group_protocol_leaves_assignment_to_the_broker() -> None:
    found = settings(CONSUMER, group_protocol="CONSUMER", session_timeout_ms="1000")
    assert found["group.protocol"] == "consumer"
    assert not {"partition.assignment.strategy", "session.timeout.ms"} & set(found)


def test_a_source_tasks_producer_is_connects_and_overrides_win() -> None:
    worker = {**SERVERS, "ssl.key.password": "s", "producer.linger.ms": "7", "producer.acks": "1", "acks": "0"}
    connector = {"producer.override.acks": "all", "name": "c"}
    assert source_producer_properties(worker_settings(worker), connector, "c", 2) == {
        "bootstrap.servers": "k:9092",
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
        "max.block.ms": "9223372036854775807",
        "client.id": "connector-producer-c-2",
        "linger.ms": "7",
    }


def test_a_sink_tasks_group_can_be_overridden() -> None:
    connector = {"consumer.override.group.id": "mine"}
    assert (
        sink_consumer_properties(worker_settings(SERVERS), {}, "c", 0)["group.id"]
        == sink_group_id({}, "c")
        == "connect-c"
    )
    assert sink_consumer_properties(worker_settings(SERVERS), connector, "c", 0)["group.id"] == "mine"
    assert sink_group_id(connector, "c") == "mine"


def test_the_clients_of_an_internal_topic_see_the_workers_security_only() -> None:
    worker = {**SERVERS, "group.id": "g", "client.id": "w", "security.protocol": "SSL", "rest.port": "1"}
    log = log_client_properties(worker_settings(worker), "offsets")
    assert log.producer["client.id"] == log.consumer["client.id"] == "g-w-offsets"
    assert log.producer["security.protocol"] == "SSL"
    assert "rest.port" not in log.producer
    assert log.consumer["group.id"] == "g"


def test_executors_clients_bring_neither_the_groups_library_nor_the_key_stores() -> None:
    """They start often, and their machines need not have these packages."""
    code = (
        "import sys, spark_connect_rt.kafka.writing.batch_producer, spark_connect_rt.kafka.reading.batch_consumer;"
        "print([name for name in ('aiokafka', 'cryptography', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
