"""Spark format source: its settings, its source partition, offsets that somebody writes."""

from __future__ import annotations

import pytest

from spark_connect_rt.api.connector import ExactlyOnceSupport
from spark_connect_rt.config.spark_connectors import SparkSourceConfig
from spark_connect_rt.connectors.spark.spark_format_source import SparkFormatSourceConnector
from spark_connect_rt.errors import BadConfigError, ConnectError

GOOD = {
    "topic": "t",
    "spark.format": "jdbc",
    "spark.option.url": "jdbc:x://h?password=p",
    "spark.option.dbtable": "a.b",
}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"spark.option.url": None, "spark.option.dbtable": None}, "path"),
        ({"path": "/p", "table": "t"}, "table"),
        ({"spark.mode": "incremental"}, "spark.incremental.column"),
        ({"spark.mode": "Stream", "spark.format": "parquet"}, "spark.checkpoint"),
        ({"spark.mode": "sometimes"}, "spark.mode"),
        ({"spark.parallelism": "0"}, "spark.parallelism"),
        ({"topic": None}, "topic"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str | None], name: str) -> None:
    config = {key: value for key, value in {**GOOD, **settings}.items() if value is not None}
    connector = SparkFormatSourceConnector()
    own = {value.name for value in connector.config_def().validate(config) if value.errors}
    assert own | set(connector.validate(config)) == {name}
    with pytest.raises(BadConfigError) as caught:
        SparkSourceConfig.of(config)
    assert list(caught.value.problems) == [name]


def test_the_source_partition_names_what_is_read_and_never_the_url() -> None:
    assert SparkSourceConfig.of(GOOD).partition() == {"format": "jdbc", "table": "a.b"}
    files = {"topic": "t", "spark.format": "orc", "path": "/p"}
    assert SparkSourceConfig.of(files).partition() == {"format": "orc", "path": "/p"}
    assert "password" not in repr(SparkSourceConfig.of(GOOD))


def test_one_task_reads_everything() -> None:
    connector = SparkFormatSourceConnector()
    connector.start(GOOD)
    assert connector.task_configs(7) == [GOOD]
    assert connector.exactly_once_support(GOOD) is ExactlyOnceSupport.UNSUPPORTED


def test_altered_offsets_must_fit_the_mode() -> None:
    connector, place = SparkFormatSourceConnector(), {"format": "jdbc", "table": "a.b"}
    good = {
        "once": {"rows": 1},
        "bulk": {"rows": 1, "pass": 2},
        "incremental": {"column": "id", "type": "int", "value": 0},
        "stream": {"batch": 3, "offset": {"offset": 5}},
    }
    for mode, offset in good.items():
        config = {**GOOD, "spark.mode": mode}
        assert connector.alter_offsets(config, [(place, offset), (place, None)])
        with pytest.raises(ConnectError, match=f"an offset of spark.mode={mode} must have"):
            connector.alter_offsets(config, [(place, {"position": 1})])
    with pytest.raises(ConnectError, match="'batch' must be a whole number"):
        connector.alter_offsets({**GOOD, "spark.mode": "stream"}, [(place, {"batch": "3", "offset": 5})])
    with pytest.raises(ConnectError, match="a source partition must have a 'format'"):
        connector.alter_offsets(GOOD, [({"file": "x"}, {"rows": 1})])
