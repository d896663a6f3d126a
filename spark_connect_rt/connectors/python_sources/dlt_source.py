"""Any source or resource of dlt (dlthub) as a source connector; the library is the extra ``dlt``.

Partition ``{"dlt": source, "resource": the first of its unit}``; the offset holds dlt's state of the unit and when its
last pass ended. At-least-once: an interrupted pass is read again, whole or from its last page (``dlt.offsets``). With
``transaction.boundary=connector`` a pass is a transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import (
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
    SourceOffset,
)
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.settings_group import json_object
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.connectors.python_sources.dlt_unit import AUTO, PAGE, PASS, STATE, DltUnit, UnitSettings
from spark_connect_rt.connectors.python_sources.passes import ONCE, PassTimes, module_of_extra
from spark_connect_rt.connectors.python_sources.table_pages import is_json_object
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import BadConfigError, ConnectError

SOURCE, ARGUMENTS, RESOURCES = "dlt.source", "dlt.arguments", "dlt.resources"
CONFIG_PREFIX = "dlt.config."
TASK_UNITS = "dlt.task.units"  # in a task's configuration: its units as JSON, name -> resources
_SHORT_WAIT_MS = 100


CONFIG = ConfigDef(
    [
        ConfigKey(
            SOURCE,
            Type.STRING,
            REQUIRED,
            Importance.HIGH,
            "module:name of an object made by @dlt.source or @dlt.resource, or of one of dlt's own: rest_api, "
            "sql_database ...",
            non_empty,
        ),
        ConfigKey(
            ARGUMENTS,
            Type.PASSWORD,
            None,
            Importance.HIGH,
            "Arguments of the source, as a JSON object. dlt resolves the others as usual: dlt.config.*, "
            "environment, .dlt/config.toml and secrets.toml of the process.",
            json_object,
        ),
        ConfigKey(
            RESOURCES, Type.LIST, "", Importance.HIGH, "Resources to read. Empty: those that the source selects."
        ),
        ConfigKey("topic.prefix", Type.STRING, "", Importance.HIGH, "Prefix of a table's name to form its topic."),
        ConfigKey(
            "poll.interval.ms",
            Type.LONG,
            60_000,
            Importance.HIGH,
            "Wait between two passes, ms, also across restarts. -1: only one pass.",
            AtLeast(ONCE),
        ),
        ConfigKey("batch.max.rows", Type.INT, 10_000, Importance.LOW, "Most rows of one batch.", AtLeast(1)),
        ConfigKey(
            "dlt.schemas",
            Type.STRING,
            "infer",
            Importance.MEDIUM,
            "infer: records are structs of a schema that grows. none: records without a schema, as JSON, one at a "
            "time.",
            one_of("infer", "none"),
        ),
        ConfigKey(
            "dlt.offsets",
            Type.STRING,
            AUTO,
            Importance.MEDIUM,
            "When the offset advances. pass: at the end of a pass. page: with each page, which is only right if "
            "rows are ordered by the cursor. auto: page if the resource declares row_order=asc.",
            one_of(AUTO, PASS, PAGE),
        ),
        ConfigKey(
            "dlt.retries.max", Type.INT, 5, Importance.MEDIUM, "Failures in a row before the task fails.", AtLeast(0)
        ),
        ConfigKey(
            "dlt.retry.backoff.ms",
            Type.LONG,
            1_000,
            Importance.LOW,
            "First wait after a failure, ms. It doubles each time, up to a minute.",
            AtLeast(1),
        ),
    ]
)


def _passes() -> Any:
    return module_of_extra("spark_connect_rt.connectors.python_sources.dlt_passes", "dlt", "sources of dlt")


def settings_tree(config: Mapping[str, str]) -> dict[str, Any]:
    """Return dlt's settings from dlt.config.*, by section. dlt sends no telemetry unless a setting asks for it."""
    tree: dict[str, Any] = {"runtime": {"dlthub_telemetry": "false"}}
    for name, value in sorted(config.items()):
        if name.startswith(CONFIG_PREFIX):
            *sections, key = name[len(CONFIG_PREFIX) :].split(".")
            node = tree
            for section in sections:
                node = node.setdefault(section, {})
                if not isinstance(node, dict):
                    raise BadConfigError({name: [f"{section} already has a value"]})
            node[key] = value
    return tree


def source_name(reference: str) -> str:
    """Return a source's name in offsets: the last part of its reference."""
    return reference.rpartition(":")[2].rpartition(".")[2]


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    given = values[ARGUMENTS]
    found: dict[str, Any] = json.loads(given.value) if given is not None else {}
    return found


class DltSourceConnector(SourceConnector):
    """Reads from any source or resource of the Python library dlt.

    Reads resources of one dlt source. Resources that do not depend on each other are divided among tasks.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return DltSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return a complaint when the source cannot be found, or dlt is not installed."""
        try:
            if config.get(SOURCE):
                _passes().check_reference(config[SOURCE])
        except ConnectError as error:
            return {SOURCE: [str(error)]}
        return {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Divide the units among tasks. Raises ConnectError, and any error of the source when it is created."""
        values = CONFIG.parse(self.config)
        units = _passes().units_of(values[SOURCE], _arguments(values), settings_tree(self.config), values[RESOURCES])
        names = list(units)
        shares = [names[at::max_tasks] for at in range(min(max_tasks, len(names)))]
        return [{**self.config, TASK_UNITS: json.dumps({name: units[name] for name in share})} for share in shares]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return SUPPORTED if a pass is one transaction: only then is it delivered exactly once."""
        in_passes = config.get("transaction.boundary", "").lower() == "connector"
        return ExactlyOnceSupport.SUPPORTED if in_passes else ExactlyOnceSupport.UNSUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        """Return SUPPORTED: a pass may be a transaction."""
        return ConnectorTransactionBoundaries.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {"dlt", "resource"}:
                raise ConnectError('the partition must be {"dlt": source, "resource": name}')
            if not is_json_object(offset.get(STATE)):
                raise ConnectError(f'the offset must have "{STATE}", dlt\'s state as the text of a JSON object')
        return True


class DltSourceTask(SourceTask):
    """Reads its units in turn; one by one where a pass is a transaction."""

    clock: Callable[[], float] = staticmethod(time.time)

    def start(self, config: Mapping[str, str]) -> None:
        """Resume from the stored offsets. Raises BadConfigError, ConnectError."""
        values, passes = CONFIG.parse(config), _passes()
        reference, arguments, settings = values[SOURCE], _arguments(values), settings_tree(config)
        given: dict[str, list[str]] = json.loads(config[TASK_UNITS])
        name = source_name(reference)
        partitions = [{"dlt": name, "resource": unit} for unit in given]
        stored = self.context.offset_reader.offsets(partitions)
        in_transactions = self.context.transaction_context is not None
        shared = UnitSettings(
            values["topic.prefix"],
            values["batch.max.rows"],
            PASS if in_transactions else values["dlt.offsets"],
            values["dlt.schemas"] == "none",
            in_transactions,
        )

        def opener(resources: list[str]) -> Callable[[str], Any]:
            def open_pass(state: str) -> Any:
                return passes.DltPass(reference, arguments, settings, resources, passes.state_of(state))

            return open_pass

        def times() -> PassTimes:
            retries, backoff_ms = values["dlt.retries.max"], values["dlt.retry.backoff.ms"]
            return PassTimes(values["poll.interval.ms"], retries, backoff_ms, lambda: self.clock() * 1000)

        self._units = [
            DltUnit(unit, partition, offset, opener(given[unit]), shared, self._give_up, times())
            for unit, partition, offset in zip(given, partitions, stored, strict=True)
        ]

    def _give_up(self, place: str, error: Exception, data: bytes | None) -> None:
        self.context.report_errant(place, error, data)

    @timed
    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the next records of some unit. Raises ConnectError: a source failed too often."""
        boundaries = self.context.transaction_context
        for at, unit in enumerate(self._units):
            found = unit.poll()
            if boundaries is not None and unit.busy:
                return found or None  # the next unit's records must not end in this one's transaction
            if found:
                if boundaries is not None:
                    boundaries.commit_transaction()
                self._units = [*self._units[at + 1 :], *self._units[: at + 1]]
                return found
        return None

    def has_more(self) -> bool:
        """Return whether a pass is in progress or due."""
        now_ms = self.clock() * 1000
        return any(unit.busy or unit.times.due_ms <= now_ms for unit in self._units)

    def idle_wait_ms(self) -> int:
        """Return how long there is nothing to do, at most a moment: a stop must not wait."""
        if any(unit.busy for unit in self._units):
            return 1
        due_ms = min((unit.times.due_ms for unit in self._units), default=0.0)
        return round(max(1.0, min(_SHORT_WAIT_MS, due_ms - self.clock() * 1000)))

    def stop(self) -> None:
        """End the passes that are in progress."""
        for unit in getattr(self, "_units", ()):
            unit.close()
