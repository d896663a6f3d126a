"""Converters: values <-> bytes, for keys, values and headers (Java ``Converter``, ``HeaderConverter``).

A converter works on one record; it may also offer a column form, which must give the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from spark_connect_rt.api.data.schema import Schema, SchemaAndValue
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import one_of

if TYPE_CHECKING:
    import pyarrow as pa

CONVERTER_TYPE = ConfigKey(
    "converter.type",
    Type.STRING,
    REQUIRED,
    Importance.LOW,
    "How the converter is used: for keys, values or headers. Set by the worker.",
    one_of("key", "value", "header"),
)
"""Declared by every bundled converter, as by Java's (``ConverterConfig``)."""


class Converter(ABC):
    """Turns values into bytes and back. Made without arguments, then configured once."""

    def config_def(self) -> ConfigDef:
        """Return the converter's own settings, without the ``key.converter.`` prefix."""
        return ConfigDef()

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Take the settings that stood under ``key.converter.`` or ``value.converter.``."""

    def leave_nothing_behind(self) -> None:
        """Write nothing outside from now on, for a preview.

        No schema is registered, and an unknown schema gets a made-up id. Called once, after ``configure``.
        """

    @abstractmethod
    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value; None is a tombstone. Raises DataError."""

    @abstractmethod
    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of bytes. Raises DataError."""

    takes_many: ClassVar[bool] = False
    """Whether ``prepare_from`` and ``prepare_to`` do anything."""

    def prepare_from(self, values: Sequence[tuple[str, Schema | None, Any]]) -> None:
        """Prepare for the next calls of ``from_connect_data``: (topic, schema, value) of many records.

        Results that were prepared earlier may be forgotten. Raises ExternalError: the failure is not caused by a
        record.
        """

    def prepare_to(self, data: Sequence[tuple[str, bytes | None]]) -> None:
        """Prepare for the next calls of ``to_connect_data``, like ``prepare_from``: (topic, bytes)."""

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return the bytes (binary or string) of a whole column, or None: this converter needs rows.

        None also when just this column has no exact column form. Raises DataError where no row could pass.
        """
        return None

    def values_to_connect_data(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the one schema and the values of many records. None: convert them one by one by ``to_connect_data``.

        The result must be equal to that of ``to_connect_data`` for each. Raises nothing: one by one shows which record
        is bad.
        """
        return None

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the one schema and the values of a binary column. None: this converter or column needs rows.

        Its elements must be equal to the results of ``to_connect_data``. Raises nothing.
        """
        return None


class HeaderConverter(ABC):
    """Turns header values into bytes and back."""

    takes_many: ClassVar[bool] = False
    """Whether ``prepare_headers_from`` and ``prepare_headers_to`` do anything."""

    def prepare_headers_from(self, values: Sequence[tuple[str, str, Schema | None, Any]]) -> None:
        """As ``prepare_from`` of Converter: (topic, name, schema, value)."""

    def prepare_headers_to(self, data: Sequence[tuple[str, str, bytes | None]]) -> None:
        """As ``prepare_to`` of Converter: (topic, name, bytes)."""

    def config_def(self) -> ConfigDef:
        """Return the converter's own settings, without the ``header.converter.`` prefix."""
        return ConfigDef()

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings that stood under ``header.converter.``."""

    @abstractmethod
    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a header's value. Raises DataError."""

    @abstractmethod
    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of a header's bytes. Raises DataError."""
