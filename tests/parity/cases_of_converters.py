# ruff: noqa: E501 - one line a group of inputs
"""Inputs for Java's converters."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.parity.cases_of_transforms import EVERY, EVERY_VALUE, FLAT, FLAT_VALUE, MAP, NESTED, NESTED_VALUE
from tests.parity.cases_of_values import TEXTS, VALUES
from tests.parity.data_inputs import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Node,
    array,
    boolean,
    data,
    f32,
    f64,
    i16,
    i32,
    i64,
    map_schema,
    mapping,
    optional,
    text,
)  # fmt: skip

NUMBERS = ("Short", "Integer", "Long", "Float", "Double", "Boolean")
CONVERTERS = "org.apache.kafka.connect.converters."
JSON = "org.apache.kafka.connect.json.JsonConverter"
STORAGE = "org.apache.kafka.connect.storage."

TYPED: list[tuple[Node | None, Node | None]] = [
    (None, None), (INT16, i16(-2)), (INT32, i32(70000)), (INT64, i64(2**40)), (FLOAT32, f32("1.1")), (FLOAT32, f32("NaN")), (FLOAT64, f64("-0.0")), (FLOAT64, f64("1.0E300")), (BOOLEAN, boolean(True)), (BOOLEAN, boolean(False)), (STRING, text("a")), (optional(INT64), None), (STRING, None), (None, text("a")), (None, data(b"a")),
]  # fmt: skip
BYTES = [None, b"", b"\x00", b"\x01", b"\x02", b"\xff", b"\x00\x01", b"\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xc0\x00\x00", b"\x3f\x8c\xcc\xcd", b"\x00" * 8, b"\x3f\xf1\x99\x99\x99\x99\x99\x9a", b"\x80" + b"\x00" * 7, b"\x00" * 9]  # fmt: skip
ENVELOPES: list[Any] = [
    {"schema": {"type": kind}, "payload": payload}
    for kind, payload in (
        ("int8", 5), ("int8", 300), ("int16", 5), ("int32", 5.5), ("int64", 2**53), ("float", 1.1), ("double", 1.1), ("float", 5), ("boolean", True), ("boolean", 1), ("string", "a"), ("string", 5), ("bytes", "AAE="), ("bytes", "***"), ("int32", None), ("unknown", 1), (None, 1),
    )
] + [
    {"schema": None, "payload": {"a": [1, 2.5, None, True, "x"]}}, {"schema": None, "payload": None}, {"payload": 1}, {"schema": {"type": "int32"}}, {"schema": {"type": "int32", "optional": True}, "payload": None}, {"schema": {"type": "int32", "default": 7}, "payload": None}, {"schema": {"type": "int32", "optional": True, "default": 7}, "payload": None},
    {"schema": {"type": "array", "items": {"type": "int32"}}, "payload": [1, 2]}, {"schema": {"type": "array", "items": {"type": "int32"}}, "payload": [1, None]}, {"schema": {"type": "array"}, "payload": [1]}, {"schema": {"type": "array", "items": {"type": "int32"}}, "payload": 5}, {"schema": {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, "payload": {"a": 1}}, {"schema": {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}}, "payload": [[1, "a"], [2, "b"]]}, {"schema": {"type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}}, "payload": {"a": 1}}, {"schema": {"type": "map", "keys": {"type": "string"}}, "payload": {}},
    {"schema": {"type": "struct", "fields": [{"field": "a", "type": "int32", "optional": True}, {"field": "b", "type": "string", "default": "d"}]}, "payload": {"a": 1}}, {"schema": {"type": "struct", "fields": [{"field": "a", "type": "int32"}]}, "payload": {}}, {"schema": {"type": "struct", "fields": [{"field": "a", "type": "int32"}]}, "payload": {"a": 1, "extra": 2}}, {"schema": {"type": "struct", "name": "n", "version": 2, "doc": "d", "parameters": {"k": "v"}, "fields": []}, "payload": {}}, {"schema": {"type": "struct"}, "payload": {}},
    {"schema": {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}, "payload": 18000}, {"schema": {"type": "int32", "name": "org.apache.kafka.connect.data.Time", "version": 1}, "payload": 45296789}, {"schema": {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}, "payload": 1577934245678}, {"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "2"}}, "payload": "AJw="}, {"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1, "parameters": {"scale": "2"}}, "payload": 1.56},
]  # fmt: skip
PLAIN = ["1", "1.5", "true", "null", '"a"', '{"a":1,"b":[1,2.5,null]}', "[]", "{}", "", " ", "{", "nope", "007", "1e3", "12345678901", '{"a":{"b":"c"}}', "-0", "1.0", "1 2"]  # fmt: skip


def cases() -> list[dict[str, Any]]:
    """Return every input."""
    found: list[dict[str, Any]] = []
    for name in NUMBERS:
        found += [
            {"kind": "write", "class": f"{CONVERTERS}{name}Converter", "schema": of, "value": value}
            for of, value in TYPED
            if not (of is None and value is not None and "bytes" in value)
        ]
        found += [
            {
                "kind": "read",
                "class": f"{CONVERTERS}{name}Converter",
                "bytes": None if content is None else base64.b64encode(content).decode(),
            }
            for content in BYTES
        ]
    whole = [
        *VALUES,
        (EVERY, EVERY_VALUE),
        (FLAT, FLAT_VALUE),
        (NESTED, NESTED_VALUE),
        (None, MAP),
        (None, None),
        (optional(STRING), None),
        (STRING, None),
        ({**INT32, "default": i32(5)}, None),
        (map_schema(INT32, STRING), {"map": [[i32(1), text("a")]]}),
        (None, array(None, mapping({"a": None}))),
    ]
    for of, value in whole:
        for config in (
            {"schemas.enable": "false"},
            {"schemas.enable": "true"},
            {"schemas.enable": "false", "decimal.format": "NUMERIC"},
        ):
            found.append({"kind": "write", "class": JSON, "schema": of, "value": value, "config": config})
        if not _shows_addresses(value):
            found.append(
                {"kind": "write", "class": f"{STORAGE}StringConverter", "schema": of, "value": value, "config": {}}
            )
        found.append(
            {"kind": "write", "class": f"{CONVERTERS}ByteArrayConverter", "schema": of, "value": value, "config": {}}
        )
        found.append({"kind": "write_header", "schema": of, "value": value})
    found += [
        {
            "kind": "read",
            "class": JSON,
            "config": {"schemas.enable": "true"},
            "bytes": base64.b64encode(json.dumps(envelope).encode()).decode(),
        }
        for envelope in ENVELOPES
    ]
    for plain in PLAIN:
        encoded = base64.b64encode(plain.encode()).decode()
        found += [
            {"kind": "read", "class": JSON, "config": {"schemas.enable": flag}, "bytes": encoded}
            for flag in ("true", "false")
        ]
    found += [{"kind": "read_header", "bytes": base64.b64encode(header.encode()).decode()} for header in TEXTS[::4]]
    found += [
        {"kind": "read_header", "bytes": base64.b64encode(content).decode()}
        for content in (b"\xff", b"a\xffb", b"[\xff]")
    ]
    return found


def _shows_addresses(value: Node | None) -> bool:
    """Whether Java's toString would show where an array lies in memory."""
    return "bytes" in json.dumps(value)
