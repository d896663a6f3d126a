"""The common part of a Schema Registry's converters: a schema's id before each payload, caches by schema and id."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data.schema import NULL, Schema, SchemaAndValue
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.registry_client import Registry, RegistryClient, StoredSchema, registry_client
from spark_connect_rt.records.registry.registry_settings import registry_settings, subject_strategy

# The bytes before a payload: magic byte 0 and the schema's id, 4 bytes, big-endian (Confluent's wire format).


MAGIC = 0
LENGTH = 5


def framed(schema_id: int) -> bytes:
    """Return the bytes before a payload: a magic byte and the schema's id."""
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")


def schema_id_of(data: bytes) -> int:
    """Return the id of framed bytes. Raises DataError: too short, or another format."""
    if not data or data[0] != MAGIC:
        first = data[:1].hex() or "none"
        raise DataError(f"Unknown magic byte! The first byte is {first}, not 00: not written with a Schema Registry")
    if len(data) < LENGTH:
        raise DataError(f"{len(data)} bytes are too few for a schema's id")
    return int.from_bytes(data[1:LENGTH], "big")


# A registry in which nothing is registered: for previews, which change nothing.
#
# Registered schemas have their ids. Others get an id of this object, from the largest id downwards, which no registry
# has assigned. Bytes with such an id show the result of a write, and are never sent to a consumer.


LARGEST_ID = 2**31 - 1


class UnregisteredSchemas:
    """Implements Registry with a client that looks up, and without registering. One thread."""

    def __init__(self, client: RegistryClient) -> None:
        """Take the client that looks up."""
        self._client = client
        self._made: dict[tuple[str, StoredSchema], StoredSchema] = {}

    def id_for(self, subject: str, schema: StoredSchema) -> StoredSchema:
        """Return the schema with the registry's id, else with one that is made up."""
        found = self._made.get((subject, schema)) or self._client.look_up(subject, schema)
        if found is None:
            same = (stored_schema for (_, of), stored_schema in self._made.items() if of == schema)
            found = next(same, None) or replace(schema, id=LARGEST_ID - len(self._made))
            self._made[subject, schema] = found
        return found

    def latest(self, subject: str) -> StoredSchema:
        """Return the latest registered schema of a subject."""
        return self._client.latest(subject)

    def by_id(self, number: int) -> StoredSchema:
        """Return a schema by its id, made up or not. Raises DataError: there is none."""
        made = next((stored_schema for stored_schema in self._made.values() if stored_schema.id == number), None)
        return made or self._client.by_id(number)

    def version_of(self, subject: str, schema: StoredSchema) -> int | None:
        """Return the version of a schema in a subject. A schema that is not registered counts as the first version."""
        found = self._client.version_of(subject, schema)
        return found if found is not None or not any(of == schema for _, of in self._made) else 1

    def referenced(self, schema: StoredSchema) -> dict[str, StoredSchema]:
        """Return the schemas that a schema refers to, as registered."""
        return self._client.referenced(schema)


log = logging.getLogger(__name__)
W = TypeVar("W")
R = TypeVar("R")
_QUIET = ("converter.type", "schemas.enable", "schemas.cache.size", "client.id")


class RegistryConverter(Converter, Generic[W, R]):
    """Keeps for each topic and schema how it is written (W), and for each id how it is read (R). One thread."""

    schema_type: str

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings; the registry is asked for the first record. Raises BadConfigError."""
        definition = self.config_def()
        unknown = [name for name in definition.unknown(config) if name not in _QUIET]
        if unknown:
            log.warning("converter=%s does not know %s", type(self).__name__, ", ".join(sorted(unknown)))
        values = definition.parse({**config, "converter.type": "key" if is_key else "value"})
        self._settings = registry_settings(values)
        strategy = values["key.subject.name.strategy" if is_key else "value.subject.name.strategy"]
        self._subject_of = subject_strategy(strategy, is_key)
        self._writing: dict[tuple[str, int], tuple[Schema | None, W]] = {}
        self._reading: dict[tuple[str, int], R] = {}
        self._unregistered: dict[str, UnregisteredSchemas] | None = None
        self.take_settings(values)

    def leave_nothing_behind(self) -> None:
        """Look schemas up from now on; one that is not registered gets an id of this converter's own."""
        self._unregistered = {}

    @abstractmethod
    def config_def(self) -> ConfigDef:
        """Return the declarations of this converter's settings."""

    @abstractmethod
    def take_settings(self, values: Mapping[str, Any]) -> None:
        """Take the settings that only this format has."""

    @abstractmethod
    def plan_writing(self, topic: str, schema: Schema | None) -> W:
        """Return how values of a schema are written to a topic. Raises ConnectError."""

    @abstractmethod
    def plan_reading(self, topic: str, schema_id: int) -> R:
        """Return how payloads of a schema's id are read. Raises ConnectError."""

    @abstractmethod
    def write(self, plan: W, value: Any) -> bytes:
        """Return frame and payload. Raises DataError."""

    @abstractmethod
    def read(self, plan: R, data: bytes, start: int) -> SchemaAndValue:
        """Return schema and value of the payload from ``start`` on. Raises DataError."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return frame and payload; None for null. Raises DataError, RetriableError: no registry."""
        if value is None:
            if schema is not None and not schema.optional:
                raise DataError("Found null value for non-optional schema")
            return None
        return self.write(self._plan_of(topic, schema), value)

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return schema and value. Raises DataError: another format or schema; RetriableError: no registry."""
        if data is None:
            return NULL
        return self.read(self._plan_for(topic, schema_id_of(data)), data, LENGTH)

    def _plan_for(self, topic: str, schema_id: int) -> R:
        plan = self._reading.get((topic, schema_id))
        if plan is None:
            plan = self.plan_reading(topic, schema_id)
            self._keep(self._reading, (topic, schema_id), plan)
        return plan

    def _plan_of(self, topic: str, schema: Schema | None) -> W:
        key = topic, id(schema)
        known = self._writing.get(key)
        if known is not None:
            return known[1]  # the entry holds its schema, so the id is of no other
        same = next((plan for (of, _), (other, plan) in self._writing.items() if of == topic and other == schema), None)
        plan = same if same is not None else self.plan_writing(topic, schema)
        self._keep(self._writing, key, (schema, plan))
        return plan

    def _keep(self, plans: dict[Any, Any], key: Any, plan: Any) -> None:
        if len(plans) >= self._settings.cache_size:
            plans.clear()
        plans[key] = plan

    @property
    def registry(self) -> Registry:
        """The client; made when it is first needed. Raises ConnectError: packages are missing."""
        client = registry_client(self._settings, self.schema_type)
        if self._unregistered is None or not self._settings.auto_register:
            return client
        return self._unregistered.setdefault(self.schema_type, UnregisteredSchemas(client))

    def subject(self, topic: str, record: str | None) -> str:
        """Return the subject of a schema whose record is called ``record``."""
        return self._subject_of(topic, record)

    def uses_latest(self) -> bool:
        """Whether the subject's latest schema is the one to read with."""
        return self._settings.use_latest
