"""What is called from several threads at once: name of a table -> how its calls are made.

To add calls of something else, add a function that takes the address of a (mocked) cluster and returns them, and a line
in TABLES. A call takes a number that is seldom the same twice. It may raise ConnectError: anything else fails the test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec

Call = Callable[[int], object]
LIMIT_MS = 100
UNSERVED_MS = 20  # of what the mocked cluster does not serve: it is waited for to the end


@dataclass(frozen=True)
class Calls:
    """Calls by name; ``slow`` ones are made twenty times less often."""

    calls: Mapping[str, Call]
    slow: frozenset[str] = frozenset()


def calls_of_admin(servers: str) -> Calls:
    """Return a call of each public method of one ``KafkaAdmin``; ``close`` is one of others'."""
    properties = {"bootstrap.servers": servers}
    admin = KafkaAdmin(properties)

    def topic(number: int) -> str:
        return f"t-{number // 40}"  # threads ask for the same new topic at about the same time

    def places(number: int) -> list[TopicPartition]:
        return [TopicPartition(topic(number), 0)]

    def limit_ms(number: int) -> int:
        return LIMIT_MS if number % 8 == 0 else 1  # an operation that ends while it begins is the hardest

    def close(number: int) -> None:
        other = KafkaAdmin(properties)
        closing = threading.Thread(target=other.close)
        try:
            other.partition_count(topic(number), LIMIT_MS)
            closing.start()
            other.end_offsets(places(number), LIMIT_MS)  # refused or answered, but no use of what is gone
        finally:
            other.close()

    calls: Mapping[str, Call] = {
        "check_reachable": lambda _: admin.check_reachable(LIMIT_MS),
        "cluster_id": lambda _: admin.cluster_id(UNSERVED_MS),
        "broker_count": lambda _: admin.broker_count(UNSERVED_MS),
        "partition_count": lambda number: admin.partition_count(topic(number), LIMIT_MS),
        "describe_topic": lambda number: admin.describe_topic(topic(number), LIMIT_MS),
        "create_topic": lambda number: admin.create_topic(TopicSpec(topic(number)), UNSERVED_MS),
        "cleanup_policy": lambda number: admin.cleanup_policy(topic(number), UNSERVED_MS),
        "topics": lambda _: admin.topics(UNSERVED_MS),
        "topic_settings": lambda number: admin.topic_settings(topic(number), UNSERVED_MS),
        "ensure_compacted": lambda number: admin.ensure_compacted(TopicSpec(topic(number)), None, UNSERVED_MS),
        "earliest_offsets": lambda number: admin.earliest_offsets(places(number), limit_ms(number)),
        "end_offsets": lambda number: admin.end_offsets(places(number), limit_ms(number)),
        "offsets_since": lambda number: admin.offsets_since(places(number), 1, limit_ms(number)),
        "delete_records": lambda number: admin.delete_records(topic(number), {0: 1}, limit_ms(number)),
        "delete_topics": lambda number: admin.delete_topics([topic(number)], UNSERVED_MS),
        "group_is_active": lambda number: admin.group_is_active(topic(number), LIMIT_MS),
        "members": lambda number: admin.members(topic(number), LIMIT_MS),
        "client": lambda number: _made(admin, topic(number)),
        "close": close,
    }
    return Calls(calls, frozenset(calls) - {*QUICK})


def _made(admin: KafkaAdmin, topic: str) -> object:
    """Ask for a topic by name: the mocked cluster makes it then, so that it is found by those who wait for it."""
    with admin.client() as client:
        return client.list_topics(topic, timeout=LIMIT_MS / 1000)


QUICK = ("client", "earliest_offsets", "end_offsets", "offsets_since", "delete_records")
TABLES: Mapping[str, Callable[[str], Calls]] = {"admin": calls_of_admin}
