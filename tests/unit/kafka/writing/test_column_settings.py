"""Which properties make a ColumnProducer: whatever it does not honour leaves the work to librdkafka."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.client_properties import exactly_once_producer_properties, source_producer_properties
from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS, RECORD_REPORTS
from spark_connect_rt.kafka.records.record_batch_columns import Compression
from spark_connect_rt.kafka.writing.column_settings import Transactional, column_settings, not_honoured
from spark_connect_rt.testing.worker_settings import worker_settings

USUAL = {**source_producer_properties(worker_settings({"bootstrap.servers": "a:1"}), {}, "c", 0), **OFFSET_REPORTS}


def test_a_source_task_s_usual_properties_are_honoured() -> None:
    settings = column_settings(USUAL)
    assert settings is not None
    assert settings.client == {
        "bootstrap_servers": "a:1",
        "client_id": "connector-producer-c-0",
        "acks": "all",
        "connections_max_idle_ms": 540_000,
        "metadata_max_age_ms": 300_000,
        "request_timeout_ms": 30_000,
        "retry_backoff_ms": 100,
        "security_protocol": "PLAINTEXT",
    }
    assert (settings.batch_bytes, settings.request_bytes, settings.buffer_bytes) == (999_939, 1_048_576, 33_554_432)
    assert (settings.max_block_ms, settings.delivery_timeout_ms) == (2**63 - 1, 2**31 - 1)
    assert settings.reports_offsets


def test_offsets_are_reported_to_callers_that_ask() -> None:
    settings = column_settings({name: text for name, text in USUAL.items() if name not in OFFSET_REPORTS})
    assert settings is not None
    assert not settings.reports_offsets


def test_places_of_records_are_known_but_in_transactions() -> None:
    settings = column_settings(USUAL | RECORD_REPORTS)
    assert settings is not None
    assert settings.reports_records
    worker = worker_settings({"bootstrap.servers": "a:1", "group.id": "g"})
    exactly_once = exactly_once_producer_properties(worker, {}, "c", 0)
    assert not_honoured(exactly_once | RECORD_REPORTS) == list(RECORD_REPORTS)
    assert not_honoured(exactly_once) == []


def test_configured_values_are_used() -> None:
    said = {
        "acks": "1",
        "batch.size": "100000",
        "compression.type": "gzip",
        "compression.gzip.level": "1",
        "compression.zstd.level": "9",
        "request.timeout.ms": "5000",
        "max.request.size": "50061",
        "linger.ms": "5",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username=u password="p";',
    }
    settings = column_settings(USUAL | said)
    assert settings is not None
    assert settings.client["acks"] == 1
    assert settings.client["request_timeout_ms"] == 5_000
    assert settings.client["sasl_plain_password"] == "p"
    assert settings.batch_bytes == 50_000
    assert settings.compression == Compression("gzip", 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transaction.two.phase.commit.enable", "false"),
        ("enable.idempotence", "true"),
        ("interceptor.classes", "com.example.I"),
        ("partitioner.class", "com.example.P"),
        ("acks", "0"),
        ("retries", "0"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "10"),
        ("compression.zstd.level", "-5"),
        ("linger.ms", "soon"),
        ("batch.size", "many"),
        ("buffer.memory", "-1"),
        ("queue.buffering.max.messages", "100"),
        ("reconnect.backoff.ms", "1000"),
        ("sasl.mechanism", "GSSAPI"),
        ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_anything_else_is_not_for_it(name: str, value: str) -> None:
    assert column_settings(USUAL | {name: value}) is None
    assert not_honoured(USUAL | {name: value}) == [name]


def test_kerberos_and_idempotence_are_defaults_that_need_not_be_set() -> None:
    assert column_settings(USUAL | {"security.protocol": "SASL_SSL"}) is None
    assert column_settings({name: text for name, text in USUAL.items() if name != "enable.idempotence"}) is None


EXACT = exactly_once_producer_properties(worker_settings({"bootstrap.servers": "a:1", "group.id": "g"}), {}, "c", 0)


def test_an_exactly_once_task_s_usual_properties_are_honoured() -> None:
    settings = column_settings(EXACT | {"transaction.timeout.ms": "9000"})
    assert settings is not None
    assert settings.transaction == Transactional("g-c-0", 9_000)
    assert settings.client["acks"] == "all"
    usual = column_settings(USUAL)
    assert usual is not None
    assert usual.transaction is None


@pytest.mark.parametrize(("name", "value"), [("acks", "1"), ("enable.idempotence", "false"), ("retries", "3")])
def test_transactions_want_every_replica_and_numbers(name: str, value: str) -> None:
    assert not_honoured(EXACT | {name: value}) == [name]
