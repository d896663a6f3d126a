"""How ``decode`` gets Connect values from a column of records: through a converter, as JSON, or as the source had them.

A reader is given the bytes of one batch of one column and answers with values, each with its schema where there is one.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.json

from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data.schema import NULL, Schema, SchemaAndValue
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.engine.datasource.read_options import Decode
from spark_connect_rt.errors import BadConfigError, DataError, NotFoundError
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.json_bytes import load_json
from spark_connect_rt.records.pipeline.arrow_values import cast_column, common_type, plain_type, type_of, typed_column

JSON, SCHEMA = "json", "schema"
CONVERTERS = {
    "avro": "io.confluent.connect.avro.AvroConverter",
    "protobuf": "io.confluent.connect.protobuf.ProtobufConverter",
    "jsonschema": "io.confluent.connect.json.JsonSchemaConverter",
    "string": "org.apache.kafka.connect.storage.StringConverter",
}
ENVELOPE = b'{"schema":'


class ValueReader(Protocol):
    """Reads one column of encoded keys or values."""

    def value(self, topic: str, data: bytes) -> SchemaAndValue:
        """Return one value. Raises DataError."""

    def type_of(self, topics: Sequence[str], data: pa.Array) -> pa.DataType | None:
        """Return the type of a column for these values, None when all are null. Raises DataError."""

    def column(self, topics: Sequence[str], data: pa.Array, kind: pa.DataType) -> pa.Array:
        """Return the values as a column. Raises DataError."""


class ConverterReader:
    """Reads a column by any converter, value by value."""

    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    def value(self, topic: str, data: bytes) -> SchemaAndValue:
        """Convert the bytes of one value. Raises DataError."""
        return self._converter.to_connect_data(topic, data)

    def type_of(self, topics: Sequence[str], data: pa.Array) -> pa.DataType | None:
        """Return the common type of the converted values, None when all are null. Raises DataError."""
        pairs = zip(topics, data.to_pylist(), strict=True)
        found = [self.value(topic, value) for topic, value in pairs if value is not None]
        kinds = list(
            dict.fromkeys(type_of(pair) for pair in found if pair.schema is not None or pair.value is not None)
        )
        return common_type(kinds) if kinds else None

    def column(self, topics: Sequence[str], data: pa.Array, kind: pa.DataType) -> pa.Array:
        """Convert the values one by one into a column of type ``kind``. Raises DataError."""
        pairs = zip(topics, data.to_pylist(), strict=True)
        return typed_column([None if value is None else self.value(topic, value).value for topic, value in pairs], kind)


class JsonReader(ConverterReader):
    """JSON texts, bare or in Connect's envelope of schema and payload; whole columns at once where that goes."""

    def __init__(self) -> None:
        super().__init__(JsonConverter())

    def value(self, topic: str, data: bytes) -> SchemaAndValue:
        """Return one value, with its schema if the JSON text is an envelope. Raises DataError."""
        return super().value(topic, data) if data.startswith(ENVELOPE) else SchemaAndValue(None, load_json(data))

    def type_of(self, topics: Sequence[str], data: pa.Array) -> pa.DataType | None:
        """See ValueReader. A text that looks like a time stays a text."""
        parsed = _parsed(data.drop_null(), None)
        if parsed is None:
            return super().type_of(topics, data)
        return None if pa.types.is_null(parsed.type) else plain_type(parsed.type, _no_times)

    def column(self, topics: Sequence[str], data: pa.Array, kind: pa.DataType) -> pa.Array:
        """Parse a column of plain JSON texts at once, other columns value by value. Raises DataError."""
        parsed = _parsed(data, kind) if data.null_count == 0 else None
        return super().column(topics, data, kind) if parsed is None else parsed


class HeldValues(Converter):
    """Values as their source had them: in the place of a converter it gives out numbers, and takes them back.

    So no value is written and read again on its way from the transformations to a column.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._values: dict[bytes, SchemaAndValue] = {}
        self._columns: dict[bytes, tuple[Schema | None, pa.Array]] = {}

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Keep a value; return its number, None for a null."""
        if value is None:
            return None
        number = _number(next(self._numbers))
        self._values[number] = SchemaAndValue(schema, value)
        return number

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Keep a whole column under the number of its first value."""
        if not len(values):
            return None
        numbers = [_number(next(self._numbers)) for _ in range(len(values))]
        self._columns[numbers[0]] = (schema, values)
        return pa.array(numbers, pa.binary())

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value that a number stands for."""
        return NULL if data is None else self._values[data]

    def forget(self) -> None:
        """Drop all values and columns that are held."""
        self._values.clear()
        self._columns.clear()

    def held_column(self, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the whole column of these numbers, where they are one."""
        found = self._columns.get(data[0].as_py()) if len(data) else None
        return found if found is not None and len(found[1]) == len(data) else None


class HeldReader(ConverterReader):
    """The values of a source, not of bytes."""

    def __init__(self, held: HeldValues) -> None:
        super().__init__(held)
        self._held = held

    def type_of(self, topics: Sequence[str], data: pa.Array) -> pa.DataType | None:
        """Return the type of the values that the source held for these bytes, else that of the JSON texts."""
        found = self._held.held_column(data)
        if found is None:
            return super().type_of(topics, data)
        schema, values = found
        if schema is None:
            return plain_type(values.type, lambda kind: kind)
        return type_of(SchemaAndValue(schema, None))

    def column(self, topics: Sequence[str], data: pa.Array, kind: pa.DataType) -> pa.Array:
        """Return the values that the source held for these bytes as a column, else parse the JSON texts."""
        found = self._held.held_column(data)
        return super().column(topics, data, kind) if found is None else cast_column(found[1], kind)


def value_reader(
    decode: Decode, config: Mapping[str, str], clients: ExecutorClients, held: HeldValues | None
) -> ValueReader:
    """Return the reader that an option asks for; its converter has the settings below the option's name.

    Where there are none and the connector writes with the same converter, the settings of that one.

    Raises BadConfigError: no such format, or the converter refuses its settings.
    """
    if held is not None:
        return HeldReader(held)
    if decode.format == JSON:
        return JsonReader()
    name = CONVERTERS.get(decode.format, decode.format)
    try:
        made = clients.plugin(name)()
    except NotFoundError as error:
        raise BadConfigError({decode.option: [_unknown(decode.format, error)]}) from error
    if not isinstance(made, Converter):
        raise BadConfigError({decode.option: [f"{name} is not a converter"]})
    own = f"{decode.column}.converter"
    writes = config.get(own) and clients.plugin(config[own]) is type(made)
    settings = decode.settings or (prefixed(config, f"{own}.") if writes else {})
    try:
        made.configure(clients.resolve(settings, config), decode.column == "key")
    except BadConfigError as error:
        raise BadConfigError({f"{decode.option}.{key}": why for key, why in error.problems.items()}) from error
    return ConverterReader(made)


def _unknown(name: str, error: NotFoundError) -> str:
    known = ", ".join((JSON, SCHEMA, *CONVERTERS))
    return f"{name!r} is neither one of {known} nor the class of a converter: {error}"


def _number(of: int) -> bytes:
    return of.to_bytes(8, "big")


def _no_times(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _parsed(data: pa.Array, kind: pa.DataType | None) -> pa.Array | None:
    """Return a column of plain JSON texts, None if they have to be parsed one by one. ``kind`` None: infer the type."""
    texts = data.to_pylist()
    if not texts or any(value.startswith(ENVELOPE) for value in texts):
        return None
    text = b'{"value":' + b'}\n{"value":'.join(texts) + b"}"
    schema = None if kind is None else pa.schema([pa.field("value", kind)])
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
            ),
        )
    except pa.ArrowException:  # one does not fit, or it is a map
        return None
    if table.num_rows != len(texts):
        return None
    return table.column("value").combine_chunks()


# Keys and values as typed columns (option ``decode``), batch by batch.
#
# Owns what happens to a value that cannot be read or does not fit its column: the read fails and names it, or leaves
# its row out where ``errors.tolerance`` is all.


log = logging.getLogger(__name__)

Readers = Mapping[str, ValueReader]
"""The reader of each column: key, value."""
PLACE = ("topic", "source_partition", "source_offset")


class Decoder:
    """Turns the columns of batches into typed ones."""

    def __init__(self, readers: Readers, kinds: Mapping[str, pa.DataType], *, tolerate: bool) -> None:
        self._readers = readers
        self._kinds = kinds
        self._tolerate = tolerate

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with its columns decoded. Raises DataError naming the record."""
        for name, reader in self._readers.items():
            try:
                decoded = reader.column(batch.column("topic").to_pylist(), batch.column(name), self._kinds[name])
            except DataError:
                batch = self._readable(name, reader, batch)
                decoded = reader.column(batch.column("topic").to_pylist(), batch.column(name), self._kinds[name])
            batch = batch.set_column(batch.schema.get_field_index(name), name, decoded)
        return batch

    def _readable(self, name: str, reader: ValueReader, batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = []
        for at in range(batch.num_rows):
            row = batch.slice(at, 1)
            try:
                reader.column(row.column("topic").to_pylist(), row.column(name), self._kinds[name])
                mask.append(True)
            except DataError as error:
                where = ", ".join(f"{column} {row.column(column)[0]}" for column in PLACE)
                if not self._tolerate:
                    raise DataError(f"the {name} of the record of {where}: {error}") from None
                log.warning("skipped the record of %s: its %s: %s", where, name, error)
                mask.append(False)
        return batch.filter(pa.array(mask, pa.bool_()))
