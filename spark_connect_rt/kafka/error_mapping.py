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
    UnknownTopicError,
)

# The errors of Kafka's protocol whose exception is a RetriableException in Java (``Errors`` of 4.1): name -> code.
# tests/parity compares them with Java's own list.
RETRIABLE = {
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "REPLICA_NOT_AVAILABLE": 9,
    "NETWORK_EXCEPTION": 13,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "NOT_CONTROLLER": 41,
    "CONCURRENT_TRANSACTIONS": 51,
    "KAFKA_STORAGE_ERROR": 56,
    "FETCH_SESSION_ID_NOT_FOUND": 70,
    "INVALID_FETCH_SESSION_EPOCH": 71,
    "LISTENER_NOT_FOUND": 72,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "OFFSET_NOT_AVAILABLE": 78,
    "PREFERRED_LEADER_NOT_AVAILABLE": 80,
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": 83,
    "ELECTION_NOT_NEEDED": 84,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "THROTTLING_QUOTA_EXCEEDED": 89,
    "UNKNOWN_TOPIC_ID": 100,
    "INCONSISTENT_TOPIC_ID": 103,
    "FETCH_SESSION_TOPIC_ID_ERROR": 106,
    "SHARE_SESSION_NOT_FOUND": 122,
    "INVALID_SHARE_SESSION_EPOCH": 123,
    "SHARE_SESSION_LIMIT_REACHED": 133,
}
_RETRIABLE_CODES = frozenset(RETRIABLE.values())
# A broker just started, or one that takes groups over from another: those of the table that are about coordinators.
COORDINATOR_UNSETTLED = tuple(name for name in RETRIABLE if "COORDINATOR" in name)

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
        "INVALID_MSG_SIZE",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "_UNKNOWN_PARTITION",
    ),
    UnknownTopicError: ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"),
    NotFoundError: ("GROUP_ID_NOT_FOUND",),
    BadRequestError: ("_INVALID_ARG", "INVALID_REQUEST", "TOPIC_EXCEPTION", "_CONFLICT"),
    RetriableError: (  # librdkafka's own, reported while brokers or leaders change
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        "_DESTROY_BROKER",  # a broker that is gone from the metadata while it is asked
        "_UNKNOWN_BROKER",
        "_NOENT",  # no leader of a partition is known yet
        "_RESOLVE",
        "_WAIT_COORD",
        "_RETRY",
        "_QUEUE_FULL",
    ),
}
_KIND_OF = {getattr(KafkaError, name, name): kind for kind, names in _KINDS.items() for name in names}
_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "; raise max.request.size (of a connector: "
    "producer.override.max.request.size), and max.message.bytes of the topic if "
    "its broker rejects it"
}


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
    return (kind or (RetriableError if is_retriable(inner) else ConnectError))(message)


def gone(error: ConnectError) -> ConnectError:
    """Return the error to raise when a topic was unknown for long: a NotFoundError that is not retriable.

    Any other error is returned as it is.
    """
    return NotFoundError(str(error)) if isinstance(error, UnknownTopicError) else error


def is_retriable(error: Any) -> bool:
    """Return whether the same request may succeed later.

    Args:
        error: a code of Kafka's protocol; an error of librdkafka or the KafkaException around it; an error of aiokafka.
            A code of the protocol is retriable exactly where Java's exception is; the client decides about its own
            errors.
    """
    if isinstance(error, int):
        return error in _RETRIABLE_CODES
    inner = kafka_error(error)
    if isinstance(inner, KafkaError):
        kind = _KIND_OF.get(inner.code())
        if kind is not None:
            return issubclass(kind, RetriableError)
        # A login that was refused is refused again, whatever librdkafka says.
        native = inner.code() < 0 and inner.code() != KafkaError._AUTHENTICATION and inner.retriable()
        return native or inner.code() in _RETRIABLE_CODES
    code = getattr(inner, "errno", None)
    if isinstance(code, int) and code > 0:
        return code in _RETRIABLE_CODES
    return bool(getattr(inner, "retriable", False))


def is_code(error: Any, *names: str) -> bool:
    """Return whether ``error`` has one of these Kafka error names (``TOPIC_ALREADY_EXISTS`` ...)."""
    inner = kafka_error(error)
    return isinstance(inner, KafkaError) and inner.name() in names


def client_error(error: Any, doing: str) -> ConnectError:
    """Return the ConnectError for a KafkaError of aiokafka; ``doing`` begins its message."""
    code = getattr(error, "errno", None)
    if code is not None and code > 0:
        return connect_error(KafkaError(code), doing)
    kind = RetriableError if is_retriable(error) else ConnectError
    return kind(f"{doing}: {error!r}")
