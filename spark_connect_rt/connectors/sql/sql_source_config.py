"""Settings of the SQL source: names, and what has to fit together."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, AtLeastOr, java_regex, one_of
from spark_connect_rt.connectors.sql.sql_settings import CONNECTION, HIGH, LOW, MEDIUM, key
from spark_connect_rt.connectors.sql.sql_tables import KINDS
from spark_connect_rt.errors import BadConfigError

BULK, INCREMENTING, TIMESTAMP, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
TABLES = "tables"
QUERY_TASK = "connectrt.sql.query"  # in a task's configuration: it reads the query, not tables
INCREMENTING_COLUMN, TIMESTAMP_COLUMNS = "incrementing.column.name", "timestamp.column.name"
NO_LIMIT = -1
_NUMERIC = ("none", "precision_only", "best_fit", "best_fit_eager_double")


def _names(name: str, doc: str, importance: Importance = MEDIUM) -> ConfigKey:
    return key(name, Type.LIST, "", importance, doc)


def _patterns(name: str, doc: str) -> ConfigKey:
    return key(name, Type.LIST, "", MEDIUM, doc, java_regex)


CONFIG = CONNECTION + ConfigDef(
    [
        key(
            "mode",
            Type.STRING,
            BULK,
            HIGH,
            "bulk: everything at each poll. incrementing: rows with a greater incrementing column. timestamp: rows "
            "changed since. timestamp+incrementing: both, the safest.",
            one_of(BULK, INCREMENTING, TIMESTAMP, BOTH),
        ),
        key(
            INCREMENTING_COLUMN,
            Type.STRING,
            "",
            MEDIUM,
            "Column whose integers only grow; empty: the table's one generated column.",
        ),
        _names(TIMESTAMP_COLUMNS, "Columns that say when a row changed; the first that is not null counts."),
        key(
            "timestamp.initial",
            Type.LONG,
            None,
            LOW,
            "Where a new table begins in the timestamp modes, ms since 1970; -1: now; not set: at its first row.",
        ),
        key(
            "timestamp.delay.interval.ms",
            Type.LONG,
            0,
            HIGH,
            "Age that a change must have before it is read, ms: longer than the longest transaction, so that none is "
            "missed that commits late.",
            AtLeast(0),
        ),
        key(
            "validate.non.null",
            Type.BOOLEAN,
            True,
            LOW,
            "Refuse tables whose incrementing column, or all of whose timestamp columns, may be null.",
        ),
        _names("table.whitelist", "Tables to read, by name or schema.name. At most one of these lists may be set."),
        _names("table.blacklist", "Tables not to read, by name or schema.name; all others are."),
        _patterns(
            "table.include.list", "Regular expressions of tables to read; a whole name or schema.name must match."
        ),
        _patterns("table.exclude.list", "Regular expressions of tables not to read."),
        _names(
            "table.types",
            f"Kinds of tables to look for, of {', '.join(KINDS)}; not set: TABLE. A partition is left out where its "
            "partitioned table is read.",
            LOW,
        ),
        key(
            "schema.pattern", Type.STRING, None, HIGH, "Schemas to look in, as of SQL's LIKE; not set: the user's all."
        ),
        key(
            "query",
            Type.STRING,
            "",
            MEDIUM,
            "A SELECT to read instead of tables; it may have joins and conditions. Its columns must have names.",
        ),
        key(
            "topic.prefix", Type.STRING, "", HIGH, "Put before a table's name to make its topic; of a query, the topic."
        ),
        key(
            "poll.interval.ms",
            Type.LONG,
            5_000,
            HIGH,
            "Wait between looks at a table, ms. A table that had rows is looked at again after this time, too.",
            AtLeast(1),
        ),
        key(
            "connection.attempts",
            Type.INT,
            NO_LIMIT,
            LOW,
            "Attempts to reach a database that does not answer before the task fails; -1: until it answers.",
            AtLeastOr(1, NO_LIMIT, "no limit"),
        ),
        key(
            "connection.backoff.ms",
            Type.LONG,
            10_000,
            LOW,
            "Wait between attempts to reach the database, ms.",
            AtLeast(0),
        ),
        key(
            "batch.max.rows",
            Type.INT,
            50_000,
            LOW,
            "Most rows that one poll returns; without ADBC, where each value is an object, no more than 10,000.",
            AtLeast(1),
        ),
        key(
            "table.poll.interval.ms",
            Type.LONG,
            60_000,
            LOW,
            "Wait between looks for new and dropped tables, ms.",
            AtLeast(1),
        ),
        key(
            "numeric.mapping",
            Type.STRING,
            "none",
            LOW,
            "NUMERIC columns. none: Decimal. precision_only: integers where they have no digits after the point. "
            "best_fit: integers and float64 where up to 18 digits fit. best_fit_eager_double: float64 for all others. "
            "A NUMERIC without a scale is text, with the last two float64.",
            one_of(*_NUMERIC),
        ),
        key(
            "connectrt.sql.arrow",
            Type.BOOLEAN,
            True,
            LOW,
            "Read through the database's ADBC driver, in Arrow columns, where it is installed.",
        ),
    ]
)
_LISTS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


def check_together(values: dict[str, Any]) -> None:
    """Return when settings fit each other. Raises BadConfigError."""
    problems: dict[str, list[str]] = {}
    lists = [name for name in _LISTS if values[name]]
    if len(lists) > 1:
        problems[lists[1]] = [f"{lists[0]} is set, too: only one list may be"]
    if values["query"].strip() and lists:
        problems[lists[0]] = ["query is set, too: it is read instead of tables"]
    if values["query"].strip() and not values["topic.prefix"]:
        problems["topic.prefix"] = ["must name the topic of the query's rows"]
    mode = values["mode"]
    if mode in (TIMESTAMP, BOTH) and not any(values[TIMESTAMP_COLUMNS]):
        problems[TIMESTAMP_COLUMNS] = [f"must be set for mode {mode}"]
    if values["query"].strip() and mode in (INCREMENTING, BOTH) and not values[INCREMENTING_COLUMN]:
        problems[INCREMENTING_COLUMN] = [f"must be set for mode {mode} with a query"]
    if unknown := [kind for kind in values["table.types"] if kind.upper() not in KINDS]:
        problems["table.types"] = [f"{', '.join(unknown)} is not known; the kinds are {', '.join(KINDS)}"]
    if problems:
        raise BadConfigError(problems)
