"""Short ways to write typed values, schemas and records for the cases that are put to Java."""

from __future__ import annotations

import base64
from typing import Any

Node = dict[str, Any]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


def i8(number: int) -> Node:
    return {"i8": number}


def i16(number: int) -> Node:
    return {"i16": number}


def i32(number: int) -> Node:
    return {"i32": number}


def i64(number: int) -> Node:
    return {"i64": number}


def f32(text: object) -> Node:
    return {"f32": str(text)}


def f64(text: object) -> Node:
    return {"f64": str(text)}


def boolean(value: bool) -> Node:
    return {"bool": value}


def text(value: str) -> Node:
    return {"s": value}


def data(value: bytes) -> Node:
    return {"bytes": base64.b64encode(value).decode()}


def dec(value: str) -> Node:
    return {"dec": value}


def date(ms: int) -> Node:
    return {"date": ms}


def array(*parts: Node | None) -> Node:
    return {"list": list(parts)}


def mapping(pairs: dict[str, Node | None]) -> Node:
    return {"map": [[text(key), part] for key, part in pairs.items()]}


def schema(kind: str, **parts: Any) -> Node:
    return {"type": kind, **parts}


def optional(of: Node, **parts: Any) -> Node:
    return {**of, "optional": True, **parts}


INT8, INT16, INT32, INT64 = (schema(kind) for kind in ("INT8", "INT16", "INT32", "INT64"))
FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES = (
    schema(kind) for kind in ("FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES")
)
DATE_SCHEMA = schema("INT32", name=DATE, version=1)
TIME_SCHEMA = schema("INT32", name=TIME, version=1)
TIMESTAMP_SCHEMA = schema("INT64", name=TIMESTAMP, version=1)


def decimal_schema(scale: int) -> Node:
    return schema("BYTES", name=DECIMAL, version=1, parameters={"scale": str(scale)})


def array_schema(of: Node) -> Node:
    return schema("ARRAY", value=of)


def map_schema(keys: Node, values: Node) -> Node:
    return schema("MAP", key=keys, value=values)


def struct_schema(fields: dict[str, Node], **parts: Any) -> Node:
    return schema("STRUCT", fields=[[name, part] for name, part in fields.items()], **parts)


def struct(of: Node, values: dict[str, Node | None]) -> Node:
    return {"struct": [of, [[name, part] for name, part in values.items() if part is not None]]}
