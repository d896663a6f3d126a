"""Which of a Java consumer's properties are honoured, and how."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.client_properties import sink_consumer_properties
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.reading.fetch_settings import backoff_s, fetch_settings, not_honoured
from spark_connect_rt.testing.worker_settings import worker_settings

SERVERS = {"bootstrap.servers": "k:9092"}


def test_consumer_settings_of_a_sink_task_are_honoured() -> None:
    worker = {**SERVERS, "consumer.security.protocol": "SASL_SSL", "consumer.sasl.mechanism": "PLAIN"}
    assert not_honoured(sink_consumer_properties(worker_settings(worker), {}, "c", 0)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("client.rack", "a"),
        ("queued.max.messages.kbytes", "1"),
        ("interceptor.classes", "x"),
        ("allow.auto.create.topics", "true"),
        ("auto.offset.reset", "by_duration:PT1H"),
        ("isolation.level", "serializable"),
        ("sasl.mechanism", "GSSAPI"),
    ],
)
def test_ignored_setting_is_named(name: str, text: str) -> None:
    assert not_honoured({**SERVERS, name: text}) == [name]


def test_the_default_mechanism_is_javas() -> None:
    assert not_honoured({**SERVERS, "security.protocol": "SASL_SSL"}) == ["sasl.mechanism"]


def test_every_bad_value_is_reported_at_once() -> None:
    with pytest.raises(BadConfigError) as told:
        fetch_settings({**SERVERS, "fetch.min.bytes": "few", "fetch.max.wait.ms": "soon"})
    assert set(told.value.problems) == {"fetch.min.bytes", "fetch.max.wait.ms"}


def test_javas_defaults_and_configured_values() -> None:
    plain = fetch_settings(SERVERS)
    assert (plain.reset, plain.committed_only, plain.check_crcs, plain.least_bytes) == ("latest", False, True, 1)
    said = fetch_settings(
        {
            **SERVERS,
            "auto.offset.reset": "Earliest",
            "isolation.level": "READ_COMMITTED",
            "check.crcs": "false",
            "fetch.min.bytes": "10",
            "fetch.max.wait.ms": "20000",
        }
    )
    assert (said.reset, said.committed_only, said.check_crcs, said.least_bytes) == ("earliest", True, False, 10)
    assert said.request_limit_ms == 40_000  # an answer may take as long as it was told to wait


def test_the_wait_doubles_up_to_its_limit() -> None:
    assert [backoff_s((100, 1_000), failures, 0.5) for failures in (0, 1, 2, 4, 5, 1_000)] == [0, 0.1, 0.2, 0.8, 1, 1]
