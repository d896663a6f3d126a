"""Schemas of tables: made from Connect's, evolved, and rows fitted to them. Pure.

A table changes only in ways that keep every row readable by every engine: columns are added, whole numbers, floats and
decimals become wider, and required columns become optional. Other changes are refused with the field's path. Values
are cast where that is exact. A record with a value that does not fit is named alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.connectors.lakehouse.connect_columns import (
    ICEBERG_TYPES,
    MOST_DIGITS,
    ArrowTypeRules,
    by_halves,
    is_list,
    list_of,
    list_offsets,
    map_parts,
    parsed_moments,
    struct_fields,
)
from spark_connect_rt.errors import DataError

_WIDEST = 76  # digits of decimals in Arrow
_UNFIT = (pa.ArrowException, ValueError, OverflowError)


def table_schema(schema: Schema, rules: ArrowTypeRules = ICEBERG_TYPES) -> pa.Schema:
    """Return the columns of a table for rows of a STRUCT schema, nullability included.

    Raises DataError: the schema is not a STRUCT, or has no field with a column.
    """
    if schema.type is not Type.STRUCT:
        raise DataError(f"a row needs fields, but the record's value is of type {schema.type.value}")
    fields = struct_fields(schema, rules)
    if not fields:
        raise DataError("a row needs fields, but the record's value has none")
    return pa.schema(fields)


# Evolution


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column or nested field to add, always optional.

    Attributes:
        path: dotted, such as `address.city` or `items.element.price`.
        type: of the field.
        parent: the path of the struct that gets the field. Empty: it is a column. Names may contain dots themselves.
    """

    path: str
    type: pa.DataType
    parent: str = ""

    @property
    def name(self) -> str:
        """The name of the field in its struct or table."""
        return self.path.removeprefix(f"{self.parent}.") if self.parent else self.path


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A column whose type becomes a wider type."""

    path: str
    have: pa.DataType
    want: pa.DataType


@dataclass(frozen=True, slots=True)
class Evolution:
    """Safe changes of a table.

    Attributes:
        schema: the table's schema after them.
        add: columns in their order, parents before their fields.
        widen: columns with a wider type.
        relax: paths of columns that become optional.
    """

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
    """Return what has to change so that rows of `want` fit a table of `have`.

    Args:
        have: the table's schema.
        want: of the rows. Columns that it lacks are null in these rows.
        keys: columns that stay required, because records without them are refused.
        case_sensitive: whether `A` and `a` are two columns.
    """
    plan = _Plan(frozenset(keys), case_sensitive)
    try:
        fields = plan.merged(list(have), list(want), "")
    except _UnsafeError as error:
        return UnsafeChange(error.path, error.reason)
    return Evolution(pa.schema(fields, have.metadata), tuple(plan.add), tuple(plan.widen), tuple(plan.relax))


class _UnsafeError(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


@dataclass(slots=True)
class _Plan:
    keys: frozenset[str]
    case_sensitive: bool
    add: list[AddColumn] = field(default_factory=list)
    widen: list[WidenColumn] = field(default_factory=list)
    relax: list[str] = field(default_factory=list)

    def merged(self, have: Sequence[pa.Field], want: Sequence[pa.Field], parent: str) -> list[pa.Field]:
        """Return the fields of a struct or table after the changes."""
        wanted = self._by_name(want, parent)
        fields = [self._field(old, wanted.pop(self._name(old.name), None), f"{parent}{old.name}") for old in have]
        for new in wanted.values():
            path = f"{parent}{new.name}"
            self.add.append(AddColumn(path, new.type, parent.removesuffix(".")))
            fields.append(new.with_nullable(True))
        return fields

    def _by_name(self, fields: Sequence[pa.Field], parent: str) -> dict[str, pa.Field]:
        found: dict[str, pa.Field] = {}
        for new in fields:
            name = self._name(new.name)
            if name in found:
                raise _UnsafeError(
                    f"{parent}{new.name}", f"the record has this field twice, as {found[name].name}, too"
                )
            found[name] = new
        return found

    def _name(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()

    def _field(self, old: pa.Field, new: pa.Field | None, path: str) -> pa.Field:
        may_be_null = new is None or new.nullable
        kept = old if new is None else old.with_type(self._type(old.type, new.type, path))
        if may_be_null and not old.nullable and path not in self.keys:
            self.relax.append(path)
            kept = kept.with_nullable(True)
        return kept

    def _type(self, old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
        if plain(old) == plain(new):
            return old
        if pa.types.is_struct(old) and pa.types.is_struct(new):
            return pa.struct(self.merged(list(old), list(new), f"{path}."))
        if is_list(old) and is_list(new):
            return pa.list_(self._field(old.value_field, new.value_field, f"{path}.element"))
        if pa.types.is_map(old) and pa.types.is_map(new):
            key = old.key_field.with_type(self._type(old.key_type, new.key_type, f"{path}.key"))
            return pa.map_(key, self._field(old.item_field, new.item_field, f"{path}.value"))
        wider = _wider(old, new)
        if wider is not None:
            self.widen.append(WidenColumn(path, old, wider))
            return wider
        reason = why_not(new, old)
        if reason is not None:
            raise _UnsafeError(path, reason)
        return old


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets and without names of elements, so that equal columns have equal types."""
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(plain(member.type)).remove_metadata() for member in kind])
    if is_list(kind):
        return pa.list_(pa.field("element", plain(kind.value_type), kind.value_field.nullable))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), pa.field("value", plain(kind.item_type), kind.item_field.nullable))
    return _SHORT.get(kind, kind)


_SHORT = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def _wider(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    if (old, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64())):
        return new
    if pa.types.is_decimal(old) and pa.types.is_decimal(new) and old.scale == new.scale:
        return pa.decimal128(new.precision, new.scale) if old.precision < new.precision <= MOST_DIGITS else None
    return None


def why_not(new: pa.DataType, old: pa.DataType) -> str | None:
    """Return why no value of type `new` fits a column of type `old`, None: some may, `fit` casts them."""
    new, old = plain(new), plain(old)
    if new == old or pa.types.is_null(new) or _is_castable(new, old):
        return None
    return f"a column of {old} cannot hold values of {new}"


def _is_castable(new: pa.DataType, old: pa.DataType) -> bool:
    numbers = pa.types.is_integer(new) or pa.types.is_floating(new) or pa.types.is_decimal(new)
    if numbers and not pa.types.is_boolean(old):
        return bool(pa.types.is_integer(old) or pa.types.is_floating(old) or pa.types.is_decimal(old))
    if pa.types.is_string(new):
        return bool(pa.types.is_timestamp(old) or pa.types.is_date(old) or pa.types.is_decimal(old) or is_uuid(old))
    if pa.types.is_timestamp(new) and pa.types.is_timestamp(old):
        return (new.tz is None) == (old.tz is None)
    return bool(
        (pa.types.is_time(new) and pa.types.is_time(old))
        or (pa.types.is_date(new) and pa.types.is_date(old))
        or (pa.types.is_binary(new) and pa.types.is_fixed_size_binary(old))
        or (pa.types.is_fixed_size_binary(new) and pa.types.is_binary(old))
    )


def is_uuid(kind: pa.DataType) -> bool:
    """Return whether a column holds UUIDs: Arrow's own type, or 16 bytes."""
    return getattr(kind, "extension_name", "") == "arrow.uuid" or kind == pa.binary(16)


# Rows that fit


@dataclass(frozen=True, slots=True)
class UnfitRow:
    """A row that does not fit: its number, the field's path and the reason."""

    row: int
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows of exactly the table's schema.

    Attributes:
        table: the rows that fit, in order.
        kept: their numbers among the rows that were given, int64.
        unfit: the others.
    """

    table: pa.Table
    kept: pa.Array
    unfit: tuple[UnfitRow, ...] = ()


def fit(table: pa.Table, schema: pa.Schema, *, case_sensitive: bool = True, may_lack: pa.Array | None = None) -> Fitted:
    """Cast rows to the table's schema, where that is exact.

    Args:
        table: the rows. Columns that they lack become null. Columns that the schema lacks are dropped.
        schema: of the table.
        case_sensitive: whether `A` and `a` are two columns.
        may_lack: rows (bool) whose required columns may be null, such as deletes.
    """
    names = {name if case_sensitive else name.lower(): name for name in table.column_names}
    unfit: dict[int, UnfitRow] = {}
    columns = []
    for target in schema:
        name = names.get(target.name if case_sensitive else target.name.lower())
        values = pa.nulls(table.num_rows) if name is None else _combined(table[name])
        fitted, problems = _fit_column(values, target.type, target.name)
        if not target.nullable:
            problems |= _nulls(fitted, may_lack, problems)
        columns.append(fitted)
        for row, reason in problems.items():
            unfit.setdefault(row, UnfitRow(row, target.name, reason))
    fitted_table = pa.Table.from_arrays(columns, schema=schema)
    kept = np.arange(table.num_rows)
    if unfit:
        kept = np.delete(kept, sorted(unfit))
        fitted_table = fitted_table.take(kept)
    return Fitted(fitted_table, pa.array(kept, pa.int64()), tuple(unfit[row] for row in sorted(unfit)))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _nulls(values: pa.Array, may_lack: pa.Array | None, known: dict[int, str]) -> dict[int, str]:
    if not values.null_count:
        return {}
    absent = values.is_null() if may_lack is None else pc.and_not(values.is_null(), may_lack)
    rows = np.flatnonzero(absent.to_numpy(zero_copy_only=False)).tolist()
    return {row: "the column is required, but the record has no value for it" for row in rows if row not in known}


def _fit_column(values: pa.Array, kind: pa.DataType, path: str) -> tuple[pa.Array, dict[int, str]]:
    if values.type == kind:
        return values, {}
    reason = None if pa.types.is_nested(kind) else why_not(values.type, kind)
    if reason is not None:
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).tolist()
        return pa.nulls(len(values), kind), dict.fromkeys(rows, f"{path}: {reason}")
    return by_halves(lambda part: _cast(part, kind, path), values)


def _cast(values: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """Return values as another type. Raises DataError: one of them does not fit exactly."""
    if values.type == kind:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), kind)
    try:
        if pa.types.is_nested(kind):
            return _cast_nested(values, kind, path)
        reason = why_not(values.type, kind)
        if reason is not None and values.null_count < len(values):
            raise DataError(f"{path}: {reason}")
        return pa.nulls(len(values), kind) if reason is not None else _cast_leaf(values, kind)
    except _UNFIT as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}") from error


def _cast_nested(values: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        return _cast_struct(values, kind, path)
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        offsets, keys, items = map_parts(values)
        keys, items = _cast(keys, kind.key_type, f"{path}.key"), _cast(items, kind.item_type, f"{path}.value")
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)
    if is_list(kind) and is_list(values.type):
        flat = _cast(values.flatten(), kind.value_type, f"{path}.element")
        return list_of(list_offsets(values), flat, kind)
    if values.null_count == len(values):
        return pa.nulls(len(values), kind)
    raise DataError(f"{path}: a column of {plain(kind)} cannot hold values of {plain(values.type)}")


def _cast_struct(values: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    places = {values.type.field(at).name: at for at in range(values.type.num_fields)}
    parts = values.flatten()
    columns = []
    for member in kind:
        part = parts[places[member.name]] if member.name in places else pa.nulls(len(values))
        column = _cast(part, member.type, f"{path}.{member.name}")
        if not member.nullable and pc.any(pc.and_(column.is_null(), values.is_valid())).as_py():
            raise DataError(f"{path}.{member.name}: the field is required, but the record has no value for it")
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=values.is_null())


def _cast_leaf(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a cast that is exact. Raises pa.ArrowInvalid, ValueError."""
    if pa.types.is_decimal(kind) and not pa.types.is_decimal(values.type):
        if pa.types.is_integer(values.type):
            return values.cast(pa.decimal256(_WIDEST, kind.scale)).cast(kind)
        return (values.cast(pa.string()) if pa.types.is_floating(values.type) else values).cast(kind)
    if pa.types.is_floating(kind) and not pa.types.is_integer(values.type):
        return _as_floats(values, kind)
    if is_uuid(kind):
        return _uuids(values, kind)
    if pa.types.is_string(plain(values.type)) and pa.types.is_timestamp(kind):
        return parsed_moments(values, kind)
    return values.cast(kind)


def _as_floats(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return floats or decimals as floats, which Arrow rounds. Raises ValueError: a value changed by that."""
    found = values.cast(kind, safe=False)
    if pa.types.is_decimal(values.type):
        wide = pa.decimal256(_WIDEST, values.type.scale)
        changed = pc.not_equal(found.cast(wide), values.cast(wide))
    else:
        changed = pc.and_not(pc.not_equal(found.cast(values.type), values), pc.is_nan(values))
    if pc.any(changed).as_py():
        raise ValueError(f"a value of {values.type} is not exact as {kind}")
    return found


def _uuids(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(plain(values.type)):
        digits = pc.replace_substring(values, "-", "").to_pylist()
        values = pa.array([None if text is None else bytes.fromhex(text) for text in digits], pa.binary())
    plain_bytes = values.cast(pa.binary(16))
    return plain_bytes if kind == pa.binary(16) else pa.ExtensionArray.from_storage(kind, plain_bytes)


def changed_paths(evolution: Evolution) -> Iterator[str]:
    """Yield the paths that an evolution changes, for logs."""
    yield from (added.path for added in evolution.add)
    yield from (widened.path for widened in evolution.widen)
    yield from evolution.relax
