"""Which member of a choice (JSON Schema ``oneOf``, ``anyOf``) a JSON value is of: the one that explains most of it.

Java's ``JsonSchemaData`` compares objects by the properties that match; here numbers and enums are compared, too.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type

NAMESPACE = "io.confluent.connect.json"
ONE_OF = f"{NAMESPACE}.OneOf"
ENUM = f"{NAMESPACE}.Enum"

_FLOATS = (Type.FLOAT32, Type.FLOAT64)
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def unexplained(schema: Schema, tree: Any) -> int:
    """Return how many parts of a JSON value would be lost or changed by reading it with a schema that it fits."""
    if tree is None or schema.name == logical.DECIMAL:
        return 0
    if schema.type is Type.STRUCT and schema.name == ONE_OF:
        return min(unexplained(member.schema, tree) for member in schema.fields)
    if isinstance(tree, dict):
        return _of_object(schema, tree)
    if isinstance(tree, list):
        of = schema.value_schema
        return 0 if schema.type is not Type.ARRAY or of is None else sum(unexplained(of, part) for part in tree)
    if schema.type in _INTEGERS:
        return int(isinstance(tree, float | Decimal))
    if schema.type in _FLOATS:
        return int(not isinstance(tree, float | Decimal))  # 5 would become 5.0, and "NaN" a number
    return int(schema.parameter(ENUM) is not None and schema.parameter(f"{ENUM}.{tree}") is None)


def _of_object(schema: Schema, tree: dict[str, Any]) -> int:
    if schema.type is Type.MAP and schema.value_schema is not None:
        return sum(unexplained(schema.value_schema, part) for part in tree.values())
    members = {member.name: member.schema for member in schema.fields}
    return sum(unexplained(members[name], part) if name in members else 1 for name, part in tree.items())
