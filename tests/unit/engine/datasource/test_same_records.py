"""One connector in a worker (as its harness runs it), by format as a batch and as a stream: the same records."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from pyspark_connectrt import DefaultSource
from spark_connect_rt.engine.datasource.read_options import COLUMNS
from spark_connect_rt.engine.datasource.row_writer import SinkPlan, SinkWrite, write_plan
from spark_connect_rt.engine.datasource.stream_limits import OlderStreamReader, ReadAllAvailable
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.testing.connector_harness import SourceHarness
from spark_connect_rt.testing.sink_harness import SinkHarness

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "true"}
SETTLED = {"file.settle.ms": "0", "poll.interval.ms": "1", **JSON}
STRING = "org.apache.kafka.connect.storage.StringConverter"
INSERT = {
    "transforms": "Mark",
    "transforms.Mark.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.Mark.static.field": "mark",
    "transforms.Mark.static.value": "m",
}
CLIENTS = "tests.unit.engine.datasource.test_write:clients"
PAIR = pa.struct([("n", pa.int64()), ("t", pa.string())])


def _parquet(folder: Path) -> dict[str, str]:
    table = pa.table(
        {
            "id": [1, 2],
            "pair": pa.array([{"n": 1, "t": "x"}, None], PAIR),
            "pairs": pa.array([[{"n": 2, "t": None}], None], pa.list_(PAIR)),
            "named": pa.array([[("k", {"n": 3, "t": "y"})], None], pa.map_(pa.string(), PAIR)),
        }
    )
    pq.write_table(table, folder / "rows.parquet")
    return {
        "connector.class": "DirectorySource",
        "directory": str(folder),
        "topic": "t",
        "format": "parquet",
        **SETTLED,
    }


def _csv(folder: Path) -> dict[str, str]:
    (folder / "rows.csv").write_text("id,name\n1,a\n2,\n")
    return {"connector.class": "DirectorySource", "directory": str(folder), "topic": "t", "format": "csv", **SETTLED}


def _lines(folder: Path) -> dict[str, str]:
    (folder / "lines.txt").write_text("one\ntwo\n")
    return {
        "connector.class": "FileStreamSource",
        "file": str(folder / "lines.txt"),
        "topic": "t",
        "value.converter": STRING,
    }


def _rows(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(folder / "x.db")) as database:
        database.executescript("create table r(id integer primary key, w text); insert into r values (1,'a'),(2,null);")
    return {
        "connector.class": "SqlSource",
        "connection.url": f"jdbc:sqlite:{folder / 'x.db'}",
        "table.include.list": "r",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        **JSON,
    }


def _all_columns() -> StructType:
    schema = StructType()
    for name in COLUMNS:
        schema = schema.add(name, "string")
    return schema


@pytest.mark.parametrize("marked", [False, True], ids=["as they are", "transformed"])
@pytest.mark.parametrize("make", [_parquet, _csv, _lines, _rows])
def test_a_source_gives_the_same_records_in_every_way(tmp_path: Path, make: Any, marked: bool) -> None:
    config = make(tmp_path) | (INSERT if marked and make is not _lines else {})
    found = bundled_plugins().class_of(config["connector.class"])
    with SourceHarness(found, config, {"key.converter": STRING}) as harness:
        worker = [(record.topic, record.value) for record in harness.poll_all()]
    reader = DefaultSource(config | {"until": "latest"}).reader(_all_columns())
    batch = [row for part in reader.partitions() for row in _values(reader.read(part))]
    stream: Any = DefaultSource(config).streamReader(_all_columns())
    stream = stream.reader if isinstance(stream, OlderStreamReader) else stream
    end = stream.latestOffset({}, ReadAllAvailable())
    executor = pickle.loads(pickle.dumps(stream))
    streamed = [row for part in stream.partitions({}, end) for row in _values(executor.read(part))]
    stream.stop()
    assert len(worker) == 2
    assert batch == worker
    assert streamed == worker


def _values(batches: Any) -> list[tuple[str, bytes]]:
    return [
        pair
        for batch in batches
        for pair in zip(batch.column("topic").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


def test_a_file_holds_the_same_whether_a_worker_or_a_write_made_it(tmp_path: Path) -> None:
    schema = StructType().add("id", LongType()).add("name", StringType())
    rows = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", None]})
    options = {"connector.class": "FileStreamSink", "topic": "t", "file": str(tmp_path / "written")}
    plan = write_plan(options, schema, CLIENTS)
    assert isinstance(plan, SinkPlan)
    SinkWrite(plan, 0, 0).write([rows])
    found = bundled_plugins().class_of("FileStreamSink")
    texts = [
        b'{"schema":{"type":"struct","fields":[{"field":"id","type":"int64","optional":true},{"field":"name",'
        b'"type":"string","optional":true}]},"payload":%b}' % payload
        for payload in (b'{"id":1,"name":"a"}', b'{"id":2,"name":null}')
    ]
    config = {"topics": "t", "file": str(tmp_path / "sunk"), **JSON}
    with SinkHarness(found, config) as harness:
        for text in texts:
            harness.send("t", text)
        harness.deliver()
        harness.commit()
    assert (
        (tmp_path / "written").read_text() == (tmp_path / "sunk").read_text() == "Struct{id=1,name=a}\nStruct{id=2}\n"
    )
