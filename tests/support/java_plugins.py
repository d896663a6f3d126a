"""Plug-in folders of real Java connectors, from Maven Central, without the jars that Connect itself provides.

Owns: the connectors the tests use, their versions, and the jars left out of their folders.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars

# 3.7.1 and later are listed in Maven Central, but name a parent that is not there.
DEBEZIUM_POSTGRES = "io.debezium:debezium-connector-postgres:3.7.0.Final"
DEBEZIUM_JDBC = "io.debezium:debezium-connector-jdbc:3.5.0.Final"
DEBEZIUM_MARIADB = "io.debezium:debezium-connector-mariadb:3.5.0.Final"  # of 3.7.0 there is PostgreSQL's only
DEBEZIUM_MYSQL = "io.debezium:debezium-connector-mysql:3.5.0.Final"
FILES = f"org.apache.kafka:connect-file:{KAFKA_VERSION}"
MIRROR = f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}"
ICEBERG = "org.apache.iceberg:iceberg-kafka-connect:1.12.0"
ICEBERG_PARQUET = "org.apache.iceberg:iceberg-parquet:1.12.0"
_SAMPLES = re.compile(
    r"^org/apache/kafka/(connect/tools/(Verifiable|Mock|SchemaSource)|tools/ThroughputThrottler)[^/]*\.class$"
)
_SAMPLE_SERVICES = {
    "source.Source": ("VerifiableSource", "MockSource", "SchemaSource"),
    "sink.Sink": ("VerifiableSink", "MockSink"),
}
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


def samples_jar(jar: Path) -> Path:
    """Make a jar of Kafka's Verifiable*, Mock* and SchemaSource: the classes alone, of the last jars that hold them.

    It is for Java Connect's class path: it takes nothing of that package from ``plugin.path`` (its ``PluginUtils``).
    """
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as made:
        for whole in jars_with_test_connectors():
            with zipfile.ZipFile(whole) as held:
                for name in filter(_SAMPLES.match, held.namelist()):
                    made.writestr(name, held.read(name))
        for service, names in _SAMPLE_SERVICES.items():
            lines = "".join(f"org.apache.kafka.connect.tools.{name}Connector\n" for name in names)
            made.writestr(f"META-INF/services/org.apache.kafka.connect.{service}Connector", lines)
    return jar


def jars_with_test_connectors() -> list[Path]:
    """Return the newest jars with Kafka's test connectors: later ones keep them in a jar that is not published."""
    from jgo.maven import MavenContext

    maven = MavenContext()
    found = [maven.project("org.apache.kafka", name).at_version("3.5.2") for name in ("connect-runtime", "kafka-tools")]
    return [Path(component.artifact().resolve()) for component in found]


def all_plugins(plugin_path: Path) -> Path:
    """Make the folders of every connector but Iceberg's."""
    for name, coordinate in (("file", FILES), ("postgres", DEBEZIUM_POSTGRES), ("jdbc", DEBEZIUM_JDBC)):
        plugin_folder(plugin_path, name, coordinate)
    mirror = [jar for jar in resolve_jars((MIRROR,)) if jar.name.startswith("connect-mirror")]
    linked(plugin_path, "mirror", mirror)  # its closure is Connect's runtime
    return plugin_path
