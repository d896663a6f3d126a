"""PostgreSQL's COPY: which tables it may feed, the SQL of a straight one and of one by a temporary table.

Pure. COPY is faster than statements and must leave the same rows. Tables where it would not are written by statements.
COPY ignores rules, fills GENERATED ALWAYS columns, and fires triggers FOR EACH STATEMENT once and AFTER triggers late.
Views, foreign tables and row security do not accept it. The temporary table's keys have the types that a parameter of a
condition has: without length and precision. So a key that is too long for its column does not match there either.

An upsert of keys that are not in the table yet is a plain COPY. It is two to three times as fast as COPY into a
temporary table and INSERT ... ON CONFLICT from there. So it is tried first, after a savepoint. If the table contains a
key, the plain COPY fails, and the rows go through the temporary table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import sqlalchemy as sa

from spark_connect_rt.connectors.sql.sql_rows import RowShape
from spark_connect_rt.connectors.sql.sql_sink_config import UPDATE, UPSERT
from spark_connect_rt.connectors.sql.sql_tables import TableId

_ROW_BEFORE = 3  # bits of pg_trigger.tgtype: TRIGGER_TYPE_ROW, TRIGGER_TYPE_BEFORE
# One row for each column of a table that COPY may feed; none of any other table.
COPIED_COLUMNS = sa.text(f"""
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
  format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE a.atttypid END, -1),
  a.attidentity = 'a' OR a.attgenerated <> '' OR coalesce(b.typtype = 'd', false)
    OR a.atttypmod <> -1 AND CAST('interval' AS regtype) IN (t.oid, t.typelem, b.oid)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
WHERE c.oid = to_regclass(:name) AND a.attnum > 0 AND NOT a.attisdropped
  AND c.relkind IN ('r', 'p') AND NOT c.relhasrules AND NOT row_security_active(c.oid)
  AND NOT EXISTS (SELECT FROM pg_trigger g WHERE NOT g.tgisinternal AND g.tgenabled <> 'D'
    AND (g.tgtype & {_ROW_BEFORE}) <> {_ROW_BEFORE}
    AND (g.tgrelid = c.oid OR g.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid))))""")


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """The facts about a table that COPY may feed."""

    types: Mapping[str, str]
    """The type of each column."""
    key_types: Mapping[str, str]
    """Each column's type in a condition: without length and precision, of a domain its base type."""
    barred: frozenset[str]
    """Columns that COPY treats otherwise than INSERT: generated, intervals of some fields, domains over domains."""


def copied_table(rows: Iterable[Sequence[Any]]) -> CopiedTable | None:
    """Return the facts in the rows of COPIED_COLUMNS; None: statements have to write that table."""
    found = [tuple(row) for row in rows]
    if not found:
        return None
    types, key_types = ({row[0]: row[place] for row in found} for place in (1, 2))
    return CopiedTable(types, key_types, frozenset(row[0] for row in found if row[3]))


def quoted_name(table: TableId) -> str:
    """Return a table's name as SQL writes it."""
    return ".".join(_quoted(part) for part in table if part)


class CopyWords:
    """The SQL of one shape's way through a temporary table. PostgreSQL only; every name is quoted."""

    def __init__(self, table: TableId, shape: RowShape, copied: CopiedTable) -> None:
        """Take the target of the rows."""
        self._shape = shape
        types = {**copied.types, **{name: copied.key_types[name] for name in shape.keys}}
        self._typed = ", ".join(f"{_quoted(name)} {types[name]}" for name in shape.columns)
        self._table = quoted_name(table)
        self._columns = _listed(shape.columns)
        # One for each table and set of columns, kept for the session: making one costs catalog rows.
        self.stage = f"connectrt_stage_{crc32(f'{self._table}({self._typed})'.encode()):08x}"

    def make_stage(self, unique: bool) -> str:
        """Return the statements that create the temporary table, which exists already after the first time.

        ``unique``: it rejects a repeated key, of which UPDATE would take any.
        """
        make = f"CREATE TEMPORARY TABLE IF NOT EXISTS {self.stage} ({self._typed}) ON COMMIT DELETE ROWS"
        if not unique:
            return make
        return (
            f"{make}; CREATE UNIQUE INDEX IF NOT EXISTS {self.stage}_keys ON {self.stage} ({_listed(self._shape.keys)})"
        )

    def copy(self, direct: bool) -> str:
        """Return the COPY, into the table itself or into the temporary one."""
        return f"COPY {self._table if direct else self.stage} ({self._columns}) FROM STDIN (FORMAT csv)"

    def from_stage(self, mode: str) -> str:
        """Return the statement that takes the rows on."""
        return self._onward(mode, self.stage)

    def check_upsert(self) -> str:
        """Return the statement that fails as an upsert would: rights, a unique key; until the end that key stays.

        A plain COPY into a table without such a key would add rows for each redelivery. Nothing is executed, so no
        trigger sees it.
        """
        return f"EXPLAIN {self._onward(UPSERT, f'{self._table} WHERE false')}"

    def _onward(self, mode: str, source: str) -> str:
        shape = self._shape
        same = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in shape.keys)
        if shape.deletes:
            return f"DELETE FROM {self._table} t USING {source} s WHERE {same}"
        others = [_quoted(name) for name in shape.columns if name not in shape.keys]
        if mode == UPDATE:
            changes = ", ".join(f"{name} = s.{name}" for name in others or map(_quoted, shape.keys))
            return f"UPDATE {self._table} t SET {changes} FROM {source} s WHERE {same}"
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        conflict = f"ON CONFLICT ({_listed(shape.keys)}) DO " + (f"UPDATE SET {changes}" if changes else "NOTHING")
        return f"INSERT INTO {self._table} ({self._columns}) SELECT {self._columns} FROM {source} {conflict}"

    def empty_stage(self) -> str:
        """Return the statement after which the transaction can take further rows."""
        return f"DELETE FROM {self.stage}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str] | Iterator[str]) -> str:
    return ", ".join(_quoted(name) for name in names)
