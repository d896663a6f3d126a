"""A setting that nothing reads is named, with the one that was probably meant."""

from __future__ import annotations

import pytest

from spark_connect_rt.config.unread_settings import unread_settings

DECLARED = {
    "connector.class",
    "tasks.max",
    "errors.tolerance",
    "transforms",
    "transforms.t.type",
    "transforms.t.spec",
    "value.converter",
    "value.converter.schemas.enable",
    "consumer.override.max.poll.records",
    "file",
    "url",
}
BASE = {"name": "c", "connector.class": "X", "transforms": "t", "value.converter": "J"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("task.max", "tasks.max"),
        ("errors.tolerence", "errors.tolerance"),
        ("value.converter.schemas.enabled", "value.converter.schemas.enable"),
        ("transforms.t.spek", "transforms.t.spec"),
        ("consumer.override.max.poll.record", "consumer.override.max.poll.records"),
    ],
)
@pytest.mark.parametrize("declares_all", [True, False])
def test_a_misspelled_setting_is_named_with_the_one_that_was_meant(name: str, nearest: str, declares_all: bool) -> None:
    (found,) = unread_settings({**BASE, name: "1"}, DECLARED, declares_all=declares_all)
    assert (found.name, found.nearest) == (name, nearest)
    assert found.sentence().endswith(f"Did you mean {nearest}?")


def test_a_setting_of_another_connector_is_reported_where_all_settings_are_declared() -> None:
    config = {**BASE, "connection.url": "jdbc:x", "uri": "y"}
    assert [setting.name for setting in unread_settings(config, DECLARED, declares_all=True)] == [
        "connection.url",
        "uri",
    ]
    assert [setting.name for setting in unread_settings(config, DECLARED, declares_all=False)] == ["uri"]


def test_settings_of_an_alias_that_is_not_listed_are_reported() -> None:
    (found,) = unread_settings({**BASE, "transforms.other.type": "Y"}, DECLARED, declares_all=False)
    assert "transforms does not list other" in found.sentence()


def test_settings_of_a_converter_that_is_not_set_are_reported() -> None:
    config = {key: value for key, value in BASE.items() if key != "value.converter"}
    (found,) = unread_settings(
        {**config, "value.converter.schemas.enable": "false"},
        DECLARED - {"value.converter.schemas.enable"},
        declares_all=False,
    )
    assert "only together with value.converter" in found.sentence()


def test_names_that_users_choose_and_client_settings_are_left_alone() -> None:
    config = {
        **BASE,
        "topic.creation.default.partitions": "1",
        "spark.x": "y",
        "producer.override.own.interceptor": "z",
    }
    assert unread_settings(config, DECLARED, declares_all=True) == []


def test_queue_of_a_source_options_and_settings_of_both_clusters_are_read() -> None:
    read = {
        "dlt.config.sources.crm.token": "t",
        "lakeflow.option.token": "t",
        "errors.deadletterqueue.topic.name": "dead",
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.security.protocol": "SSL",
        "source.consumer.max.poll.records": "10",
        "target.producer.linger.ms": "5",
    }
    assert unread_settings({**BASE, **read}, DECLARED, declares_all=True) == []
    (found,) = unread_settings({**BASE, "errors.deadletterqueue.topic.nam": "dead"}, DECLARED, declares_all=True)
    assert found.nearest == "errors.deadletterqueue.topic.name"
