"""Converters whose header values have the bytes that record values have: all bundled ones but the simple one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.converter import CONVERTER_TYPE, Converter, HeaderConverter
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue
from spark_connect_rt.config.config_def import ConfigDef


class HeaderAndValueConverter(Converter, HeaderConverter):
    """Converts headers as it converts keys and values."""

    def config_def(self) -> ConfigDef:
        """Declare what every converter has."""
        return ConfigDef([CONVERTER_TYPE])

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings: none, unless a subclass has some."""

    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return what ``from_connect_data`` returns. Raises DataError."""
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return what ``to_connect_data`` returns. Raises DataError."""
        return self.to_connect_data(topic, data)
