"""Kafka's error codes as this package's kinds, decided in one place.

Owns: code -> kind. The message always says what was being done and Kafka's own name of the error.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.errors import (
    BadRequestError,
    ConnectError,
    DataError,
    FencedError,
    NotFoundError,
    RebalanceInProgressError,
    RetriableError,
    TimedOutError,
)

# A broker just started, or one that takes groups over from another.
COORDINATOR_UNSETTLED = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")

_KINDS: dict[type[ConnectError], tuple[str, ...]] = {
    FencedError: (
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "STALE_MEMBER_EPOCH",
        "FENCED_MEMBER_EPOCH",
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "_FENCED",
        "_ASSIGNMENT_LOST",
    ),
    RebalanceInProgressError: ("REBALANCE_IN_PROGRESS",),
    TimedOutError: ("_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT"),
    DataError: (
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_MSG",
        "INVALID_MSG_SIZE",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "_UNKNOWN_PARTITION",
    ),
    NotFoundError: ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "GROUP_ID_NOT_FOUND"),
    BadRequestError: ("_INVALID_ARG", "INVALID_REQUEST", "TOPIC_EXCEPTION", "_CONFLICT"),
    RetriableError: (
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_DESTROY_BROKER",  # a broker that is gone from the metadata while it is asked
        "_RESOLVE",
        "_WAIT_COORD",
        "_RETRY",
        "_QUEUE_FULL",
        "NOT_LEADER_FOR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        *COORDINATOR_UNSETTLED,
        "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "CONCURRENT_TRANSACTIONS",
        "UNSTABLE_OFFSET_COMMIT",
        "BROKER_NOT_AVAILABLE",
        "THROTTLING_QUOTA_EXCEEDED",
    ),
}
_KIND_OF = {getattr(KafkaError, name, name): kind for kind, names in _KINDS.items() for name in names}
_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "; raise max.request.size (of a connector: producer.override.max.request.size), and "
    "max.message.bytes of the topic where its broker refuses it"
}
_SENSELESS_TO_RETRY = (KafkaError._AUTHENTICATION, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def kafka_error(error: Any) -> Any:
    """Return the KafkaError inside a KafkaException, or what was given when it is one (or something else)."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return error


def connect_error(error: Any, doing: str) -> ConnectError:
    """Return the ConnectError for a KafkaError or KafkaException; ``doing`` begins its message."""
    inner = kafka_error(error)
    if not isinstance(inner, KafkaError):
        return ConnectError(f"{doing}: {inner}")
    message = f"{doing}: {inner.str()} ({inner.name()}){_HINTS.get(inner.code(), '')}"
    kind = _KIND_OF.get(inner.code())
    if kind is None:
        retriable = inner.retriable() and inner.code() not in _SENSELESS_TO_RETRY
        kind = RetriableError if retriable else ConnectError
    return kind(message)


def is_code(error: Any, *names: str) -> bool:
    """Return whether ``error`` has one of these Kafka error names (``TOPIC_ALREADY_EXISTS`` ...)."""
    inner = kafka_error(error)
    return isinstance(inner, KafkaError) and inner.name() in names
