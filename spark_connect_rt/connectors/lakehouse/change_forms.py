"""Finds out what the values of a topic are: rows, envelopes of Debezium, or flattened envelopes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.lakehouse.changes import ChangeForm
from spark_connect_rt.connectors.lakehouse.routes import field_at

_ENVELOPE = frozenset({"op", "before", "after"})
_DELETED = "__deleted"


def form_of_fields(names: Collection[str], schema_name: str | None, op_field: str | None) -> ChangeForm:
    """Return the form of values with these fields.

    Debezium names the schema of an envelope `<table>.Envelope`. Without schemas, a value with `op`, `before` and
    `after` is an envelope.
    """
    if (schema_name or "").endswith(".Envelope") or set(names) >= _ENVELOPE:
        return ChangeForm.DEBEZIUM
    if _DELETED in names or (op_field is not None and op_field in names):
        return ChangeForm.FLATTENED
    return ChangeForm.PLAIN


def form_of_record(record: SinkRecord, op_field: str | None) -> ChangeForm:
    """Return the form of a record. One without a value deletes, which is the same in all forms."""
    if record.value_schema is not None:
        return form_of_fields(_fields_of(record.value_schema), record.value_schema.name, op_field)
    return form_of_fields(record.value if isinstance(record.value, Mapping) else (), None, op_field)


def form_of_batch(batch: SinkBatch, op_field: str | None) -> ChangeForm:
    """Return the form of a batch's values."""
    if batch.value_schema is not None:
        return form_of_fields(_fields_of(batch.value_schema), batch.value_schema.name, op_field)
    kind = batch.values.type
    return form_of_fields([field.name for field in kind] if pa.types.is_struct(kind) else (), None, op_field)


def is_truncate(record: SinkRecord, form: ChangeForm, op_field: str | None) -> bool:
    """Return whether a record says that the source table was truncated."""
    if form is ChangeForm.PLAIN or record.value is None:
        return False
    name = "op" if form is ChangeForm.DEBEZIUM else op_field or "__op"
    return str(field_at(record.value, [name]) or "").lower().startswith("t")


def _fields_of(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields or ()]
