"""The settings of a source that Spark reads. Declared here because the connector and the driver both read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type, prefixed
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.errors import BadConfigError

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
ONCE, BULK, INCREMENTAL, STREAM = "once", "bulk", "incremental", "stream"
OPTION_PREFIX = "spark.option."
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml", "binaryfile")

CONFIG = ConfigDef(
    [
        ConfigKey("topic", Type.STRING, REQUIRED, HIGH, "Topic the rows go to.", non_empty),
        ConfigKey(
            "spark.format",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Spark's name of the format: parquet, orc, json, csv, jdbc, delta, iceberg ...",
            non_empty,
        ),
        ConfigKey("path", Type.STRING, None, HIGH, "What is loaded, where the format has paths."),
        ConfigKey("table", Type.STRING, None, HIGH, "Name of a table in Spark's catalog, instead of a path."),
        ConfigKey(
            "spark.mode",
            Type.STRING,
            ONCE,
            HIGH,
            "once: everything, one time. bulk: everything, every poll.interval.ms. incremental: the rows beyond the "
            "greatest value so far of spark.incremental.column. stream: as spark.readStream hands it on.",
            one_of(ONCE, BULK, INCREMENTAL, STREAM, ignore_case=True),
        ),
        ConfigKey(
            "spark.incremental.column",
            Type.STRING,
            None,
            HIGH,
            "A column whose values only grow from row to row. Rows with null there are never read, nor are rows that "
            "become visible later with a value that is not greater than one already read.",
        ),
        ConfigKey(
            "batch.max.records",
            Type.INT,
            1_000_000,
            MEDIUM,
            "incremental: about how many rows are sent before the offset moves on; equal values stay together.",
            AtLeast(1),
        ),
        ConfigKey("poll.interval.ms", Type.LONG, 5_000, MEDIUM, "Time between looks for new rows, ms.", AtLeast(1)),
        ConfigKey(
            "key.columns",
            Type.LIST,
            "",
            MEDIUM,
            "Columns of the record's key: the value of one, a struct of several. Empty: no key.",
        ),
        ConfigKey(
            "spark.schema",
            Type.STRING,
            "",
            MEDIUM,
            "Columns as Spark's DDL, such as 'id BIGINT, name STRING', for formats that cannot tell them (streams of "
            "json or csv).",
        ),
        ConfigKey(
            "spark.parallelism",
            Type.INT,
            1,
            MEDIUM,
            "Spark tasks that send a batch. 1: rows keep their order, by the incremental column where there is one. "
            "More are faster and send in no order.",
            AtLeast(1),
        ),
        ConfigKey(
            "spark.checkpoint",
            Type.STRING,
            None,
            MEDIUM,
            "stream: folder that Spark keeps its checkpoint in, on storage that every worker sees: a new or an "
            "empty one, or the one this connector had before; any other is refused. The source offset decides, "
            "the checkpoint follows it; where it is lost it is rebuilt from the offset. Streams of files need "
            "one: only it knows which files were read. Not set: a temporary one for each run.",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class SparkSourceConfig:
    """The typed settings."""

    topic: str
    format: str
    mode: str
    path: str | None
    table: str | None
    schema: str
    column: str | None
    batch_max_records: int
    poll_interval_ms: int
    key_columns: tuple[str, ...]
    parallelism: int
    checkpoint: str | None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords

    @classmethod
    def of(cls, config: Mapping[str, str]) -> SparkSourceConfig:
        """Return the settings of a configuration. Raises BadConfigError."""
        found = problems(config)
        values = CONFIG.parse(config)
        if found:
            raise BadConfigError(found)
        return cls(
            topic=values["topic"],
            format=values["spark.format"],
            mode=values["spark.mode"].lower(),
            path=values["path"],
            table=values["table"],
            schema=values["spark.schema"],
            column=values["spark.incremental.column"],
            batch_max_records=values["batch.max.records"],
            poll_interval_ms=values["poll.interval.ms"],
            key_columns=tuple(values["key.columns"]),
            parallelism=values["spark.parallelism"],
            checkpoint=values["spark.checkpoint"],
            options=prefixed(config, OPTION_PREFIX),
        )

    def partition(self) -> dict[str, Any]:
        """Return the source partition: the format, and what is read, never a URL (it may hold a password)."""
        place = {
            "path": self.path or self.options.get("path"),
            "table": self.table or self.options.get("dbtable") or self.options.get("table"),
            "query": self.options.get("query"),
        }
        return {"format": self.format, **{name: value for name, value in place.items() if value}}


def problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return problems of settings against each other: setting -> messages."""
    found: dict[str, list[str]] = {}
    mode = (config.get("spark.mode") or ONCE).lower()
    has_options = any(name.startswith(OPTION_PREFIX) for name in config)
    if not (config.get("path") or config.get("table") or has_options):
        found["path"] = [f"path, table or {OPTION_PREFIX}* must say what is read"]
    if config.get("path") and config.get("table"):
        found["table"] = ["path and table cannot both be set"]
    if mode == INCREMENTAL and not config.get("spark.incremental.column"):
        found["spark.incremental.column"] = ["must be set with spark.mode=incremental"]
    files = (config.get("spark.format") or "").lower() in FILE_FORMATS
    if mode == STREAM and files and not config.get("spark.checkpoint"):
        found["spark.checkpoint"] = ["must be set for a stream of files: only it knows which files were read"]
    return found
