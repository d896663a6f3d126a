"""Schemas of tables: from Connect's, evolved, and values fitted to them. Signatures first, the parts follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_connect_rt.api.data.schema import Schema


@dataclass(frozen=True, slots=True)
class TypeRules:
    """What a table format has types for: `time` of day (Iceberg has, Delta has not: int64 of microseconds)."""

    time: bool = True


def table_schema(schema: Schema, rules: TypeRules = TypeRules()) -> pa.Schema:
    """Return the columns of a table for rows of a STRUCT schema, nullability included. Raises DataError."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column or nested field to add, always optional. `path` is dotted: `address.city`, `items.element.price`."""

    path: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A column whose type becomes a wider one."""

    path: str
    have: pa.DataType
    want: pa.DataType


@dataclass(frozen=True, slots=True)
class Evolution:
    """Safe changes of a table. `schema` is the table's schema after them; `relax` names columns that become optional."""

    schema: pa.Schema
    add: tuple[AddColumn, ...] = ()
    widen: tuple[WidenColumn, ...] = ()
    relax: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the table has to change."""
        return bool(self.add or self.widen or self.relax)


@dataclass(frozen=True, slots=True)
class UnsafeChange:
    """A change that is refused: the field's path and the reason."""

    path: str
    reason: str


def plan_evolution(
    have: pa.Schema, want: pa.Schema, *, keys: Sequence[str] = (), case_sensitive: bool = True
) -> Evolution | UnsafeChange:
    """Return what has to change so that rows of `want` fit."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Unfit:
    """A row that does not fit: its number, the field's path and the reason."""

    row: int
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows of exactly the table's schema, without those that do not fit. `kept` are the row numbers of the others."""

    table: pa.Table
    kept: pa.Array
    unfit: tuple[Unfit, ...] = ()


def fit(table: pa.Table, schema: pa.Schema, *, case_sensitive: bool = True) -> Fitted:
    """Cast rows to the table's schema. Columns that are missing become null, those that the schema lacks are dropped."""
    raise NotImplementedError
