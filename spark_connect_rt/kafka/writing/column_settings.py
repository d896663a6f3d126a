"""Which producers' properties ``ColumnProducer`` honours, and what they mean to it. Pure.

Whatever is not understood here is ``KafkaBatchProducer``'s, which knows every property or says that it has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.config.bootstrap_servers import plain_servers
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.kafka.client_config import SECURITY_USED
from spark_connect_rt.kafka.executor_clients import OFFSET_REPORTS, RECORD_REPORTS
from spark_connect_rt.kafka.group_security import connection_arguments
from spark_connect_rt.kafka.records.record_batch_columns import BATCH_OVERHEAD, CODECS, Compression

_JAVAS = (
    "buffer.memory",
    "connections.max.idle.ms",
    "delivery.timeout.ms",
    "max.block.ms",
    "max.request.size",
    "metadata.max.age.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "transaction.timeout.ms",
)
_DEFAULTS = {
    **{name: client_setting("producer", name) for name in _JAVAS},
    "batch.size": 1_000_000,  # not Java's: records joined here have arrived already, so a large batch causes no delay
    "linger.ms": 0,  # any: rows that arrive while others are in flight are joined, and nothing waits longer
    "max.in.flight.requests.per.connection": 1,  # any: there is one
}
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "acks": ("all", "-1", "1"),
    "compression.type": CODECS,
    "enable.idempotence": ("false",),  # of one that writes transactions: true
    "security.protocol": ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
    "sasl.mechanism": ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer"),
}
_ID = "transactional.id"
_OF_TRANSACTIONS = {"acks": ("all", "-1"), "enable.idempotence": ("true",)}
_LEVELS = {f"compression.{kind}.level": range(1, most + 1) for kind, most in (("gzip", 9), ("lz4", 12), ("zstd", 22))}
_COUNTS = range(2**63)
_OTHERS = SECURITY_USED | {"bootstrap.servers", "client.id", "key.serializer", "value.serializer", *OFFSET_REPORTS}
_OTHERS |= set(RECORD_REPORTS)


@dataclass(frozen=True, slots=True)
class Transactional:
    """Of a producer that writes transactions: its id, and how long one may be open."""

    id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """The settings of a ColumnProducer."""

    client: Mapping[str, Any]  # arguments of AIOKafkaProducer
    batch_bytes: int
    request_bytes: int
    buffer_bytes: int
    max_block_ms: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    compression: Compression
    reports_offsets: bool  # of what is delivered
    reports_records: bool = False  # where each went
    transaction: Transactional | None = None


def not_honoured(config: Mapping[str, str]) -> list[str]:
    """Return the properties that a ColumnProducer does not honour, or not with what they are set to; sorted."""
    texts = _texts(config)
    numbers = {**dict.fromkeys(_DEFAULTS, _COUNTS), **_LEVELS}
    transactional = _ID in config
    allowed = {**_TEXTS, **_OF_TRANSACTIONS} if transactional else _TEXTS
    known = {*_TEXTS, *numbers, *_OTHERS, *((_ID,) if transactional else ())}
    others = {name for name in config if name not in known}
    others |= {name for name, text in texts.items() if text not in allowed[name]}
    others |= {name for name in numbers if name in config and not _within(config[name], numbers[name])}
    if transactional:
        others |= config.keys() & RECORD_REPORTS.keys()  # a batch that is sent twice comes back without its offset
    if "enable.idempotence" not in texts and not transactional:
        others.add("enable.idempotence")  # Java's default is an idempotent producer
    if texts.get("security.protocol", "").startswith("sasl") and "sasl.mechanism" not in texts:
        others.add("sasl.mechanism")  # GSSAPI, by default
    return sorted(others)


def _texts(config: Mapping[str, str]) -> dict[str, str]:
    return {name: text.strip().lower() for name, text in config.items() if name in _TEXTS}


def _within(text: str, allowed: range) -> bool:
    try:
        return int(text) in allowed
    except ValueError:
        return False


def column_settings(config: Mapping[str, str]) -> ColumnSettings | None:
    """Return what to make a ColumnProducer with; None: something is ``not_honoured``. Raises as ``settings_of``."""
    return None if not_honoured(config) else settings_of(config)


def settings_of(config: Mapping[str, str]) -> ColumnSettings:
    """Return what to make a ColumnProducer with, of properties that are honoured.

    Raises BadConfigError: a key store, mechanism or login module that is unavailable.
    """
    texts = _texts(config)
    numbers = {name: int(config.get(name, usual)) for name, usual in _DEFAULTS.items()}
    kind = texts.get("compression.type", "none")
    level = config.get(f"compression.{kind}.level")
    client = {
        "bootstrap_servers": plain_servers(config.get("bootstrap.servers", "")),
        "client_id": config.get("client.id") or None,
        "acks": 1 if texts.get("acks") == "1" else "all",
        "connections_max_idle_ms": numbers["connections.max.idle.ms"],
        "metadata_max_age_ms": numbers["metadata.max.age.ms"],
        "request_timeout_ms": numbers["request.timeout.ms"],
        "retry_backoff_ms": numbers["retry.backoff.ms"],
        **connection_arguments(config),
    }
    return ColumnSettings(
        client,
        batch_bytes=max(min(numbers["batch.size"], numbers["max.request.size"]) - BATCH_OVERHEAD, 0),
        request_bytes=numbers["max.request.size"],
        buffer_bytes=numbers["buffer.memory"],
        max_block_ms=numbers["max.block.ms"],
        delivery_timeout_ms=numbers["delivery.timeout.ms"],
        retry_backoff_ms=numbers["retry.backoff.ms"],
        compression=Compression(kind, None if level is None else int(level)),
        reports_offsets=OFFSET_REPORTS.items() <= config.items(),
        reports_records=RECORD_REPORTS.items() <= config.items(),
        transaction=Transactional(config[_ID], numbers["transaction.timeout.ms"]) if _ID in config else None,
    )
