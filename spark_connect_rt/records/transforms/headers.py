"""A header added with every record, headers taken off (Java ``InsertHeader``, ``DropHeaders``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import copy_basics
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import HIGH, ConfigDef
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.key_or_value import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    OfKey,
    OfValue,
    SchemaCache,
    SideTransformation,
    given,
    require_map,
    require_struct,
    required_list,
    required_text,
)

R = TypeVar("R", SourceRecord, SinkRecord)
INSERT_CONFIG = ConfigDef(
    [
        required_text("header", "Name of the header.", check=given),
        required_text(
            "value.literal",
            "Value of the header. Its type (number, date, list ...) is inferred from the text.",
            check=given,
        ),
    ]
)
DROP_CONFIG = ConfigDef([required_list("headers", "Names of the headers to remove.")])


class InsertHeader(Transformation):
    """Adds one header, also where there is one of its name."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return INSERT_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = INSERT_CONFIG.parse(config)
        literal = parse_string(values["value.literal"])
        self.header = Header(values["header"], literal.value, literal.schema)

    def apply(self, record: R) -> R | None:
        """Return the record with the header."""
        return altered(record, headers=(*record.headers, self.header))


class DropHeaders(Transformation):
    """Removes every header with one of the configured names."""

    def config_def(self) -> ConfigDef:
        """Return the declaration of the names' setting."""
        return DROP_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the setting. Raises BadConfigError."""
        self.names = frozenset(DROP_CONFIG.parse(config)["headers"])

    def apply(self, record: R) -> R | None:
        """Return the record without the headers."""
        kept = tuple(header for header in record.headers if header.key not in self.names)
        return record if len(kept) == len(record.headers) else altered(record, headers=kept)


# Fields moved or copied to headers (Java ``HeaderFrom``).

CONFIG = ConfigDef(
    [
        required_list("fields", "Fields to take."),
        required_list("headers", "Headers to create, one for each field, in the same order."),
        required_text(
            "operation", "move: remove the fields from the record. copy: keep them.", HIGH, one_of("move", "copy")
        ),
        REPLACE_NULL_KEY,
    ]
)


class HeaderFrom(SideTransformation):
    """Copies or moves fields to headers. Existing headers stay."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError: not as many headers as fields."""
        values = CONFIG.parse(config)
        fields, headers = values["fields"], values["headers"]
        if len(fields) != len(headers):
            why = "'fields' config must have the same number of elements as 'headers' config."
            raise BadConfigError({"headers": [why]})
        self.pairs = list(zip(fields, headers, strict=True))
        self.moved = frozenset(fields) if values["operation"] == "move" else frozenset[str]()
        self._purpose = f"header {values['operation']}"
        self._replace_null: bool = values[REPLACE_NULL]
        self._schemas = SchemaCache[Schema]()

    def apply(self, record: R) -> R | None:
        """Return the record with the headers. Raises DataError: no map or struct, or no such field."""
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            given = require_map(value, self._purpose)
            added = [Header(header, given.get(name)) for name, header in self.pairs]
            kept = {name: part for name, part in given.items() if name not in self.moved}
            return self._finished(record, None, kept, added)
        struct = require_struct(schema, value, self._purpose)
        added = [self._header(schema, struct, name, header) for name, header in self.pairs]
        if not self.moved:
            return self._finished(record, schema, struct, added)
        updated = self.updated_schema(schema)
        result = Struct(updated)
        for member in updated.fields:
            result.put(member.name, self._read(struct, member.name))
        return self._finished(record, updated, result, added)

    def updated_schema(self, schema: Schema) -> Schema:
        """Return the schema of a struct without its moved fields."""
        return self._schemas.get(schema, self._without_moved) if self.moved else schema

    def _finished(self, record: R, schema: Schema | None, value: Any, added: list[Header]) -> R:
        return altered(self.changed(record, schema, value), headers=(*record.headers, *added))

    def _header(self, schema: Schema, struct: Struct, name: str, header: str) -> Header:
        member = schema.field(name)
        if member is None:
            raise DataError(f"Field does not exist: {name}")
        return Header(header, self._read(struct, name), member.schema)

    def _read(self, struct: Struct, name: str) -> Any:
        return struct.get(name) if self._replace_null else struct.get_without_default(name)

    def _without_moved(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, Type.STRUCT)
        for member in schema.fields:
            if member.name not in self.moved:
                builder.field(member.name, member.schema)
        return builder.build()


class HeaderFromKey(HeaderFrom, OfKey):
    """Copies or moves fields of a record's key to headers."""


class HeaderFromValue(HeaderFrom, OfValue):
    """Copies or moves fields of a record's value to headers."""
