"""Which fields of a record the bundled sources set: none leaves out a time that Java's, or users, expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.connectors import record_times
from spark_connect_rt.connectors.files.delimited_file_source import DelimitedFileSourceConnector
from spark_connect_rt.connectors.files.directory_source import DirectorySourceConnector
from spark_connect_rt.connectors.files.file_stream_source import FileStreamSourceConnector
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.plugins.registry import SOURCE, load_class
from spark_connect_rt.testing.connector_harness import SourceHarness

NOW_MS = 1_795_705_433_623
THEIR_OWN = "the time of the record that is copied"
AS_IN_JAVA = "no time, as Java's connector of this name"
POLLED = "the time of the poll"
BY_INTAKE = "the time of the poll, before it is said which record ends a transaction"
TIMES = {
    "FileStreamSourceConnector": POLLED,
    "DelimitedFileSourceConnector": POLLED,
    "DirectorySourceConnector": POLLED,
    "HttpSourceConnector": POLLED,
    "SqlSourceConnector": POLLED,
    "SingerSourceConnector": BY_INTAKE,
    "AirbyteSourceConnector": BY_INTAKE,
    "DltSourceConnector": POLLED,
    "LakeflowSourceConnector": POLLED,
    "DatagenSourceConnector": POLLED,
    "KafkaSourceConnector": THEIR_OWN,
    "MirrorSourceConnector": THEIR_OWN,
    "MirrorHeartbeatConnector": THEIR_OWN,
    "MirrorCheckpointConnector": THEIR_OWN,
    "VerifiableSourceConnector": AS_IN_JAVA,
    "MockSourceConnector": AS_IN_JAVA,
    "SchemaSourceConnector": AS_IN_JAVA,
    "SparkFormatSourceConnector": "Spark reads on the driver: no task polls",
}


def bundled_sources() -> list[type[Any]]:
    found = {load_class(plugin.target) for plugin in bundled_plugins().everything() if plugin.type == SOURCE}
    return sorted(found, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("connector", bundled_sources(), ids=lambda cls: cls.__name__)
def test_every_bundled_source_says_where_the_time_of_its_records_is_from(connector: type[SourceConnector]) -> None:
    polled = TIMES[connector.__name__] == POLLED
    task = connector().task_class()
    assert hasattr(getattr(task, "poll", None), "__wrapped__") == polled


FILES = {
    FileStreamSourceConnector: {"file": "{}/in.csv"},
    DelimitedFileSourceConnector: {"file": "{}/in.csv"},
    DirectorySourceConnector: {"directory": "{}", "file.settle.ms": "0"},
}


@pytest.mark.parametrize("connector", list(FILES), ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("columns", [True, False])
def test_transformations_find_the_time_of_a_record(
    connector: type[SourceConnector], columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_times, "wall_ms", lambda: NOW_MS)
    (tmp_path / "in.csv").write_text("n\n1\n")
    config = {name: text.format(tmp_path) for name, text in FILES[connector].items()}
    config |= {
        "topic": "t",
        "transforms": "hoist,stamp,route",
        "transforms.hoist.type": "HoistField$Value",
        "transforms.hoist.field": "row",
        "transforms.stamp.type": "InsertField$Value",
        "transforms.stamp.timestamp.field": "ts",
        "transforms.route.type": "TimestampRouter",
        "transforms.route.topic.format": "${topic}-${timestamp}",
        "transforms.route.timestamp.format": "yyyy",
    }
    if not columns:
        config |= {"transforms.stamp.predicate": "always", "predicates": "always"}
        config |= {"predicates.always.type": "TopicNameMatches", "predicates.always.pattern": "t"}
    with SourceHarness(connector, config) as source:
        (record, *_) = source.poll()
    assert (record.topic, record.timestamp_ms, record.json()["ts"]) == ("t-2026", NOW_MS, NOW_MS)
