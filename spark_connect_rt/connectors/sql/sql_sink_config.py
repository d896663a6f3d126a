"""Settings of the SQL sink: names, and the rules between them."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, Type
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.connectors.sql.sql_settings import CONNECTION, key
from spark_connect_rt.errors import BadConfigError

INSERT, UPSERT, UPDATE = "insert", "upsert", "update"
NONE, KAFKA, RECORD_KEY, RECORD_VALUE = "none", "kafka", "record_key", "record_value"
KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")

CONFIG = CONNECTION + ConfigDef(
    [
        key(
            "insert.mode",
            Type.STRING,
            INSERT,
            HIGH,
            "insert: each record is a new row. upsert: it replaces the row with the same key (PostgreSQL, "
            "SQLite). update: it only changes existing rows.",
            one_of(INSERT, UPSERT, UPDATE),
        ),
        key(
            "delete.enabled",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Whether a record without a value deletes the row with its key. Needs pk.mode=record_key.",
        ),
        key(
            "table.name.format",
            Type.STRING,
            "${topic}",
            MEDIUM,
            "Table of a topic's records, optionally schema.table. Put a name that contains a dot in double quotes.",
            non_empty,
        ),
        key(
            "pk.mode",
            Type.STRING,
            NONE,
            HIGH,
            "Source of the row's key. kafka: topic, partition, offset. record_key, record_value: their fields.",
            one_of(NONE, KAFKA, RECORD_KEY, RECORD_VALUE),
        ),
        key(
            "pk.fields",
            Type.LIST,
            "",
            MEDIUM,
            "Columns of the key. With kafka: three names for topic, partition, offset. With record_key: fields of "
            "the key, or one name for a key that is not a struct. With record_value: fields of the value. Empty: "
            "all.",
        ),
        key("fields.whitelist", Type.LIST, "", MEDIUM, "Fields of the value that are written. Empty: all."),
        key("auto.create", Type.BOOLEAN, False, MEDIUM, "Whether to create a missing table from the records' schema."),
        key(
            "auto.evolve",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Whether to add missing columns, for fields that may be null or have a default.",
        ),
        key("batch.size", Type.INT, 50_000, MEDIUM, "Most rows of a statement.", AtLeast(1)),
        key(
            "max.retries",
            Type.INT,
            10,
            MEDIUM,
            "How often a write is retried while the database is unavailable or busy, before the task fails.",
            AtLeast(0),
        ),
        key("retry.backoff.ms", Type.INT, 3_000, MEDIUM, "Wait before each retry, ms.", AtLeast(0)),
        key(
            "connectrt.sql.copy.min.rows",
            Type.INT,
            200,
            LOW,
            "From this many rows on, PostgreSQL is written with COPY. Updates, deletes and upserts of existing "
            "keys use a temporary table.",
            AtLeast(1),
        ),
    ]
)


def check_together(values: dict[str, Any]) -> None:
    """Return when settings fit each other. Raises BadConfigError."""
    problems: dict[str, list[str]] = {}
    mode, fields = values["pk.mode"], values["pk.fields"]
    if values["insert.mode"] != INSERT and mode == NONE:
        problems["pk.mode"] = [f"must name the key for insert.mode={values['insert.mode']}"]
    if values["delete.enabled"] and mode != RECORD_KEY:
        problems["delete.enabled"] = ["needs pk.mode=record_key, because a deletion has only a key"]
    if mode == KAFKA and len(fields) not in (0, 3):
        problems["pk.fields"] = ["must be three names with pk.mode=kafka: for topic, partition and offset"]
    if problems:
        raise BadConfigError(problems)
