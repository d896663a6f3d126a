"""Plug-in folders of real Java connectors, from Maven Central, without what Connect itself provides.

Owns: the connectors the tests use, their versions, and what is left out of their folders.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyspark

from spark_connect_rt.embedded.maven import KAFKA_VERSION, resolve_jars

# 3.7.1 and later are listed in Maven Central, but name a parent that is not there.
DEBEZIUM_POSTGRES = "io.debezium:debezium-connector-postgres:3.7.0.Final"
DEBEZIUM_JDBC = "io.debezium:debezium-connector-jdbc:3.5.0.Final"
DEBEZIUM_MARIADB = "io.debezium:debezium-connector-mariadb:3.5.0.Final"  # of 3.7.0 there is PostgreSQL's only
FILES = f"org.apache.kafka:connect-file:{KAFKA_VERSION}"
MIRROR = f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}"
ICEBERG = "org.apache.iceberg:iceberg-kafka-connect:1.12.0"
ICEBERG_PARQUET = "org.apache.iceberg:iceberg-parquet:1.12.0"
_PROVIDED = re.compile(
    r"^(connect-(api|runtime|json|transforms)|kafka-clients|slf4j-api|lz4-java|snappy-java|zstd-jni|jackson-)"
)


def plugin_folder(plugin_path: Path, name: str, *coordinates: str) -> Path:
    """Link the jars of Maven coordinates into ``plugin_path/name``; return it. The first run downloads them."""
    return linked(plugin_path, name, [jar for jar in resolve_jars(coordinates) if not _PROVIDED.match(jar.name)])


def linked(plugin_path: Path, name: str, jars: list[Path]) -> Path:
    """Link these jars into ``plugin_path/name``."""
    folder = plugin_path / name
    folder.mkdir(parents=True, exist_ok=True)
    for jar in jars:
        link = folder / jar.name
        if not link.exists():
            link.symlink_to(jar)
    return folder


def iceberg_folder(plugin_path: Path) -> Path:
    """Make the Iceberg sink's folder: its closure, Parquet, and the Hadoop client that Spark brings."""
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    folder = plugin_folder(plugin_path, "iceberg", ICEBERG, ICEBERG_PARQUET)
    linked(plugin_path, "iceberg", hadoop)
    return folder


def all_plugins(plugin_path: Path) -> Path:
    """Make the folders of every connector but Iceberg's."""
    for name, coordinate in (("file", FILES), ("postgres", DEBEZIUM_POSTGRES), ("jdbc", DEBEZIUM_JDBC)):
        plugin_folder(plugin_path, name, coordinate)
    mirror = [jar for jar in resolve_jars((MIRROR,)) if jar.name.startswith("connect-mirror")]
    linked(plugin_path, "mirror", mirror)  # its closure is Connect's runtime
    return plugin_path
