"""Settings of a table that Spark writes: the connector declares them, the driver goes by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of

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
    batch_max_records: int  # most records one batch may hold: bounds what a crash repeats and what memory holds
