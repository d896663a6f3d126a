"""Kafka's error codes become what a caller can do about them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.errors import (
    ConnectError,
    DataError,
    FencedError,
    NotFoundError,
    RebalanceInProgressError,
    RetriableError,
    TimedOutError,
    UnknownTopicError,
)
from spark_connect_rt.kafka.error_mapping import connect_error, is_code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.ILLEGAL_GENERATION, FencedError),
        (KafkaError.UNKNOWN_MEMBER_ID, FencedError),
        (KafkaError._FENCED, FencedError),
        (KafkaError.REBALANCE_IN_PROGRESS, RebalanceInProgressError),
        (KafkaError._TIMED_OUT, TimedOutError),
        (KafkaError._TRANSPORT, RetriableError),
        (KafkaError._DESTROY_BROKER, RetriableError),
        (KafkaError.NOT_ENOUGH_REPLICAS, RetriableError),
        (KafkaError.MSG_SIZE_TOO_LARGE, DataError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopicError),
        (KafkaError.GROUP_ID_NOT_FOUND, NotFoundError),
        (KafkaError.FENCED_LEADER_EPOCH, RetriableError),
        (KafkaError._NOENT, RetriableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ConnectError),
    ],
)
def test_a_code_has_its_kind(code: int, kind: type[ConnectError]) -> None:
    error = connect_error(KafkaException(KafkaError(code)), "doing x")
    assert type(error) is kind
    assert str(error).startswith("doing x: ")
    assert KafkaError(code).name() in str(error)


def test_anything_else_is_a_connect_error() -> None:
    assert str(connect_error(KafkaException("odd"), "doing x")) == "doing x: odd"


def test_codes_are_shown_by_name() -> None:
    error = KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS))
    assert is_code(error, "TOPIC_ALREADY_EXISTS")
    assert not is_code(error, "_TIMED_OUT")
    assert not is_code(ValueError(), "_TIMED_OUT")
