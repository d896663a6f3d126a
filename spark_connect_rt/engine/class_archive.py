"""Classes of Spark's JVM, parsed and checked once and mapped by every later start (JEP 350, class data sharing).

Owns what is rehearsed while the archive is made; where it lies is ``archive_place.py``'s. A JVM that finds the jars
changed leaves it alone. Without an archive everything works the same; starts then cost a third more CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connect_rt.engine.driver.slot_session import make_active, register_source, slice_session
from spark_connect_rt.engine.startup.ml_functions import compile_loader, register

ROWS = 3


def rehearse(session: SparkSession, classes: Path) -> None:
    """Run what a worker runs first, so that its classes are loaded: a slice's data source, a table written and read.

    What is compiled for starts goes into the folder ``classes``. Raises Py4JError, OSError.
    """
    compile_loader(session._jvm, classes)
    register(session._jvm)
    register_source(session, Rehearsal)
    for spark_session in (slice_session(session, Rehearsal), session):
        make_active(spark_session)
        spark_session.read.format(Rehearsal.name()).load().write.format(Rehearsal.name()).mode("append").save()
    with tempfile.TemporaryDirectory() as folder:
        table = str(Path(folder) / "table")
        session.range(ROWS).selectExpr("id", "cast(id as string) text").write.parquet(table)
        session.read.parquet(table).groupBy("text").count().collect()


def end_jvm(session: SparkSession) -> int:
    """Stop Spark and its JVM, which writes its archive at its exit; return its exit code. Blocks."""
    gateway = session.sparkContext._gateway
    assert gateway is not None
    session.stop()
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()  # how pyspark tells its JVM to end
    code: int = process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # type: ignore[attr-defined]  # the next session starts its own
    return code


class Rehearsal(DataSource):  # type: ignore[misc]
    """A data source of a few rows, which writes them nowhere."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "connectrt-rehearsal"

    def schema(self) -> str:
        """Return the rows' schema."""
        return "id long, value binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return _Reader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer."""
        return _Writer()


class _Reader(DataSourceReader):  # type: ignore[misc]
    def read(self, partition: object) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": list(range(ROWS)), "value": [b"value"] * ROWS})


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
