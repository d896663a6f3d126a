"""Classes of Databricks' Lakeflow community connectors as a source connector, unchanged.

A class is asked as Databricks' own reader asks it: ``list_tables``, ``get_table_schema``, ``read_table_metadata``,
``read_table``, ``read_table_deletes``, and the partitioned ones where it has them. Partition ``{"lakeflow": class,
"table": name}``, of deletions with ``"flow": "deletes"``; the offset holds the class's own. At-least-once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, non_empty
from spark_connect_rt.connectors.python_sources.passes import ONCE, PassTimes, named
from spark_connect_rt.connectors.python_sources.table_pages import is_json_object
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import ConnectError

CLASS, TABLES = "lakeflow.class", "lakeflow.tables"
OPTION, TABLE_OPTION = "lakeflow.option.", "lakeflow.table."
TASK_TABLES = "lakeflow.task.tables"  # in a task's configuration: its tables as JSON
CODE_CLASS = "CRT-1144"
_METHODS = ("list_tables", "get_table_schema", "read_table_metadata", "read_table")
_SHORT_WAIT_MS = 100

CONFIG = ConfigDef(
    [
        ConfigKey(CLASS, Type.STRING, REQUIRED, Importance.HIGH, "Class of the connector, module:Class.", non_empty),
        ConfigKey(TABLES, Type.LIST, "", Importance.HIGH, "Tables to read. Empty: all that the class lists."),
        ConfigKey("topic.prefix", Type.STRING, "", Importance.HIGH, "Prefix of a table's name to form its topic."),
        ConfigKey(
            "poll.interval.ms",
            Type.LONG,
            60_000,
            Importance.HIGH,
            "Wait between two passes, ms. For snapshots it also applies across restarts. -1: only one pass per start.",
            AtLeast(ONCE),
        ),
        ConfigKey("batch.max.rows", Type.INT, 10_000, Importance.LOW, "Most rows of one batch.", AtLeast(1)),
        ConfigKey(
            "lakeflow.retries.max",
            Type.INT,
            5,
            Importance.MEDIUM,
            "Failures in a row before the task fails.",
            AtLeast(0),
        ),
        ConfigKey(
            "lakeflow.retry.backoff.ms",
            Type.LONG,
            1_000,
            Importance.LOW,
            "First wait after a failure, ms. It doubles each time, up to a minute.",
            AtLeast(1),
        ),
    ]
)


def lakeflow_class(reference: str) -> type[Any]:
    """Return the class. Raises ConnectError: there is none, or it is not a Lakeflow connector."""
    module, _, name = reference.partition(":")
    try:
        found = named(module, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConnectError(f"{CLASS}={reference} cannot be found: {error}", code=CODE_CLASS) from error
    missing = [method for method in _METHODS if not callable(getattr(found, method, None))]
    if not isinstance(found, type) or missing:
        lacks = f"has no {', '.join(missing)}" if missing else "is not a class"
        raise ConnectError(f"{CLASS}={reference} is not a Lakeflow connector: it {lacks}", code=CODE_CLASS)
    return found


class Options(dict[str, str]):
    """Options as Spark gives them, in any case, and as a dict for connectors: names are in lower case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Take them; of names that differ by their case the last one counts."""
        super().__init__({name.lower(): value for name, value in given.items()})

    def __getitem__(self, name: str) -> str:
        """Return an option. Raises KeyError."""
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        """Return whether an option is given."""
        return super().__contains__(name.lower() if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option, or ``default``."""
        return super().get(name.lower(), default)

    def pop(self, name: str, *default: Any) -> Any:
        """Return an option, and take it out."""
        return super().pop(name.lower(), *default)


def options_of(config: Mapping[str, str], table: str | None = None) -> Options:
    """Return the options of the connection, and those of a table if it is given."""
    own = {} if table is None else {"tableName": table, **_after(config, f"{TABLE_OPTION}{table}.")}
    return Options({**Options(_after(config, OPTION)), **Options(own)})


def _maker(found: type[Any], options: Mapping[str, str]) -> Callable[[], Any]:
    return lambda: found(options)


def _after(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in config.items() if name.startswith(prefix)}


class LakeflowSourceConnector(SourceConnector):
    """Reads tables with an unmodified community connector for Databricks Lakeflow.

    Reads tables of one Lakeflow connector, which are divided among tasks.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return LakeflowSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return a complaint when the class cannot be found, or is not a Lakeflow connector."""
        try:
            if config.get(CLASS):
                lakeflow_class(config[CLASS])
        except ConnectError as error:
            return {CLASS: [str(error)]}
        return {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Divide the tables among tasks. Raises ConnectError, and any error of the class that lists its tables."""
        values = CONFIG.parse(self.config)
        tables = values[TABLES] or lakeflow_class(values[CLASS])(options_of(self.config)).list_tables()
        shares = [list(tables)[at::max_tasks] for at in range(min(max_tasks, len(tables)))]
        return [{**self.config, TASK_TABLES: json.dumps(share)} for share in shares]

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or not {"lakeflow", "table"} <= partition.keys() <= {"lakeflow", "table", "flow"}:
                raise ConnectError(
                    'the partition must be {"lakeflow": class, "table": name}, or with "flow": "deletes"'
                )
            if not is_json_object(offset.get("offset")):
                raise ConnectError('the offset must have "offset", the class\'s offset as the text of a JSON object')
        return True


class LakeflowSourceTask(SourceTask):
    """Reads its tables in turn."""

    clock: Callable[[], float] = staticmethod(time.time)

    def start(self, config: Mapping[str, str]) -> None:
        """Resume from the stored offsets. Raises BadConfigError, ConnectError."""
        from spark_connect_rt.connectors.python_sources import lakeflow_table as parts

        values, found = CONFIG.parse(config), lakeflow_class(config[CLASS])
        settings = parts.LakeflowTableSettings(found.__name__, values["topic.prefix"], values["batch.max.rows"])
        self._tables = []
        for table in json.loads(config[TASK_TABLES]):
            flows = (parts.ROWS, parts.DELETES)
            partitions = [parts.partition_of(found.__name__, table, flow) for flow in flows]
            stored = dict(zip(flows, self.context.offset_reader.offsets(partitions), strict=True))
            options = options_of(config, table)
            retries, backoff_ms = values["lakeflow.retries.max"], values["lakeflow.retry.backoff.ms"]
            times = PassTimes(values["poll.interval.ms"], retries, backoff_ms, lambda: self.clock() * 1000)
            made = parts.LakeflowTable(table, options, stored, _maker(found, options), settings, self._give_up, times)
            self._tables.append(made)

    def _give_up(self, place: str, error: Exception, data: bytes | None) -> None:
        self.context.report_errant(place, error, data)

    @timed
    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the next records of some table. Raises ConnectError: a source failed too often."""
        for at, table in enumerate(self._tables):
            found = table.poll()
            if found:
                self._tables = [*self._tables[at + 1 :], *self._tables[: at + 1]]
                return found
        return None

    def has_more(self) -> bool:
        """Return whether a pass is in progress or due."""
        return any(table.busy or table.times.due for table in self._tables)

    def idle_wait_ms(self) -> int:
        """Return how long there is nothing to do, at most a moment: a stop must not wait."""
        if any(table.busy for table in self._tables):
            return 1
        due_ms = min((table.times.due_ms for table in self._tables), default=0.0)
        return round(max(1.0, min(_SHORT_WAIT_MS, due_ms - self.clock() * 1000)))

    def stop(self) -> None:
        """End the passes that are in progress."""
        for table in getattr(self, "_tables", ()):
            table.close()
