"""Keeps Apache Iceberg tables in step with topics: rows appended, or upserted and deleted by key, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.outside_checks import OutsideCheck
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.config.config_def import HIGH, ConfigDef, ConfigKey, Type
from spark_connect_rt.connectors.lakehouse.catalog_settings import DEFAULT_NAME, catalog_of, secrets_of
from spark_connect_rt.connectors.lakehouse.sink_connector import TableSinkConnector
from spark_connect_rt.connectors.lakehouse.sink_settings import (
    CREATED_WITH,
    TABLE_SINK,
    TableSinkSettings,
    parse_partition_field,
    read_settings,
)
from spark_connect_rt.connectors.lakehouse.sink_task import OpenTable, TableSinkTask
from spark_connect_rt.connectors.lakehouse.table_checks import table_findings
from spark_connect_rt.connectors.lakehouse.table_port import TableStore
from spark_connect_rt.errors import BadConfigError, ConnectError

if TYPE_CHECKING:
    from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore
    from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import TableUpkeep

log = logging.getLogger(__name__)
UPKEEP_END_S = 10.0  # how long the end of a task waits for the upkeep of all its tables
EXTRA, USERS = "iceberg", "tables of Iceberg"
VERSION = "format-version"
_VERSIONS = (
    "must be 2: pyiceberg cannot write tables of version 3, so there are no deletion vectors, and version 1 has no "
    "deletes for upserts"
)
CONFIG = TABLE_SINK + ConfigDef(
    [
        ConfigKey(
            "iceberg.catalog",
            Type.STRING,
            DEFAULT_NAME,
            HIGH,
            "Name of the catalog. Its properties are iceberg.catalog.type (rest, sql, glue, hive), uri, warehouse, "
            "credential, token, s3.* and others that pyiceberg knows.",
        )
    ]
)


class IcebergSinkConnector(TableSinkConnector):
    """Keeps Apache Iceberg tables in step with topics, appended or upserted, exactly once."""

    unknown_tables_advice = " Remove the properties connectrt.offset.* of each table, then alter the offsets."

    def config_def(self) -> ConfigDef:
        """Return the settings of the sink: its tables, its catalog, and when it commits."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of the tasks, which run on executors."""
        return IcebergSinkTask

    def typed_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        """Return the typed settings, with partition fields that can be read. Raises BadConfigError."""
        return checked_settings(config)

    def open_store(self, config: Mapping[str, str], settings: TableSinkSettings, table: str) -> TableStore:
        """Return a store of a table in the catalog. Raises ConnectError: pyiceberg is not installed."""
        return make_store(config, settings, table)

    def setting_checks(self, config: Mapping[str, str]) -> Sequence[Callable[[], object]]:
        """Return calls that raise BadConfigError for settings that do not fit each other, or the catalog."""
        return (*super().setting_checks(config), lambda: catalog_of(config))

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Return a check that loads each table and looks for other connectors of the same topics."""
        settings = checked_settings(config)
        reach = "iceberg.catalog.uri", "Correct iceberg.catalog.*."
        return (lambda: table_findings(config, settings, lambda table: make_store(config, settings, table), reach),)


class IcebergSinkTask(TableSinkTask):
    """Writes the records of its partitions to Iceberg tables, one commit for each interval."""

    def read_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        """Return the typed settings, and keep the configuration for the stores."""
        self._config = dict(config)
        self._upkeep: dict[str, TableUpkeep] = {}
        return checked_settings(config)

    def make_store(self, table: str) -> TableStore:
        """Return a store of a table in the catalog of the settings."""
        return make_store(self._config, self.settings, table)

    def maintain(self, table: OpenTable) -> None:
        """Begin to expire snapshots and rewrite files if that is due. An error is logged: the commit itself is done."""
        from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore
        from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import TableUpkeep

        store, settings = table.writer.store, self.settings
        assert isinstance(store, IcebergTableStore)
        upkeep = self._upkeep.get(store.name)
        if upkeep is None:
            open_store = partial(make_store, self._config, settings, store.name)
            upkeep = TableUpkeep(open_store, settings.snapshots_kept, settings.compact_files)
            self._upkeep[store.name] = upkeep
        try:
            upkeep.after_commit(store, self.partitions)
        except ConnectError as error:
            log.warning("table %s: upkeep is tried again after the next commit: %s", store.name, error)

    def stop(self) -> None:
        """Close the tables, delete the indexes, and wait a moment for the upkeep."""
        super().stop()
        if self._upkeep:
            from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import close_all

            close_all(self._upkeep.values(), UPKEEP_END_S)


def checked_settings(config: Mapping[str, str]) -> TableSinkSettings:
    """Return the typed settings, with partition fields that can be read. Raises BadConfigError."""
    settings = read_settings(config)
    version = settings.created_with.get(VERSION, "2").strip()
    if version not in ("1", "2") or (version == "1" and settings.upsert):
        raise BadConfigError({CREATED_WITH + VERSION: [_VERSIONS]})
    for fields in (settings.defaults.partition_by, *(table.partition_by for table in settings.per_table.values())):
        for text in fields:
            try:
                parse_partition_field(text)
            except ValueError as error:
                raise BadConfigError({"iceberg.tables.default-partition-by": [str(error)]}) from error
    return settings


def make_store(config: Mapping[str, str], settings: TableSinkSettings, table: str) -> IcebergTableStore:
    """Return a store of a table, with its own catalog. Raises ConnectError: pyiceberg is not installed."""
    optional_module("pyiceberg", EXTRA, USERS)
    from spark_connect_rt.connectors.lakehouse.iceberg_table import open_store

    name, properties = catalog_of(config)
    hidden_values.remember(secrets_of(properties))  # errors of clients quote them
    of_table = settings.of(table)
    return open_store(
        name,
        properties,
        table,
        config["name"],
        branch=of_table.branch or None,
        partition_by=of_table.partition_by,
        created_with=settings.created_with,
        files=settings.files,
    )
