"""Settings of the SQL sink: names, and what has to fit together."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.config.config_def import ConfigDef, Type
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.connectors.sql.sql_settings import CONNECTION, HIGH, LOW, MEDIUM, key
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
            "insert: a new row each. upsert: the row with the same key is replaced (PostgreSQL, SQLite). update: only "
            "rows that are there change.",
            one_of(INSERT, UPSERT, UPDATE),
        ),
        key(
            "delete.enabled",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "A record without a value deletes the row of its key; needs pk.mode=record_key.",
        ),
        key(
            "table.name.format",
            Type.STRING,
            "${topic}",
            MEDIUM,
            "Table of a topic's records, maybe schema.table; a name with a dot of its own is written in double quotes.",
            non_empty,
        ),
        key(
            "pk.mode",
            Type.STRING,
            NONE,
            HIGH,
            "Where the row's key comes from. kafka: topic, partition, offset. record_key, record_value: their fields.",
            one_of(NONE, KAFKA, RECORD_KEY, RECORD_VALUE),
        ),
        key(
            "pk.fields",
            Type.LIST,
            "",
            MEDIUM,
            "The key's columns. Of kafka: three names for topic, partition, offset. Of record_key: fields of the key, "
            "or one name for a key that is no struct. Of record_value: fields of the value. Empty: all.",
        ),
        key("fields.whitelist", Type.LIST, "", MEDIUM, "Fields of the value that are written; empty: all."),
        key("auto.create", Type.BOOLEAN, False, MEDIUM, "Create a table that is missing, as the records' schema says."),
        key(
            "auto.evolve",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Add columns that a table lacks, for fields that may be null or have a default.",
        ),
        key("batch.size", Type.INT, 50_000, MEDIUM, "Most rows of one statement.", AtLeast(1)),
        key(
            "max.retries",
            Type.INT,
            10,
            MEDIUM,
            "How often records are tried again while the database is away or busy, before the task fails.",
            AtLeast(0),
        ),
        key("retry.backoff.ms", Type.INT, 3_000, MEDIUM, "Wait before each of these attempts, ms.", AtLeast(0)),
        key(
            "connectrt.sql.copy.min.rows",
            Type.INT,
            200,
            LOW,
            "From so many rows on PostgreSQL is fed by COPY: updates, deletes and upserts of keys that it has by way "
            "of a temporary table.",
            AtLeast(1),
        ),
    ]
)


def check_together(values: dict[str, Any]) -> None:
    """Return when settings fit each other. Raises BadConfigError."""
    problems: dict[str, list[str]] = {}
    mode, fields = values["pk.mode"], values["pk.fields"]
    if values["insert.mode"] != INSERT and mode == NONE:
        problems["pk.mode"] = [f"must say what the key is for insert.mode={values['insert.mode']}"]
    if values["delete.enabled"] and mode != RECORD_KEY:
        problems["delete.enabled"] = ["needs pk.mode=record_key: a deletion has nothing but its key"]
    if mode == KAFKA and len(fields) not in (0, 3):
        problems["pk.fields"] = ["must be three names with pk.mode=kafka: of topic, partition and offset"]
    if problems:
        raise BadConfigError(problems)
