"""A header added with every record, headers taken off (Java ``InsertHeader``, ``DropHeaders``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.records.transforms.settings import given, required_list, required_text

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
        """Declare the settings."""
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
    """Takes off every header of some names."""

    def config_def(self) -> ConfigDef:
        """Declare the setting."""
        return DROP_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the setting. Raises BadConfigError."""
        self.names = frozenset(DROP_CONFIG.parse(config)["headers"])

    def apply(self, record: R) -> R | None:
        """Return the record without the headers."""
        kept = tuple(header for header in record.headers if header.key not in self.names)
        return record if len(kept) == len(record.headers) else altered(record, headers=kept)
