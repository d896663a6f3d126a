"""A connector's own offset topic counts; the worker's gets a copy, but none once the task may have moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.runtime.worker.own_offsets import OwnOffsets
from spark_connect_rt.stores.offset_store import OffsetStore
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic

FILE = {"filename": "data.txt"}
CONFIG = {"name": "c", "offsets.storage.topic": "own"}


class Lab:
    """The worker's topic, and connectors' own ones by name."""

    def __init__(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        self.common_topic = MemoryLogTopic("common")
        self.own_topics: dict[str, MemoryLogTopic] = {}
        self.opened: list[dict[str, str]] = []
        self.common = OffsetStore(MemoryCompactedLog(self.common_topic, threaded=False))
        self.common.start()
        self.offsets = OwnOffsets(self.common, {}, self._open, configs.get, lambda config: config)

    def _open(self, topic: str, config: Mapping[str, str]) -> OffsetStore:
        self.opened.append(dict(config))
        log = self.own_topics.setdefault(topic, MemoryLogTopic(topic))
        return OffsetStore(MemoryCompactedLog(log, threaded=False))


def values(topic: MemoryLogTopic) -> list[Any]:
    return [record.value for record in topic.records()]


def test_a_copy_that_failed_is_not_sent_any_more() -> None:
    lab, told = Lab({"c": CONFIG}), list[Exception | None]()
    lab.offsets.open("c", CONFIG)
    lab.common_topic.fail_next_append(RetriableError("a hiccup"))
    lab.offsets.put("c", [(FILE, {"position": 1})], told.append, until_durable=True)
    assert (told, values(lab.own_topics["own"])) == ([None], [b'{"position":1}'])
    lab.common.put("other", [(FILE, {"position": 7})])
    assert values(lab.common_topic) == [b'{"position":7}']


def test_the_offsets_are_under_way_until_the_copy_was_tried() -> None:
    lab, told = Lab({"c": CONFIG}), list[Any]()
    lab.offsets.open("c", CONFIG)
    both = [(FILE, {"position": 1}), ({"filename": "b"}, {"position": 2})]
    lab.offsets.put("c", both, lambda error: told.append(error or values(lab.common_topic)))
    assert told == [[b'{"position":1}', b'{"position":2}']]
