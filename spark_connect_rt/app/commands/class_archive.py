"""``connectrt class-archive``: makes archives of classes that later starts of a JVM map, Spark's and Java hosts'."""

from __future__ import annotations

import os
import time
from pathlib import Path

from spark_connect_rt.embedded.java import find_java, java_of_plugins
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.java_host.class_archive import make_archive
from spark_connect_rt.java_host.jar import program_jars
from spark_connect_rt.java_host.process import rehearsal
from spark_connect_rt.spark.driver.class_archive import JAVA_OPTIONS, archive_path, end_jvm, rehearse
from spark_connect_rt.spark.driver.session import DEFAULT_CONF, build_session

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
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConnectError(f"the archive would lie in {path.parent}: {error}") from error
    half = path.with_suffix(f".{time.time_ns()}")  # a JVM must never map half of one
    options = f"{DEFAULT_CONF[JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={half} {_QUIET}"
    session = build_session({"spark.master": "local[2]", JAVA_OPTIONS: options}, "archive", "ERROR")
    try:
        rehearse(session)
    finally:
        code = end_jvm(session)
    if not half.is_file():
        raise ConnectError(f"the JVM ended with code {code} and left no archive: it needs HotSpot, 13 or newer")
    half.replace(path)
    return path


def make_host_archive() -> Path:
    """Make the archive of Java hosts, unless it is there. Returns its path; takes a few seconds.

    Connect's jars are downloaded if they are not here.

    Raises ConnectError: no Java, no jars, or this JVM makes no archive; OSError: the cache cannot be written to.
    """
    java = java_of_plugins()
    jars = program_jars(java)
    return make_archive(java.executable, jars, rehearsal(java.executable, jars))
