"""A Spark Connect client of format("connectrt"), with no JVM of its own: ``python -m ... URL FOLDER`` prints JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

STRING = "org.apache.kafka.connect.storage.StringConverter"


def main(url: str, folder: Path) -> None:
    """Read, stream and write once each; tell what came."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    file = folder / "lines.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    source = {"connector.class": "FileStreamSource", "file": str(file), "topic": "t", "value.converter": STRING}
    frame = spark.read.format("connectrt").options(**source).option("until", "latest").load()
    told = {"read": [list(row) for row in frame.selectExpr("topic", "string(value)").collect()]}

    stream = spark.readStream.format("connectrt").options(**source).load().selectExpr("string(value) value")
    parquet = stream.writeStream.format("parquet").option("path", str(folder / "table"))
    parquet = parquet.option("checkpointLocation", str(folder / "checkpoint"))
    parquet.trigger(availableNow=True).start().awaitTermination(240)
    told["streamed"] = [row.value for row in spark.read.parquet(str(folder / "table")).orderBy("value").collect()]

    sink = {"connector.class": "FileStreamSink", "topic": "t", "file": str(folder / "written.txt")}
    rows = spark.createDataFrame([("a",), ("b",)], "value string").coalesce(1)
    rows.write.format("connectrt").mode("append").options(**sink).save()
    try:
        spark.read.format("connectrt").options(**source).option("until", "noon").load().collect()
    except AnalysisException as error:
        told["wrong option"] = str(error)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
