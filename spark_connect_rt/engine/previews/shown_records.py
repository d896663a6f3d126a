"""Records as a preview shows them: JSON trees that can be sent, cut where they are long, without secrets."""

from __future__ import annotations

import math
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.json_text import encode_json, tellable
from spark_connect_rt.engine.previews.model import BYTES_MAX, VALUE_BYTES_MAX, Ended
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.json_bytes import load_json

_CUT_CHARACTERS = 4_096  # that are shown of what is too long
_MARGIN_BYTES = 16 << 10  # that are scanned for secrets behind a cut
Tree = dict[str, Any]


def _json(*, schemas: bool) -> JsonConverter:
    converter = JsonConverter()
    settings = {"decimal.format": "NUMERIC", "replace.null.with.default": "false"}
    converter.configure({"schemas.enable": str(schemas).lower(), **settings})
    return converter


class RecordShower:
    """Shows records of one preview. One thread."""

    def __init__(self) -> None:
        """Create the two JSON converters, with and without schemas."""
        self._plain, self._enveloped = _json(schemas=False), _json(schemas=True)

    def record(self, record: SourceRecord | SinkRecord) -> Tree:
        """Return a ShownRecord as JSON."""
        return {
            "topic": sendable(record.topic),
            "partition": record.partition,
            "key": self._value(record.key_schema, record.key),
            "value": self._value(record.value_schema, record.value),
            "headers": [
                {"name": sendable(header.key), "value": self._value(header.schema, header.value)}
                for header in record.headers
            ],
            "timestamp": record.timestamp_ms,
            "key_schema": self._schema(record.key_schema),
            "value_schema": self._schema(record.value_schema),
            "offset": record.offset if isinstance(record, SinkRecord) else None,
        }

    def _value(self, schema: Schema | None, value: Any) -> Any:
        try:
            data = self._plain.from_connect_data("", schema, value)
            if data is None or len(data) > VALUE_BYTES_MAX:
                return None if data is None else _cut(data)
            return sendable(load_json(data))
        except Exception:  # noqa: BLE001 - a value that is unlike its schema, or that JSON has no form for: the stage fails
            return sendable((value if isinstance(value, str) else repr(value))[:_CUT_CHARACTERS])

    def _schema(self, schema: Schema | None) -> Any:
        if schema is None:
            return None
        try:
            data = self._enveloped.from_connect_data("", schema, None if schema.optional else schema.default)
            return sendable(load_json(data)["schema"]) if data is not None else None
        except Exception:  # noqa: BLE001 - null where it must not be: the schema is written by another way
            return self._schema_alone(schema)

    def _schema_alone(self, schema: Schema) -> Any:
        from spark_connect_rt.records.converters.json import schema_tree
        from spark_connect_rt.records.converters.json_values import JsonSettings

        try:
            return sendable(load_json(encode_json(schema_tree(schema, JsonSettings(numeric_decimals=True)))))
        except Exception:  # noqa: BLE001 - shown for information only
            return sendable(repr(schema)[:_CUT_CHARACTERS])


def shown_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> Tree:
    """Return a ShownBytes as JSON."""
    named = [{"name": sendable(name), "value": _base64(data)} for name, data in headers]
    return {"key": _base64(key), "value": _base64(value), "headers": named}


def _base64(data: bytes | None) -> str | None:
    if data is None:
        return None
    seen = bytes(data[: VALUE_BYTES_MAX + _MARGIN_BYTES])
    text = seen.decode("utf-8", errors="surrogateescape")
    hidden = without_secrets(text)
    shown = seen if hidden == text else hidden.encode("utf-8", errors="surrogateescape")
    return b64encode(shown[:VALUE_BYTES_MAX]).decode()


def _cut(data: bytes) -> Tree:
    text = sendable(data[: _CUT_CHARACTERS + _MARGIN_BYTES].decode(errors="replace"))
    return {"cut": True, "size_bytes": len(data), "text": text[:_CUT_CHARACTERS]}


def sendable(tree: Any) -> Any:
    """Return a JSON tree without secrets, halves of characters and numbers that JSON has no form for."""
    if isinstance(tree, str):
        return tellable(without_secrets(tree))
    if isinstance(tree, Mapping):
        return {sendable(str(name)): sendable(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [sendable(value) for value in tree]
    if isinstance(tree, float) and not math.isfinite(tree):
        return str(tree)
    return tree


# The records that a preview has found so far: handed on one by one, counted against its limits.
#
# Owns the limits of one preview: records, seconds, bytes.


Report = Callable[[str], None]
"""Takes one record's stages as JSON text."""


class Say(Protocol):
    """Takes what is done next, for the case that it never returns."""

    def __call__(self, what: str, ended: Ended | None = None) -> None:
        """``what``: starting the task, polling ... ``ended``: why no more records come, once that is known."""


class Collected:
    """The limits of one preview, and how far it is. One thread."""

    def __init__(
        self,
        records: int,
        seconds: float,
        report: Report,
        *,
        bytes_max: int = BYTES_MAX,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with no records; the time begins now."""
        self._records_left, self._bytes_left = records, bytes_max
        self._now_s, self._end_s = now_s, now_s() + seconds
        self._report = report

    @property
    def seconds_left(self) -> float:
        """Return how long the preview may still run."""
        return max(0.0, self._end_s - self._now_s())

    @property
    def records_left(self) -> int:
        """How many more records it takes."""
        return max(0, self._records_left)

    @property
    def full(self) -> Ended | None:
        """Which limit is reached, None: none."""
        if self._records_left <= 0:
            return Ended.RECORDS
        if self._bytes_left <= 0:
            return Ended.BYTES
        return Ended.TIME if not self.seconds_left else None

    def add(self, stages: Sequence[Tree]) -> None:
        """Hand on one record's stages; ignored once a limit is reached, but for the time."""
        if self._records_left > 0 and self._bytes_left > 0:
            text = encode_json(list(stages)).decode()
            if len(text) > BYTES_MAX:  # by its headers: keys and values are cut
                why = f"too large to show: {len(text)} bytes of JSON"
                text = encode_json([{"stage": stages[0]["stage"], "record": None, "error": why}]).decode()
            self._records_left -= 1
            self._bytes_left -= len(text)
            self._report(text)
