"""Classes of Spark's JVM, parsed and checked once and mapped by every later start (JEP 350, class data sharing).

Owns where the archive lies and what is rehearsed while it is made. It belongs to one environment, one Java and one
Spark: for any other its name is another one, and a JVM that finds the jars changed leaves it alone. Without an archive
everything works the same; starts then cost a third more CPU.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connect_rt.spark.spark_version import VERSION

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
ROWS = 3


def archive_path(java_home: Path) -> Path:
    """Return where the archive of this environment and Java lies, or would lie."""
    home = java_home.resolve()
    release = home / "release"
    release_bytes = release.read_bytes() if release.is_file() else b""
    key = hashlib.sha256(os.fsencode(home) + release_bytes).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "connectrt" / f"spark-{VERSION}-{key}.jsa"


def archive_option() -> str:
    """Return the JVM's option that maps the archive; empty when there is none."""
    home = _java_home()
    path = None if home is None else archive_path(home)
    return f"-XX:SharedArchiveFile={path}" if path is not None and path.is_file() else ""


def rehearse(session: SparkSession) -> None:
    """Run what a worker runs first, so that its classes are loaded: a slice's data source, a table written and read."""
    session.dataSource.register(Rehearsal)
    session.read.format(Rehearsal.name()).load().write.format(Rehearsal.name()).mode("append").save()
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


def _java_home() -> Path | None:
    given = os.environ.get("JAVA_HOME")
    if given:
        return Path(given)
    found = shutil.which("java")
    return Path(found).resolve().parent.parent if found else None


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
