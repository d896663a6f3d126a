"""format("connectrt") as a user of a notebook has it: found without a call, read as a table, wrong options named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from chispa import assert_df_equality
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.spark_version import PUSHED_FILTERS, has
from tests.contract.compacted_log_contract import fresh_name
from tests.integration.kafka.stored_group import Group
from tests.support.code_blocks import blocks_of
from tests.support.postgres_server import PostgresServer, jdbc_url
from tests.support.schema_registry import SchemaRegistry
from tests.support.worker_process import worker_properties

STRING = "org.apache.kafka.connect.storage.StringConverter"
FILE = {"connector.class": "FileStreamSource", "topic": "t", "value.converter": STRING}
SPARK = {
    "spark.master": "local[2]",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",  # the same session's JVM is a Connect server
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


PAGE = Path(__file__).parents[3] / "docs/howto/format.md"
KINDS = {"config": "configs", "offset": "offsets", "status": "statuses"}


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\nthree\n")
    return file


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(fsync="off") as server:
        yield server


def read(spark: SparkSession, file: Path, **options: str) -> DataFrame:
    return spark.read.format("connectrt").options(**FILE, file=str(file)).options(**options).load()


def test_records_of_a_source_connector_are_rows(spark: SparkSession, lines: Path) -> None:
    found = read(spark, lines, until="latest").selectExpr("topic", "string(value)", "source_partition", "source_offset")
    partition, offset = json.dumps({"filename": str(lines)}, separators=(",", ":")), '{"position":14}'
    wanted = [("t", text, partition, offset) for text in ("one", "two", "three")]
    assert_df_equality(found, spark.createDataFrame(wanted, found.schema), ignore_nullable=True)


def test_transforms_with_capitals_and_starting_offsets_apply(spark: SparkSession, lines: Path) -> None:
    starting = {"offsets": [{"partition": {"filename": str(lines)}, "offset": {"position": 4}}]}
    options = {
        "transforms": "HoistIt",
        "transforms.HoistIt.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.HoistIt.field": "Line",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "startingOffsets": json.dumps(starting),
        "maxRecords": "1",
    }
    found = read(spark, lines, **options).selectExpr("string(value)")
    assert [row.value for row in found.collect()] == ['{"Line":"two"}']


def test_only_the_columns_asked_for_cross(spark: SparkSession, lines: Path) -> None:
    found = read(spark, lines, until="latest", columns="value,topic").where("topic = 't'")
    assert found.columns == ["value", "topic"]
    assert [(bytes(row.value), row.topic) for row in found.collect()] == [(b"one", "t"), (b"two", "t"), (b"three", "t")]


def test_every_wrong_option_is_named(spark: SparkSession, lines: Path) -> None:
    with pytest.raises(AnalysisException, match=r"until: 'noon' is not valid. Use idle or latest; maxRecords: 'x'"):
        read(spark, lines, until="noon", maxRecords="x").count()
    with pytest.raises(AnalysisException, match="columns: there is no column 'offset', only topic, partition, key"):
        read(spark, lines, columns="value,offset")
    with pytest.raises(AnalysisException, match="Nope"):
        read(spark, lines, **{"connector.class": "Nope"}).count()


def test_filters_are_applied_where_the_rows_are_read(spark: SparkSession, lines: Path) -> None:
    filters = "topic = 't' and timestamp is not null and length(value) > 3"

    def found() -> tuple[list[Row], bool]:
        frame = read(spark, lines, until="latest").where(filters)
        plan = frame._jdf.queryExecution().executedPlan().toString()
        return frame.select("value").collect(), "topic" in plan.partition("Filter")[2].split("\n")[0]

    assert found() == ([Row(value=b"three")], True)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert found() == ([Row(value=b"three")], not has(PUSHED_FILTERS))
    assert read(spark, lines, until="latest").where("topic = 'u'").count() == 0
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_groups_offsets_are_a_table(spark: SparkSession, broker: EmbeddedKafka, tmp_path: Path) -> None:
    group = Group(broker.bootstrap_servers, tmp_path)
    group.fill()
    settings = worker_properties(group.servers, group.group, 8083)
    offsets = spark.read.format("connectrt").options(**settings).load("offsets")
    counted = offsets.groupBy("connector", "configured").count().orderBy("connector")
    assert [tuple(row) for row in counted.collect()] == [("files", True, 5), ("gone", False, 5)]
    with pytest.raises(AnalysisException, match="there is no table 'tables', only connectors, tasks"):
        spark.read.format("connectrt").options(**settings).load("tables")
    assert "errors" in spark.read.format("connectrt").options(**settings).load("dlq:files").columns


def test_values_are_decoded_into_typed_columns(spark: SparkSession, lines: Path) -> None:
    lines.write_text('{"id":1,"tags":["a"],"at":"2024-02-29T12:00:00Z"}\n{"id":2}\n')
    found = read(spark, lines, decode="json").select("value.*")
    assert_df_equality(
        found,
        spark.createDataFrame(
            [(1, ["a"], "2024-02-29T12:00:00Z"), (2, None, None)], "id bigint, tags array<string>, at string"
        ),
        ignore_nullable=True,
        ignore_column_order=True,
    )
    said = read(spark, lines, decode="json", valueType="struct<at: timestamp, id: int>")
    assert said.where("value.at = timestamp'2024-02-29 12:00:00Z'").select("value.id").collect() == [Row(id=1)]
    own = read(spark, lines, decode="schema").selectExpr("length(value)")
    assert [row[0] for row in own.collect()] == [49, 8]
    with pytest.raises(AnalysisException, match="decode: 'xml' is neither one of json, schema, avro"):
        read(spark, lines, decode="xml")
    with pytest.raises(AnalysisException, match="the columns are topic, partition"):
        spark.read.format("connectrt").schema("id int").options(**FILE, file=str(lines)).load().count()


def test_sql_sink_writes_a_batch_each_batch_of_a_stream_and_a_stream(
    spark: SparkSession, lines: Path, postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database()
    options = {"connector.class": "SqlSink", "connection.url": jdbc_url(url), "auto.create": "true"}

    def write(frame: DataFrame, topic: str) -> None:
        frame.write.format("connectrt").mode("append").options(**options, topic=topic).save()

    write(spark.range(6).selectExpr("id", "cast(id as decimal(9, 2)) price"), "batch")
    stream = spark.readStream.format("connectrt").options(**FILE, file=str(lines)).load().selectExpr("string(value) v")
    for topic, writer in (
        ("each", stream.selectExpr("v as line").writeStream.foreachBatch(lambda frame, _: write(frame, "each"))),
        (
            "stream",
            stream.selectExpr("v as line").writeStream.format("connectrt").options(**options, topic="stream"),
        ),
    ):
        query = writer.option("checkpointLocation", str(tmp_path / topic)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        batch = connection.execute(sa.text("select id, price from batch order by id")).all()
        assert [(row.id, str(row.price)) for row in batch] == [(n, f"{n}.00") for n in range(6)]
        for topic in ("each", "stream"):
            found = connection.execute(sa.text(f"select line from {topic} order by line")).scalars().all()
            assert found == ["one", "three", "two"]


def test_a_topic_that_does_not_exist_is_refused(spark: SparkSession, broker: EmbeddedKafka) -> None:
    options = {
        "connector.class": "KafkaSource",
        "source.bootstrap.servers": broker.bootstrap_servers,
        "topics": "no-such",
    }
    with pytest.raises(AnalysisException, match='topics: topic "no-such" does not exist'):
        spark.read.format("connectrt").options(**options).load().count()


def test_a_spark_connect_client_reads_streams_and_writes(spark: SparkSession, tmp_path: Path) -> None:
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")  # a Scala object
    port = getattr(service, "MODULE$").localPort()
    words = [sys.executable, "-m", "tests.integration.spark.connect_client", f"sc://127.0.0.1:{port}", str(tmp_path)]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    client = subprocess.run(words, env=alone, capture_output=True, text=True, timeout=400, check=False)
    assert client.returncode == 0, client.stderr[-3000:]
    told = json.loads(client.stdout.splitlines()[-1])
    assert told["read"] == [["t", "one"], ["t", "two"]]
    assert told["streamed"] == ["one", "two"]
    assert (tmp_path / "written.txt").read_text() == "a\nb\n"
    assert "until: 'noon' is not valid. Use idle or latest" in told["wrong option"]


def test_the_examples_of_the_page_run(
    spark: SparkSession,
    broker: EmbeddedKafka,
    postgres: PostgresServer,
    lines: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every Python block of docs/howto/format.md, with the addresses and folders of this machine."""
    group, database, topic = Group(broker.bootstrap_servers, tmp_path), postgres.create_database(), fresh_name("orders")
    group.fill()
    properties = worker_properties(group.servers, group.group, 8083)
    here = {
        "/data/": f"{tmp_path}/",
        "jdbc:postgresql://db/shop": jdbc_url(database),
        "broker:9092": broker.bootstrap_servers,
        '"group.id": "connect"': f'"group.id": "{group.group}"',
        **{f'"connect-{kind}"': f'"{properties[f"{word}.storage.topic"]}"' for word, kind in KINDS.items()},
    }
    texts = [block.text for block in blocks_of(PAGE) if block.language == "python"]
    read_lines, read_table, read_columns, stream, write, tables, bytecode = texts
    write_table, write_stream = write.split("\n\n")
    typed = spark.createDataFrame([(1, "a", 1.5), (2, "b", 150.0)], "id long, word string, price double")
    names: dict[str, Any] = {"spark": spark, "SparkSession": SparkSession}

    def run(text: str, **more: object) -> None:
        for there, address in here.items():
            text = text.replace(there, address)
        names.update(more)
        exec(compile(text, str(PAGE), "exec"), names)

    with SchemaRegistry() as registry:
        here["http://registry:8081"] = registry.url
        run(read_lines)
        assert names["lines"].count() == 3
        run(write_table, orders=typed)
        run(read_table)
        found = names["orders"].select("value.*").where("price > 100").collect()
        assert [(row.id, row.word) for row in found] == [(2, "b")]
        run(stream)
        assert names["query"].awaitTermination(120)
        assert spark.read.parquet(str(tmp_path / "lines.parquet")).count() == 3
        here['"orders"'] = f'"{topic}"'
        run(f"query = {write_stream}", orders=spark.readStream.schema(typed.schema).json(written(tmp_path / "in")))
        names["query"].processAllAvailable()
        names["query"].stop()
        run(read_columns)
        assert names["values"].columns == ["value", "timestamp"]
        run(tables)
        assert names["offsets"].where("not configured").count() == 5
        monkeypatch.setattr(os, "environ", dict(os.environ))
        run(bytecode)


def written(folder: Path) -> str:
    """Make a folder with one row of JSON; return its path."""
    folder.mkdir()
    (folder / "rows.json").write_text('{"id": 3, "word": "c", "price": 2.5}\n')
    return str(folder)
