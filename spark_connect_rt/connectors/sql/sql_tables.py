"""Which tables a SQL source reads, how tasks share them, and a thread that sees new ones."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa

from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_settings import POSTGRESQL, SQLITE
from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)
_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_NAME = re.compile(rf"(?:{_NAME_PART.pattern})(?:\.(?:{_NAME_PART.pattern}))*")


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


KINDS = {  # of ``table.types``, under the names that pgJDBC gives them: pg_class.relkind
    "TABLE": "r",
    "PARTITIONED TABLE": "p",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}
_OF_POSTGRESQL = sa.text("""
SELECT n.nspname, c.relname, c.relkind, CASE WHEN c.relispartition THEN (
    SELECT array_agg(ARRAY[CAST(an.nspname AS text), CAST(ac.relname AS text)]) FROM pg_partition_ancestors(c.oid) g
    JOIN pg_class ac ON ac.oid = g.relid JOIN pg_namespace an ON an.oid = ac.relnamespace WHERE ac.oid <> c.oid
  ) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'""")


class FoundTable(NamedTuple):
    """One table of the database: its kind, of KINDS, and the partitioned tables that it is a part of."""

    table: TableId
    kind: str
    parents: frozenset[TableId] = frozenset()


def all_tables(database: SqlDatabase, pattern: str | None) -> list[FoundTable]:
    """Return every table of every kind in the schemas of ``schema.pattern``. Raises RetriableError, ConnectError."""
    like = re.compile(_regex_of_like(pattern) if pattern else ".*", re.DOTALL)
    with database.explained("does not list its tables"):
        connection = database.connection()
        if database.dialect == POSTGRESQL:
            names = {relkind: kind for kind, relkind in KINDS.items()}
            found = [
                FoundTable(
                    TableId(schema, name), names[relkind], frozenset(TableId(*parent) for parent in parents or ())
                )
                for schema, name, relkind, parents in connection.execute(_OF_POSTGRESQL)
                if like.fullmatch(schema)
            ]
        else:
            found = _inspected(sa.inspect(connection), database.dialect, like)
        connection.rollback()
    return sorted(found, key=lambda table: str(table.table))


def _inspected(inspector: Any, dialect: str, like: re.Pattern[str]) -> list[FoundTable]:
    schemas = (
        [None] if dialect == SQLITE else [schema for schema in inspector.get_schema_names() if like.fullmatch(schema)]
    )
    ways = {"TABLE": inspector.get_table_names, "VIEW": inspector.get_view_names}
    return [
        FoundTable(TableId(schema, name), kind)
        for schema in schemas
        if schema != "information_schema"
        for kind, names in ways.items()
        for name in names(schema)
    ]


def read_tables(found: Sequence[FoundTable], values: dict[str, Any], database: str | None) -> list[TableId]:
    """Return the tables that the settings choose; a partition is left out where its whole table is read. Pure."""
    kinds = [kind.upper() for kind in values["table.types"]] or ["TABLE"]
    of_kinds = [table for table in found if table.kind in kinds]
    chosen = set(chosen_tables([table.table for table in of_kinds], values, database))
    return [table.table for table in of_kinds if table.table in chosen and not table.parents & chosen]


def unmatched_names(found: Sequence[FoundTable], values: dict[str, Any], database: str | None) -> list[str]:
    """Return a sentence for each name of ``table.whitelist`` that no table of the chosen kinds has. Pure."""
    kinds = [kind.upper() for kind in values["table.types"]] or ["TABLE"]
    sentences = []
    for name in values["table.whitelist"]:
        same = [table for table in found if _is_named(table.table, name, database)]
        if any(table.kind in kinds for table in same):
            continue
        if same:
            sentences.append(f"{name} is a {same[0].kind}. Add that to table.types, which is {', '.join(kinds)}")
            continue
        parts = [part.casefold() for part in name_parts(name) or [name]]
        near = [str(table.table) for table in found if table.table.name.casefold() == parts[-1]]
        if near:
            sentences.append(f"no table has the name {name}. There is {', '.join(near)}")
        elif len(parts) == 3 and parts[0] != (database or "").casefold():
            sentences.append(f"no table has the name {name}. Its first part would be the database, which is {database}")
        else:
            sentences.append(f"no table has the name {name}")
    return sentences


def _regex_of_like(pattern: str) -> str:
    return "".join({"%": ".*", "_": "."}.get(letter) or re.escape(letter) for letter in pattern)


def name_parts(text: str) -> list[str] | None:
    """Return the parts of a name as SQL writes it, such as shop.public."Orders"; None: it is not of such parts."""
    if not _NAME.fullmatch(text):
        return None
    return [quoted.replace('""', '"') or plain for quoted, plain in _NAME_PART.findall(text)]


def near_name(wanted: str, known: Iterable[str]) -> str:
    """Return a question for a message: the name of another case, without quotes or without a prefix; empty: none is."""
    last = (name_parts(wanted) or [wanted])[-1].casefold()
    near = [name for name in known if name.casefold() == last]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _is_named(table: TableId, name: str, database: str | None) -> bool:
    """Return whether a configuration's name is that table's: alone, with its schema, with database and schema."""
    if name in (table.name, str(table)):
        return True
    whole = [database or "", table.schema or "", table.name]
    parts = name_parts(name)
    return parts is not None and len(parts) <= len(whole) and parts == whole[-len(parts) :]


def chosen_tables(tables: Sequence[TableId], values: dict[str, Any], database: str | None) -> list[TableId]:
    """Return the tables that the four lists select. Pure."""

    def named(table: TableId, names: Sequence[str]) -> bool:
        return any(_is_named(table, name, database) for name in names)

    def matches(table: TableId, patterns: Sequence[str]) -> bool:
        compiled = [java_pattern(pattern) for pattern in patterns]
        return any(pattern.fullmatch(text) for pattern in compiled for text in (table.name, str(table)))

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
    """Lists the tables repeatedly in a separate thread, and notifies the connector when the list has changed."""

    def __init__(self, look: Callable[[], list[TableId]], every_ms: int, changed: Callable[[], None]) -> None:
        """Take the function that lists tables (own connection), the interval, and the listener."""
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
        """End the thread; a listing in progress ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                found = self._look()
            except ConnectError as error:
                log.warning("tables cannot be listed, retrying: %s", error)
                continue
            if found != self._known and not self._stopped.is_set():
                log.info("tables changed: %s", ", ".join(map(str, found)) or "none is left")
                self._known = found
                self._changed()
