"""Java converters and header converters of a Python connector (Java ``Converter``, ``HeaderConverter``).

The bytes are Java's own, unchanged; values cross as JSON with schema. A converter is given beforehand what it will be
asked (``prepare_from``, ``prepare_to``), so that a whole poll is one crossing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.data.schema import NULL, Schema, SchemaAndValue
from spark_connect_rt.engine.java_host.stages.rows import json_with_schema, row_columns
from spark_connect_rt.engine.java_host.stages.stage import JavaStage, failed
from spark_connect_rt.engine.java_host.stages.transformations import MOST_ROWS, JavaPlugin
from spark_connect_rt.engine.java_host.wire import consumed
from spark_connect_rt.errors import ConnectError

NO_REGISTRATION = {
    "auto.register.schemas": "false",  # Confluent's
    "apicurio.registry.auto-register": "false",
    "apicurio.registry.auto-register.enabled": "false",
    "schemaAutoRegistrationEnabled": "false",  # of AWS Glue
}
Result = bytes | None | ConnectError


class _JavaConverter(JavaPlugin):
    """The common part of both kinds: rows of (topic, header's name or nothing, input bytes)."""

    takes_many = True
    _kind = "converter"

    def __init__(self) -> None:
        super().__init__()
        self._is_key = False
        self._json = json_with_schema()
        self._stage: JavaStage | None = None
        self._from: dict[Any, tuple[Any, Result]] = {}
        self._to: dict[Any, Result] = {}

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings; the JVM checks them when it is first needed."""
        self.config, self._is_key = dict(config), is_key

    def leave_nothing_behind(self) -> None:
        """Have no schema registered: the settings of the registries there are; others cannot be asked for it."""
        if not self.java_class.startswith("org.apache.kafka."):
            self.config = {**self.config, **NO_REGISTRATION}

    def close(self) -> None:
        """Release the converter's number in its JVM, if it has one."""
        if self._stage is not None:
            self._stage.close()

    def _ask(self, op: str, rows: Sequence[tuple[str, bytes, bytes | None]]) -> list[Result]:
        """Return what comes out of each row. Raises JavaHostGoneError, BadConfigError."""
        if self._stage is None:
            self._stage = JavaStage(self.java_code, {"kind": self._kind, "is_key": self._is_key, **self.named})
        results: list[Result] = []
        for at in range(0, len(rows), MOST_ROWS):
            results += self._crossed(self._stage, op, rows[at : at + MOST_ROWS])
        return results

    def _crossed(self, stage: JavaStage, op: str, rows: Sequence[tuple[str, bytes, bytes | None]]) -> list[Result]:
        batch = pa.record_batch(
            {
                "topic": pa.array([row[0] for row in rows], pa.string()),
                "offset": pa.array(range(len(rows)), pa.int64()),
                "key": pa.array([row[2] for row in rows], pa.binary()),
                "value": pa.array([row[1] for row in rows], pa.binary()),
            }
        )
        answer = stage.ask(op, *consumed(batch))
        results: list[Result] = [None] * len(rows)
        kept = answer.head.get("kept", range(answer.head["rows"]))
        for row, data in zip(kept, row_columns(answer)["key"], strict=True):
            results[row] = data
        for row, error in answer.head.get("errors", ()):
            results[row] = failed(error)
        return results

    def _prepare_from(self, rows: Sequence[tuple[str, str, Schema | None, Any]]) -> None:
        """Fill what ``_written`` looks into; the values are kept, so that their ids stay their own."""
        self._from.clear()
        encoded: list[tuple[str, bytes, bytes | None]] = []
        places: list[tuple[Any, Any]] = []
        for topic, name, schema, value in rows:
            try:
                data = self._json.from_connect_data(topic, schema, value)
            except ConnectError:
                continue  # alone it raises where the record is known
            encoded.append((topic, name.encode(), data))
            places.append(((topic, name, id(schema), id(value)), (schema, value)))
        for (key, held), result in zip(places, self._ask("from", encoded), strict=True):
            self._from[key] = (held, result)

    def _written(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        known = self._from.get((topic, name, id(schema), id(value)))
        if known is not None and not isinstance(known[1], ConnectError):
            return known[1]
        self._from.pop((topic, name, id(schema), id(value)), None)
        data = self._json.from_connect_data(topic, schema, value)
        result = known[1] if known is not None else self._ask("from", [(topic, name.encode(), data)])[0]
        if isinstance(result, ConnectError):
            raise result
        return result

    def _prepare_to(self, rows: Sequence[tuple[str, str, bytes | None]]) -> None:
        self._to.clear()
        asked = list(dict.fromkeys(rows))
        results = self._ask("to", [(topic, name.encode(), data) for topic, name, data in asked])
        self._to.update(zip(asked, results, strict=True))

    def _read(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        key = (topic, name, data)
        result = self._to[key] if key in self._to else self._ask("to", [(topic, name.encode(), data)])[0]
        if isinstance(result, ConnectError):
            self._to.pop(key, None)
            raise result
        return NULL if result is None else self._json.to_connect_data(topic, result)


class JavaConverter(_JavaConverter, Converter):
    """A converter of keys or values."""

    def prepare_from(self, values: Sequence[tuple[str, Schema | None, Any]]) -> None:
        """Cross once for all of them."""
        self._prepare_from([(topic, "", schema, value) for topic, schema, value in values])

    def prepare_to(self, data: Sequence[tuple[str, bytes | None]]) -> None:
        """Cross once for all of them."""
        self._prepare_to([(topic, "", value) for topic, value in data])

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return Java's bytes. Raises DataError, JavaHostGoneError."""
        return self._written(topic, "", schema, value)

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return what Java reads. Raises DataError, JavaHostGoneError."""
        return self._read(topic, "", data)


class JavaHeaderConverter(_JavaConverter, HeaderConverter):
    """A converter of headers' values."""

    _kind = "header_converter"

    def prepare_headers_from(self, values: Sequence[tuple[str, str, Schema | None, Any]]) -> None:
        """Cross once for all of them."""
        self._prepare_from(values)

    def prepare_headers_to(self, data: Sequence[tuple[str, str, bytes | None]]) -> None:
        """Cross once for all of them."""
        self._prepare_to(data)

    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return Java's bytes. Raises DataError, JavaHostGoneError."""
        return self._written(topic, name, schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return what Java reads. Raises DataError, JavaHostGoneError."""
        return self._read(topic, name, data)
