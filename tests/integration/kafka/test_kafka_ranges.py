"""Ranges of real topics: their ends, what a task of them polls, markers and compaction holes, what a log has lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pyspark_connectrt import DefaultSource
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.connectors.topics.kafka_settings import BYTES
from spark_connect_rt.connectors.topics.kafka_source import KafkaSourceConnector
from spark_connect_rt.engine.datasource.open_task import open_task
from spark_connect_rt.engine.datasource.pushed_filters import Comparison
from spark_connect_rt.engine.datasource.range_stream import RangeStreamReader
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.errors import ConnectError, DataError
from tests.topics import delete_topic
from tests.unit.engine.datasource.test_range_stream import ALL, values
from tests.unit.engine.datasource.test_ranges import at, filtered, schema

LIMIT_S = 120.0
PLACE = '{{"cluster":"source","topic":"{}","partition":{}}}'


class There:
    """A topic of two partitions, and reads of it."""

    def __init__(self, servers: str) -> None:
        self.topic = f"log-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": servers})
        self.servers = servers
        self.create()
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def create(self) -> None:
        self.admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result()

    def write(self, partition: int, *numbers: int) -> None:
        for number in numbers:
            value = b"%d-%02d" % (partition, number)
            self._producer.produce(self.topic, value, partition=partition, timestamp=1_000 + number)
        assert self._producer.flush(30) == 0

    def abort(self, partition: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": self.topic})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(self.topic, b"no", partition=partition)
        producer.flush(30)
        producer.abort_transaction()

    def lose(self, partition: int, before: int) -> None:
        asked = TopicPartition(self.topic, partition, before)
        self.admin.delete_records([asked])[asked].result()

    def options(self) -> dict[str, str]:
        converters = {f"{part}.converter": BYTES for part in ("key", "value", "header")}
        own = {"connector.class": "KafkaSource", "source.bootstrap.servers": self.servers, "topics": self.topic}
        return {**converters, **own, "tasks.max": "2", "partition.keep": "true", "until": "latest"}

    def query(self, **options: str) -> RangeStreamReader:
        found = DefaultSource(self.options() | options).streamReader(schema())
        assert isinstance(found, RangeStreamReader)
        return found


@pytest.fixture
def there(broker: EmbeddedKafka) -> There:
    return There(broker.bootstrap_servers)


@pytest.fixture
def query(there: There) -> Iterator[RangeStreamReader]:
    found = there.query()
    yield found
    found.stop()


def test_a_stream_reads_ranges_again_as_they_were_behind_markers_too(there: There, query: RangeStreamReader) -> None:
    there.write(0, *range(8))
    there.write(1, *range(4))
    first = query.latestOffset({}, ALL)
    topic_id = first[PLACE.format(there.topic, 0)]["log"]
    assert first == {
        PLACE.format(there.topic, 0): {"offset": '{"offset":7}', "rows": 0, "log": topic_id},
        PLACE.format(there.topic, 1): {"offset": '{"offset":3}', "rows": 0, "log": topic_id},
    }
    assert values(query, {}, first) == [f"0-{n:02}" for n in range(8)] + [f"1-{n:02}" for n in range(4)]
    there.abort(1)  # a record that does not count, and a marker: the range has an end behind which nothing comes
    deadline = time.monotonic() + LIMIT_S
    while (second := query.latestOffset(first, ALL))[PLACE.format(there.topic, 1)]["offset"] != '{"offset":5}':
        assert time.monotonic() < deadline, second
    assert values(query, first, second) == []
    there.write(1, 9)
    again = there.query()
    assert len(values(again, {}, first)) == 12
    assert values(again, second, again.latestOffset(second, ALL)) == ["1-09"]
    again.stop()


def test_records_lost_from_the_log_raise_an_error(there: There, query: RangeStreamReader) -> None:
    there.write(0, *range(8))
    end = query.latestOffset({}, ALL)
    begin = {PLACE.format(there.topic, 0): {"offset": '{"offset":1}', "rows": 0}}
    planned = query.partitions(begin, end)
    there.lose(0, 5)
    with pytest.raises(DataError, match="would continue at 2, its source begins at 5 now"):
        query.partitions(begin, end)
    with pytest.raises(ConnectError, match=f"{there.topic}-0"):  # planned before, read after
        list(query.read(planned[0]))


def test_a_recreated_topic_is_reported(there: There, query: RangeStreamReader) -> None:
    there.write(0, *range(3))
    end = query.latestOffset({}, ALL)
    delete_topic(there.servers, there.topic)
    there.create()
    there.write(0, *range(8))  # longer than what was read
    with pytest.raises(DataError, match="was deleted and created again"):
        query.latestOffset(end, ALL)
    going_on = there.query(**{"on.topic.recreated": "continue"})
    behind = going_on.latestOffset(end, ALL)
    assert values(going_on, end, behind) == [f"0-{n:02}" for n in range(8)]
    going_on.stop()


def since(ms: int) -> Comparison:
    return Comparison("timestamp", "GreaterThanOrEqual", at(ms))


def test_filters_bound_what_is_polled(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    there.write(0, *range(8))
    there.write(1, *range(4))
    polled: list[bytes] = []
    task = load_class("spark_connect_rt.connectors.topics.kafka_source_task:KafkaSourceTask")
    poll = task.poll

    def counted(self: object) -> list[SourceBatch]:
        found: list[SourceBatch] = poll(self)
        polled.extend(value for batch in found for value in batch.values.to_pylist())
        return found

    monkeypatch.setattr(task, "poll", counted)
    for conditions, wanted in (
        ([Comparison("partition", "EqualTo", 1)], [b"1-00", b"1-01", b"1-02", b"1-03"]),
        ([Comparison("partition", "EqualTo", 0), since(1_006)], [b"0-06", b"0-07"]),
        ([Comparison("topic", "EqualTo", "another")], []),
        ([since(2_000)], []),
    ):
        polled.clear()
        for until in ("latest", "idle"):
            assert filtered(there.options() | {"until": until, "idleMs": "200"}, conditions) == wanted
        assert polled == wanted * 2


def test_a_task_of_a_range_that_is_not_there_any_more_fails(there: There) -> None:
    there.write(0, 1)
    connector = KafkaSourceConnector()
    connector.start(there.options())
    (source_range, _) = connector.ranges(())
    (config,) = connector.range_tasks([type(source_range)(source_range.partition, 0, 5)], 1)
    task = connector.task_class()()
    task.start(config)
    with pytest.raises(DataError, match="ends at 1 now, but the range to read ends at 5"):
        task.has_more()
    task.stop()
    connector.stop()


def test_a_range_that_is_read_asks_the_broker_nothing_more(there: There, query: RangeStreamReader) -> None:
    there.write(0, 1, 2)
    (planned,) = query.partitions({}, query.latestOffset({}, ALL))
    task = open_task(planned)
    try:
        while task.poll() is None:
            assert task.has_more()
        task._task._consumer.close()  # type: ignore[attr-defined]  # every question fails from here on
        assert task.poll() is None
        assert not task.has_more()
    finally:
        task.close()
