"""Settings of the table sinks, under the names of Apache Iceberg's official Kafka Connect sink.

Each setting is honoured, or refused with a reason. Settings that this sink does not need are accepted, so that an
existing configuration can be used as it is, and validation says that they have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, ConfigKey, Importance, Type, prefixed
from spark_connect_rt.config.validators import AtLeast, Check, anything, one_of
from spark_connect_rt.connectors.lakehouse.changes import ChangeForm
from spark_connect_rt.connectors.lakehouse.data_files import FileSettings
from spark_connect_rt.connectors.lakehouse.guard import GROUP_LAG_MS
from spark_connect_rt.errors import BadConfigError

AUTO = "auto"
DIRECT_TASKS = 4
"""Up to this many tasks, commits to one table seldom wait for each other. More tasks that append share commits."""
KEEP, REFILL = "keep", "refill"
_PLAIN_NAME = re.compile(r"[^\s.`\"'/\\]+(\.[^\s.`\"'/\\]+)+")


def _key(
    name: str,
    kind: Type,
    default: Any,
    importance: Importance,
    doc: str,
    check: Check = anything,
    doubt: Check = anything,
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, doc, check, doubt=doubt)


def _unused(name: str, reason: str) -> ConfigKey:
    """Return a setting of the official sink that has no effect here."""
    return _key(name, Type.STRING, None, LOW, f"No effect: {reason}", doubt=lambda value: f"it has no effect: {reason}")


def _decimal_complaint(text: str | None) -> str | None:
    if not text:
        return None
    digits, comma, scale = (part.strip() for part in text.partition(","))
    if comma and digits.isdecimal() and scale.isdecimal() and int(scale) <= int(digits) and 1 <= int(digits) <= 38:
        return None
    return "Value must be digits and scale, such as 38,9, with at most 38 digits"


_NO_CONTROL = "offsets are stored in the table, so there is no control topic and no coordinator."

TABLE_SINK = ConfigDef(
    [
        _key("iceberg.tables", Type.LIST, "", HIGH, "Tables to write, as namespace.table. Several need a route field."),
        _key(
            "iceberg.tables.dynamic-enabled",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Whether the value of iceberg.tables.route-field is the name of the table.",
        ),
        _key(
            "iceberg.tables.route-field",
            Type.STRING,
            None,
            MEDIUM,
            "Field of the value, with dots for nested fields, that decides the table. With iceberg.tables, a record "
            "goes to each table whose iceberg.table.TABLE.route-regex matches the whole value.",
        ),
        _key(
            "iceberg.tables.default-commit-branch",
            Type.STRING,
            None,
            MEDIUM,
            "Branch to commit to. It must exist. Empty: main. iceberg.table.TABLE.commit-branch overrides it.",
        ),
        _key(
            "iceberg.tables.default-id-columns",
            Type.LIST,
            "",
            HIGH,
            "Columns that identify a row. Empty: the identifier columns of the table, else the fields of the record's "
            "key. iceberg.table.TABLE.id-columns overrides it.",
        ),
        _key(
            "iceberg.tables.default-partition-by",
            Type.STRING,
            "",
            MEDIUM,
            "Partition fields of tables that the sink creates: columns, year(c), month(c), day(c), hour(c), "
            "bucket(16, c), truncate(4, c). iceberg.table.TABLE.partition-by overrides it.",
        ),
        _key(
            "iceberg.tables.auto-create-enabled",
            Type.BOOLEAN,
            False,
            HIGH,
            "Whether to create a missing table from the schema of the records.",
        ),
        _key(
            "iceberg.tables.evolve-schema-enabled",
            Type.BOOLEAN,
            False,
            HIGH,
            "Whether to add missing columns, widen types and make columns optional. Other changes are refused.",
        ),
        _key(
            "iceberg.tables.schema-force-optional",
            Type.BOOLEAN,
            False,
            LOW,
            "Whether all columns of a created table, except for id columns, are optional.",
        ),
        _key(
            "iceberg.tables.schema-case-insensitive",
            Type.BOOLEAN,
            False,
            LOW,
            "Whether fields and columns match if they differ only in case.",
        ),
        _key(
            "iceberg.tables.upsert-mode-enabled",
            Type.BOOLEAN,
            False,
            HIGH,
            "Whether a record replaces the row with its key, and a record without a value deletes it.",
        ),
        _key(
            "iceberg.tables.cdc-field",
            Type.STRING,
            None,
            MEDIUM,
            "Field of the value that holds the operation: D or d deletes, anything else replaces. Turns upserts on.",
        ),
        _key(
            "iceberg.control.commit.interval-ms",
            Type.INT,
            300_000,
            HIGH,
            "How long rows are gathered before they are committed, ms.",
            AtLeast(1),
        ),
        _key(
            "connectrt.table.commit.max.bytes",
            Type.LONG,
            128 << 20,
            MEDIUM,
            "From this many bytes of gathered rows on, they are committed before the interval ends.",
            AtLeast(1 << 16),
        ),
        _key(
            "connectrt.table.changes",
            Type.STRING,
            AUTO,
            MEDIUM,
            "The form of values with upserts. plain: the row. debezium: an envelope with op, before and after. "
            "flattened: the row with __deleted or the cdc-field. auto: decided for each schema.",
            one_of(AUTO, *(form.value for form in ChangeForm)),
        ),
        _key(
            "connectrt.table.variable.decimal",
            Type.STRING,
            "",
            LOW,
            "Digits and scale, such as 38,9, of columns for decimals of any scale (Debezium's VariableScaleDecimal). A "
            "record whose number does not fit exactly is refused. Empty: the column is text.",
            _decimal_complaint,
        ),
        _key(
            "connectrt.table.rollback",
            Type.STRING,
            KEEP,
            LOW,
            "After the table was rolled back to an older snapshot. keep: the removed rows stay away. refill: their "
            "records are written again.",
            one_of(KEEP, REFILL),
        ),
        _key(
            "connectrt.table.retry.timeout.ms",
            Type.LONG,
            600_000,
            MEDIUM,
            "For how long a catalog or file system that cannot be reached is tried before the task fails, ms.",
            AtLeast(0),
        ),
        _key(
            "connectrt.table.group.lag.ms",
            Type.LONG,
            GROUP_LAG_MS,
            LOW,
            "How long the consumer group may be behind the table without a reset by its owner, ms. Must be longer than "
            "the worker's offset.flush.interval.ms.",
            AtLeast(0),
        ),
        _key(
            "connectrt.table.snapshots.keep",
            Type.INT,
            100,
            MEDIUM,
            "How many snapshots of the table the sink keeps. It expires older ones after a commit, never its own last "
            "one. 0: it expires none.",
            AtLeast(0),
        ),
        _key(
            "connectrt.table.compact.files",
            Type.INT,
            50,
            MEDIUM,
            "From this many delete files, or this many small data files of one partition on, the sink rewrites them. "
            "0: never.",
            AtLeast(0),
        ),
        _unused("iceberg.control.topic", _NO_CONTROL),
        _unused("iceberg.control.group-id-prefix", _NO_CONTROL),
        _unused("iceberg.control.commit.timeout-ms", _NO_CONTROL),
        _unused("iceberg.control.commit.threads", _NO_CONTROL),
        _unused("iceberg.connect.group-id", _NO_CONTROL),
        _unused("iceberg.coordinator.transactional.prefix", _NO_CONTROL),
        _unused("iceberg.coordinator-executor-keep-alive-timeout-ms", _NO_CONTROL),
    ]
)
"""The settings of every table sink. A format adds those of its catalog."""

_TABLE_PREFIX = "iceberg.table."
CREATED_WITH, _WRITE_PROPS = "iceberg.tables.auto-create-props.", "iceberg.tables.write-props."
_CONTROL_CLIENTS = "iceberg.kafka."
PREFIXES = (_TABLE_PREFIX, CREATED_WITH, _WRITE_PROPS, _CONTROL_CLIENTS, "iceberg.catalog.", "iceberg.hadoop")
"""The beginnings of settings that no table of declarations can list, because they contain names of users."""
_PER_TABLE = ("id-columns", "partition-by", "commit-branch", "route-regex")
_WRITE_PROPERTIES: Mapping[str, Callable[[str], tuple[str, Any]]] = {
    "write.target-file-size-bytes": lambda text: ("target_bytes", int(text)),
    "write.parquet.row-group-size-bytes": lambda text: ("row_group_bytes", int(text)),
    "write.parquet.compression-codec": lambda text: ("codec", text),
    "write.parquet.compression-level": lambda text: ("level", int(text)),
}


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings of one table, defaults applied. An empty branch is the main branch."""

    id_columns: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    branch: str = ""
    route: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class TableSinkSettings:
    """Typed settings of a table sink's task. Durations in ms."""

    tables: tuple[str, ...]
    dynamic: bool
    route_field: str | None
    auto_create: bool
    evolve: bool
    force_optional: bool
    case_sensitive: bool
    upsert: bool
    op_field: str | None
    form: ChangeForm | None
    interval_ms: int
    max_bytes: int
    retry_timeout_ms: int
    refill: bool
    group_lag_ms: int
    snapshots_kept: int
    compact_files: int
    tasks: int
    defaults: TableSettings
    per_table: Mapping[str, TableSettings] = field(default_factory=dict)
    created_with: Mapping[str, str] = field(default_factory=dict)
    variable_decimal: tuple[int, int] | None = None
    files: FileSettings = field(default_factory=FileSettings)

    @property
    def shares_commits(self) -> bool:
        """Whether one task commits the rows of all. Upserts are never shared (docs/decisions/0014)."""
        return self.tasks > DIRECT_TASKS and not self.upsert

    def of(self, table: str) -> TableSettings:
        """Return the settings of a table."""
        return self.per_table.get(table, self.defaults)


def read_settings(config: Mapping[str, str]) -> TableSinkSettings:
    """Return the typed settings of a configuration. Raises BadConfigError for each one that is wrong."""
    values = TABLE_SINK.parse(config)
    problems: dict[str, list[str]] = {}
    defaults = TableSettings(
        tuple(values["iceberg.tables.default-id-columns"]),
        split_fields(values["iceberg.tables.default-partition-by"]),
        values["iceberg.tables.default-commit-branch"] or "",
    )
    tables = tuple(values["iceberg.tables"])
    form = values["connectrt.table.changes"]
    settings = TableSinkSettings(
        tables,
        values["iceberg.tables.dynamic-enabled"],
        values["iceberg.tables.route-field"] or None,
        values["iceberg.tables.auto-create-enabled"],
        values["iceberg.tables.evolve-schema-enabled"],
        values["iceberg.tables.schema-force-optional"],
        not values["iceberg.tables.schema-case-insensitive"],
        values["iceberg.tables.upsert-mode-enabled"] or bool(values["iceberg.tables.cdc-field"]),
        values["iceberg.tables.cdc-field"] or None,
        None if form == AUTO else ChangeForm(form),
        values["iceberg.control.commit.interval-ms"],
        values["connectrt.table.commit.max.bytes"],
        values["connectrt.table.retry.timeout.ms"],
        values["connectrt.table.rollback"] == REFILL,
        values["connectrt.table.group.lag.ms"],
        values["connectrt.table.snapshots.keep"],
        values["connectrt.table.compact.files"],
        task_count(config),
        defaults,
        _per_table(config, defaults, problems),
        prefixed(config, CREATED_WITH),
        _decimal_of(values["connectrt.table.variable.decimal"]),
        _file_settings(prefixed(config, _WRITE_PROPS), problems),
    )
    _check_together(settings, problems)
    if problems:
        raise BadConfigError(problems)
    return settings


def _decimal_of(text: str) -> tuple[int, int] | None:
    digits, _, scale = text.partition(",")
    return (int(digits), int(scale)) if text else None


def is_table_name(name: str) -> bool:
    """Return whether a text is the name of a table with its namespace, such as `shop.orders`."""
    return _PLAIN_NAME.fullmatch(name) is not None


def task_doubts(config: Mapping[str, str]) -> dict[str, str]:
    """Return a warning for more tasks than can upsert into a table without long waits, setting -> reason."""
    tasks = task_count(config)
    upserts = (config.get("iceberg.tables.upsert-mode-enabled") or "").strip().lower() == "true"
    if tasks <= DIRECT_TASKS or not (upserts or config.get("iceberg.tables.cdc-field")):
        return {}
    reason = (
        f"each of the {tasks} tasks that upsert has an index of all keys of the table, and they commit one after "
        f"another. Every lost race is a commit that is made again. Use at most {DIRECT_TASKS} tasks, or a longer "
        "iceberg.control.commit.interval-ms"
    )
    return {"tasks.max": reason}


def task_count(config: Mapping[str, str]) -> int:
    """Return how many tasks may write a table. 1 if the setting is missing or invalid."""
    text = (config.get("tasks.max") or "").strip()
    return max(1, int(text)) if text.isdecimal() else 1


def without_effect(config: Mapping[str, str]) -> dict[str, str]:
    """Return settings for the Kafka clients of the official sink's control topic, with the reason."""
    return {name: f"it has no effect: {_NO_CONTROL}" for name in config if name.startswith(_CONTROL_CLIENTS)}


def _per_table(
    config: Mapping[str, str], defaults: TableSettings, problems: dict[str, list[str]]
) -> dict[str, TableSettings]:
    by_table: dict[str, dict[str, str]] = {}
    for name, value in prefixed(config, _TABLE_PREFIX).items():
        table, _, setting = name.rpartition(".")
        if setting not in _PER_TABLE or not table:
            problems[_TABLE_PREFIX + name] = [f"is not a setting of a table. These are: {', '.join(_PER_TABLE)}."]
        else:
            by_table.setdefault(table, {})[setting] = value
    return {table: _table_settings(table, given, defaults, problems) for table, given in by_table.items()}


def _table_settings(
    table: str, given: Mapping[str, str], defaults: TableSettings, problems: dict[str, list[str]]
) -> TableSettings:
    route = None
    if "route-regex" in given:
        try:
            route = re.compile(given["route-regex"])
        except re.error as error:
            problems[f"{_TABLE_PREFIX}{table}.route-regex"] = [f"is not a regular expression: {error}"]
    ids = tuple(word.strip() for word in given.get("id-columns", "").split(",") if word.strip())
    return TableSettings(
        ids or defaults.id_columns,
        split_fields(given["partition-by"]) if "partition-by" in given else defaults.partition_by,
        given.get("commit-branch", "").strip() or defaults.branch,
        route,
    )


def split_fields(text: str) -> tuple[str, ...]:
    """Return the parts between commas that are outside of parentheses: `a, bucket(4, b)` has two."""
    return tuple(part.strip() for part in re.split(r",(?![^()]*\))", text) if part.strip())


def _file_settings(given: Mapping[str, str], problems: dict[str, list[str]]) -> FileSettings:
    fields: dict[str, Any] = {}
    for name, text in given.items():
        full = f"{_WRITE_PROPS}{name}"
        if name not in _WRITE_PROPERTIES:
            problems[full] = [f"is not supported. Supported are: {', '.join(_WRITE_PROPERTIES)}."]
            continue
        try:
            place, value = _WRITE_PROPERTIES[name](text.strip())
        except ValueError:
            problems[full] = [f"must be a whole number, not {text!r}"]
        else:
            fields[place] = value
    return FileSettings(**fields)


def _check_together(settings: TableSinkSettings, problems: dict[str, list[str]]) -> None:
    if settings.dynamic and settings.tables:
        problems["iceberg.tables"] = ["must be empty with iceberg.tables.dynamic-enabled=true"]
    if settings.dynamic and settings.route_field is None:
        problems["iceberg.tables.route-field"] = ["must be set with iceberg.tables.dynamic-enabled=true"]
    if not settings.dynamic and not settings.tables:
        problems["iceberg.tables"] = ["must name a table, such as shop.orders"]
    wrong = [table for table in settings.tables if not is_table_name(table)]
    if wrong:
        problems["iceberg.tables"] = [f"{', '.join(wrong)}: must be namespace.table, such as shop.orders"]
    if len(set(settings.tables)) < len(settings.tables):
        problems["iceberg.tables"] = ["names a table twice"]
    if len(settings.tables) > 1 and settings.route_field is None:
        problems["iceberg.tables.route-field"] = ["must be set for more than one table"]
    if settings.route_field is not None and not settings.dynamic:
        without = [table for table in settings.tables if settings.of(table).route is None]
        if without:
            names = ", ".join(f"{_TABLE_PREFIX}{table}.route-regex" for table in without)
            problems["iceberg.tables.route-field"] = [f"needs {names}, else these tables get no record"]
    unknown = sorted(settings.per_table.keys() - set(settings.tables)) if not settings.dynamic else []
    if unknown:
        problems[f"{_TABLE_PREFIX}{unknown[0]}"] = ["is not in iceberg.tables"]


_TRANSFORMS = {"year": "year", "years": "year", "month": "month", "months": "month", "day": "day", "days": "day",
               "hour": "hour", "hours": "hour", "date": "day", "date_hour": "hour"}  # fmt: skip


def parse_partition_field(text: str) -> tuple[str, str, str]:
    """Return (column, transform, name) of one partition field as the official sink writes it. Raises ValueError."""
    text = text.strip()
    head, bracket, rest = text.partition("(")
    if not bracket:
        if text:
            return text, "identity", text
    elif rest.endswith(")"):
        word, arguments = head.strip().lower(), [part.strip() for part in rest[:-1].split(",")]
        if word in _TRANSFORMS and len(arguments) == 1 and arguments[0]:
            return arguments[0], _TRANSFORMS[word], f"{arguments[0]}_{_TRANSFORMS[word]}"
        if word in ("bucket", "truncate") and len(arguments) == 2:
            number, column = arguments if arguments[0].isdigit() else arguments[::-1]
            if number.isdigit() and int(number) > 0 and column:
                return column, f"{word}[{number}]", f"{column}_{word if word == 'bucket' else 'trunc'}"
    raise ValueError(
        f"{text!r} is not a partition field. Use a column, year(c), month(c), day(c), hour(c), bucket(16, c) or "
        "truncate(4, c)."
    )
