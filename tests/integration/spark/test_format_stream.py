"""Streams and writes of format("connectrt") on a real Spark: checkpoints, repeated batches, stored offsets, sinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.spark_version import STREAM_LIMITS, has
from tests.contract.compacted_log_contract import fresh_name
from tests.integration.kafka.stored_group import Group
from tests.support.worker_process import worker_properties
from tests.topics import CommittedReader

PLAIN_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
STRING = "org.apache.kafka.connect.storage.StringConverter"


SPARK = {"spark.master": "local[2]"}


class Lines:
    """A file, and queries that read what is new in it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.file = folder / "lines.txt"
        self.file.write_text("")
        self._folder = folder
        self.batches: dict[int, list[str]] = {}
        self.fail_in: int | None = None

    def append(self, *lines: str) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def run(self, checkpoint: str = "checkpoint", **options: str) -> dict[int, list[str]]:
        """Run a query over all that is there; return what each of its batches held."""
        self.batches = {}
        writer = self.stream(**options).writeStream.foreachBatch(self._take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._folder / checkpoint)).start()
        query.awaitTermination(120)
        assert not query.isActive
        return self.batches

    def stream(self, **options: str) -> DataFrame:
        own = {"connector.class": "FileStreamSource", "file": str(self.file), "topic": "t", "value.converter": STRING}
        return self._spark.readStream.format("connectrt").options(**own).options(**options).load()

    def _take(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = [row.value for row in batch.selectExpr("string(value)").collect()]
        if number == self.fail_in:
            raise RuntimeError("as told")


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> Lines:
    return Lines(spark, tmp_path)


def test_a_query_resumes_at_its_checkpoint_and_repeats_the_failed_batch(lines: Lines) -> None:
    lines.append("one", "two", "three")
    assert lines.run() == {0: ["one", "two", "three"]}
    lines.append("four", "five")
    lines.fail_in = 1
    with pytest.raises(StreamingQueryException, match="as told"):
        lines.run()
    assert lines.batches == {1: ["four", "five"]}
    lines.append("six")
    lines.fail_in = None
    batches = lines.run()
    if not has(STREAM_LIMITS):  # such a Spark ends the query behind one batch
        assert list(batches) == [1]
        batches |= lines.run()
    assert batches == {1: ["four", "five"], 2: ["six"]}


def test_stored_offsets_follow_the_batches_and_outlive_the_checkpoint(
    lines: Lines, broker: EmbeddedKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group(broker.bootstrap_servers, tmp_path)
    group.create_topics()
    config = {"connector.class": "FileStreamSource", "file": str(lines.file), "topic": "deployed", "name": "files"}
    group.write("configs", ("connector-files", {"properties": config}))
    settings = worker_properties(group.servers, group.group, 8083)
    options = {**settings, "connector": "files", "startingOffsets": "connect", "commitOffsets": "connect"}
    lines.append("one")
    assert lines.run("first", **options) == {0: ["one"]}
    lines.append("two")
    assert lines.run("first", **options) == {1: ["two"]}

    def stored() -> list[tuple[str, str, str]]:
        table = lines._spark.read.format("connectrt").options(**settings).load("offsets")
        return [(row.connector, row.partition, row.offset) for row in table.collect()]

    partition = json.dumps({"filename": str(lines.file)}, separators=(",", ":"))
    end = 8 if has(STREAM_LIMITS) else 4  # without limits Spark says that a batch is done when the next begins
    assert stored() == [("files", partition, f'{{"position":{end}}}')]
    group.write("offsets", (f'["files",{partition}]', {"position": 4}))
    reconcile = ("offsets", "reconcile", "files", str(tmp_path / "first"))
    assert group.run(*reconcile) == 0
    told = capsys.readouterr().out
    assert "differs" in told
    assert "Use --apply" in told
    assert stored() == [("files", partition, '{"position":4}')]
    assert group.run(*reconcile, "--apply") == 1  # never without a backup
    assert group.run(*reconcile, "--apply", "--backup", str(tmp_path / "before.jsonl")) == 0
    assert stored() == [("files", partition, '{"position":8}')]
    lines.append("three")
    assert lines.run("second", **options) == {0: ["three"]}


def test_a_stream_has_decoded_columns(lines: Lines) -> None:
    lines.append('{"id":1}', '{"id":2}')
    found = {}
    stream = lines.stream(decode="json").selectExpr("value.id * 10 as id")
    writer = stream.writeStream.foreachBatch(lambda batch, number: found.update({number: batch.collect()}))
    query = writer.option("checkpointLocation", str(lines.file) + ".decoded").trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert found == {0: [Row(id=10), Row(id=20)]}


def test_rows_are_written_into_a_sink_connector(spark: SparkSession, lines: Lines, tmp_path: Path) -> None:
    written = tmp_path / "written.txt"
    sink = {"connector.class": "FileStreamSink", "topic": "t", "file": str(written)}
    rows = spark.createDataFrame([("a",), ("b",)], "value string").coalesce(1)
    rows.write.format("connectrt").mode("append").options(**sink).save()
    assert written.read_text() == "a\nb\n"
    with pytest.raises(Exception, match="mode append"):
        rows.write.format("connectrt").mode("overwrite").options(**sink).save()
    lines.append("one", "two")
    stream = lines.stream().selectExpr("topic", "string(value) value")
    writer = stream.writeStream.format("connectrt").options(**sink).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "into a sink")).start()
    query.awaitTermination(120)
    assert written.read_text() == "a\nb\none\ntwo\n"


def test_rows_are_written_to_kafka_through_converters(spark: SparkSession, broker: EmbeddedKafka) -> None:
    topic = fresh_name("rows")
    rows = spark.createDataFrame([(1, "a"), (2, None)], "id long, name string").coalesce(1)
    kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    rows.write.format("connectrt").mode("append").options(**kafka, **PLAIN_JSON).save()
    reader = CommittedReader(broker.bootstrap_servers, topic)
    assert [value for _, value in reader.to_end()] == [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}']
    reader.close()


def test_wrong_options_are_reported_before_a_query_starts(spark: SparkSession) -> None:
    stream = spark.readStream.format("connectrt").option("commitOffsets", "yes").option("maxRecords", "-1")
    with pytest.raises(
        AnalysisException, match=r"maxRecords: .*; commitOffsets: 'yes' is not valid. Use connect or none"
    ):
        stream.load()
