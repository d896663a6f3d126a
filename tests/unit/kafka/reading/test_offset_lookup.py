"""Offsets asked while leaders change: asked again, and never refused for good."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.reading.offset_lookup import NEXT, look_up_offsets

PLACE = TopicPartition("offsets", 0)


class Consumer:
    """Refuses with these codes, in turn, the last one again and again; then answers 7."""

    def __init__(self, *codes: int, in_the_answer: bool = False, for_ever: bool = False) -> None:
        self._codes, self._in_the_answer, self._for_ever = list(codes), in_the_answer, for_ever
        self.listed = 0

    def offsets_for_times(self, asked: list[Any], timeout: float) -> list[Any]:
        if not self._codes:
            return [
                SimpleNamespace(topic=place.topic, partition=place.partition, offset=7, error=None) for place in asked
            ]
        code = self._codes[0] if self._for_ever else self._codes.pop(0)
        if not self._in_the_answer:
            raise KafkaException(KafkaError(code))
        return [SimpleNamespace(topic="offsets", partition=0, offset=-1, error=KafkaError(code))]

    def list_topics(self, topic: str, timeout: float) -> None:
        self.listed += 1


PASSING = [
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
]


@pytest.mark.parametrize("in_the_answer", [False, True])
@pytest.mark.parametrize("code", PASSING)
def test_transient_error_is_retried_with_fresh_metadata(code: int, in_the_answer: bool) -> None:
    consumer = Consumer(code, in_the_answer=in_the_answer)
    assert look_up_offsets(consumer, {PLACE: NEXT}, 5) == {PLACE: 7}
    assert consumer.listed == 1


@pytest.mark.parametrize("code", PASSING)
def test_unresolved_transient_error_stays_retriable(code: int) -> None:
    with pytest.raises(RetriableError, match="reading the offsets of offsets"):
        look_up_offsets(Consumer(code, for_ever=True), {PLACE: NEXT}, 0.1)


def test_an_unknown_topic_is_distinguished_from_moving_leaders() -> None:
    for code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
        with pytest.raises(UnknownTopicError):
            look_up_offsets(Consumer(code, for_ever=True), {PLACE: NEXT}, 0.05)


def test_a_topic_that_no_broker_knows_is_given_up_sooner_than_leaders_that_change() -> None:
    began_s = time.monotonic()
    with pytest.raises(UnknownTopicError):
        look_up_offsets(Consumer(KafkaError.UNKNOWN_TOPIC_OR_PART, for_ever=True), {PLACE: NEXT}, 30, 0.05)
    assert time.monotonic() - began_s < 10


def test_permanent_error_is_raised_at_once() -> None:
    consumer = Consumer(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ConnectError) as refused:
        look_up_offsets(consumer, {PLACE: NEXT}, 5)
    assert not isinstance(refused.value, RetriableError)
    assert consumer.listed == 0
