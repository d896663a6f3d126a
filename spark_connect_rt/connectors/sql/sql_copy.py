"""PostgreSQL's COPY for upserts, updates and deletes: the SQL of a straight one, and of one by a temporary table.

Pure. An upsert of keys that are not in the table yet is a plain COPY, which is two to three times as fast as COPY into
a temporary table and INSERT ... ON CONFLICT from there. So that is tried, behind a savepoint; a key that is in the
table after all makes it fail, and the rows go the long way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

from spark_connect_rt.connectors.sql.sql_rows import Shape
from spark_connect_rt.connectors.sql.sql_sink_config import UPDATE, UPSERT
from spark_connect_rt.connectors.sql.sql_tables import TableId


class CopyWords:
    """The SQL of one shape's way through a temporary table. PostgreSQL only; every name is quoted."""

    def __init__(self, table: TableId, shape: Shape) -> None:
        """Take where the rows go."""
        self._shape = shape
        self._table = ".".join(_quoted(part) for part in table if part)
        self._columns = _listed(shape.columns)
        # One for each table and set of columns, kept for the session: making one costs catalog rows.
        self.stage = f"connectrt_stage_{crc32(f'{self._table}({self._columns})'.encode()):08x}"

    def make_stage(self) -> str:
        """Return the statement that makes the temporary table; it is there already but for the first time."""
        return (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {self.stage} ON COMMIT DELETE ROWS "
            f"AS SELECT {self._columns} FROM {self._table} WITH NO DATA"
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
        """Return the statement after which the next rows of the same transaction may come."""
        return f"DELETE FROM {self.stage}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str] | Iterator[str]) -> str:
    return ", ".join(_quoted(name) for name in names)
