"""The first or next offset of partitions, asked of their leaders through ``broker_links``."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping

from confluent_kafka import KafkaError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.aiokafka_parts import OffsetRequest
from spark_connect_rt.kafka.error_mapping import connect_error, gone
from spark_connect_rt.kafka.reading.broker_links import BrokerLinks

RETRY_WAIT_S = 0.05
UNKNOWN_LIMIT_S = 5.0  # what is not there may be so new that this broker does not know it yet


async def look_up(
    links: BrokerLinks, ends: Mapping[TopicPartition, int], committed_only: bool, timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the offset at the end asked for (offset_lookup.FIRST or NEXT) of each partition.

    Under ``committed_only`` NEXT is the last stable offset. Raises the error's kind; RetriableError kinds only once
    the time is up.
    """
    started_s = time.monotonic()
    found: dict[TopicPartition, int] = {}
    while missing := {partition: end for partition, end in ends.items() if partition not in found}:
        try:
            await _ask(links, missing, committed_only, found)
        except UnknownTopicError as error:
            if time.monotonic() - started_s > min(UNKNOWN_LIMIT_S, timeout_s):
                raise gone(error) from error
        except RetriableError:
            if time.monotonic() - started_s > timeout_s:
                raise
        else:
            continue
        await asyncio.sleep(RETRY_WAIT_S)
        links.leaders.clear()
    return found


async def _ask(
    links: BrokerLinks, ends: Mapping[TopicPartition, int], committed_only: bool, found: dict[TopicPartition, int]
) -> None:
    """Ask for what can be asked for; raise what kept one from being ``found``."""
    if not ends.keys() <= links.leaders.keys():
        await links.refresh({place.topic for place in ends} | {leader.topic for leader in links.leaders})
    problem: ConnectError | None = None
    by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for place, end in ends.items():
        if place in links.leaders:
            by_leader[links.leaders[place]][place.topic].append((place.partition, end))
        else:
            problem = _refused(place, links.why_lost(place))
    for broker, topics in by_leader.items():
        answer = await links.ask(broker, OffsetRequest(-1, int(committed_only), list(topics.items())))
        for topic, partitions in answer.topics:
            for partition, code, _, offset in partitions:
                topic_partition = TopicPartition(topic, partition)
                if code:
                    problem = _refused(topic_partition, code)
                else:
                    found[topic_partition] = offset
    if problem is not None:
        raise problem


def _refused(partition: TopicPartition, code: int) -> ConnectError:
    return connect_error(KafkaError(code), f"looking up offsets of {partition}")
