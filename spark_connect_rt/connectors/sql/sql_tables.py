"""Which tables a SQL source reads, how tasks share them, and a thread that sees new ones."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa

from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_urls import POSTGRESQL, SQLITE
from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)


class TableId(NamedTuple):
    """One table; no schema where the database has none."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


def known_names(table: TableId, dialect: str, database: str | None) -> list[str]:
    """Return the names under which offsets of a table may be stored: ours, then those of other drivers' versions."""
    names = [str(table)]
    if dialect == POSTGRESQL and database:
        names.append(f"{database}.{table}")  # newer pgJDBC names the database, too
    return [*names, table.name] if table.schema else names


def find_tables(database: SqlDatabase, values: dict[str, Any]) -> list[TableId]:
    """Return the tables that the settings choose, in order. Raises RetriableError, ConnectError."""
    kinds = [kind.upper() for kind in values["table.types"]] or ["TABLE"]
    with database.explained("does not list its tables"):
        inspector = sa.inspect(database.connection())
        found: list[TableId] = []
        for schema in _schemas(inspector, database.dialect, values["schema.pattern"]):
            names = inspector.get_table_names(schema) if "TABLE" in kinds else []
            names += inspector.get_view_names(schema) if "VIEW" in kinds else []
            found += [TableId(schema, name) for name in names]
        database.connection().rollback()
    return chosen_tables(sorted(found, key=str), values)


def _schemas(inspector: Any, dialect: str, pattern: str | None) -> list[str | None]:
    if dialect == SQLITE:
        return [None]
    like = None if not pattern else re.compile(_regex_of_like(pattern), re.DOTALL)
    names = [name for name in inspector.get_schema_names() if name != "information_schema"]
    return [name for name in names if like is None or like.fullmatch(name)]


def _regex_of_like(pattern: str) -> str:
    return "".join({"%": ".*", "_": "."}.get(letter) or re.escape(letter) for letter in pattern)


def chosen_tables(tables: Sequence[TableId], values: dict[str, Any]) -> list[TableId]:
    """Return what the four lists leave of the tables. Pure."""

    def named(table: TableId, names: Sequence[str]) -> bool:
        return table.name in names or str(table) in names

    def matches(table: TableId, patterns: Sequence[str]) -> bool:
        compiled = [java_pattern(pattern) for pattern in patterns]
        return any(one.fullmatch(text) for one in compiled for text in (table.name, str(table)))

    if names := values["table.whitelist"]:
        return [table for table in tables if named(table, names)]
    if names := values["table.blacklist"]:
        return [table for table in tables if not named(table, names)]
    if patterns := values["table.include.list"]:
        return [table for table in tables if matches(table, patterns)]
    return [table for table in tables if not matches(table, values["table.exclude.list"])]


def dealt(tables: Sequence[TableId], most: int) -> list[list[TableId]]:
    """Return the tables of each task: as many tasks as there are tables, at most ``most``."""
    count = min(len(tables), most)
    return [list(tables[number::count]) for number in range(count)]


def tables_text(tables: Sequence[TableId]) -> str:
    """Return tables as a task's configuration holds them."""
    return orjson.dumps([list(table) for table in tables]).decode()


def tables_of(text: str) -> list[TableId]:
    """Return the tables of a task's configuration."""
    return [TableId(schema, name) for schema, name in orjson.loads(text)]


class TableWatch:
    """Looks for tables again and again in a thread of its own, and tells when others are there."""

    def __init__(self, look: Callable[[], list[TableId]], every_ms: int, changed: Callable[[], None]) -> None:
        """Take how to look (own connection), how often, and whom to tell."""
        self._look = look
        self._every_s = every_ms / 1000
        self._changed = changed
        self._known: list[TableId] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sql-table-watch", daemon=True)

    def start(self, known: list[TableId] | None) -> None:
        """Begin. ``known`` None: nothing could be listed yet, so the first list is a change."""
        self._known = known
        self._thread.start()

    def note(self, known: list[TableId]) -> None:
        """Task configurations were made of these."""
        self._known = known

    def stop(self) -> None:
        """End the thread; a look that is under way ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                found = self._look()
            except ConnectError as error:
                log.warning("tables cannot be listed, will be tried again: %s", error)
                continue
            if found != self._known and not self._stopped.is_set():
                log.info("tables changed: %s", ", ".join(map(str, found)) or "none is left")
                self._known = found
                self._changed()
