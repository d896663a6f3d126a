"""A PostgreSQL table through Kafka into Parquet: ``spark-submit jobs/postgres_to_parquet.py URL TABLE SERVERS FOLDER``.

The program: docs/tutorial/pipelines.md.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def main(url: str, table: str, servers: str, folder: str) -> None:
    """Move the rows that are new, by their column id; the topic has the table's name."""
    reader = SparkSession.builder.appName(table).getOrCreate().readStream.format("connectrt")
    sql = {"connector.class": "SqlSource", "connection.url": url, "table.whitelist": table}
    sql |= {"mode": "incrementing", "incrementing.column.name": "id", "poll.interval.ms": "100"}
    rows = reader.options(**sql).load().select("topic", "key", "value")
    run(rows.writeStream.format("connectrt").option("kafka.bootstrap.servers", servers), f"{folder}/to-kafka")
    kafka = {"connector.class": "KafkaSource", "source.bootstrap.servers": servers, "topics": table, "decode": "json"}
    kafka |= dict.fromkeys(("key.converter", "value.converter", "header.converter"), BYTES)
    values = reader.options(**kafka).load().select("value.*")
    run(values.writeStream.format("parquet").option("path", f"{folder}/table"), f"{folder}/to-parquet")


def run(writer: DataStreamWriter, checkpoint: str) -> None:
    """Run a query until nothing is left."""
    Path(checkpoint).mkdir(parents=True, exist_ok=True)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
