"""The first or next offset of partitions, asked through a consumer.

Owns: one batched ListOffsets request, tried again with fresh metadata while leaders are moving (a topic just created, a
partition just added, a failover).

Why not through an admin client: librdkafka's admin requests of offsets and deletions look for the leaders on the
caller's thread and on the client's own at once. When metadata arrives meanwhile, they free one operation twice (2.16,
bench/notes/librdkafka_admin_race.md). A consumer waits for its answer on the caller's thread alone.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.error_mapping import connect_error, is_code

FIRST, NEXT = -2, -1  # the protocol's timestamps for the two ends of a log
_RETRY_S = Backoff(first=0.02, longest=0.5)


def look_up_offsets(
    consumer: Any, wanted: Mapping[TopicPartition, int], timeout_s: float, unknown_s: float | None = None
) -> dict[TopicPartition, int]:
    """Return the offset that is ``wanted`` of each partition: FIRST, NEXT, or that of a time (ms since 1970).

    A time that no record reaches gives -1. Any thread.

    Raises:
        UnknownTopicError: no broker has known a topic or partition for ``unknown_s``, by default ``timeout_s``.
        RetriableError: leaders did not settle in ``timeout_s``.
        ConnectError: of another kind, at once.
    """
    end_s = time.monotonic() + timeout_s
    unknown_end_s = end_s if unknown_s is None else end_s - timeout_s + unknown_s
    doing = "reading the offsets of " + ", ".join(sorted({partition.topic for partition in wanted}))
    failures = 0
    while True:
        left_s = max(0.05, end_s - time.monotonic())
        try:
            return _ask(consumer, wanted, left_s)
        except KafkaException as error:
            problem = _problem(error, doing)
            over_s = min(end_s, unknown_end_s) if isinstance(problem, UnknownTopicError) else end_s
            if not isinstance(problem, RetriableError) or time.monotonic() >= over_s:
                raise problem from error
        failures += 1
        threading.Event().wait(_RETRY_S.wait(failures, random.random()))
        renew_metadata(consumer, {partition.topic for partition in wanted}, left_s)


def _problem(error: KafkaException, doing: str) -> ConnectError:
    """Return what to raise. The client says "unknown partition" also when it knows none of the topics."""
    problem = connect_error(error, doing)
    return UnknownTopicError(str(problem)) if is_code(error, "_UNKNOWN_PARTITION") else problem


def renew_metadata(consumer: Any, topics: Iterable[str], timeout_s: float) -> None:
    """Let a consumer see the partitions that a topic has now: by itself it looks every metadata.max.age.ms.

    Raises nothing: the next use of the topic reports what is wrong.
    """
    for topic in sorted(topics):
        with contextlib.suppress(KafkaException):
            consumer.list_topics(topic, timeout=timeout_s)


def partition_counts(consumer: Any, topics: Iterable[str], timeout_s: float) -> dict[str, int]:
    """Return how many partitions topics have. One that does not exist is left out. Raises ConnectError."""
    counts = {}
    for topic in sorted(topics):
        try:
            found = consumer.list_topics(topic, timeout=timeout_s).topics.get(topic)
        except KafkaException as error:
            raise connect_error(error, f"counting the partitions of {topic}") from error
        if found is not None and found.error is None:
            counts[topic] = len(found.partitions)
    return counts


def _ask(consumer: Any, wanted: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
    asked = [_ClientPartition(partition.topic, partition.partition, what) for partition, what in wanted.items()]
    if not asked:
        return {}
    found: dict[TopicPartition, int] = {}
    for answer in consumer.offsets_for_times(asked, timeout=timeout_s):
        if answer.error is not None:
            raise KafkaException(answer.error)
        found[TopicPartition(answer.topic, answer.partition)] = answer.offset
    return found
