"""A configuration of Apache Iceberg's official sink gets a verdict from the settings of `IcebergSink` themselves."""

from __future__ import annotations

import pytest

from spark_connect_rt.connectors.lakehouse.iceberg_sink import CONFIG
from spark_connect_rt.connectors.lakehouse.official_sink import SettingFate, data_group, differences, taken_settings

OFFICIAL = {
    "name": "lake",
    "topics": "orders",
    "iceberg.tables": "shop.orders",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.tables.upsert-mode-enabled": "true",
    "iceberg.table.shop.orders.partition-by": "day(ts)",
    "iceberg.control.topic": "control-lake",
    "iceberg.control.commit.timeout-ms": "30000",
    "iceberg.kafka.security.protocol": "SSL",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://catalog",
    "iceberg.catalog.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    "iceberg.new-in-java": "1",
}


def fates(config: dict[str, str]) -> dict[str, str]:
    return {setting.name: setting.fate.value for setting in taken_settings(config)}


def test_each_setting_is_honoured_ignored_or_refused() -> None:
    assert fates(OFFICIAL) == {
        "iceberg.tables": "honoured",
        "iceberg.tables.auto-create-enabled": "honoured",
        "iceberg.tables.upsert-mode-enabled": "differs",
        "iceberg.table.shop.orders.partition-by": "honoured",
        "iceberg.control.topic": "ignored",
        "iceberg.control.commit.timeout-ms": "ignored",
        "iceberg.kafka.security.protocol": "ignored",
        "iceberg.catalog.type": "honoured",
        "iceberg.catalog.uri": "honoured",
        "iceberg.catalog.io-impl": "ignored",
        "iceberg.new-in-java": "ignored",
    }


def test_every_declared_setting_is_honoured_or_said_to_have_no_effect() -> None:
    for key in CONFIG:
        if key.name.startswith("iceberg.") and key.name not in OFFICIAL:
            value = {"BOOLEAN": "false", "INT": "1"}.get(key.type.name, "x")
            found = {setting.name: setting for setting in taken_settings({**OFFICIAL, key.name: value})}[key.name]
            says_so = key.doc.startswith("No effect")
            assert (found.fate is SettingFate.IGNORED) == says_so, found


@pytest.mark.parametrize(
    ("changed", "setting", "reason"),
    [
        ({"iceberg.catalog.type": "hadoop"}, "iceberg.catalog.type", "comes too late"),
        ({"iceberg.hadoop.fs.s3a.endpoint": "x"}, "iceberg.hadoop.fs.s3a.endpoint", "is not used"),
        ({"iceberg.tables.write-props.write.format.default": "orc"},
         "iceberg.tables.write-props.write.format.default", "is not supported"),
        ({"iceberg.control.commit.interval-ms": "soon"}, "iceberg.control.commit.interval-ms", "soon"),
        ({"iceberg.catalog.uri": ""}, "iceberg.catalog.uri", "must be set"),
    ],
)  # fmt: skip
def test_refused_settings_have_a_reason(changed: dict[str, str], setting: str, reason: str) -> None:
    found = {given.name: given for given in taken_settings({**OFFICIAL, **changed})}[setting]
    assert found.fate is SettingFate.REFUSED
    assert reason in found.reason


def test_missing_setting_is_named_last() -> None:
    without = {name: value for name, value in OFFICIAL.items() if name != "iceberg.catalog.uri"}
    last = taken_settings(without)[-1]
    assert (last.name, last.fate) == ("iceberg.catalog.uri", SettingFate.REFUSED)


def test_value_of_a_config_provider_is_not_judged() -> None:
    assert fates({**OFFICIAL, "iceberg.catalog.type": "${file:/s:type}"})["iceberg.catalog.type"] == "honoured"


def test_groups_and_topic_of_the_offsets_are_named() -> None:
    text = " ".join(differences(OFFICIAL).values())
    assert "group connect-lake," in text
    assert "group connect-lake-coord" in text
    assert "topic control-lake" in text
    other = {**OFFICIAL, "iceberg.connect.group-id": "own"}
    assert data_group(other) == "own"
    assert "consumer.override.group.id=own" in differences(other)["offsets"]
