from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from spark_connect_rt.config.client_properties import source_producer_properties
from spark_connect_rt.engine.executor_clients import FACTORY, KafkaExecutorClients, executor_clients
from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS, RECORD_REPORTS
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.kafka.writing.column_producer import ColumnProducer
from spark_connect_rt.testing.worker_settings import worker_settings


def test_the_factory_name_in_launches_is_importable() -> None:
    module, _, name = FACTORY.partition(":")
    assert getattr(importlib.import_module(module), name) is executor_clients


def test_references_are_replaced_by_the_worker_s_own_providers(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=s3cret\n")
    worker = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    config = {"a": f"${{file:{secrets}:password}}", "b": "${other:x:y}"}
    assert executor_clients().resolve(config, worker) == {"a": "s3cret", "b": "${other:x:y}"}


def test_without_providers_nothing_is_touched() -> None:
    assert executor_clients().resolve({"a": "${file:/x:y}"}, {}) == {"a": "${file:/x:y}"}


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({}, ColumnProducer),
        (OFFSET_REPORTS, ColumnProducer),
        (RECORD_REPORTS, ColumnProducer),
        ({**OFFSET_REPORTS, "enable.idempotence": "true"}, KafkaBatchProducer),
    ],
)
def test_columns_are_sent_unless_something_is_not_honoured(more: dict[str, str], kind: type[object]) -> None:
    producer = executor_clients().producer(
        {**source_producer_properties(worker_settings({"bootstrap.servers": "127.0.0.1:1"}), {}, "c", 0), **more}
    )
    assert type(producer) is kind
    producer.close()


def test_a_plugin_is_where_spark_put_the_copy_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "connectrt-plugins-0").mkdir()
    clients = KafkaExecutorClients(("/plugins", "/same"), tmp_path)
    assert clients.plugin_location("/plugins/debezium/a.jar") == f"{tmp_path}/connectrt-plugins-0/debezium/a.jar"
    assert clients.plugin_location("/same/jdbc") == "/same/jdbc"
    assert clients.plugin_location("/elsewhere/x") == "/elsewhere/x"
