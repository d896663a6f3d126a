"""A configuration of Confluent's S3 sink gets a verdict from the settings of `ObjectStoreSink` themselves."""

from __future__ import annotations

import pytest

from spark_connect_rt.connectors.lakehouse.official_sink import SettingFate
from spark_connect_rt.connectors.object_store.confluent_sink import taken_settings
from spark_connect_rt.connectors.object_store.settings import CONFIG, read_settings

CONFLUENT = {
    "name": "s3",
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "2",
    "topics": "orders",
    "s3.bucket.name": "lake",
    "s3.region": "eu-central-1",
    "s3.part.size": "5242880",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
    "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd",
    "partition.duration.ms": "86400000",
    "locale": "en-US",
    "timezone": "UTC",
    "flush.size": "1000",
    "schema.compatibility": "NONE",
    "s3.new.in.java": "1",
}


def fates(config: dict[str, str]) -> dict[str, str]:
    return {setting.name: setting.fate.value for setting in taken_settings(config)}


def test_each_setting_is_honoured_ignored_or_differs() -> None:
    honoured = ("s3.bucket.name", "s3.region", "format.class", "partitioner.class", "path.format", "flush.size")
    also = ("partition.duration.ms", "locale", "timezone")
    assert fates(CONFLUENT) == {
        **dict.fromkeys(honoured + also, "honoured"),
        **dict.fromkeys(("s3.part.size", "storage.class", "schema.compatibility", "s3.new.in.java"), "ignored"),
        "timestamp.extractor": "differs",
        "rotate.schedule.interval.ms": "differs",
    }
    assert read_settings({name: text for name, text in CONFLUENT.items() if name in CONFIG}).root == "s3://lake"


@pytest.mark.parametrize(
    ("changed", "setting", "reason"),
    [
        ({"format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat"}, "format.class", "Use parquet"),
        ({"partitioner.class": "com.example.Mine"}, "partitioner.class", "Use default, field"),
        ({"schema.compatibility": "BACKWARD"}, "schema.compatibility", "Set NONE"),
        ({"behavior.on.null.values": "write"}, "behavior.on.null.values", "fail"),
        ({"s3.object.tagging": "true"}, "s3.object.tagging", "no tags"),
        ({"path.format": "'week'=ww"}, "path.format", "ww is not supported"),
        ({"s3.bucket.name": ""}, "path", "must be set"),
    ],
)
def test_refused_settings_have_a_reason(changed: dict[str, str], setting: str, reason: str) -> None:
    found = {given.name: given for given in taken_settings({**CONFLUENT, **changed})}[setting]
    assert found.fate is SettingFate.REFUSED
    assert reason in found.reason


def test_value_of_a_config_provider_is_not_judged() -> None:
    assert fates({**CONFLUENT, "format.class": "${file:/s:format}"})["format.class"] == "honoured"
