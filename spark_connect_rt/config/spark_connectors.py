"""The settings of a source that Spark reads. Declared here because the connector and the driver both read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type, prefixed
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.errors import BadConfigError

ONCE, BULK, INCREMENTAL, STREAM = "once", "bulk", "incremental", "stream"
OPTION_PREFIX = "spark.option."
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml", "binaryfile")

CONFIG = ConfigDef(
    [
        ConfigKey("topic", Type.STRING, REQUIRED, HIGH, "Topic that the rows are sent to.", non_empty),
        ConfigKey(
            "spark.format",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Spark's name of the format, such as parquet, orc, json, csv, jdbc, delta or iceberg.",
            non_empty,
        ),
        ConfigKey("path", Type.STRING, None, HIGH, "Path to load, for formats that have paths."),
        ConfigKey("table", Type.STRING, None, HIGH, "Name of a table in Spark's catalog, instead of a path."),
        ConfigKey(
            "spark.mode",
            Type.STRING,
            ONCE,
            HIGH,
            "once: everything, one time. bulk: everything, every poll.interval.ms. incremental: rows with a "
            "greater value of spark.incremental.column than any row before. stream: a streaming query "
            "(spark.readStream).",
            one_of(ONCE, BULK, INCREMENTAL, STREAM, ignore_case=True),
        ),
        ConfigKey(
            "spark.incremental.column",
            Type.STRING,
            None,
            HIGH,
            "Column whose values only grow. Rows with null in it are never read. A row that becomes visible later "
            "is missed if its value is not greater than one already read.",
        ),
        ConfigKey(
            "batch.max.records",
            Type.INT,
            1_000_000,
            MEDIUM,
            "incremental: about how many rows are sent before the offset advances. Rows with equal values stay "
            "together.",
            AtLeast(1),
        ),
        ConfigKey("poll.interval.ms", Type.LONG, 5_000, MEDIUM, "Time between polls for new rows, ms.", AtLeast(1)),
        ConfigKey(
            "key.columns",
            Type.LIST,
            "",
            MEDIUM,
            "Columns of the record's key. One column: its value. Several: a struct. Empty: no key.",
        ),
        ConfigKey(
            "spark.schema",
            Type.STRING,
            "",
            MEDIUM,
            "Columns as Spark's DDL, such as 'id BIGINT, name STRING'. Needed for formats that cannot infer them "
            "(streams of json or csv).",
        ),
        ConfigKey(
            "spark.parallelism",
            Type.INT,
            1,
            MEDIUM,
            "Spark tasks that send a batch. 1: rows keep their order, that of the incremental column if there is "
            "one. More tasks are faster, but do not keep the order.",
            AtLeast(1),
        ),
        ConfigKey(
            "spark.checkpoint",
            Type.STRING,
            None,
            MEDIUM,
            "stream: folder for Spark's checkpoint, on storage that every worker can reach. It must be new, "
            "empty, or the one that this connector used before. The source offset decides, and a lost checkpoint "
            "is rebuilt from it. Required for streams of files, because only the checkpoint lists the files that "
            "were read. Not set: a temporary folder for each run.",
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class SparkSourceConfig:
    """The typed settings of a Spark source connector."""

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
        """Return the source partition: the format and the path or table, never a URL (it may hold a password)."""
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
        found["path"] = [f"one of path, table and {OPTION_PREFIX}* must be set"]
    if config.get("path") and config.get("table"):
        found["table"] = ["path and table cannot both be set"]
    if mode == INCREMENTAL and not config.get("spark.incremental.column"):
        found["spark.incremental.column"] = ["must be set with spark.mode=incremental"]
    files = (config.get("spark.format") or "").lower() in FILE_FORMATS
    if mode == STREAM and files and not config.get("spark.checkpoint"):
        found["spark.checkpoint"] = [
            "must be set for a stream of files, because only the checkpoint lists the files that were read"
        ]
    return found


# Settings of a table that Spark writes: the connector declares them, the driver goes by them.


TABLE_SINK = ConfigDef(
    [
        ConfigKey(
            "spark.format",
            Type.STRING,
            "parquet",
            HIGH,
            "Spark's name of the table's format: parquet, orc, json, csv, delta, jdbc ...",
            non_empty,
        ),
        ConfigKey("path", Type.STRING, None, HIGH, "Folder of the table. Either this or table must be set."),
        ConfigKey(
            "table", Type.STRING, None, HIGH, "Name of the table in Spark's catalog. Either this or path must be set."
        ),
        ConfigKey(
            "table.schema",
            Type.STRING,
            "",
            HIGH,
            "Columns as Spark's DDL, such as 'id BIGINT, name STRING'. Empty: inferred from the first records.",
        ),
        ConfigKey("mode", Type.STRING, "append", LOW, "How a batch is written.", one_of("append")),
        ConfigKey(
            "flush.size",
            Type.INT,
            100_000,
            MEDIUM,
            "Records of a batch. When so many wait, they are written immediately.",
            AtLeast(1),
        ),
        ConfigKey(
            "flush.interval.ms",
            Type.LONG,
            10_000,
            MEDIUM,
            "Longest time that a record waits to be written, ms.",
            AtLeast(1),
        ),
        ConfigKey(
            "batch.max.records",
            Type.INT,
            1_000_000,
            LOW,
            "Most records of a batch when many wait.",
            AtLeast(1),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class TableFlushSettings(SettingsGroup):
    """Write when ``flush_size`` records wait, or when the oldest has waited ``flush_interval_ms``."""

    definition: ClassVar[ConfigDef] = TABLE_SINK
    flush_size: int
    flush_interval_ms: int
    batch_max_records: int  # most records of a batch: limits the repetition after a crash, and the memory
