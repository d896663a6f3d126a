"""Deletes the beginning of partitions.

Owns: an admin client for each deletion, which no other thread knows. librdkafka's request frees an operation twice when
metadata arrives while it looks for unknown leaders (docs/contributing/librdkafka_admin_race.md). So its client learns
the leaders before, and is asked for nothing else meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.client_factory import make_admin
from spark_connect_rt.kafka.client_lifetime import close_admin
from spark_connect_rt.kafka.error_mapping import connect_error

GRACE_S = 5.0  # the client's own limit comes first
_RETRY_S = Backoff(first=0.02, longest=0.5)


def delete_records(properties: Mapping[str, str], topic: str, before: Mapping[int, int], timeout_ms: int) -> None:
    """Delete what lies before an offset of each partition. Raises ConnectError; some may be deleted then.

    Args:
        properties: Java properties of an admin client.
        topic: the topic.
        before: partition -> the first offset that is kept.
        timeout_ms: the limit of the whole.
    """
    doing = f"deleting records of {topic} (bootstrap.servers={properties.get('bootstrap.servers', '')})"
    end_s = time.monotonic() + timeout_ms / 1000
    client = make_admin(properties)
    try:
        _await_leaders(client, topic, before, end_s)
        left_s = max(0.1, end_s - time.monotonic())
        asked = [_ClientPartition(topic, number, offset) for number, offset in before.items()]
        # Nothing but waiting until the last answer: see the module.
        for answer in client.delete_records(asked, request_timeout=left_s).values():
            answer.result(left_s + GRACE_S)
    except KafkaException as error:
        raise connect_error(error, doing) from error
    except TimeoutError as error:
        raise ConnectError(f"{doing}: no answer from the client") from error
    finally:
        close_admin(client)


def _await_leaders(client: Any, topic: str, partitions: Mapping[int, int], end_s: float) -> None:
    """Return when the client knows the leaders. Raises KafkaException: it does not know them in time."""
    failures = 0
    while True:
        error = _missing_leader(client, topic, partitions, max(0.1, end_s - time.monotonic()))
        if error is None:
            return
        if not isinstance(connect_error(error, ""), RetriableError) or time.monotonic() >= end_s:
            raise KafkaException(error)
        failures += 1
        time.sleep(_RETRY_S.wait(failures, random.random()))


def _missing_leader(client: Any, topic: str, partitions: Mapping[int, int], limit_s: float) -> KafkaError | None:
    # All topics: to ask for one by its name makes a broker create it.
    found = client.list_topics(timeout=limit_s).topics.get(topic)
    if found is None:
        return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    if found.error is not None:
        return found.error  # type: ignore[no-any-return]
    for number in partitions:
        if number not in found.partitions:
            return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"{topic} has no partition {number}")
        if found.partitions[number].leader < 0:
            return KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    return None
