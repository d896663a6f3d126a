"""The common settings of the converters of a Schema Registry, and the subject of a schema.

Names and defaults are Confluent's (``AbstractKafkaSchemaSerDeConfig``), so a Java worker's configuration works here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.api.converter import CONVERTER_TYPE
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.config.config_def import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    ConfigDef,
    ConfigKey,
    Importance,
    Password,
    Type,
)
from spark_connect_rt.config.settings_group import text
from spark_connect_rt.config.validators import AtLeast, one_of
from spark_connect_rt.errors import BadConfigError, DataError

_STRATEGIES = "io.confluent.kafka.serializers.subject."
_TOPIC_NAME, _RECORD_NAME, _TOPIC_RECORD_NAME = "TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"

SubjectOf = Callable[[str, str | None], str]
"""(topic, full name of the record or None) -> subject. Raises DataError: the strategy needs a record."""


def secret(name: str, doc: str) -> ConfigKey:
    """Return a setting whose value must not be shown."""
    return ConfigKey(name, Type.PASSWORD, None, MEDIUM, doc)


def switch(name: str, doc: str, default: bool = False, importance: Importance = MEDIUM) -> ConfigKey:
    """Return a setting that is true or false."""
    return ConfigKey(name, Type.BOOLEAN, default, importance, doc)


def _number(name: str, doc: str, default: int, least: int = 0) -> ConfigKey:
    return ConfigKey(name, Type.INT, default, LOW, doc, AtLeast(least))


def _strategy(side: str) -> ConfigKey:
    doc = (
        f"Strategy for the subject of a {side}'s schema: TopicNameStrategy, RecordNameStrategy, "
        "TopicRecordNameStrategy."
    )
    return text(f"{side}.subject.name.strategy", doc, _STRATEGIES + _TOPIC_NAME, MEDIUM, _known_strategy)


def _known_strategy(value: Any) -> str | None:
    known = (_TOPIC_NAME, _RECORD_NAME, _TOPIC_RECORD_NAME)
    if str(value).rpartition(".")[2] in known:
        return None
    return f"String must be one of: {', '.join(known)}"


_URL_CREDENTIALS, _USER_CREDENTIALS, _SASL = "URL", "USER_INFO", "SASL_INHERIT"
REGISTRY = ConfigDef(
    [
        ConfigKey(
            "schema.registry.url",
            Type.LIST,
            REQUIRED,
            HIGH,
            "Addresses of the registry, in the order in which they are tried.",
        ),
        switch(
            "auto.register.schemas", "Whether to register new schemas. false: they must already be registered.", True
        ),
        switch(
            "use.latest.version",
            "Whether to read with the subject's latest schema. Without auto.register.schemas it is also used to write.",
        ),
        switch("normalize.schemas", "Whether the registry normalizes schemas before it compares them.", False, LOW),
        ConfigKey(
            "use.schema.id", Type.INT, -1, LOW, "Id of the only schema to write with. -1: the record's own schema."
        ),
        _strategy("key"),
        _strategy("value"),
        _number("schemas.cache.config", "Most schemas kept in memory, for reading and for writing.", 1_000, 1),
        text(
            "basic.auth.credentials.source",
            "Source of the user and password. URL: the address. USER_INFO: basic.auth.user.info.",
            _URL_CREDENTIALS,
            MEDIUM,
            one_of(_URL_CREDENTIALS, _USER_CREDENTIALS),
        ),
        secret("basic.auth.user.info", "user:password, for basic.auth.credentials.source=USER_INFO."),
        secret("schema.registry.basic.auth.user.info", "Old name of basic.auth.user.info."),
        text(
            "bearer.auth.credentials.source",
            "Source of the token. STATIC_TOKEN: bearer.auth.token. OAUTHBEARER: a token endpoint, see "
            "bearer.auth.client.*.",
            None,
            MEDIUM,
            one_of("STATIC_TOKEN", "OAUTHBEARER"),
        ),
        secret("bearer.auth.token", "Token for STATIC_TOKEN."),
        text("bearer.auth.issuer.endpoint.url", "Token endpoint for OAUTHBEARER."),
        text("bearer.auth.client.id", "Client id for OAUTHBEARER."),
        secret("bearer.auth.client.secret", "Client secret for OAUTHBEARER."),
        text("bearer.auth.scope", "Scope to request."),
        text("bearer.auth.logical.cluster", "Value of the header target-sr-cluster, if the registry needs it.", ""),
        text("bearer.auth.identity.pool.id", "Value of the header Confluent-Identity-Pool-Id."),
        text("proxy.host", "Host of a proxy between worker and registry.", None, LOW),
        ConfigKey("proxy.port", Type.INT, -1, LOW, "Port of the proxy."),
        _number("max.retries", "How often a request is retried at one address.", 3),
        _number("retries.wait.ms", "First wait between two attempts, ms. It doubles each time.", 1_000),
        _number("retries.max.wait.ms", "Longest wait between two attempts, ms.", 20_000),
        _number("http.read.timeout.ms", "Timeout of a response, ms.", 60_000, 1),
        *(
            key
            for name in ("schema.registry.ssl", "ssl")
            for key in (
                text(
                    f"{name}.truststore.location",
                    "Store with the certificates of the registry's authorities (JKS, PKCS12, PEM).",
                ),
                secret(f"{name}.truststore.password", "Password of the trust store."),
                text(f"{name}.truststore.type", "JKS, PKCS12 or PEM. A PEM file is also recognized by its content."),
                text(
                    f"{name}.keystore.location", "Store with the worker's own key and certificate (JKS, PKCS12, PEM)."
                ),
                secret(f"{name}.keystore.password", "Password of the key store."),
                text(f"{name}.keystore.type", "JKS, PKCS12 or PEM, as for the trust store."),
                secret(f"{name}.key.password", "Password of the key in the key store."),
            )
        ),
    ]
)
BASE = ConfigDef([CONVERTER_TYPE]) + REGISTRY


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How one converter uses the registry. Hashable: converters of the same connection share a client."""

    urls: tuple[str, ...] = field(repr=False)  # they may hold user and password
    client: tuple[tuple[str, Any], ...] = field(repr=False)
    """The client library's own settings, its secrets among them."""
    tls: tuple[tuple[str, str], ...] = field(repr=False)
    auto_register: bool
    use_latest: bool
    normalize: bool
    fixed_id: int | None
    cache_size: int


def registry_settings(values: Mapping[str, Any]) -> RegistrySettings:
    """Return the settings of parsed values. Raises BadConfigError: credentials that are not whole."""
    return RegistrySettings(
        urls=tuple(url for url in values["schema.registry.url"] if url),
        client=tuple(sorted((_credentials(values) | _transport(values)).items())),
        tls=_tls(values),
        auto_register=values["auto.register.schemas"],
        use_latest=values["use.latest.version"],
        normalize=values["normalize.schemas"],
        fixed_id=None if values["use.schema.id"] < 0 else values["use.schema.id"],
        cache_size=values["schemas.cache.config"],
    )


def _transport(values: Mapping[str, Any]) -> dict[str, Any]:
    host, port = values["proxy.host"], values["proxy.port"]
    proxy = {"proxy": f"http://{host}:{port}"} if host else {}
    waits = {name: values[name] for name in ("max.retries", "retries.wait.ms", "retries.max.wait.ms")}
    return {
        **proxy,
        **waits,
        "timeout": values["http.read.timeout.ms"] / 1000,
        "cache.capacity": values["schemas.cache.config"],
        "cache.latest.ttl.sec": 300,
    }


def _credentials(values: Mapping[str, Any]) -> dict[str, Any]:
    source = values["bearer.auth.credentials.source"]
    if source:
        wanted = ("bearer.auth.token",) if source == "STATIC_TOKEN" else _OAUTH
        missing = {name: [f"must be set with {source}"] for name in wanted if not values[name]}
        if missing:
            raise BadConfigError(missing)
        named = {name: _plain(values[name]) for name in (*wanted, *_BEARER) if values[name] is not None}
        return {"bearer.auth.credentials.source": source, **named}
    if values["basic.auth.credentials.source"] == _URL_CREDENTIALS:
        return {}
    user = values["basic.auth.user.info"] or values["schema.registry.basic.auth.user.info"]
    if user is None or ":" not in user.value:
        raise BadConfigError({"basic.auth.user.info": ["must be user:password"]})
    return {"basic.auth.user.info": user.value}


_OAUTH = ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope")
_BEARER = ("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")


def _tls(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return ``ssl.*``; with the prefix ``schema.registry.`` wins, as in Java."""
    given = {
        name.removeprefix("schema.registry."): _plain(values[name])
        for name in reversed(REGISTRY.names())
        if ".ssl." in f".{name}" and values[name] is not None
    }
    return tuple(sorted(given.items()))


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Password) else value


def subject_strategy(name: str, is_key: bool) -> SubjectOf:
    """Return how subjects are named; ``name`` is a strategy's class, whole or simple."""
    simple, side = name.rpartition(".")[2], "key" if is_key else "value"
    if simple == _TOPIC_NAME:
        return lambda topic, _: f"{topic}-{side}"

    def by_record(topic: str, record: str | None) -> str:
        if record is None:
            raise DataError(f"With {side}.subject.name.strategy={simple} the message {side} must be a named record")
        return record if simple == _RECORD_NAME else f"{topic}-{record}"

    return by_record


# Enums as Connect has them: strings whose schema holds a parameter for each symbol, ``<marker>.<symbol>``.


def enum_members(schema: Schema, marker: str) -> list[tuple[str, str]]:
    """Return (symbol, the parameter's text) in their order."""
    prefix = f"{marker}."
    return [(name.removeprefix(prefix), text) for name, text in schema.parameters if name.startswith(prefix)]


# Where in a schema a problem is: readers of schemas name the place in front of the reason.


@contextmanager
def in_place(place: str) -> Iterator[None]:
    """Put ``place`` in front of the message of a DataError that is raised inside."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
