"""A CSV file of flights into Delta, each row once: ``spark-submit jobs/flights_to_delta.py CSV TABLE CHECKPOINT``.

The program: docs/tutorial/pipelines.md.
"""

import sys

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession


def main(csv: str, table: str, checkpoint: str) -> None:
    """Append what is new in the file."""
    spark = SparkSession.builder.appName("flights").getOrCreate()
    source = {"connector.class": "DelimitedFileSource", "file": csv, "topic": "flights", "null.values": "NA"}
    source["schema.infer"] = "true"
    flights = spark.readStream.format("connectrt").options(**source).option("decode", "schema").load()

    def append(batch: DataFrame, number: int) -> None:
        last = DeltaTable(table).transaction_version("flights") if DeltaTable.is_deltatable(table) else None
        if last is None or last < number:  # else this batch is repeated
            done = CommitProperties(app_transactions=[Transaction("flights", number)])
            write_deltalake(table, batch.toArrow(), mode="append", commit_properties=done)

    writer = flights.select("value.*").writeStream.foreachBatch(append)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
