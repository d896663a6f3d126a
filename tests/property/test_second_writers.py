"""Two workers' stores over one internal topic, another client that writes anywhere, and partitions that are added.

What every store holds is what was written last, at each step, after each restart, and in whatever order a restart reads
the partitions. Topics in memory; ``test_newest_records`` covers snapshots, and the integration tests real brokers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.config_records import connector_key, encode_properties
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.key_places import Write
from spark_connect_rt.topics.offset_records import encode_key, encode_value
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_records import ConnectorStatus, State, TaskStatusKey, encode_status
from spark_connect_rt.topics.status_records import encode_key as status_key
from spark_connect_rt.topics.status_store import StatusStore, to_fields

EXAMPLES = 1_000 if "CONNECTRT_SCHEDULES" in os.environ else 40  # ./test.sh long sets it
LIMIT_MS = 1_000
TASK = ConnectorTaskId("c", 0)
PLACE = {"p": 1}


class ShuffledTopic(MemoryLogTopic):
    """A topic whose readers get its partitions one after the other, in an order that the test chooses."""

    first = 0

    def after(self, positions: Sequence[int]) -> tuple[list[LogRecord], list[int]]:
        records, ends = super().after(positions)
        return sorted(records, key=lambda record: (record.partition - self.first) % len(ends)), ends


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["first", "second", "other", "transaction", "grow", "restart"]),
        st.sampled_from([1, 2, 3, None]),
        st.integers(0, 7),
    ),
    max_size=16,
)
Steps = list[tuple[str, int | None, int]]


def live(topic: MemoryLogTopic, key: bytes) -> list[int]:
    """Return the partitions whose last record of a key is no tombstone."""
    last = {record.partition: record.value for record in topic.records() if record.key == key}
    return [partition for partition, value in last.items() if value is not None]


@settings(max_examples=EXAMPLES, deadline=None)
@given(STEPS)
def test_every_offset_store_holds_what_was_written_last(steps: Steps) -> None:
    topic, key = ShuffledTopic(timestamp_ms=1), encode_key("c", PLACE)

    def opened() -> OffsetStore:
        store = OffsetStore(MemoryCompactedLog(topic, threaded=False))
        store.start()
        return store

    def put(store: OffsetStore, value: int | None) -> None:
        store.read("c", [PLACE])  # a task reads where it is before it begins
        store.put("c", [(PLACE, None if value is None else {"o": value})])
        store.flush(LIMIT_MS)

    stores = [opened(), opened()]
    wanted: int | None = None
    for kind, value, number in steps:
        topic.timestamp_ms += 10
        stored = encode_value(None if value is None else {"o": value})
        if kind == "grow":
            topic.add_partition()
        elif kind == "restart":
            topic.first = number % topic.partitions
            stores[number % 2] = opened()
        elif kind == "other":
            topic.write_placed([Write(key, stored, number % topic.partitions)])
            wanted = value
        elif kind == "transaction":  # a task's own producer places by key, and knows no older records
            topic.write([(key, stored)])
            wanted = value
            stores[0].read("c", [PLACE])
            stores[0].delete_leftovers("c", [PLACE])
            assert len(live(topic, key)) <= 1
        else:
            put(stores[kind == "second"], value)
            wanted = value
        for store in [*stores, opened()]:
            assert store.read("c", [PLACE]) == [None if wanted is None else {"o": wanted}], kind
    for value in (8, 9):  # the second one removes what was the newest before the first
        topic.timestamp_ms += 10
        put(stores[0], value)
    (*_, last) = [record for record in topic.records() if record.key == key and record.value is not None]
    assert live(topic, key) == [last.partition]


@settings(max_examples=EXAMPLES, deadline=None)
@given(STEPS)
def test_every_status_store_holds_what_was_written_last(steps: Steps) -> None:
    topic, key = ShuffledTopic(timestamp_ms=1), status_key(TaskStatusKey(TASK))

    def opened() -> StatusStore:
        store = StatusStore(MemoryCompactedLog(topic, threaded=False))
        store.start()
        return store

    stores = [opened(), opened()]
    wanted: ConnectorStatus | None = None
    for generation, (kind, value, number) in enumerate(steps, 1):
        topic.timestamp_ms += 10
        status = None if value is None else ConnectorStatus(State.RUNNING, f"w{value}", generation)
        if kind == "grow":
            topic.add_partition()
        elif kind == "restart":
            topic.first = number % topic.partitions
            stores[number % 2] = opened()
        elif kind in ("other", "transaction"):
            stored = None if status is None else encode_status(to_fields(status))
            topic.write_placed([Write(key, stored, number % topic.partitions)])
            wanted = status
        else:
            store = stores[kind == "second"]
            store.flush(LIMIT_MS)
            if status is None:
                store.remove_task(TASK)
            else:
                store.put_task(TASK, status)
            wanted = status
        for store in [*stores, opened()]:
            store.flush(LIMIT_MS)
            found = store.task(TASK)
            assert (found and (found.worker_id, found.generation)) == (
                wanted and (wanted.worker_id, wanted.generation)
            ), kind


def test_config_topic_with_an_added_partition_is_rejected_at_a_start() -> None:
    topic = MemoryLogTopic(partitions=2)
    with pytest.raises(BadConfigError):
        ConfigStore(MemoryCompactedLog(topic, exact_partitions=1, threaded=False)).start(lambda event: None)


@settings(max_examples=EXAMPLES, deadline=None)
@given(STEPS)
def test_every_config_store_holds_what_was_written_last(steps: Steps) -> None:
    """The order of the config topic is that of its only partition: an added one is never written to."""
    topic = ShuffledTopic(timestamp_ms=1)

    def opened() -> ConfigStore:
        store = ConfigStore(MemoryCompactedLog(topic, exact_partitions=1, threaded=False))
        store.start(lambda event: None)
        return store

    stores = [opened(), opened()]
    wanted: dict[str, str] | None = None
    for kind, value, number in steps:
        config = None if value is None else {"name": "c", "v": str(value)}
        if kind == "grow":
            topic.add_partition()
        elif kind == "restart" and topic.partitions == 1:
            stores[number % 2] = opened()
        elif kind in ("other", "transaction"):
            topic.write_placed([Write(connector_key("c"), config and encode_properties(config), 0)])
            wanted = config
        elif kind in ("first", "second"):
            store = stores[kind == "second"]
            if config is None:
                store.remove_connector_config("c")
            else:
                store.put_connector_config("c", config)
            wanted = config
        for store in stores:
            found = store.refresh(LIMIT_MS).connector_configs.get("c")
            assert (None if found is None else found.written()) == wanted, kind
