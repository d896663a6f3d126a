"""Transformations run where the tasks do: on executors, found there by Java's names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.ports.task_runner import BatchDurable
from spark_connect_rt.spark.driver.session import build_session
from tests.contract.task_runner_contract import Worker
from tests.integration.spark.test_spark_task_runner import new_worker

JAVA = "org.apache.kafka.connect.transforms"
CHAIN = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "hoist,stamp,drop,route",
    "transforms.hoist.type": f"{JAVA}.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.stamp.type": f"{JAVA}.InsertField$Value",
    "transforms.stamp.static.field": "by",
    "transforms.stamp.static.value": "spark",
    "transforms.drop.type": f"{JAVA}.Filter",
    "transforms.drop.predicate": "tombstone",
    "transforms.route.type": f"{JAVA}.RegexRouter",
    "transforms.route.regex": "numb(.*)",
    "transforms.route.replacement": "m$1",
    "predicates": "tombstone",
    "predicates.tombstone.type": f"{JAVA}.predicates.RecordIsTombstone",
}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    session: SparkSession = build_session({"spark.master": "local[*]"})
    worker = new_worker(session, tmp_path)
    yield worker
    worker.runner.close(5_000)
    session.stop()


def test_a_source_on_spark_writes_what_its_transformations_make(worker: Worker) -> None:
    launch = worker.launch("a", "CountingSource", count="12")
    launch = replace(launch, connector_config={**launch.connector_config, **CHAIN})
    worker.runner.start(launch)
    worker.until(lambda: len(worker.topics.values("mers")) >= 12)
    worker.until(lambda: sum(one.records for one in worker.of(launch, BatchDurable)) == 12)
    wanted = [{"line": f"a-{number}", "by": "spark"} for number in range(12)]
    assert [json.loads(value) for value in worker.topics.values("mers")] == wanted
    assert worker.topics.values("numbers") == []
    assert worker.of(launch, BatchDurable)[-1].source_offsets == (({"name": "a"}, {"next": 12}),)
    assert worker.end(launch).drained
