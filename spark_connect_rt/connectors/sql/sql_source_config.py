"""Settings of the SQL source: names, and the rules between them."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, AtLeastOr, java_regex, one_of
from spark_connect_rt.connectors.sql.sql_settings import CONNECTION, key
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
            "bulk: everything at each poll. incrementing: rows with a greater incrementing column. timestamp: "
            "rows changed since the last poll. timestamp+incrementing: both, the safest.",
            one_of(BULK, INCREMENTING, TIMESTAMP, BOTH),
        ),
        key(
            INCREMENTING_COLUMN,
            Type.STRING,
            "",
            MEDIUM,
            "Column whose integers only grow. Empty: the table's only generated column.",
        ),
        _names(TIMESTAMP_COLUMNS, "Columns with the time of a row's last change. The first that is not null is used."),
        key(
            "timestamp.initial",
            Type.LONG,
            None,
            LOW,
            "Where a new table starts in the timestamp modes, ms since 1970. -1: now. Not set: at its first row.",
        ),
        key(
            "timestamp.delay.interval.ms",
            Type.LONG,
            0,
            HIGH,
            "Age of a change before it is read, ms. Set it longer than the longest transaction, so that no change "
            "that commits late is missed.",
            AtLeast(0),
        ),
        key(
            "validate.non.null",
            Type.BOOLEAN,
            True,
            LOW,
            "Reject tables whose incrementing column, or all of whose timestamp columns, may be null.",
        ),
        _names("table.whitelist", "Tables to read, by name or schema.name. At most one of these lists may be set."),
        _names("table.blacklist", "Tables not to read, by name or schema.name. All others are read."),
        _patterns(
            "table.include.list", "Regular expressions of tables to read. The whole name or schema.name must match."
        ),
        _patterns("table.exclude.list", "Regular expressions of tables not to read."),
        _names(
            "table.types",
            f"Kinds of tables to read, of {', '.join(KINDS)}. Not set: TABLE. A partition is skipped if its "
            "partitioned table is read.",
            LOW,
        ),
        key(
            "schema.pattern",
            Type.STRING,
            None,
            HIGH,
            "Schemas to read, as a pattern of SQL's LIKE. Not set: all that the user can see.",
        ),
        key(
            "query",
            Type.STRING,
            "",
            MEDIUM,
            "SELECT to read instead of tables. It may have joins and conditions. Its columns must have names.",
        ),
        key(
            "topic.prefix",
            Type.STRING,
            "",
            HIGH,
            "Prefix of a table's name to form its topic. With a query: the topic.",
        ),
        key(
            "poll.interval.ms",
            Type.LONG,
            5_000,
            HIGH,
            "Wait between polls of a table, ms. It also applies to a table that had rows.",
            AtLeast(1),
        ),
        key(
            "connection.attempts",
            Type.INT,
            NO_LIMIT,
            LOW,
            "Attempts to reach a database that does not answer before the task fails. -1: no limit.",
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
            "Most rows of one poll. Without ADBC at most 10,000, because each value is an object.",
            AtLeast(1),
        ),
        key(
            "table.poll.interval.ms",
            Type.LONG,
            60_000,
            LOW,
            "Wait between checks for new and dropped tables, ms.",
            AtLeast(1),
        ),
        key(
            "numeric.mapping",
            Type.STRING,
            "none",
            LOW,
            "How NUMERIC columns are read. none: Decimal. precision_only: integers if they have no digits after "
            "the decimal point. best_fit: integers and float64 if up to 18 digits fit. best_fit_eager_double: "
            "float64 for all others. A NUMERIC without a scale is text, with the last two float64.",
            one_of(*_NUMERIC),
        ),
        key(
            "connectrt.sql.arrow",
            Type.BOOLEAN,
            True,
            LOW,
            "Read through the database's ADBC driver, as Arrow columns, if it is installed.",
        ),
    ]
)
_LISTS = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")


def check_together(values: dict[str, Any]) -> None:
    """Return when settings fit each other. Raises BadConfigError."""
    problems: dict[str, list[str]] = {}
    lists = [name for name in _LISTS if values[name]]
    if len(lists) > 1:
        problems[lists[1]] = [f"{lists[0]} is also set. Only one of these lists may be set"]
    if values["query"].strip() and lists:
        problems[lists[0]] = ["query is also set. It is read instead of tables"]
    if values["query"].strip() and not values["topic.prefix"]:
        problems["topic.prefix"] = ["must be the topic of the query's rows"]
    mode = values["mode"]
    if mode in (TIMESTAMP, BOTH) and not any(values[TIMESTAMP_COLUMNS]):
        problems[TIMESTAMP_COLUMNS] = [f"must be set for mode {mode}"]
    if values["query"].strip() and mode in (INCREMENTING, BOTH) and not values[INCREMENTING_COLUMN]:
        problems[INCREMENTING_COLUMN] = [f"must be set for mode {mode} with a query"]
    if unknown := [kind for kind in values["table.types"] if kind.upper() not in KINDS]:
        problems["table.types"] = [f"{', '.join(unknown)} is not valid. Use {', '.join(KINDS)}"]
    if problems:
        raise BadConfigError(problems)
