"""A whole batch through a transformation: the one list of which bundled one has a column form.

Owns the choice between column form and rows. It stands above the transformations: they make records of records and
need no Arrow; validation imports them alone.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from spark_connect_rt.api.records import B
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.records.transforms import field_columns as fields
from spark_connect_rt.records.transforms.cast import Cast
from spark_connect_rt.records.transforms.cast_columns import cast_batch
from spark_connect_rt.records.transforms.extract_field import ExtractField
from spark_connect_rt.records.transforms.flatten import Flatten
from spark_connect_rt.records.transforms.header_columns import (
    drop_headers_batch,
    header_from_batch,
    insert_header_batch,
)
from spark_connect_rt.records.transforms.header_from import HeaderFrom
from spark_connect_rt.records.transforms.headers import DropHeaders, InsertHeader
from spark_connect_rt.records.transforms.hoist_field import HoistField
from spark_connect_rt.records.transforms.insert_field import InsertField
from spark_connect_rt.records.transforms.mask_field import MaskField
from spark_connect_rt.records.transforms.replace_field import ReplaceField
from spark_connect_rt.records.transforms.routers import TimestampRouter
from spark_connect_rt.records.transforms.set_schema_metadata import SetSchemaMetadata
from spark_connect_rt.records.transforms.time_columns import convert_batch, timestamp_routed_batch
from spark_connect_rt.records.transforms.timestamp_converter import TimestampConverter
from spark_connect_rt.records.transforms.value_to_key import ValueToKey


def apply_batch(transformation: Transformation, batch: B) -> B | None:
    """Return the batch transformed, fewer records if some were dropped; None: it has to go row by row.

    What a class says itself (``Transformation.apply_batch``) counts before the column form of the class it extends.
    """
    if type(transformation).apply_batch is not Transformation.apply_batch:
        if not transformation.takes_headers and (batch.headers is not None or batch.more_headers):
            return None
        return transformation.apply_batch(batch)
    changed: B | None = _column_form(transformation, batch)
    return changed


def has_column_form(cls: type[Transformation]) -> bool:
    """Whether batches of that class go by columns, as far as a batch allows it."""
    own = cls.apply_batch is not Transformation.apply_batch
    return own or _column_form.dispatch(cls) is not _column_form.dispatch(object)


@singledispatch
def _column_form(transformation: Any, batch: Any) -> Any:
    return None


_column_form.register(Cast, cast_batch)
_column_form.register(DropHeaders, drop_headers_batch)
_column_form.register(ExtractField, fields.extract_batch)
_column_form.register(Flatten, fields.flatten_batch)
_column_form.register(HeaderFrom, header_from_batch)
_column_form.register(HoistField, fields.hoist_batch)
_column_form.register(InsertField, fields.insert_batch)
_column_form.register(InsertHeader, insert_header_batch)
_column_form.register(MaskField, fields.mask_batch)
_column_form.register(ReplaceField, fields.replace_batch)
_column_form.register(SetSchemaMetadata, fields.set_metadata_batch)
_column_form.register(TimestampConverter, convert_batch)
_column_form.register(TimestampRouter, timestamp_routed_batch)
_column_form.register(ValueToKey, fields.key_batch)
