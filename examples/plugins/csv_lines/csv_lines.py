"""A converter: objects with known fields as lines of CSV, and back as objects of texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.errors import DataError

CONFIG = ConfigDef([ConfigKey("csv.fields", Type.LIST, REQUIRED, Importance.HIGH, "Fields of a line, in order.")])


class CsvLinesConverter(Converter):
    """Schemaless: a value is a mapping from field to anything that has a text."""

    fields: tuple[str, ...] = ()

    def config_def(self) -> ConfigDef:
        """Declare the one setting, without ``value.converter.`` in front."""
        return CONFIG

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Take it."""
        self.fields = tuple(CONFIG.parse(config)["csv.fields"])

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the line without its end; None is a tombstone. Raises DataError: a field is missing."""
        if value is None:
            return None
        try:
            row = [value[field] for field in self.fields]
        except (KeyError, TypeError) as error:
            raise DataError(f"topic {topic}: a value without the fields {', '.join(self.fields)}") from error
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(row)
        return line.getvalue().encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the line's object. Raises DataError: it has another number of fields, or is no text."""
        if data is None:
            return SchemaAndValue(None, None)
        try:
            (row,) = csv.reader([data.decode()])
            return SchemaAndValue(None, dict(zip(self.fields, row, strict=True)))
        except ValueError as error:
            raise DataError(f"topic {topic}: {data!r} is no line of {', '.join(self.fields)}") from error
