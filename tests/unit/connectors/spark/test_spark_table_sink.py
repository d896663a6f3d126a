"""The Spark table sink's settings."""

from __future__ import annotations

import pytest

from spark_connect_rt.api.connector import SparkSinkTask
from spark_connect_rt.app.quickstart.quickstart_view import sink_config
from spark_connect_rt.connectors.spark.spark_table_sink import SparkTableSinkConnector


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ({"path": "/t"}, set()),
        ({"table": "db.t"}, set()),
        ({"spark.format": "jdbc", "spark.option.url": "jdbc:x"}, set()),
        ({}, {"path"}),
        ({"path": "/t", "table.schema": "a INT, b MAP<STRING, INT>, c DECIMAL(10, 2)"}, set()),
        ({"path": "/t", "table.schema": "a, b INT"}, {"table.schema"}),
        ({"path": "/t", "flush.size": "0", "mode": "overwrite"}, {"flush.size", "mode"}),
    ],
)
def test_problems(config: dict[str, str], problems: set[str]) -> None:
    connector = SparkTableSinkConnector()
    own = {value.name for value in connector.config_def().validate(config) if value.errors}
    assert own | set(connector.validate(config)) == problems


def test_tasks_are_sparks() -> None:
    connector = SparkTableSinkConnector()
    connector.start({"path": "/t"})
    assert connector.task_class() is SparkSinkTask
    assert connector.task_configs(2) == [{"path": "/t"}] * 2


def test_the_quickstarts_configuration_is_good(tmp_path: object) -> None:
    from pathlib import Path

    config = sink_config(Path("/t"), "parquet")
    connector = SparkTableSinkConnector()
    assert not connector.validate(config)
    assert not [value for value in connector.config_def().validate(config) if value.errors]
