"""The same struct again and again, numbered (Java ``tools.SchemaSourceConnector``): for tests of schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.schema import BOOLEAN, FLOAT32, FLOAT64, INT32, INT64, STRING, Schema
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.connectors.samples.numbered_source import (
    ID,
    SEQNO,
    NumberedSourceConnector,
    NumberedSourceTask,
    integer,
    say_line,
)

NUM_MESSAGES, MULTIPLE_SCHEMA, PARTITION_COUNT = "num.messages", "multiple.schema", "partition.count"


def _schema(version: int, *more: tuple[str, Schema]) -> Schema:
    builder = SchemaBuilder.struct().version(version).name("record")
    first = (("boolean", BOOLEAN), ("int", INT32), ("long", INT64), ("float", FLOAT32), ("double", FLOAT64))
    for name, schema in (*first, ("partitioning", INT32), *more, ("id", INT32), ("seqno", INT64)):
        builder.field(name, schema)
    return builder.build()


FIRST = _schema(1)
SECOND = _schema(2, ("string", SchemaBuilder(STRING.type).default("abc").build()))


class SchemaSourceConnector(NumberedSourceConnector):
    """Each task sends ``num.messages`` structs to the partition with its number."""

    def task_class(self) -> type[Any]:
        """Return the class of the connector's tasks."""
        return SchemaSourceTask


class SchemaSourceTask(NumberedSourceTask):
    """With ``multiple.schema=true`` every second record has another version of the schema."""

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises ConnectError."""
        kind = type(self).__name__
        self._count, self._most = 0, integer(config, NUM_MESSAGES, kind)
        self._multiple = str(config.get(MULTIPLE_SCHEMA)).lower() == "true"
        self._partitions = integer({PARTITION_COUNT: "1", **config}, PARTITION_COUNT, kind)
        super().start(config)

    def left(self) -> int | None:
        """Return how many of ``num.messages`` are still to be sent."""
        return max(0, self._most - self._count)

    def record(self) -> SourceRecord:
        """Return the next record, with the second schema at every other call if ``_multiple``."""
        second = self._multiple and self._count % 2 == 1
        schema = SECOND if second else FIRST
        values: dict[str, Any] = {
            "boolean": True,
            "int": 12,
            "long": 12,
            "float": 12.2,
            "double": 12.2,
            "partitioning": self.seqno % self._partitions,
            "id": self.id,
            "seqno": self.seqno,
        }
        if second:
            values["string"] = "def"
        say_line(f'{{"task": {self.id}, "seqno": {self.seqno}}}')
        self._count += 1
        return SourceRecord(
            {ID: self.id}, {SEQNO: self.seqno}, self.topic, Struct(schema, values), schema, "key", STRING, self.id
        )
