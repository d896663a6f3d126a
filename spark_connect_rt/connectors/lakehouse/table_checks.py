"""Checks of a table sink's configuration against its tables, before the first record (`connectrt check`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.connectors.lakehouse.sink_settings import TableSinkSettings
from spark_connect_rt.connectors.lakehouse.table_port import LoadedTable, TableStore
from spark_connect_rt.errors import ConnectError

CHECK, TABLES, ID_COLUMNS = "table", "iceberg.tables", "iceberg.tables.default-id-columns"
_KEYS_WITHOUT_FIELDS = ("String", "ByteArray", "Short", "Integer", "Long", "Float", "Double", "Boolean")


class CheckedTable(LoadedTable, Protocol):
    """A `LoadedTable` that can be asked about permissions and other connectors."""

    def other_writers(self) -> Mapping[str, set[str]]:
        """Return which other connectors write the table: name -> topics."""

    def require_readable(self) -> None:
        """Raise ExternalError if the table has deletes that upserts need and that cannot be read."""

    def require_writable(self) -> None:
        """Write and delete a small file. Raises ExternalError without the permission, RetriableError otherwise."""


def table_findings(
    config: Mapping[str, str],
    settings: TableSinkSettings,
    open_store: Callable[[str], TableStore],
    reach: tuple[str, str],
) -> Sequence[Finding]:
    """Load each table, and return what is wrong with it or with its settings.

    Args:
        open_store: returns a new store of a table. It is closed here.
        reach: the setting that says where tables are, and the advice if they cannot be reached.
    """
    findings: list[Finding] = []
    for name in settings.tables:
        store = open_store(name)
        try:
            findings += _findings_of(store, settings, config, reach)
        finally:
            store.close()
    return findings


def _findings_of(
    store: TableStore, settings: TableSinkSettings, config: Mapping[str, str], reach: tuple[str, str]
) -> list[Finding]:
    try:
        loaded = store.load()
    except ConnectError as error:
        return [Finding(CHECK, reach[0], Level.PROBLEM, str(error), reach[1])]
    if loaded is None:
        if not settings.auto_create:
            change = "Create it, or set iceberg.tables.auto-create-enabled=true."
            return [Finding(CHECK, TABLES, Level.PROBLEM, f"table {store.name} does not exist", change)]
        created = Finding(CHECK, TABLES, Level.OK, f"table {store.name} will be created")
        return [created, *_key_findings(store.name, None, settings, config)]
    checked: CheckedTable = loaded  # type: ignore[assignment]
    findings = [*_key_findings(store.name, loaded, settings, config), *_rivals(store.name, checked, config)]
    try:
        checked.require_writable()
        if settings.upsert:
            checked.require_readable()
    except ConnectError as error:
        findings.append(Finding(CHECK, reach[0], Level.PROBLEM, str(error), reach[1]))
    return findings or [Finding(CHECK, TABLES, Level.OK, f"table {store.name} can be loaded")]


def _rivals(table: str, loaded: CheckedTable, config: Mapping[str, str]) -> list[Finding]:
    topics = set(parse_value(Type.LIST, config.get("topics") or ""))
    rivals = sorted(name for name, written in loaded.other_writers().items() if written & topics)
    if not rivals:
        return []
    what = f"table {table} has offsets of the same topics by connector {', '.join(rivals)}"
    return [Finding(CHECK, TABLES, Level.WARNING, what, "Delete the other connector, else rows are there twice.")]


def _key_findings(
    table: str, loaded: LoadedTable | None, settings: TableSinkSettings, config: Mapping[str, str]
) -> list[Finding]:
    """Return what is wrong with the key of a table, None for a table that will be created."""
    wanted = settings.of(table).id_columns
    if loaded is not None:
        names = loaded.schema.names if settings.case_sensitive else [name.lower() for name in loaded.schema.names]
        missing = [name for name in wanted if (name if settings.case_sensitive else name.lower()) not in names]
        if missing and not settings.evolve:
            what = f"table {table} has no column {', '.join(missing)}, which is an id column"
            change = f"Its columns are {', '.join(loaded.schema.names)}. Correct {ID_COLUMNS}, or add the column."
            return [Finding(CHECK, ID_COLUMNS, Level.PROBLEM, what, change)]
    if not settings.upsert or wanted or (loaded is not None and loaded.key_columns):
        return []
    converter = (config.get("key.converter") or "").rpartition(".")[2].removesuffix("Converter")
    change = f'Set {ID_COLUMNS}, or give records a key with fields, such as {{"id": 1}}.'
    if converter in _KEYS_WITHOUT_FIELDS:
        what = f"rows of table {table} have no key: keys of the {converter}Converter have no fields"
        return [Finding(CHECK, ID_COLUMNS, Level.PROBLEM, what, change)]
    what = f"neither table {table} nor the settings name its key, so each record's key must have fields"
    return [Finding(CHECK, ID_COLUMNS, Level.WARNING, what, change)]
