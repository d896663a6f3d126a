"""Bundled connectors that do the work of well-known Java connectors, and how their settings correspond. Pure.

For configurations that name a class that is not installed. `connectrt plugins install` brings many of these connectors
unmodified, and a bundled one may serve as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counterpart:
    """A bundled connector that does similar work to a Java one.

    ``settings``: the Java connector's setting -> the setting here. ``page``: of the docs.
    """

    connector: str
    settings: Mapping[str, str]
    page: str

    def sentence(self, config: Mapping[str, str]) -> str:
        """Return the advice for one configuration: the bundled connector, and its names for the given settings."""
        pairs = [f"{name} -> {ours}" for name, ours in self.settings.items() if name in config]
        how = f" ({', '.join(pairs)})" if pairs else ""
        return f"the bundled {self.connector} does similar work{how}, see {self.page}"


_FILES = "docs/howto/files_and_spark.md"
_SPOOLED = {
    "input.path": "directory",
    "input.file.pattern": "file.regex",
    "finished.path": "file.done=move and file.done.directory",
    "error.path": "file.error.directory",
    "cleanup.policy": "file.done",
    "empty.poll.wait.ms": "poll.interval.ms",
    "file.minimum.age.ms": "file.settle.ms",
    "csv.separator.char": "delimiter",
    "csv.first.row.as.header": "header",
    "schema.generation.enabled": "schema.infer",
    "key.schema": "key.field",
}
_OBJECTS = {
    "s3.bucket.name": "path=s3a://BUCKET/...",
    "gcs.bucket.name": "path=gs://BUCKET/...",
    "azblob.container.name": "path=abfss://...",
    "topics.dir": "path",
    "hdfs.url": "path",
    "format.class": "spark.format",
    "flush.size": "flush.size",
    "rotate.interval.ms": "flush.interval.ms",
}
_HTTP = {
    "http.api.url": "http.url",
    "http.url": "http.url",
    "request.method": "http.method",
    "http.authorization.type": "http.auth.type",
    "headers": "http.headers",
    "max.retries": "http.retries.max",
    "retry.backoff.ms": "http.retry.backoff.ms",
}
CONFLUENT_S3_SINK = "io.confluent.connect.s3.S3SinkConnector"
OFFICIAL_ICEBERG_SINK = "org.apache.iceberg.connect.IcebergSinkConnector"
_COUNTERPARTS = (
    (rf"^{re.escape(OFFICIAL_ICEBERG_SINK)}$", Counterpart("IcebergSink", {}, "docs/howto/iceberg.md")),
    (r"\.spooldir\.SpoolDir\w+SourceConnector$", Counterpart("DirectorySource", _SPOOLED, _FILES)),
    (rf"^{re.escape(CONFLUENT_S3_SINK)}$", Counterpart("ObjectStoreSink", {}, "docs/howto/object_stores.md")),
    (
        r"\.(s3|gcs|azblob|hdfs|hdfs3)\.\w*SinkConnector$|\.connect\.s3\.S3SinkConnector$|AivenKafkaConnectS3Sink\w*$",
        Counterpart("SparkTableSink", _OBJECTS, _FILES),
    ),
    (
        r"\.http\.\w*SinkConnector$",
        Counterpart("HttpSink", {**_HTTP, "batch.max.size": "http.batch.records"}, "docs/howto/http.md"),
    ),
    (r"\.http\.\w*SourceConnector$", Counterpart("HttpSource", _HTTP, "docs/howto/http.md")),
    (
        r"\.datagen\.DatagenConnector$",
        Counterpart("DatagenSource", {"kafka.topic": "topic"}, "docs/reference/connectors/DatagenSource.md"),
    ),
)


def counterpart_of(class_name: str) -> Counterpart | None:
    """Return the bundled connector that does the work of a Java connector class, None if there is none."""
    return next((found for pattern, found in _COUNTERPARTS if re.search(pattern, class_name.strip())), None)
