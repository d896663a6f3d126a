"""One side of the benchmark ``format``, in a process of its own: ``format("connectrt")`` or ``format("kafka")``.

Reads a topic as a batch, then as a stream, in one Spark session; prints a line of JSON. Both sides give the same
columns; all of them are looked at. Then both once more with these columns named, and with ``value`` alone, selected
before the stream's query: ours has them named by the option ``columns``, Spark's own source by its plan, so that it is
asked for the same twice. Then streams of a longer topic.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from bench.process_cost import CpuMeter

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
COLUMNS = ("topic", "partition", "key", "value", "timestamp")
LOOK = (
    "count(*) AS records",
    "sum(crc32(value)) AS checksum",
    "count(key) AS keys",
    "max(partition) AS partitions",
    "max(timestamp) AS newest",
    "max(length(topic)) AS topics",
)
WAYS = {"": (COLUMNS, LOOK), "named_": (COLUMNS, LOOK), "value_": (("value",), LOOK[:2])}
"""By the beginning of a figure's name: the columns of a read, and what is made of them."""


def options_of(who: str, servers: str, topic: str, tasks: int) -> dict[str, str]:
    """Return the options by which a side reads the topic."""
    if who == "java":
        return {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    return {
        "connector.class": "KafkaSource",
        "tasks.max": str(tasks),
        "source.bootstrap.servers": servers,
        "topics": topic,
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "partition.keep": "true",
        "until": "latest",
        "poll.max.records": "20000",
    }


def read_batch(spark: SparkSession, form: str, options: dict[str, str], way: str) -> dict[str, Any]:
    """Return what is in the topic."""
    columns, look = WAYS[way]
    frame = spark.read.format(form).options(**options).load()
    return dict(frame.select(*columns).selectExpr(*look).first().asDict())


def read_stream(
    spark: SparkSession, form: str, options: dict[str, str], rows_of_a_batch: int, way: str
) -> dict[str, Any]:
    """Return what a query until now finds, micro-batch by micro-batch."""
    limit = {"kafka": "maxOffsetsPerTrigger", "connectrt": "maxRecords"}[form]
    found = {"records": 0, "checksum": 0, "batches": 0}
    columns, look = WAYS[way]

    def add(batch: DataFrame, _: int) -> None:
        seen = batch.selectExpr(*look).first()
        found["records"] += seen.records
        found["checksum"] += seen.checksum or 0
        found["batches"] += 1

    frame = spark.readStream.format(form).options(**options).option(limit, str(rows_of_a_batch)).load()
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.select(*columns).writeStream.foreachBatch(add).option("checkpointLocation", folder)
        writer.trigger(availableNow=True).start().awaitTermination()
    return found


def timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the work does, with its seconds: of the clock, and of all processors for this process's family."""
    begun = time.monotonic()
    with CpuMeter(_family) as meter:
        found = work()
        seconds = time.monotonic() - begun
    return {**found, "seconds": seconds, "cpu_s": meter.used_s}


def _family() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def main(who: str, servers: str, topics: Sequence[str], rows_of_a_batch: int, jars: str) -> None:
    """Warm up on a small topic, then read the large one, then a long one."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    spark = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    form = {"java": "kafka", "ours": "connectrt"}[who]
    small, large, long = topics

    def options(topic: str, way: str) -> dict[str, str]:
        own = {"columns": ",".join(WAYS[way][0])} if way and who == "ours" else {}
        return options_of(who, servers, topic, 2) | own

    found = {}
    for topic in (small, large):
        for way in WAYS:
            found[f"{way}batch"] = timed(partial(read_batch, spark, form, options(topic, way), way))
            found[f"{way}stream"] = timed(partial(read_stream, spark, form, options(topic, way), rows_of_a_batch, way))
    for way in ("", "value_"):
        work = partial(read_stream, spark, form, options(long, way), rows_of_a_batch, way)
        found[f"long_{way}stream"] = timed(work)
    print(json.dumps(found, default=str))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3], sys.argv[3:6], int(sys.argv[6]), sys.argv[7] if len(sys.argv) > 7 else "")
