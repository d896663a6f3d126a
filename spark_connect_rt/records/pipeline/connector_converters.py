"""Which converters a connector's records go through: its own, else the worker's (Java ``Plugins.newConverter``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.plugin_modules import versioned
from spark_connect_rt.api.records import ConsumeRow, SourceRecord
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.worker_config import worker_converter
from spark_connect_rt.errors import BadConfigError, NotFoundError

CONVERTER_SETTINGS = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True)
class ConnectorConverters:
    """The three configured converters of a connector."""

    key: Converter
    value: Converter
    header: HeaderConverter

    @property
    def takes_many(self) -> bool:
        """Return whether one of them needs a batch of records before it converts each of them."""
        return self.key.takes_many or self.value.takes_many or self.header.takes_many

    def prepare_from(self, records: Iterable[SourceRecord]) -> None:
        """Prepare for records that will be written next. Raises ExternalError."""
        records = list(records)
        if self.header.takes_many:
            self.header.prepare_headers_from([(r.topic, h.key, h.schema, h.value) for r in records for h in r.headers])
        if self.key.takes_many:
            self.key.prepare_from([(r.topic, r.key_schema, r.key) for r in records])
        if self.value.takes_many:
            self.value.prepare_from([(r.topic, r.value_schema, r.value) for r in records])

    def prepare_to(self, rows: Sequence[ConsumeRow]) -> None:
        """Prepare for records that will be read next. Raises ExternalError."""
        if self.key.takes_many:
            self.key.prepare_to([(row[0], row[4]) for row in rows])
        if self.value.takes_many:
            self.value.prepare_to([(row[0], row[5]) for row in rows])
        if self.header.takes_many:
            self.header.prepare_headers_to(
                [(row[0], header["key"], header["value"]) for row in rows for header in row[6] or ()]
            )

    @classmethod
    def from_config(
        cls,
        connector_config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugin: Callable[[str], type[Any]],
    ) -> ConnectorConverters:
        """Return the converters. Raises BadConfigError naming the setting: missing, unknown class, bad settings."""
        configs = (connector_config, worker_config)
        return cls(
            key=made_converter("key.converter", Converter, configs, plugin),
            value=made_converter("value.converter", Converter, configs, plugin),
            header=made_converter("header.converter", HeaderConverter, configs, plugin),
        )


def made_converter(
    setting: str,
    kind: type[Any],
    configs: tuple[Mapping[str, str], Mapping[str, str]],
    plugin: Callable[[str], type[Any]],
) -> Any:
    """Return the converter of a setting, configured. ``configs``: of connector and worker. Raises BadConfigError."""
    # A converter's settings come from the place that names its class, never from both (as in Java).
    chosen = next((config for config in configs if config.get(setting)), {})
    name = worker_converter(chosen, setting)
    if name is None:
        raise BadConfigError({setting: ["neither the connector nor the worker sets a converter"]})
    try:
        converter = plugin(versioned(name, chosen.get(f"{setting}.plugin.version")))()
    except NotFoundError as error:
        raise BadConfigError({setting: [str(error)]}) from error
    if not isinstance(converter, kind):
        raise BadConfigError({setting: [f"{name} is not a {kind.__name__}"]})
    try:
        converter.configure(prefixed(chosen, f"{setting}."), setting == "key.converter")
    except BadConfigError as error:
        raise BadConfigError({f"{setting}.{key}": why for key, why in error.problems.items()}) from error
    return converter
