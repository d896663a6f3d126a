"""Records -> changes of a table: upserts and deletes by key, in Kafka's order. Pure.

Batches come as columns already. Records become columns first, those of the same schema together. From there both take
the same way, so they give the same changes, and a record that is refused is refused in both.

- An upsert is a row. Its key is in the row's key columns.
- A delete is a row of which only the key columns are set. Deletes of unknown keys do no harm.
- A key that changed in one record is a delete of the former key, then an upsert.
- A truncate has no key. Its place is only known among the changes of the same topic partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.lakehouse.connect_columns import (
    ICEBERG_TYPES,
    ArrowTypeRules,
    Unfit,
    by_halves,
    column_type,
    plain_type,
    table_column,
    wire_column,
)
from spark_connect_rt.connectors.lakehouse.unavailable_values import unavailable_values
from spark_connect_rt.errors import DataError

OP = "__connectrt_op"  # not `__op`, which Debezium adds to rows
UPSERT, DELETE, TRUNCATE = "u", "d", "t"
DELETED = "__deleted"
_PLACE = "value"
_ROW, _KEY, _FORMER = 0, 1, 2  # where the key of a change comes from
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


class ChangeForm(Enum):
    """How the records of a topic describe changes."""

    PLAIN = "plain"
    """The value is the row. A record without a value deletes."""
    DEBEZIUM = "debezium"
    """The value is an envelope with `op`, `before` and `after`."""
    FLATTENED = "flattened"
    """As PLAIN, and `__deleted` or the operation's field says that a row is deleted (`ExtractNewRecordState`)."""


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """How records become changes.

    Attributes:
        form: of the values.
        upsert: False: each record with a value is a row to append, whatever `form` is. Keys do not matter.
        key_columns: of the table. Empty: the fields of the record's key.
        op_field: of flattened values, which says what happened to the row. Its first letter counts: `d`, `t`.
        dropped: fields of flattened values that are not columns.
        types: of the table's format.
    """

    form: ChangeForm = ChangeForm.PLAIN
    upsert: bool = True
    key_columns: tuple[str, ...] = ()
    op_field: str = "__op"
    dropped: tuple[str, ...] = (DELETED, "__op")
    types: ArrowTypeRules = ICEBERG_TYPES


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A record that is not a change: its place among the records that were given, and the reason."""

    index: int
    error: DataError


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one topic partition in Kafka's order.

    Attributes:
        table: column `OP` (u, d, t), then the columns of the row. Of a `d` only key columns are set; of a `t`, none.
            Nullability is that of upserts.
        offsets: of the record of each change, int64. One record may be two changes.
        key_columns: names. Empty without upserts.
        refused: records to report one by one.
        ignored: how many records change nothing, such as messages, and tombstones behind a delete.
    """

    table: pa.Table
    offsets: pa.Array
    key_columns: tuple[str, ...]
    refused: tuple[RefusedChange, ...] = ()
    ignored: int = 0


def changes_of_batch(batch: SinkBatch, rules: ChangeRules) -> Changes | None:
    """Return the changes of columns. None: the records have to come to `changes_of_records` instead."""
    if _hides_defaults(batch.value_schema, batch.values) or _hides_defaults(batch.key_schema, batch.keys):
        return None
    if any(_is_mixed(column) for column in (batch.values, batch.keys)):
        return None
    return _changes(_Records(batch.offsets, batch.values, batch.value_schema, batch.keys, batch.key_schema), rules)


def _hides_defaults(schema: Schema | None, column: pa.Array | None) -> bool:
    """Return whether a null of the column stands for a default, or may do so within an array or a map."""
    if schema is None or column is None:
        return False
    parts = [part for part in (schema.key_schema, schema.value_schema) if part is not None]
    if any(map(_has_defaults, parts)):
        return True
    if schema.type is not Type.STRUCT or not pa.types.is_struct(column.type):
        return False
    for member in schema.fields:
        at = column.type.get_field_index(member.name)
        if at < 0:
            return True
        part = column.field(at)
        if member.schema.default is not None and part.null_count:
            missing = part.is_null() if not column.null_count else pc.and_(part.is_null(), column.is_valid())
            if pc.any(missing).as_py():
                return True
        if _hides_defaults(member.schema, part):
            return True
    return False


def _has_defaults(schema: Schema) -> bool:
    parts = [part for part in (schema.key_schema, schema.value_schema) if part is not None]
    return schema.fields_have_defaults or any(map(_has_defaults, [member.schema for member in schema.fields] + parts))


def _is_mixed(column: pa.Array | None) -> bool:
    """Return whether whole and other numbers are mixed in a way that doubles cannot hold."""
    if column is None or not pa.types.is_struct(column.type):
        return False
    for at in range(column.type.num_fields):
        part = column.field(at)
        if pa.types.is_union(part.type):
            try:
                part.field(0).cast(pa.float64())
            except pa.ArrowInvalid:
                return True
        elif _is_mixed(part):
            return True
    return False


def changes_of_records(records: Sequence[SinkRecord], rules: ChangeRules) -> list[Changes]:
    """Return the changes of records of one topic partition.

    Records of one schema are together, so the order of all is kept and the schemas of the parts differ. `refused`
    counts among all records.
    """
    parts: list[Changes] = []
    begin = 0
    while begin < len(records):
        end = _end_of_run(records, begin)
        parts += _of_run(records[begin:end], begin, rules)
        begin = end
    return parts


def _end_of_run(records: Sequence[SinkRecord], begin: int) -> int:
    """Return the end of the longest run of records that have one schema of values and one of keys."""
    value: Any = None
    key: Any = None
    for at in range(begin, len(records)):
        record = records[at]
        if record.value is not None:
            found = record.value_schema or type(record.value)
            if value is not None and found is not value and found != value:
                return at
            value = found
        if record.key is not None:
            found = record.key_schema or type(record.key)
            if key is not None and found is not key and found != key:
                return at
            key = found
    return len(records)


def _of_run(records: Sequence[SinkRecord], first: int, rules: ChangeRules) -> list[Changes]:
    """Return the changes of a run. Values that have no common type, or do not fit, split it."""
    value_schema = next((record.value_schema for record in records if record.value is not None), None)
    key_schema = next((record.key_schema for record in records if record.key is not None), None)
    try:
        values = wire_column([record.value for record in records], _optional(value_schema), _PLACE)
        has_keys = rules.upsert and any(record.key is not None for record in records)
        keys = wire_column([record.key for record in records], _optional(key_schema), "key") if has_keys else None
    except DataError as error:
        if len(records) == 1:
            refused = (RefusedChange(first, error),)
            return [Changes(pa.table({OP: pa.array([], pa.string())}), pa.array([], pa.int64()), (), refused)]
        half = len(records) // 2
        return _of_run(records[:half], first, rules) + _of_run(records[half:], first + half, rules)
    offsets = pa.array([record.offset for record in records], pa.int64())
    found = _changes(_Records(offsets, values, value_schema, keys, key_schema), rules)
    return [replace(found, refused=tuple(RefusedChange(first + each.index, each.error) for each in found.refused))]


def _optional(schema: Schema | None) -> Schema | None:
    return None if schema is None else schema.as_optional()


# Columns of records -> changes


@dataclass(frozen=True, slots=True)
class _Records:
    """Records as columns, as long as `offsets`."""

    offsets: pa.Array
    values: pa.Array
    value_schema: Schema | None
    keys: pa.Array | None
    key_schema: Schema | None


@dataclass(frozen=True, slots=True)
class _Struct:
    """A column of structs with its schema; null rows are those of records without it."""

    column: pa.Array | None = None
    schema: Schema | None = None

    @property
    def names(self) -> list[str]:
        if self.schema is not None and self.schema.type is Type.STRUCT:
            return [member.name for member in self.schema.fields]
        if self.column is not None and pa.types.is_struct(self.column.type):
            return [self.column.type.field(at).name for at in range(self.column.type.num_fields)]
        return []

    def member(self, name: str) -> _Struct:
        """Return a member, nulls where the struct is null. Empty if there is none of that name."""
        if self.column is None or not pa.types.is_struct(self.column.type):
            return _Struct()
        at = self.column.type.get_field_index(name)
        member = None if self.schema is None else self.schema.field(name)
        if at < 0:
            return _Struct()
        return _Struct(_member(self.column, at), None if member is None else member.schema)

    def is_valid(self, count: int) -> Mask:
        if self.column is None:
            return np.zeros(count, bool)
        found: Mask = self.column.is_valid().to_numpy(zero_copy_only=False)
        return found


def _member(column: pa.Array, at: int) -> pa.Array:
    part = column.field(at)
    if not column.null_count or pa.types.is_union(part.type) or pa.types.is_null(part.type):
        return part
    return column.flatten()[at]


@dataclass(slots=True)
class _Draft:
    """Decisions about each record.

    Attributes:
        row: the row that an upsert writes.
        former: the row before, for the key of a delete, and for a key that changed.
        upserts, deletes, truncates: which records are that. Others are refused or ignored.
        refused: by record.
    """

    row: _Struct
    former: _Struct
    upserts: Mask
    deletes: Mask
    truncates: Mask
    refused: Unfit = field(default_factory=dict)

    def refuse(self, rows: Mask, reason: str) -> None:
        """Refuse records with a reason, unless they have one already."""
        for row in np.flatnonzero(rows).tolist():
            self.refused.setdefault(row, reason)

    def settle(self) -> None:
        """Take refused records out of the others."""
        rows = np.array(list(self.refused), np.int64)
        for mask in (self.upserts, self.deletes, self.truncates):
            mask[rows] = False


def _changes(records: _Records, rules: ChangeRules) -> Changes:
    if not rules.upsert:
        rules = replace(rules, form=ChangeForm.PLAIN)
    draft = _DRAFTS[rules.form](records, rules)
    columns = _row_columns(draft, rules)
    if not rules.upsert:
        draft.deletes[:] = False
        draft.settle()
        return _assembled(records, draft, _Columns(columns, {}, {}, ()), np.flatnonzero(draft.upserts), rules)
    found = _with_keys(records, draft, columns, rules)
    draft.settle()
    order = _order(draft, _changed_keys(found, draft))
    return _assembled(records, draft, found, order, rules)


def _plain(records: _Records, rules: ChangeRules) -> _Draft:
    row = _Struct(records.values, records.value_schema)
    valid = row.is_valid(len(records.offsets))
    draft = _Draft(row, _Struct(), valid, ~valid, np.zeros(len(valid), bool))
    if not row.names and valid.any():
        draft.refuse(valid, "a row needs fields, but the record's value has none")
    return draft


def _flattened(records: _Records, rules: ChangeRules) -> _Draft:
    draft = _plain(records, rules)
    count = len(records.offsets)
    operations = _letters(draft.row.member(rules.op_field).column, count)
    deleted = _letters(draft.row.member(DELETED).column, count, whole=True)
    draft.truncates = operations == "t"
    draft.deletes |= draft.upserts & ((operations == "d") | (deleted == "true"))
    draft.deletes &= ~draft.truncates
    draft.upserts &= ~draft.deletes & ~draft.truncates
    draft.former = draft.row  # a deleted row still has its key
    return draft


def _letters(column: pa.Array | None, count: int, *, whole: bool = False) -> npt.NDArray[Any]:
    """Return the first letter (or the whole text) of each value in lower case, empty for null."""
    if column is None or pa.types.is_null(column.type):
        return np.full(count, "", object)
    text = pc.utf8_lower(column.cast(pa.string()).fill_null(""))
    letters: npt.NDArray[Any] = (text if whole else pc.utf8_slice_codeunits(text, 0, 1)).to_numpy(zero_copy_only=False)
    return letters


def _debezium(records: _Records, rules: ChangeRules) -> _Draft:
    envelope = _Struct(records.values, records.value_schema)
    valid = envelope.is_valid(len(records.offsets))
    none = np.zeros(len(valid), bool)
    operation = envelope.member("op").column
    draft = _Draft(envelope.member("after"), envelope.member("before"), none.copy(), ~valid, none.copy())
    operations = _letters(operation, len(valid), whole=True)
    draft.upserts = valid & np.isin(operations, ["c", "r", "u"])
    draft.deletes |= valid & (operations == "d")
    draft.truncates = valid & (operations == "t")
    known = draft.upserts | draft.deletes | draft.truncates | (operations == "m")
    draft.refuse(~known & (operations == ""), "the record's value is not an envelope of Debezium: it has no field op")
    draft.refuse(~known, "the field op of the envelope is unknown. Debezium's are c, r, u, d, t and m")
    without_row = draft.upserts & ~draft.row.is_valid(len(valid))
    draft.refuse(without_row, "the field after of the envelope is missing, so there is no row to write")
    return draft


_DRAFTS = {ChangeForm.PLAIN: _plain, ChangeForm.FLATTENED: _flattened, ChangeForm.DEBEZIUM: _debezium}


def _row_columns(draft: _Draft, rules: ChangeRules) -> dict[str, tuple[pa.Array, bool]]:
    """Return the columns of rows and whether they may be null. Refuses rows that do not fit their types."""
    columns: dict[str, tuple[pa.Array, bool]] = {}
    dropped = rules.dropped if rules.form is ChangeForm.FLATTENED else ()
    for name in draft.row.names:
        member = draft.row.member(name)
        if name in dropped or member.column is None:
            continue
        made, unfit = _typed(member, rules, name)
        for row, reason in unfit.items():
            if draft.upserts[row]:
                draft.refused.setdefault(row, reason)
        if made is None:
            continue
        columns[name] = made, member.schema is None or member.schema.optional
        if rules.form is not ChangeForm.PLAIN:
            _refuse_unavailable(draft, made, name)
    return columns


def _typed(member: _Struct, rules: ChangeRules, path: str) -> tuple[pa.Array | None, Unfit]:
    assert member.column is not None
    kind = (
        plain_type(member.column.type, rules.types)
        if member.schema is None
        else column_type(member.schema, rules.types)
    )
    if kind is None:
        return None, {}
    made, unfit = by_halves(lambda part: table_column(part, member.schema, rules.types, path), member.column)
    return made, unfit


def _refuse_unavailable(draft: _Draft, column: pa.Array, name: str) -> None:
    """Refuse rows with Debezium's placeholder for a large value that did not change, and is not in the event."""
    found = unavailable_values(column)
    if found is not None:
        reason = "the event does not contain this unchanged value. Set REPLICA IDENTITY FULL for the source table"
        draft.refuse(found & draft.upserts, f"{name}: {reason}")


# Keys


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of the row, key columns from the record's key and from the row before, and names of the key columns."""

    row: dict[str, tuple[pa.Array, bool]]
    of_keys: dict[str, pa.Array]
    of_former: dict[str, pa.Array]
    names: tuple[str, ...]


def _with_keys(
    records: _Records, draft: _Draft, columns: dict[str, tuple[pa.Array, bool]], rules: ChangeRules
) -> _Columns:
    """Return the columns with those of keys. Refuses records without a key."""
    key = _key_struct(records, rules)
    names = rules.key_columns or tuple(key.names)
    changing = draft.upserts | draft.deletes
    if not names:
        draft.refuse(changing, "the record has no key with fields. Give it one, or set the id columns of the table")
        return _Columns(columns, {}, {}, ())
    of_keys = _key_columns(key, names, columns, rules)
    of_former = _key_columns(draft.former, names, columns, rules)
    row = dict(columns)
    for name in names:
        if name not in row and name in of_keys:
            row[name] = of_keys[name], False
    count = len(records.offsets)
    has_key, has_former = _all_set(of_keys, names, count), _all_set(of_former, names, count)
    in_row = {name: row[name][0] for name in names if name in row}
    without = draft.upserts & ~_all_set(in_row, names, count)
    without |= draft.deletes & ~has_key & ~has_former
    if rules.form is ChangeForm.DEBEZIUM:  # a tombstone behind the delete that named the key
        bare = without & ~records.values.is_valid().to_numpy(zero_copy_only=False)
        draft.deletes &= ~bare
        without &= ~bare
    draft.refuse(without, f"the record has no value for the key ({', '.join(names)})")
    return _Columns(row, of_keys, of_former, names)


def _key_struct(records: _Records, rules: ChangeRules) -> _Struct:
    """Return the record's key; a key without fields is the only key column."""
    key = _Struct(records.keys, records.key_schema)
    if key.column is None or key.names or pa.types.is_null(key.column.type) or len(rules.key_columns) != 1:
        return key if key.names else _Struct()
    name = rules.key_columns[0]
    column = pa.StructArray.from_arrays([key.column], names=[name])
    if key.schema is None:
        return _Struct(column)
    return _Struct(column, struct_of({name: key.schema}))


def _key_columns(
    struct: _Struct, names: Sequence[str], columns: dict[str, tuple[pa.Array, bool]], rules: ChangeRules
) -> dict[str, pa.Array]:
    """Return key columns of a struct with the types of the row's. Empty if it lacks some of them."""
    found: dict[str, pa.Array] = {}
    for name in names:
        member = struct.member(name)
        if member.column is None:
            return {}
        made, _ = _typed(member, rules, name)
        if made is None:
            return {}
        if name in columns and columns[name][0].type != made.type:
            made, _ = by_halves(lambda part, kind=columns[name][0].type: _cast(part, kind), made)  # type: ignore[misc]
        found[name] = made
    return found


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowException as error:
        raise DataError(str(error)) from error


def _all_set(columns: dict[str, pa.Array], names: Sequence[str], count: int) -> Mask:
    if len(columns) < len(names):
        return np.zeros(count, bool)
    valid = np.ones(count, bool)
    for column in columns.values():
        if column.null_count:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _changed_keys(columns: _Columns, draft: _Draft) -> Mask:
    """Return which upserts have another key than the row before, so that the former key is deleted."""
    count = len(draft.upserts)
    if not columns.of_former or not draft.upserts.any():
        return np.zeros(count, bool)
    same = np.ones(count, bool)
    for name in columns.names:
        equal = pc.equal(columns.row[name][0], columns.of_former[name]).fill_null(False)
        same &= equal.to_numpy(zero_copy_only=False)
    return draft.upserts & ~same & _all_set(columns.of_former, columns.names, count)


def _order(draft: _Draft, changed: Mask) -> Numbers:
    """Return the record of each change, in order. Records whose key changed are there twice."""
    kept = draft.upserts | draft.deletes | draft.truncates
    if not changed.any():
        return np.flatnonzero(kept)
    counts = kept.astype(np.int64) + changed
    return np.repeat(np.arange(len(kept)), counts)


def _assembled(records: _Records, draft: _Draft, columns: _Columns, order: Numbers, rules: ChangeRules) -> Changes:
    count = len(records.offsets)
    upserts = draft.upserts[order]
    is_former = np.zeros(len(order), bool)
    is_former[:-1] = order[:-1] == order[1:]  # the first of two changes deletes the former key
    upserts &= ~is_former
    arrays, fields = [_op_column(upserts, draft.truncates[order])], [pa.field(OP, pa.string(), False)]
    everything = len(order) == count and bool(upserts.all())
    rows = None if everything else pa.array(order, mask=~upserts)
    places = None if everything else _key_places(columns, draft, order, upserts, is_former)
    for name, (column, nullable) in columns.row.items():
        if everything:
            arrays.append(column)
        elif name in columns.names:
            arrays.append(_taken_keys(name, columns, places))
        else:
            arrays.append(column.take(rows))
        fields.append(pa.field(name, column.type, nullable and name not in columns.names))
    refused = tuple(RefusedChange(row, DataError(draft.refused[row])) for row in sorted(draft.refused))
    ignored = count - (len(order) - int(is_former.sum())) - len(refused)
    offsets = records.offsets if everything else records.offsets.take(pa.array(order))
    return Changes(pa.table(arrays, schema=pa.schema(fields)), offsets, columns.names, refused, ignored)


def _op_column(upserts: Mask, truncates: Mask) -> pa.Array:
    letters = np.where(upserts, ord(UPSERT), np.where(truncates, ord(TRUNCATE), ord(DELETE))).astype(np.uint8)
    bounds = pa.py_buffer(np.arange(len(letters) + 1, dtype=np.int32))
    return pa.StringArray.from_buffers(len(letters), bounds, pa.py_buffer(letters))


def after_truncate(changes: pa.Table) -> tuple[pa.Table, bool]:
    """Return the changes behind the last truncate, and whether there is a truncate.

    With a truncate, every row that the table had before these changes is removed. Only for the changes of a single
    topic partition in order, because a truncate has no order against other partitions.
    """
    places = np.flatnonzero(pc.equal(changes[OP], TRUNCATE).to_numpy())
    return changes.slice(int(places[-1]) + 1) if len(places) else changes, bool(len(places))


def upserts_of(changes: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of upserts with the columns and types of a table."""
    return changes.filter(pc.equal(changes[OP], UPSERT)).drop_columns([OP]).cast(schema)


def _key_places(columns: _Columns, draft: _Draft, order: Numbers, upserts: Mask, is_former: Mask) -> pa.Array:
    """Return where the key of each change is, in the columns of the row, the record's key and the former row."""
    count = len(draft.upserts)
    has_key = _all_set(columns.of_keys, columns.names, count)
    source = np.where(upserts, _ROW, np.where(is_former | ~has_key[order], _FORMER, _KEY))
    return pa.array(order + count * source, mask=draft.truncates[order])


def _taken_keys(name: str, columns: _Columns, places: pa.Array) -> pa.Array:
    column = columns.row[name][0]
    sources = [
        column,
        *(other.get(name, pa.nulls(len(column), column.type)) for other in (columns.of_keys, columns.of_former)),
    ]
    return pa.concat_arrays(sources).take(places)
