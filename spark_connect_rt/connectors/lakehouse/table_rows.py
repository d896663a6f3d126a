"""Changes of records -> rows that a table takes: the table is made and evolved, and rows that do not fit are found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.connectors.lakehouse.changes import DELETE, OP, TRUNCATE, Changes
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.sink_settings import TableSinkSettings
from spark_connect_rt.connectors.lakehouse.table_port import LoadedTable, Positions
from spark_connect_rt.connectors.lakehouse.table_schema import UnsafeChange, fit, plan_evolution
from spark_connect_rt.connectors.lakehouse.table_writer import TableCommitter
from spark_connect_rt.errors import DataError, ExternalError

log = logging.getLogger(__name__)
TRUNCATE_REFUSED = "the source table was truncated, and the truncate is not applied to the table"


@dataclass(frozen=True, slots=True)
class RowRefusal:
    """A record that cannot become a row: its Kafka offset and the reason."""

    offset: int
    error: DataError


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Rows for `TableCommitter.add`, their offsets, and the records that do not fit."""

    rows: pa.Table
    offsets: Positions
    refused: tuple[RowRefusal, ...] = ()


class RowFitter:
    """Makes rows of one table. One thread."""

    def __init__(self, writer: TableCommitter, settings: TableSinkSettings, keyed: KeyedRows | None) -> None:
        """Take the writer of a table, and its rows by key for upserts."""
        self._writer, self._settings, self._keyed = writer, settings, keyed
        self._table = settings.of(writer.store.name)
        self._known: tuple[pa.Schema, pa.Schema] | None = None  # records of this schema need no change of that table

    def fit(self, changes: Changes, refuse_truncate: Callable[[LoadedTable], str | None]) -> FittedRows:
        """Return the rows of changes, after the table was made or evolved where that is allowed.

        Args:
            changes: of a single topic partition.
            refuse_truncate: returns why a truncate of this partition cannot be applied to the table, None if it can.

        Raises ExternalError for a table that is missing, RetriableError if the catalog cannot be reached, and DataError
        for a schema that no row of can be written.
        """
        offsets = changes.offsets.to_numpy()
        ops = changes.table[OP]
        if pc.any(pc.equal(ops, TRUNCATE)).as_py():
            return self._with_truncates(changes, refuse_truncate)
        self._require_keys(changes.key_columns)
        rows = changes.table.drop_columns([OP])
        unsafe = self._settle_schema(rows.schema, changes.key_columns)
        schema = self._writer.schema
        assert schema is not None
        if unsafe is not None:
            error = DataError(f"field {unsafe.path}: {unsafe.reason}")
            return FittedRows(rows.slice(0, 0), offsets[:0], tuple(RowRefusal(at, error) for at in offsets.tolist()))
        if self._keyed is not None:
            self._keyed.use_keys(self._keys_in(schema, changes.key_columns))
        deletes = pc.equal(ops, DELETE).combine_chunks()  # a delete has only its key
        fitted = fit(rows, schema, case_sensitive=self._settings.case_sensitive, may_lack=deletes)
        found = fitted.table
        if self._keyed is not None:
            found = pa.Table.from_arrays([ops.take(fitted.kept), *found.columns], schema=_with_op(schema))
        refused = tuple(
            RowRefusal(int(offsets[unfit.row]), DataError(f"field {unfit.path}: {unfit.reason}"))
            for unfit in fitted.unfit
        )
        return FittedRows(found, offsets[fitted.kept.to_numpy()], refused)

    def _with_truncates(self, changes: Changes, refuse_truncate: Callable[[LoadedTable], str | None]) -> FittedRows:
        """Fit the other changes, and put the truncates back between them, or refuse each truncate."""
        is_truncate = pc.equal(changes.table[OP], TRUNCATE).combine_chunks()
        places = pc.filter(changes.offsets, is_truncate).to_numpy()
        rest = pc.invert(is_truncate)
        kept = Changes(changes.table.filter(rest), pc.filter(changes.offsets, rest), changes.key_columns)
        found = FittedRows(kept.table, places[:0])
        if kept.table.num_rows:
            found = self.fit(kept, refuse_truncate)
        loaded = self._writer.load()
        if loaded is None:  # no row was ever written, so a truncate removes none
            return found
        reason = refuse_truncate(loaded)
        if reason is not None:
            error = DataError(f"{TRUNCATE_REFUSED}: {reason}")
            refused = (RowRefusal(place, error) for place in places.tolist())
            return FittedRows(found.rows, found.offsets, (*found.refused, *refused))
        schema = found.rows.schema if found.rows.num_rows else _with_op(loaded.schema)
        texts = {OP: pa.repeat(TRUNCATE, len(places))}
        columns = [texts.get(field.name, pa.nulls(len(places), field.type)) for field in schema]
        truncates = pa.table(columns, schema=schema)
        rows = pa.concat_tables([found.rows, truncates]) if found.rows.num_rows else truncates
        offsets = np.concatenate([found.offsets, places])
        order = np.argsort(offsets, kind="stable")
        return FittedRows(rows.take(pa.array(order)), offsets[order], found.refused)

    def _require_keys(self, key_columns: Sequence[str]) -> None:
        """Raise DataError if a table with upserts has no key, before it is created."""
        if self._keyed is not None and not (self._table.id_columns or key_columns):
            self._keyed.use_keys(())

    def _keys_in(self, schema: pa.Schema, key_columns: Sequence[str]) -> list[str]:
        """Return the key columns as the table writes their names. Raises ExternalError for those that it lacks."""
        is_exact = self._settings.case_sensitive
        names = {name if is_exact else name.lower(): name for name in schema.names}
        wanted = [name if is_exact else name.lower() for name in self._table.id_columns or key_columns]
        if missing := [name for name in wanted if name not in names]:
            raise ExternalError(
                f"table {self._writer.store.name} has no column {', '.join(missing)}, which is part of its key. Its "
                f"columns are {', '.join(schema.names)}. Correct iceberg.tables.default-id-columns, or add the column."
            )
        return [names[name] for name in wanted]

    def _settle_schema(self, want: pa.Schema, key_columns: Sequence[str]) -> UnsafeChange | None:
        """Make or evolve the table for rows of a schema. Returns a change that is refused."""
        writer, settings = self._writer, self._settings
        if self._known is not None and self._known[0].equals(want) and writer.schema is self._known[1]:
            return None
        keys = tuple(self._table.id_columns or (key_columns if self._keyed is not None else ()))
        if writer.schema is None and writer.load() is None:
            if not settings.auto_create:
                raise ExternalError(
                    f"table {writer.store.name} does not exist. Create it, or set "
                    "iceberg.tables.auto-create-enabled=true."
                )
            writer.store.create(_created(want, keys, optional=settings.force_optional), keys)
            log.info("table %s: created with columns %s", writer.store.name, ", ".join(want.names))
            writer.load()
        have = writer.schema
        assert have is not None
        planned = plan_evolution(have, want, keys=keys, case_sensitive=settings.case_sensitive)
        if isinstance(planned, UnsafeChange):
            return planned
        if planned and settings.evolve:
            loaded = writer.load()
            assert loaded is not None
            writer.store.evolve(loaded, planned)
            writer.load()
            log.info("table %s: evolved: %s", writer.store.name, planned)
        schema = writer.schema
        assert schema is not None
        self._known = want, schema
        return None


def _with_op(schema: pa.Schema) -> pa.Schema:
    """Return the schema of changes of a table. Columns are optional, because a delete has only its key."""
    return pa.schema([pa.field(OP, pa.string()), *(field.with_nullable(True) for field in schema)])


def _created(want: pa.Schema, keys: Sequence[str], *, optional: bool) -> pa.Schema:
    """Return the schema of a new table. Key columns are required, as Iceberg asks of identifier fields."""
    return pa.schema([field.with_nullable(field.name not in keys and (optional or field.nullable)) for field in want])
