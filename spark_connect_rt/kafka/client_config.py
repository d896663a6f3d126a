"""Java client properties as librdkafka's, and an honest list of those that have no counterpart.

Owns: the table of names, Java's defaults where librdkafka's differ. Pure (no client is made here).
Never passed on, for any client: settings that make librdkafka run a command or load a library.

Where the defaults differ Java's win: murmur2 partitioner, read_uncommitted, idempotent producer, range assignor,
topics created by consumers. A mixed strategy list (Java's default ``range,cooperative-sticky``) becomes the eager
part of it: librdkafka cannot offer both, and a group of Java members with that default agrees on range anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.base.security.oauth import TokenSettings, native_settings, token_settings
from spark_connect_rt.base.security.sasl import sasl_settings
from spark_connect_rt.config.bootstrap_servers import plain_servers
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.errors import BadConfigError


class ClientRole(Enum):
    """Which of the three clients the properties are for."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of a client; ``unmapped``: name -> why it has no effect."""

    settings: dict[str, str]
    unmapped: dict[str, str]
    tokens: TokenSettings | None = None  # of OAUTHBEARER, when librdkafka cannot fetch them by itself


def _same(text: str) -> str:
    return text


def _clamped(least: int, most: int) -> Callable[[str], str]:
    return lambda text: str(min(max(int(text), least), most))


def _auto_offset_reset(text: str) -> str:
    known = {"earliest": "earliest", "latest": "latest", "none": "error"}
    if text.lower() not in known:
        raise BadConfigError({"auto.offset.reset": [f"{text} is not valid. Use earliest, latest or none"]})
    return known[text.lower()]


def _assignors(text: str) -> str:
    names = [name.strip().rpartition(".")[2] for name in text.split(",") if name.strip()]
    known = {
        "RangeAssignor": "range",
        "range": "range",
        "RoundRobinAssignor": "roundrobin",
        "roundrobin": "roundrobin",
        "CooperativeStickyAssignor": "cooperative-sticky",
        "cooperative-sticky": "cooperative-sticky",
    }
    native = [known[name] for name in names if name in known]
    eager = [name for name in native if name != "cooperative-sticky"]
    chosen = eager if eager and len(names) > 1 else native
    if not chosen:
        raise BadConfigError({"partition.assignment.strategy": [f"none of {text} is available"]})
    return ",".join(dict.fromkeys(chosen))


_Row = tuple[str, Callable[[str], str]]

_SHARED: dict[str, _Row] = {
    "bootstrap.servers": ("bootstrap.servers", plain_servers),
    "client.id": ("client.id", _same),
    "client.dns.lookup": ("client.dns.lookup", _same),
    "connections.max.idle.ms": ("connections.max.idle.ms", _clamped(0, 2**31 - 1)),
    "enable.metrics.push": ("enable.metrics.push", _same),
    "metadata.max.age.ms": ("topic.metadata.refresh.interval.ms", _clamped(1, 3_600_000)),
    "metadata.recovery.strategy": ("metadata.recovery.strategy", str.lower),
    "metadata.recovery.rebootstrap.trigger.ms": ("metadata.recovery.rebootstrap.trigger.ms", _same),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _clamped(0, 100_000_000)),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", _clamped(0, 3_600_000)),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", _clamped(0, 3_600_000)),
    "request.timeout.ms": ("socket.timeout.ms", _clamped(10, 300_000)),
    "retry.backoff.ms": ("retry.backoff.ms", _clamped(1, 300_000)),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", _clamped(1, 300_000)),
    "security.protocol": ("security.protocol", str.lower),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _clamped(0, 100_000_000)),
    "socket.connection.setup.timeout.ms": ("socket.connection.setup.timeout.ms", _clamped(1000, 2**31 - 1)),
}
_OF_ROLE: dict[ClientRole, dict[str, _Row]] = {
    ClientRole.PRODUCER: {
        "acks": ("acks", _same),
        "batch.size": ("batch.size", _clamped(1, 2**31 - 1)),
        "buffer.memory": ("queue.buffering.max.kbytes", lambda text: str(max(1, int(text) // 1024))),
        "compression.type": ("compression.type", _same),
        "delivery.timeout.ms": ("delivery.timeout.ms", _clamped(0, 2**31 - 1)),
        "enable.idempotence": ("enable.idempotence", str.lower),
        "linger.ms": ("linger.ms", _clamped(0, 900_000)),
        "max.in.flight.requests.per.connection": ("max.in.flight.requests.per.connection", _same),
        "max.request.size": ("message.max.bytes", _clamped(1000, 1_000_000_000)),
        "retries": ("retries", _same),
        "transaction.timeout.ms": ("transaction.timeout.ms", _same),
        "transactional.id": ("transactional.id", _same),
    },
    ClientRole.CONSUMER: {
        "allow.auto.create.topics": ("allow.auto.create.topics", str.lower),
        "auto.offset.reset": ("auto.offset.reset", _auto_offset_reset),
        "check.crcs": ("check.crcs", str.lower),
        "client.rack": ("client.rack", _same),
        "fetch.max.bytes": ("fetch.max.bytes", _clamped(0, 2_147_483_135)),
        "fetch.max.wait.ms": ("fetch.wait.max.ms", _clamped(0, 300_000)),
        "fetch.min.bytes": ("fetch.min.bytes", _clamped(1, 100_000_000)),
        "group.id": ("group.id", _same),
        "group.instance.id": ("group.instance.id", _same),
        "group.protocol": ("group.protocol", str.lower),
        "group.remote.assignor": ("group.remote.assignor", _same),
        "heartbeat.interval.ms": ("heartbeat.interval.ms", _same),
        "isolation.level": ("isolation.level", str.lower),
        "max.partition.fetch.bytes": ("max.partition.fetch.bytes", _clamped(1, 1_000_000_000)),
        "max.poll.interval.ms": ("max.poll.interval.ms", _clamped(1, 86_400_000)),
        "partition.assignment.strategy": ("partition.assignment.strategy", _assignors),
        "session.timeout.ms": ("session.timeout.ms", _same),
    },
    ClientRole.ADMIN: {},
}
_ROLE_DEFAULTS: dict[ClientRole, dict[str, str]] = {
    ClientRole.PRODUCER: {
        "acks": "all",
        "delivery.timeout.ms": str(client_setting("producer", "delivery.timeout.ms")),
        "enable.idempotence": "true",
        "message.max.bytes": "1048576",
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": "32768",
    },
    ClientRole.CONSUMER: {
        "allow.auto.create.topics": "true",
        "auto.offset.reset": "latest",
        "check.crcs": "true",
        "isolation.level": "read_uncommitted",
        "partition.assignment.strategy": "range",
    },
    ClientRole.ADMIN: {},
}
# librdkafka's own names that a user may set on purpose; none of them runs or loads anything.
NATIVE = frozenset(
    {
        "batch.num.messages",
        "broker.address.family",
        "enable.gapless.guarantee",
        "fetch.error.backoff.ms",
        "fetch.message.max.bytes",
        "fetch.queue.backoff.ms",
        "message.copy.max.bytes",
        "message.max.bytes",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "sticky.partitioning.linger.ms",
        "topic.metadata.refresh.interval.ms",
    }
)
# Java properties that this package itself honours, outside the client.
OURS = frozenset(
    {
        "default.api.timeout.ms",
        "enable.auto.commit",
        "exclude.internal.topics",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "value.deserializer",
        "value.serializer",
    }
)
_TLS_USED = frozenset(
    {
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        *(f"connectrt.ssl.{x}.content" for x in ("keystore", "truststore")),
        *(f"ssl.keystore.{x}" for x in ("certificate.chain", "key", "location", "password", "type")),
        *(f"ssl.truststore.{x}" for x in ("certificates", "location", "password", "type")),
    }
)
_SASL_USED = frozenset(
    {
        "sasl.jaas.config",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.login.callback.handler.class",
        "sasl.login.read.timeout.ms",
        *(f"sasl.oauthbearer.{x}" for x in ("header.urlencode", "jwt.retriever.class", "scope", "sub.claim.name")),
        *(f"sasl.oauthbearer.client.credentials.client.{x}" for x in ("id", "secret")),
        "sasl.oauthbearer.token.endpoint.url",
    }
)
_NOT_TAKEN = {
    "ssl.cipher.suites": "not used, because Java names cipher suites differently. OpenSSL's defaults apply",
}
SECURITY_USED = _TLS_USED | _SASL_USED | {"security.protocol"}
_LEVELS = ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")


def client_config(properties: Mapping[str, str], role: ClientRole) -> ClientConfig:
    """Translate one client's Java properties.

    Raises BadConfigError: a value, key store, mechanism or assignor that is unavailable; all problems at once
    for plain values.
    """
    rows = {**_SHARED, **_OF_ROLE[role]}
    settings = dict(_ROLE_DEFAULTS[role])
    problems: dict[str, list[str]] = {}
    unmapped: dict[str, str] = {}
    for name, text in properties.items():
        if text is None:
            continue
        if name in rows:
            native, convert = rows[name]
            try:
                settings[native] = convert(str(text).strip())
            except ValueError:
                problems[name] = [f"{text!r} is not a number"]
            except BadConfigError as error:
                problems.update({key: list(why) for key, why in error.problems.items()})
        elif name in NATIVE:
            settings[name] = str(text)
        elif not _used_elsewhere(name, role):
            unmapped[name] = _NOT_TAKEN.get(name, "librdkafka has no such setting")
    if problems:
        raise BadConfigError(problems)
    security, tokens = _security(properties)
    settings.update(security)
    _set_compression_level(properties, settings, role)
    _agree(settings, role, said=properties)
    return ClientConfig(settings, unmapped, tokens)


def _used_elsewhere(name: str, role: ClientRole) -> bool:
    if name in OURS or name in _TLS_USED or name in _SASL_USED or name in _LEVELS:
        return True
    # A setting of another role inside a shared set (the worker's own) is expected, so it causes no warning.
    return any(name in rows for other, rows in _OF_ROLE.items() if other is not role)


def _security(properties: Mapping[str, str]) -> tuple[dict[str, str], TokenSettings | None]:
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    settings: dict[str, str] = {}
    if "SSL" in protocol:
        # Imported when needed: it brings the library that opens key stores, and executors start often.
        from spark_connect_rt.base.security.tls import tls_settings

        settings.update(tls_settings(properties))
    if "SASL" in protocol:
        settings.update(sasl_settings(properties))
        if settings.get("sasl.mechanism", "").upper() == "OAUTHBEARER":
            tokens = token_settings(properties)
            native = native_settings(tokens)
            return (settings, tokens) if native is None else (settings | native, None)
    return settings, None


def _set_compression_level(properties: Mapping[str, str], settings: dict[str, str], role: ClientRole) -> None:
    level = properties.get(f"compression.{settings.get('compression.type', 'none')}.level")
    if role is ClientRole.PRODUCER and level is not None:
        settings["compression.level"] = str(level)


def _agree(settings: dict[str, str], role: ClientRole, said: Mapping[str, str]) -> None:
    """Settle what librdkafka refuses in combination though Java allows it."""
    if role is ClientRole.PRODUCER:
        if settings.get("transactional.id"):
            settings["enable.idempotence"] = "true"
            settings.pop("delivery.timeout.ms", None)  # must not exceed the transaction's
        elif "enable.idempotence" not in said and _forbids_idempotence(settings):
            settings["enable.idempotence"] = "false"  # as Java: only an explicit wish is an error
        if settings["enable.idempotence"] == "false":
            settings.setdefault("max.in.flight.requests.per.connection", "5")
    elif role is ClientRole.CONSUMER and settings.get("group.protocol") == "consumer":
        for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
            settings.pop(name, None)  # the broker's business since KIP-848


def _forbids_idempotence(settings: Mapping[str, str]) -> bool:
    in_flight = int(settings.get("max.in.flight.requests.per.connection", "5"))
    return settings["acks"] not in ("all", "-1") or in_flight > 5 or settings.get("retries") == "0"
