"""The settings of workers and connectors: types, defaults, checks between settings."""

from __future__ import annotations

import re

import pytest

from spark_connect_rt.config.connector_config import SINK, SOURCE, sink_problems
from spark_connect_rt.config.group_config import StorageTopic
from spark_connect_rt.config.worker_settings import DISTRIBUTED, parse_distributed, parse_standalone
from spark_connect_rt.errors import BadConfigError

WORKER = {
    "bootstrap.servers": "a:9092,b:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
}


def test_a_minimal_worker_gets_kafkas_defaults() -> None:
    config = parse_distributed({**WORKER, "offset.storage.segment.bytes": "1000", "offset.storage.cleanup.policy": "x"})
    group, storage = config.group, config.storage
    assert config.bootstrap_servers == "a:9092,b:9092"
    assert (group.session_timeout_ms, group.heartbeat_interval_ms, group.rebalance_timeout_ms) == (
        10_000,
        3_000,
        60_000,
    )
    assert (group.connect_protocol, group.scheduled_rebalance_max_delay_ms) == ("sessioned", 300_000)
    assert storage["offset"] == StorageTopic("o", 25, 3, {"segment.bytes": "1000"})
    assert (storage["config"].partitions, storage["status"].partitions) == (1, 5)
    assert config.raw["group.id"] == "g"
    assert config.rest.listeners == ("http://:8083",)
    assert "group.id" not in repr(config)


def test_references_are_resolved_before_reading_and_tasks_get_them_unresolved() -> None:
    raw = {**WORKER, "session.timeout.ms": "${x:session}", "offset.storage.topic": "${x:topic}"}
    config = parse_distributed(raw, lambda given: {**given, "session.timeout.ms": "20000", "offset.storage.topic": "p"})
    assert (config.group.session_timeout_ms, config.storage["offset"].name) == (20_000, "p")
    assert config.raw["session.timeout.ms"] == "${x:session}"
    assert config.resolved["session.timeout.ms"] == "20000"


def test_every_problem_of_a_worker_file_is_named() -> None:
    with pytest.raises(BadConfigError) as caught:
        parse_distributed(
            {
                "bootstrap.servers": "",
                "offset.storage.partitions": "0",
                "session.timeout.ms": "3000",
                "inter.worker.signature.algorithm": "HmacSHA1",
                "connect.protocol": "new",
                "listeners": "",
            }
        )
    assert set(caught.value.problems) == {
        "bootstrap.servers",
        "group.id",
        "config.storage.topic",
        "offset.storage.topic",
        "status.storage.topic",
        "key.converter",
        "value.converter",
        "offset.storage.partitions",
        "heartbeat.interval.ms",
        "inter.worker.signature.algorithm",
        "connect.protocol",
        "listeners",
    }


@pytest.mark.parametrize(
    "given",
    [
        {"connectrt.channel.timeout.ms": "7000"},
        {"connectrt.channel.timeout.ms": "6000", "heartbeat.interval.ms": "4000"},
    ],
)
def test_e5_executors_may_not_bear_more_silence_than_the_group(given: dict[str, str]) -> None:
    with pytest.raises(
        BadConfigError, match=r"connectrt.channel.timeout.ms: must be less than session.timeout.ms minus"
    ):
        parse_distributed({**WORKER, **given})


def test_a_channel_timeout_below_the_groups_patience_is_taken() -> None:
    parse_distributed({**WORKER, "connectrt.channel.timeout.ms": "6999"})
    parse_distributed({**WORKER, "connectrt.channel.timeout.ms": "7000", "session.timeout.ms": "45000"})


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("connectrt.java.heap", "1k", "1k is too small for a Java host. Use at least 32m"),
        ("connectrt.java.options", "-jar x.jar", "-jar cannot be set, because the host sets it itself"),
    ],
)
def test_setting_that_no_java_host_could_start_with_is_refused(setting: str, value: str, why: str) -> None:
    with pytest.raises(BadConfigError, match=re.escape(why)):
        parse_distributed({**WORKER, setting: value})


def test_two_internal_topics_must_differ() -> None:
    with pytest.raises(
        BadConfigError, match=r"status.storage.topic: must not be the same as the topic of config.storage.topic"
    ):
        parse_distributed({**WORKER, "status.storage.topic": "c"})


def test_unknown_settings_are_warned_about_with_a_hint() -> None:
    raw = {
        **WORKER,
        "grop.id": "x",
        "spark.master": "local",
        "producer.acks": "1",
        "colour": "red",
        "ssl.key.password": "p",
    }
    assert parse_distributed(raw).warnings == (
        "unknown setting grop.id has no effect. Did you mean group.id?",
        "unknown setting colour has no effect",
    )


def test_every_setting_has_a_doc_a_unit_and_a_default_that_passes_its_own_check() -> None:
    for key in (*DISTRIBUTED, *SOURCE, *SINK):
        assert key.doc.endswith("."), key.name
        if key.name.endswith(".ms"):
            assert "ms" in key.doc, key.name
        if not key.required:
            assert key.parse({})[1] == [], key.name
            assert key.check(key.parse({})[0]) is None, key.name


def test_a_standalone_worker_needs_its_offset_file() -> None:
    config = parse_standalone(
        {"offset.storage.file.filename": "/x", "key.converter": "A", "value.converter": "B", "odd": "1"}
    )
    assert config.offset_storage_file_filename == "/x"
    assert (config.group.connect_protocol, config.group.exactly_once) == ("compatible", False)
    assert config.warnings == ("unknown setting odd has no effect",)
    with pytest.raises(BadConfigError):
        parse_standalone({"key.converter": "A", "value.converter": "B"})


def test_connector_settings() -> None:
    values = SOURCE.parse({"name": "a", "connector.class": "X", "transforms": "t1,t2"})
    assert (values["tasks.max"], values["errors.tolerance"], values["transforms"]) == (1, "none", ["t1", "t2"])
    with pytest.raises(BadConfigError) as caught:
        SINK.parse({"name": "a\nb", "tasks.max": "0", "topics.regex": "(", "transforms": "t,t"})
    assert set(caught.value.problems) == {"name", "connector.class", "tasks.max", "topics.regex", "transforms"}


@pytest.mark.parametrize(
    ("config", "worker_group", "problems"),
    [
        ({"topics": "a"}, "g", set()),
        ({"topics.regex": "a.*"}, "g", set()),
        ({}, "g", {"topics", "topics.regex"}),
        ({"topics": "a", "topics.regex": "b"}, "g", {"topics", "topics.regex"}),
        ({"topics": "a,dlq", "errors.deadletterqueue.topic.name": "dlq"}, "g", {"topics"}),
        ({"topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"}, "g", {"topics.regex"}),
        ({"topics": "a"}, "connect-n", {"name"}),
        ({"topics": "a", "consumer.override.group.id": "g"}, "g", {"consumer.override.group.id"}),
        ({"topics": "a", "consumer.override.group.id": "mine"}, "connect-n", set()),
    ],
)
def test_sink_settings_that_contradict_each_other(
    config: dict[str, str], worker_group: str, problems: set[str]
) -> None:
    assert set(sink_problems({"name": "n", **config}, worker_group)) == problems
