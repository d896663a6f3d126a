"""``connectrt class-archive``: makes archives of classes that later starts of a JVM map, Spark's and Java hosts'."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connect_rt.base.cache import exclusive
from spark_connect_rt.engine.driver.slot_session import make_active, register_source, slice_session
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.java_host.class_archive import HostProgram, make_archive
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.process import rehearsal
from spark_connect_rt.engine.process_plugins import plugin_folders
from spark_connect_rt.engine.startup.java_home import find_java, java_of_plugins
from spark_connect_rt.engine.startup.ml_functions import compile_loader, register
from spark_connect_rt.engine.startup.session_conf import DEFAULT_CONF, JAVA_OPTIONS, archive_path, classes_of
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.locations import find_locations

# Classes of Spark's JVM, parsed and checked once and mapped by every later start (JEP 350, class data sharing).
#
# Owns what is rehearsed while the archive is made; ``startup/session_conf.py`` knows its place. A JVM that finds the
# jars changed leaves it alone. Without an archive everything works the same; starts then cost a third more CPU.


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
    return end_gateway(gateway)


def end_gateway(gateway: Any) -> int:
    """End a JVM of PySpark with its connections, and return its exit code. Blocks.

    The JVM first: py4j waits without a limit to close a connection on which another thread waits for callbacks.
    """
    gateway.proc.stdin.close()  # ends pyspark's JVM
    code: int = gateway.proc.wait()
    with contextlib.suppress(Py4JError):
        gateway.shutdown()
    if SparkContext._gateway is gateway:
        SparkContext._gateway = SparkContext._jvm = None  # type: ignore[attr-defined]  # the next session starts its own
    return code


class Rehearsal(DataSource):  # type: ignore[misc]
    """A data source of a few rows, which writes them nowhere."""

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark registers the format."""
        return "connectrt-rehearsal"

    def schema(self) -> str:
        """Return the schema of the rehearsal's rows, as DDL."""
        return "id long, value binary"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the rehearsal's rows."""
        return _Reader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer that takes the rehearsal's rows."""
        return _Writer()


class _Reader(DataSourceReader):  # type: ignore[misc]
    def read(self, partition: object) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": list(range(ROWS)), "value": [b"value"] * ROWS})


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # it names every class of a signed jar, which no archive takes


def make_class_archive() -> Path:
    """Make the archive, unless it is there. Returns its path; takes half a minute.

    Raises StartupError: no Java; ConnectError: the environment cannot be written to, or this JVM makes no archive.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)  # as a worker's start does: Spark runs on this one
    path = archive_path(java.home)
    if path.is_file():
        return path
    try:
        with exclusive(path.with_suffix(".lock")):  # first starts of two workers make it once
            if not path.is_file():
                _make(path)
    except OSError as error:
        raise ConnectError(f"the archive cannot be written to {path.parent}: {error}") from error
    return path


def _make(path: Path) -> None:
    half = path.with_suffix(f".{time.time_ns()}")  # a JVM must never map half of one
    options = f"{DEFAULT_CONF[JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={half} {_QUIET}"
    session = build_session({"spark.master": "local[2]", JAVA_OPTIONS: options}, "archive", "ERROR")
    try:
        rehearse(session, classes_of(path))
    finally:
        code = end_jvm(session)
    if not half.is_file():
        raise ConnectError(
            f"the JVM ended with code {code} and wrote no archive. It must be HotSpot, version 13 or newer"
        )
    half.replace(path)


def make_host_archive(plugins: Sequence[Path] = ()) -> Path:
    """Make the archive of Java hosts, unless it is there. Returns its path; takes a few seconds.

    Connect's jars are downloaded if they are not here.

    Args:
        plugins: folders or jars whose classes are to be in it, too.

    Raises ConnectError: no Java, no jars, or this JVM makes no archive; OSError: the cache cannot be written to.
    """
    java = java_of_plugins()
    program = HostProgram(java.executable, tuple(program_jars(java)), tuple(plugins))
    return make_archive(program, rehearsal(program))


def make_host_archives(plugin_path: str) -> Iterator[Path]:
    """Make the archive of Java hosts and one for hosts of each Java plug-in of a ``plugin.path``; give their paths.

    Raises as ``make_host_archive``.
    """
    yield make_host_archive()
    for location in find_locations(plugin_folders({"plugin.path": plugin_path})):
        if location.java:
            yield make_host_archive([Path(location.path)])
