"""Spark's side of the benchmark ``delta``, in its environment: ``python delta_spark.py FOLDER WARM ALL JAR...``.

Merges the files of changes below the folder into its Delta table, each in one micro-batch, and prints the CPU seconds
of all of them but the first ones, as JSON. It imports nothing of this product.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPARK = "4.1"
TABLE_FOLDER = "table"


def changes_file(folder: Path, number: int) -> Path:
    """Return the file of the changes of one commit."""
    return folder / "changes" / f"{number:04d}.parquet"


def _cpu_s() -> float:
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(used.user + used.system for used in times))


def main(folder: Path, warm: int, commits: int, jars: list[str]) -> None:
    """Run the stream until every file is merged."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(jars))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    target = f"delta.`{folder / TABLE_FOLDER}`"
    marks: list[float] = []

    def merge(batch: DataFrame, number: int) -> None:
        last = f.row_number().over(Window.partitionBy("id").orderBy(f.col("offset").desc()))
        batch.withColumn("newest", last).where("newest = 1").createOrReplaceTempView("changes")
        columns = [name for name in batch.columns if name not in ("deleted", "offset")]
        batch.sparkSession.sql(
            f"""merge into {target} t using changes s on t.id = s.id
            when matched and s.deleted then delete
            when matched then update set {", ".join(f"t.`{name}` = s.`{name}`" for name in columns)}
            when not matched and not s.deleted then insert ({", ".join(f"`{name}`" for name in columns)})
            values ({", ".join(f"s.`{name}`" for name in columns)})"""
        )
        marks.append(_cpu_s())

    changes = folder / "changes"
    query = (
        spark.readStream.schema(spark.read.parquet(str(changes)).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(changes))
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(marks) == commits, f"{len(marks)} micro-batches instead of {commits}"
    print(json.dumps({"cpu_s": marks[-1] - marks[warm - 1]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
