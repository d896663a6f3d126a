"""Well-known connectors that are not installed point to the bundled connector that does their work."""

from __future__ import annotations

import pytest

from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.plugins.counterparts import _COUNTERPARTS, counterpart_of


@pytest.mark.parametrize(
    ("class_name", "bundled"),
    [
        ("com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector", "DirectorySource"),
        ("io.confluent.connect.s3.S3SinkConnector", "ObjectStoreSink"),
        ("io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector", "SparkTableSink"),
        ("io.confluent.connect.hdfs3.Hdfs3SinkConnector", "SparkTableSink"),
        ("io.confluent.connect.http.HttpSinkConnector", "HttpSink"),
        ("io.aiven.kafka.connect.http.HttpSinkConnector", "HttpSink"),
        ("io.confluent.connect.http.HttpSourceConnector", "HttpSource"),
        ("org.apache.iceberg.connect.IcebergSinkConnector", "IcebergSink"),
        ("com.example.OrdersConnector", None),
    ],
)
def test_a_connector_that_is_not_installed_has_its_counterpart(class_name: str, bundled: str | None) -> None:
    found = counterpart_of(class_name)
    assert (found.connector if found else None) == bundled


def test_settings_that_are_set_are_named_as_they_are_called_here() -> None:
    found = counterpart_of("com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector")
    assert found is not None
    assert "(input.path -> directory)" in found.sentence({"input.path": "/in", "tasks.max": "1"})


def test_counterparts_and_their_settings_exist() -> None:
    for _, found in _COUNTERPARTS:
        declared = set(bundled_plugins().class_of(found.connector)().config_def().names())
        ours = {part.partition("=")[0] for text in found.settings.values() for part in text.split(" and ")}
        assert ours <= declared, found.connector
