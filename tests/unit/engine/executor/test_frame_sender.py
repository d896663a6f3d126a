"""What a Spark task does with its rows: keys, errant records, counts; nothing counts before the flush."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor.frame_sender import FrameJob, send_rows
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics

TOPICS = MemoryTopics()


def clients() -> MemoryExecutorClients:
    return MemoryExecutorClients(TOPICS, bundled_plugins().class_of)


JSON = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}
JSON |= {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}


def sent(topic: str, *batches: pa.RecordBatch, keys: tuple[str, ...] = (), **config: str) -> pa.RecordBatch:
    settings = {**JSON, **{name.replace("__", "."): value for name, value in config.items()}}
    launch = TaskLaunch(ConnectorTaskId("s", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, settings, {}, {})
    job = FrameJob(f"{__name__}:clients", launch, topic, keys, {"format": "x"}, {"rows": 3})
    (counts,) = send_rows(job, iter(batches))
    return counts


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Iterator[str]:
    yield str(request.node.name)
    TOPICS.partitions.clear()


def rows_in(topic: str) -> list[tuple[bytes | None, bytes | None]]:
    partition = TopicPartition(topic, 0)
    return [(row["key"], row["value"]) for row in TOPICS.read(partition, 0, TOPICS.end(partition))]


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_every_row_is_sent_and_counted(topic: str) -> None:
    counts = sent(topic, batch(id=[1, 2], name=["a", None]), batch(id=[3], name=["c"]), keys=("id",))
    assert counts.to_pylist() == [{"records": 3, "skipped": 0, "bytes": counts["bytes"][0].as_py(), "topics": [topic]}]
    assert rows_in(topic) == [
        (b"1", b'{"id":1,"name":"a"}'),
        (b"2", b'{"id":2,"name":null}'),
        (b"3", b'{"id":3,"name":"c"}'),
    ]


def test_several_key_columns_are_a_struct_and_a_missing_one_is_named(topic: str) -> None:
    sent(topic, batch(a=[1], b=["x"], c=[None]), keys=("b", "a"))
    assert [key for key, _ in rows_in(topic)] == [b'{"b":"x","a":1}']
    with pytest.raises(ConnectError, match=r"column no does not exist \(setting 'key.columns'\)"):
        sent(topic, batch(a=[1]), keys=("no",))


def test_no_rows_make_no_records(topic: str) -> None:
    assert sent(topic).to_pylist() == [{"records": 0, "skipped": 0, "bytes": 0, "topics": []}]


CAST = {"transforms": "c", "transforms__c__type": "org.apache.kafka.connect.transforms.Cast$Value"}
CAST["transforms__c__spec"] = "text:int32"


def test_an_errant_row_fails_the_batch_or_is_counted(topic: str) -> None:
    rows = batch(text=["1", "two", "3"])
    with pytest.raises(DataError, match=rf"record for topic {topic} of source partition .'format': 'x'. offset"):
        sent(topic, rows, **CAST)
    assert rows_in(topic) == []
    counts = sent(topic, rows, errors__tolerance="all", **CAST).to_pylist()[0]
    assert (counts["records"], counts["skipped"]) == (2, 1)
    assert [value for _, value in rows_in(topic)] == [b'{"text":1}', b'{"text":3}']


def test_rows_with_maps_go_one_by_one(topic: str) -> None:
    maps = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))
    sent(topic, pa.RecordBatch.from_arrays([maps], names=["m"]))
    assert rows_in(topic) == [(None, b'{"m":{"a":1}}')]
