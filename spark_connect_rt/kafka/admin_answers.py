"""Waiting for what an admin client of librdkafka answers, also while the broker it takes for the controller is away.

librdkafka believes its last controller forever: while that broker is away and others run, a request waits for it until
its limit and connects some 650 times a second, at 0.7 of a core (2.16). Metadata names another.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.kafka.error_mapping import connect_error, is_code

# An answer that takes longer has the client look which broker is the controller now, later twice as long each time.
LOOK_AGAIN_S = Backoff(first=0.25, longest=4.0)
GRACE_S = 5.0  # the client's own limit comes first


def answer_of(admin: Any, future: Future[Any], limit_s: float) -> Any:
    """Return what ``admin``, a client of the library, answers. Raises KafkaException; no answer is ``_TIMED_OUT``.

    Args:
        admin: the client that was asked.
        future: its answer.
        limit_s: the limit that the request was given.
    """
    end_s = time.monotonic() + limit_s + GRACE_S
    looks = 1
    while (left_s := end_s - time.monotonic()) > (wait_s := LOOK_AGAIN_S.wait(looks, random.random())):
        with contextlib.suppress(TimeoutError):
            return future.result(wait_s)
        with contextlib.suppress(KafkaException):
            admin.list_topics(topic=None, timeout=min(wait_s, left_s))
        looks += 1
    try:
        return future.result(max(0.0, left_s))
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer from the client")) from None


def topic_ids(admin: Any, topics: Sequence[str], limit_s: float) -> dict[str, str]:
    """Return the id of each topic (KIP-516); one that is not there, or has none, is left out. Raises ConnectError."""
    if not topics:
        return {}
    found: dict[str, str] = {}
    for topic, answer in admin.describe_topics(TopicCollection(list(topics)), request_timeout=limit_s).items():
        try:
            topic_id = str(answer_of(admin, answer, limit_s).topic_id)
        except KafkaException as error:
            if not is_code(error, "UNKNOWN_TOPIC_OR_PART"):
                raise connect_error(error, f"describing topic {topic}") from error
        else:
            if topic_id.strip("A"):  # of a broker older than Kafka 2.8: all zeros
                found[topic] = topic_id
    return found
