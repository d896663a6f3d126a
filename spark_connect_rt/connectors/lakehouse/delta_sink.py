"""Keeps Delta tables in step with topics: rows appended, or upserted and deleted by key, exactly once.

Tables, keys, schemas and the commit interval have the settings of the Iceberg sink. A table `sales.orders` lies in the
folder `sales/orders` below `delta.root`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_connect_rt.api.outside_checks import OutsideCheck
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.config.config_def import HIGH, REQUIRED, ConfigDef, ConfigKey, Type, prefixed
from spark_connect_rt.connectors.lakehouse.catalog_settings import secrets_of
from spark_connect_rt.connectors.lakehouse.connect_columns import DELTA_TYPES
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.sink_connector import TableSinkConnector
from spark_connect_rt.connectors.lakehouse.sink_settings import (
    KEEP,
    TABLE_SINK,
    TableSinkSettings,
    read_settings,
)
from spark_connect_rt.connectors.lakehouse.sink_task import TableSinkTask
from spark_connect_rt.connectors.lakehouse.table_checks import table_findings
from spark_connect_rt.connectors.lakehouse.table_port import Committed, LoadedTable, NewFile, Positions, TableStore
from spark_connect_rt.errors import BadConfigError

if TYPE_CHECKING:
    from spark_connect_rt.connectors.lakehouse.delta_table import DeltaTableStore

EXTRA, USERS = "delta", "Delta tables"
ROOT, STORAGE = "delta.root", "delta.storage."
_UNITY = "uc://"
CONFIG = TABLE_SINK + ConfigDef(
    [
        ConfigKey(
            ROOT,
            Type.STRING,
            REQUIRED,
            HIGH,
            "Folder or URI (s3://, gs://, abfs://) of the tables. Table a.b lies in its folder a/b. With uc://CATALOG, "
            "a.b is a table of that catalog of Unity Catalog. delta.storage.* are the options of the object store or "
            "the catalog, as delta-rs names them.",
        )
    ]
)
_OPTIMIZE = "The sink does not maintain Delta tables. Remove the setting, and run OPTIMIZE and VACUUM on the table."
_WITHOUT_EFFECT = {
    "connectrt.table.snapshots.keep": ("0", _OPTIMIZE),
    "connectrt.table.compact.files": ("0", _OPTIMIZE),
    "connectrt.table.rollback": (KEEP, "The restore of a Delta table does not change its stored offsets. Use keep."),
}
"""Settings that are refused: the value that is right anyway, and the reason."""


class DeltaSinkConnector(TableSinkConnector):
    """Keeps Delta tables in step with topics, appended or upserted, exactly once."""

    def config_def(self) -> ConfigDef:
        """Return the settings of the sink: its tables, their folder, and when it commits."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of the tasks, which run on executors."""
        return DeltaSinkTask

    def typed_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        """Return the typed settings. Raises BadConfigError for those that Delta tables have no form for."""
        return checked_settings(config)

    def open_store(self, config: Mapping[str, str], settings: TableSinkSettings, table: str) -> TableStore:
        """Return a store of a table below the folder of the settings. Raises ConnectError: deltalake is missing."""
        return make_store(config, settings, table)

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Return a check that loads each table and looks for other connectors of the same topics."""
        settings = checked_settings(config)
        reach = ROOT, f"Correct {ROOT} or {STORAGE}*."
        return (lambda: table_findings(config, settings, lambda table: make_store(config, settings, table), reach),)


class DeltaSinkTask(TableSinkTask):
    """Writes the records of its partitions to Delta tables, one commit for each interval."""

    types = DELTA_TYPES

    def read_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        """Return the typed settings, and keep the configuration for the stores."""
        self._config = dict(config)
        return checked_settings(config)

    def make_store(self, table: str) -> TableStore:
        """Return a store of a table below the folder of the settings."""
        return make_store(self._config, self.settings, table)

    def make_index(self, store: TableStore) -> KeyedRows:
        """Return an index that only finds the last change of each key, as a merge finds the rows."""
        return MergedRows(store)


class MergedRows(KeyedRows):
    """The `RowIndex` of a table whose commits merge by key: it knows no rows."""

    def __init__(self, store: TableStore) -> None:
        """Take the store, which is given the key columns when they are known."""
        super().__init__(store.name)
        self._store = store

    def use_keys(self, key_columns: Sequence[str]) -> None:
        """Set the key columns, also for the merge. Raises DataError if they are missing, or other ones are in use."""
        super().use_keys(key_columns)
        store: Any = self._store
        store.keys = tuple(key_columns)

    def catch_up(self, loaded: LoadedTable) -> None:
        """Do nothing, because no rows are known."""

    def replace(self, changes: pa.Table, files: Sequence[NewFile]) -> Mapping[str, Positions]:
        """Return no dead rows, because the merge finds them."""
        return {}

    def undo(self) -> None:
        """Do nothing, because `replace` changed nothing."""

    def confirm(self, committed: Committed | None) -> None:
        """Do nothing, because `replace` changed nothing."""


def checked_settings(config: Mapping[str, str]) -> TableSinkSettings:
    """Return the typed settings. Raises BadConfigError for those that Delta tables have no form for."""
    settings = read_settings(config)
    problems: dict[str, list[str]] = {}
    for table in (settings.defaults, *settings.per_table.values()):
        if table.branch:
            problems["iceberg.tables.default-commit-branch"] = ["Delta tables have no branches. Remove the setting."]
        if any(not field.replace("_", "a").isalnum() for field in table.partition_by):
            problems["iceberg.tables.default-partition-by"] = [
                "Delta tables are partitioned by columns only, without transforms. Name columns."
            ]
    problems |= _unity_problems(config.get(ROOT, ""), settings)
    problems |= {
        name: [reason] for name, (effect, reason) in _WITHOUT_EFFECT.items() if config.get(name, effect) != effect
    }
    if problems:
        raise BadConfigError(problems)
    return settings


def table_uri(root: str, table: str) -> str:
    """Return where a table is: a folder below the root, or a name of Unity Catalog as delta-rs writes it."""
    root = root.rstrip("/")
    return f"{root}.{table}" if root.startswith(_UNITY) else f"{root}/{table.replace('.', '/')}"


def _unity_problems(root: str, settings: TableSinkSettings) -> dict[str, list[str]]:
    """Return the settings that do not fit tables of Unity Catalog."""
    if not root.startswith(_UNITY):
        return {}
    problems: dict[str, list[str]] = {}
    if not root.removeprefix(_UNITY).strip("/").isidentifier():
        problems[ROOT] = ["must be uc://CATALOG for tables of Unity Catalog"]
    if settings.auto_create:
        reason = "delta-rs cannot create tables in Unity Catalog. Create the table there, and set this to false"
        problems["iceberg.tables.auto-create-enabled"] = [reason]
    if wrong := [table for table in settings.tables if table.count(".") != 1]:
        problems["iceberg.tables"] = [f"{', '.join(wrong)}: must be schema.table in the catalog of {ROOT}"]
    return problems


def make_store(config: Mapping[str, str], settings: TableSinkSettings, table: str) -> DeltaTableStore:
    """Return a store of a table. Raises ConnectError: deltalake is not installed."""
    optional_module("deltalake", EXTRA, USERS)
    from spark_connect_rt.connectors.lakehouse.delta_table import DeltaTableStore

    options = prefixed(config, STORAGE)
    hidden_values.remember(secrets_of(options))  # errors of object stores quote them
    return DeltaTableStore(
        table_uri(config[ROOT], table),
        config["name"],
        name=table,
        partition_by=settings.of(table).partition_by,
        storage_options=options,
        properties=settings.created_with,
        settings=settings.files,
    )
