"""The harness of connector authors: the pages that teach it run, and it rejects what a worker would reject."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.samples.datagen_source import DatagenSourceConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from spark_connect_rt.testing.connector_harness import MemoryOffsets, SourceHarness
from spark_connect_rt.testing.memory_connectors import MemorySource, faults
from spark_connect_rt.testing.sink_harness import SinkHarness

FOLDER = Path(__file__).parents[3] / "docs/howto"
PAGES = ("write_a_connector.md", "write_a_sink.md", "test_a_connector.md", "connector_columns.md")
"""In this order: test_a_connector.md uses the classes of the two before it."""


def names_of_the_pages() -> dict[str, Any]:
    """Run the pages' Python, top to bottom, as one module."""
    names: dict[str, Any] = {"__name__": "write_a_connector"}
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", (FOLDER / page).read_text(encoding="utf-8"), re.DOTALL):
            exec(compile(block, page, "exec"), names)  # the page is part of this repository
    return names


NAMES = names_of_the_pages()
TESTS = [name for name in NAMES if name.startswith("test_")]


@pytest.mark.parametrize("name", TESTS)
def test_the_pages_on_writing_a_connector_hold(name: str) -> None:
    test: Callable[[], None] = NAMES[name]
    test()


def test_the_pages_have_tests() -> None:
    assert len(TESTS) == 6


def test_a_configuration_that_a_worker_would_refuse_is_refused() -> None:
    with pytest.raises(BadConfigError) as refused:
        SourceHarness(NAMES["LedgerSource"], {}).start()
    assert set(refused.value.problems) == {"topic"}


def test_more_tasks_than_allowed_and_configurations_that_are_not_text_are_refused() -> None:
    with pytest.raises(ConnectError, match=r"has generated 2 tasks, which is greater than 1, the maximum"):
        SourceHarness(MemorySource, {"name": "many", "topic": "t", "split": "2"}).start()

    class Numbers(MemorySource):
        def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
            return [{"task": 1}]

    with pytest.raises(TypeError, match="must be str"):
        SourceHarness(Numbers, {"topic": "t"}).start()


def test_every_task_of_a_connector_is_polled_and_stopped() -> None:
    with SourceHarness(MemorySource, {"name": "two", "topic": "t", "records": "150", "tasks.max": "2"}) as source:
        records = source.poll_all()
        assert len(records) == 300
        assert {record.topic for record in records} == {"t"}
        assert sorted(offset["position"] for _, offset in source.offsets.all()) == [150, 150]
    assert faults.calls["two-0.stop_task"] == faults.calls["two-1.stop_task"] == 1


def test_offsets_are_flat_json() -> None:
    offsets = MemoryOffsets()
    offsets.put({"b": 1, "a": 2}, {"n": 1})
    assert offsets.offsets([{"a": 2, "b": 1}, {"a": 3}]) == [{"n": 1}, None]
    for tree in ({1}, [1], {"x": 1}):  # as the offset topic, and Java, have it
        with pytest.raises(DataError):
            offsets.put({"a": 1}, {"n": tree})


def test_without_tolerance_the_sinks_error_is_raised_and_nothing_is_committed() -> None:
    with SinkHarness(NAMES["ShelfSink"], {"topics": "words"}) as sink:
        sink.send("words", {"word": ""})
        with pytest.raises(DataError, match="no place on the shelf"):
            sink.deliver()
        assert set(sink.commit().values()) <= {0}


class Forgetful(SinkTask):
    """Loses what it holds when it is flushed for the first time."""

    def start(self, config: Mapping[str, str]) -> None:
        self.held: list[Any] = []
        self.kept: list[Any] = []
        self.failures = 1

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.held += [record.value for record in records]

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        held, self.held = self.held, []
        if self.failures:
            self.failures -= 1
            raise ValueError("full")
        self.kept += held

    def stop(self) -> None:
        pass


class ForgetfulSink(SinkConnector):
    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def task_class(self) -> type[Any]:
        return Forgetful

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]


def test_after_a_commit_that_failed_the_same_records_are_delivered_again() -> None:
    with SinkHarness(ForgetfulSink, {"topics": "t"}) as sink:
        sink.send("t", 1)
        assert sink.deliver()
        with pytest.raises(ValueError, match="full"):
            sink.commit()
        sink.send("t", 2)
        assert sink.deliver()
        assert sink.commit() == {TopicPartition("t", 0): 2}
        assert isinstance(sink.task, Forgetful)
        assert sink.task.kept == [1, 2]


def test_a_produced_record_knows_the_offset_behind_it() -> None:
    NAMES["LEDGER"][:] = ["a", "b"]
    dropping = {
        "topic": "entries",
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "named",
        "predicates": "named",
        "predicates.named.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.named.pattern": "other",
    }
    with SourceHarness(NAMES["LedgerSource"], dropping) as source:
        assert [record.source for record in source.poll()] == [
            ({"ledger": "main"}, {"position": 1}),
            ({"ledger": "main"}, {"position": 2}),
        ]
    with SourceHarness(DatagenSourceConnector, {"topic": "t", "datagen.max.records": "3"}) as source:
        assert [record.source for record in source.poll()] == [None, None, ({"task": 0}, {"n": 3})]


class HeaderTask(SinkTask):
    """Keeps the headers of what it is given."""

    def start(self, config: Mapping[str, str]) -> None:
        self.seen: list[Any] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.seen += [(record.offset, {header.key: header.value for header in record.headers}) for record in records]

    def stop(self) -> None:
        pass


class HeaderSink(ForgetfulSink):
    def task_class(self) -> type[Any]:
        return HeaderTask


def test_sink_gets_headers_and_starts_at_the_first_offset_of_a_truncated_topic() -> None:
    with SinkHarness(HeaderSink, {"topics": "t"}) as sink:
        sink.topics.append([{"topic": "t", "partition": 0, "offset": 40, "value": b"1"}])
        sink.send("t", 2, headers=[("trace", b"7")])
        sink.topics.append([{"topic": "t", "partition": 0, "offset": 44, "value": b"3"}])
        assert sink.deliver()
        assert isinstance(sink.task, HeaderTask)
        assert sink.task.seen == [(40, {}), (41, {"trace": 7}), (44, {})]
        assert sink.commit() == {TopicPartition("t", 0): 45}
