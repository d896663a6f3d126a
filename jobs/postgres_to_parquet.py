"""A PostgreSQL table through Kafka into Parquet: ``spark-submit jobs/postgres_to_parquet.py URL TABLE SERVERS FOLDER``.

The program: docs/tutorial/pipelines.md.
"""

import sys

from pyspark.sql import DataFrame, SparkSession


def main(url: str, table: str, servers: str, folder: str) -> None:
    """Move the rows that are new, by their column id; the topic has the table's name."""
    reader = SparkSession.builder.appName(table).getOrCreate().readStream.format("connectrt")
    sql = {"connector.class": "SqlSource", "connection.url": url, "table.whitelist": table}
    sql |= {"mode": "incrementing", "incrementing.column.name": "id", "poll.interval.ms": "100"}
    rows = reader.options(**sql).load().select("topic", "key", "value")
    _move(rows, "connectrt", {"kafka.bootstrap.servers": servers, "checkpointLocation": f"{folder}/to-kafka"})
    kafka = {"connector.class": "KafkaSource", "source.bootstrap.servers": servers, "topics": table, "decode": "json"}
    converters = ("key.converter", "value.converter", "header.converter")
    kafka |= dict.fromkeys(converters, "org.apache.kafka.connect.converters.ByteArrayConverter")
    values = reader.options(**kafka).load().select("value.*")
    _move(values, "parquet", {"path": f"{folder}/table", "checkpointLocation": f"{folder}/to-parquet"})


def _move(rows: DataFrame, form: str, options: dict[str, str]) -> None:  # until none are left
    rows.writeStream.format(form).options(**options).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
