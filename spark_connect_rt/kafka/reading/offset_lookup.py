"""The first or next offset of partitions, asked through a consumer that is there anyway.

Owns: one batched ListOffsets request, tried again while leaders are moving (a topic just created, a failover), and
with fresh metadata when this consumer does not know a partition yet (one that was added).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.kafka.error_mapping import connect_error, is_code
from spark_connect_rt.protocol.ids import TopicPartition

FIRST, NEXT = -2, -1  # the protocol's timestamps for the two ends of a log
RETRY_WAIT_S = 0.05


def look_up_offsets(consumer: Any, ends: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
    """Return the offset at the end asked for (FIRST or NEXT) of each partition.

    Raises the error's kind; RetriableError kinds only once the time is up.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = max(0.05, deadline - time.monotonic())
        try:
            return _ask(consumer, ends, left_s)
        except KafkaException as error:
            mapped = connect_error(error, "looking up offsets of " + ", ".join(map(str, sorted(ends))))
            outdated = is_code(error, "_UNKNOWN_PARTITION")
            if not (outdated or isinstance(mapped, RetriableError)) or time.monotonic() >= deadline:
                raise mapped from error
        if outdated:
            renew_metadata(consumer, {one.topic for one in ends}, left_s)
        threading.Event().wait(RETRY_WAIT_S)


def renew_metadata(consumer: Any, topics: Iterable[str], timeout_s: float) -> None:
    """Let a consumer see the partitions that a topic has now: by itself it looks every metadata.max.age.ms.

    Raises nothing: the next use of the topic reports what is wrong.
    """
    for topic in sorted(topics):
        with contextlib.suppress(KafkaException):
            consumer.list_topics(topic, timeout=timeout_s)


def _ask(consumer: Any, ends: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
    asked = [_ClientPartition(one.topic, one.partition, end) for one, end in ends.items()]
    if not asked:
        return {}
    found: dict[TopicPartition, int] = {}
    for answer in consumer.offsets_for_times(asked, timeout=timeout_s):
        if answer.error is not None:
            raise KafkaException(answer.error)
        found[TopicPartition(answer.topic, answer.partition)] = answer.offset
    return found
