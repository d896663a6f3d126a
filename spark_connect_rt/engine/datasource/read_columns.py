"""The columns of a read as Spark knows them: names, and types in DDL. Pure; quick to import, for it plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from spark_connect_rt.engine.datasource.read_options import COLUMNS, Decode, ReadOptions
from spark_connect_rt.engine.startup.spark_version import ZONE_OF_ARROW_TYPES, has
from spark_connect_rt.errors import BadConfigError, DataError

_SPARK_TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}


def ddl_of(kind: pa.DataType) -> str:
    """Return Spark's words for the type of a column. Raises DataError: Spark has none."""
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{', '.join(f'{_quoted(field.name)}: {ddl_of(field.type)}' for field in fields)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl_of(kind.key_type)}, {ddl_of(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if kind not in _SPARK_TYPES:
        raise DataError(f"Spark has no column of {kind}. Set its type")
    return _SPARK_TYPES[kind]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns_ddl(
    decodes: Sequence[Decode], kinds: Mapping[str, pa.DataType], columns: Sequence[str] = tuple(COLUMNS)
) -> str:
    """Return the columns of a read; of ``decodes`` with the types that are set, else with those of ``kinds``."""
    typed = COLUMNS | {rule.column: rule.type_ddl or ddl_of(kinds[rule.column]) for rule in decodes}
    return ", ".join(f"{name} {typed[name]}" for name in columns)


def given_kinds(options: ReadOptions, schema: StructType) -> dict[str, pa.DataType]:
    """Return the Arrow types of decoded columns by Spark's schema of the read.

    Raises BadConfigError: the columns are others, which only ``.schema(...)`` can have said.
    """
    if schema.names != list(options.columns):
        said = f"the columns are {', '.join(options.columns)}. Remove .schema(), and see decode and columns"
        raise BadConfigError({"schema": [said]})
    zone = {"timezone": "UTC"} if has(ZONE_OF_ARROW_TYPES) else {}  # before: always
    return {rule.column: to_arrow_type(schema[rule.column].dataType, **zone) for rule in options.decodes}
