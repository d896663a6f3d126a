"""The registry's REST API through confluent-kafka's client: ids of schemas, schemas of ids, the meaning of errors.

A registry that does not answer is a RetriableError; one that rejects a request is not. No message shows an address's
user.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.base.security.tls import tls_settings
from spark_connect_rt.errors import ConnectError, DataError, RetriableError
from spark_connect_rt.records.registry.registry_settings import RegistrySettings

T = TypeVar("T")
UNREACHABLE, REFUSED = "CRT-1100", "CRT-1101"
_BUSY = (408, 425, 429)
_DENIED = (401, 403)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One schema of the registry: its text, its references, and its id and version where they are known."""

    text: str
    references: tuple[tuple[str, str, int], ...] = ()  # (name, subject, version)
    id: int | None = None
    version: int | None = None


@cache
def library(name: str) -> Any:
    """Return a module of the extra ``registry``. Raises ConnectError CRT-1102: it is not installed."""
    return optional_module(name, "registry", "converters of a Schema Registry")


class Registry(Protocol):
    """A schema registry as converters use it. Any thread; every call raises ConnectError."""

    def id_for(self, subject: str, schema: StoredSchema) -> StoredSchema:
        """Return the schema to write with, its id set."""

    def latest(self, subject: str) -> StoredSchema:
        """Return the subject's latest schema."""

    def by_id(self, number: int) -> StoredSchema:
        """Return a schema by its id. Raises DataError: there is none."""

    def version_of(self, subject: str, schema: StoredSchema) -> int | None:
        """Return the version that a schema has in a subject, None when it is not filed there."""

    def referenced(self, schema: StoredSchema) -> dict[str, StoredSchema]:
        """Return the schemas that one refers to, by the names it has for them, theirs before them."""


class RegistryClient:
    """A client of one schema registry. Methods may be called on any thread."""

    def __init__(self, settings: RegistrySettings, schema_type: str) -> None:
        """Take the settings; nothing is asked yet. ``schema_type``: AVRO, PROTOBUF or JSON."""
        self._settings = settings
        self._type = schema_type
        self._registry = library("confluent_kafka.schema_registry")
        for name in ("httpx", "httpx2"):  # they log whole addresses, which may hold user and password
            logging.getLogger(name).setLevel(logging.WARNING)
        self._places = ", ".join(sorted(urlsplit(url).hostname or url for url in settings.urls))
        with _pem_files(dict(settings.tls)) as files:
            config = {"url": ",".join(settings.urls), **dict(settings.client), **files}
            try:
                self._client = self._registry.SchemaRegistryClient(config)
            except (TypeError, ValueError) as error:
                raise ConnectError(f"Schema Registry {self._places}: {error}") from error
        self._lock = threading.Lock()  # one request at a time: tasks of one process ask for the same

    def look_up(self, subject: str, schema: StoredSchema) -> StoredSchema | None:
        """Return a schema with its id, None: the subject has no such schema. Registers nothing."""
        what = f"look a schema of {subject} up"
        try:
            found = self._ask(what, self._client.lookup_schema, subject, self._sent(schema), self._settings.normalize)
        except DataError:
            return None
        return StoredSchema(schema.text, schema.references, found.schema_id)

    def id_for(self, subject: str, schema: StoredSchema) -> StoredSchema:
        """Return the schema to write with, its id set: registered, looked up, or the subject's latest."""
        sent, settings, client = self._sent(schema), self._settings, self._client
        if settings.auto_register:  # Java asks in this order, too
            what = f"register a schema of {subject}"
            number = self._ask(what, client.register_schema, subject, sent, settings.normalize)
        elif settings.fixed_id is not None:
            return self.by_id(settings.fixed_id)
        elif settings.use_latest:
            return self.latest(subject)
        else:
            what = f"look a schema of {subject} up"
            number = self._ask(what, client.lookup_schema, subject, sent, settings.normalize).schema_id
        return StoredSchema(schema.text, schema.references, number)

    def latest(self, subject: str) -> StoredSchema:
        """Return the subject's latest schema."""
        what = f"read the latest schema of {subject}"
        return _stored(self._ask(what, self._client.get_latest_version, subject, self._form))

    def by_id(self, number: int) -> StoredSchema:
        """Return a schema by its id. Raises DataError: there is none."""
        found = self._ask(f"read schema {number}", self._client.get_schema, number, None, self._form)
        if (found.schema_type or "AVRO") != self._type:
            raise DataError(f"schema {number} is of type {found.schema_type or 'AVRO'}, not {self._type}")
        return StoredSchema(found.schema_str, _references(found), number)

    def version_of(self, subject: str, schema: StoredSchema) -> int | None:
        """Return the version that a schema has in a subject, None when it is not filed there."""
        try:
            return int(self._ask("look a version up", self._client.lookup_schema, subject, self._sent(schema)).version)
        except DataError:
            return None

    def referenced(self, schema: StoredSchema) -> dict[str, StoredSchema]:
        """Return the schemas that one refers to, by the names it has for them, theirs before them."""
        found: dict[str, StoredSchema] = {}
        for name, subject, version in schema.references:
            what = f"read {subject} version {version}"
            stored = _stored(self._ask(what, self._client.get_version, subject, version, False, self._form))
            found |= {**self.referenced(stored), name: stored}
        return found

    @property
    def _form(self) -> str | None:
        return "serialized" if self._type == "PROTOBUF" else None

    def _sent(self, schema: StoredSchema) -> Any:
        references = [self._registry.SchemaReference(*reference) for reference in schema.references]
        return self._registry.Schema(schema.text, self._type, references)

    def _ask(self, what: str, request: Callable[..., T], *arguments: Any) -> T:
        import httpx  # here: it imports a command line, which would slow every worker's start

        transport = (httpx.TransportError, library("httpx2").TransportError)  # the client takes the one Authlib takes
        try:
            with self._lock:
                return request(*arguments)
        except transport as error:
            words = f"Schema Registry {self._places} cannot be reached to {what}: {error}"
            raise RetriableError(words, code=UNREACHABLE) from error
        except self._registry.SchemaRegistryError as error:
            raise self._refusal(what, error) from error
        except library("confluent_kafka.schema_registry.error").OAuthTokenError as error:
            words = f"Schema Registry {self._places}: no token to {what}: {error.message}"
            raise RetriableError(words, code=UNREACHABLE) from error

    def _refusal(self, what: str, error: Any) -> ConnectError:
        status = error.http_status_code
        answer = f"{error.error_message} (HTTP {status}, code {error.error_code})"
        words = f"Schema Registry {self._places} does not {what}: {answer}"
        if status in _BUSY or status >= 500:
            return RetriableError(words, code=UNREACHABLE)
        if status in _DENIED:
            return ConnectError(f"{words}. Check the credentials", code=REFUSED)
        return DataError(words)


def _references(schema: Any) -> tuple[tuple[str, str, int], ...]:
    return tuple((reference.name, reference.subject, reference.version) for reference in schema.references or ())


def _stored(registered: Any) -> StoredSchema:
    schema = registered.schema
    return StoredSchema(schema.schema_str, _references(schema), registered.schema_id, registered.version)


@contextlib.contextmanager
def _pem_files(tls: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the library's ``ssl.*``: it takes files only, reads them at once, and they are gone right after."""
    if not tls:
        yield {}
        return
    settings = tls_settings(tls)
    with tempfile.TemporaryDirectory(prefix="connectrt-") as folder:  # the owner's alone
        files = {}
        for kind in ("ca", "key", "certificate"):
            if pem := settings.get(f"ssl.{kind}.pem"):
                path = Path(folder, kind)
                path.write_text(pem, encoding="ascii")
                files[f"ssl.{kind}.location"] = str(path)
        if password := settings.get("ssl.key.password"):
            files["ssl.key.password"] = password
        yield files


@lru_cache(maxsize=64)
def registry_client(settings: RegistrySettings, schema_type: str) -> RegistryClient:
    """Return this process's client of these settings: the tasks of a process share connections and cached schemas."""
    return RegistryClient(settings, schema_type)
