"""A connector's own offset topic counts; the worker's gets a copy, but none once the task may have moved."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics.offset_store import OffsetStore
from tests.contract.compacted_log_contract import until

FILE = {"filename": "data.txt"}
CONFIG = StoredConfig({"name": "c", "offsets.storage.topic": "own"})


class Lab:
    """The worker's topic, and connectors' own ones by name."""

    def __init__(self, configs: Mapping[str, StoredConfig]) -> None:
        self.common_topic = MemoryLogTopic("common")
        self.own_topics: dict[str, MemoryLogTopic] = {}
        self.opened: list[dict[str, str]] = []
        self.closed: list[str] = []
        self.common = OffsetStore(MemoryCompactedLog(self.common_topic, threaded=False))
        self.common.start()
        self.offsets = SourceOffsetStores(
            self.common, worker_settings(), self._open, configs.get, lambda config: config
        )

    def _open(self, topic: str, config: Mapping[str, str]) -> OffsetStore:
        self.opened.append(dict(config))
        log = MemoryCompactedLog(self.own_topics.setdefault(topic, MemoryLogTopic(topic)), threaded=False)
        stop, log.stop = log.stop, lambda: (self.closed.append(topic), stop())[1]  # type: ignore[method-assign]
        return OffsetStore(log)


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


def test_offsets_are_pending_until_the_copy_was_tried() -> None:
    lab, told = Lab({"c": CONFIG}), list[Any]()
    lab.offsets.open("c", CONFIG)
    both = [(FILE, {"position": 1}), ({"filename": "b"}, {"position": 2})]
    lab.offsets.put("c", both, lambda error: told.append(error or values(lab.common_topic)))
    assert told == [[b'{"position":1}', b'{"position":2}']]


def own(name: str, topic: str = "own", **overrides: str) -> StoredConfig:
    settings = {f"producer.override.{key.replace('_', '.')}": value for key, value in overrides.items()}
    return StoredConfig({"name": name, "offsets.storage.topic": topic, **settings})


def test_connectors_share_a_store_only_with_the_same_credentials() -> None:
    configs = {"a": own("a"), "b": own("b", sasl_jaas_config="b's"), "c": own("c")}
    lab = Lab(configs)
    stores = {name: lab.offsets.open(name, config) for name, config in configs.items()}
    assert stores["a"] is stores["c"]
    assert stores["a"] is not stores["b"]
    assert [config["name"] for config in lab.opened] == ["a", "b"]


def test_an_unreachable_cluster_delays_no_other() -> None:
    configs = {"away": own("away", bootstrap_servers="away:9092"), "here": own("here")}
    lab, asked, released = Lab(configs), threading.Event(), threading.Event()
    opened = lab._open

    def slow(topic: str, config: Mapping[str, str]) -> OffsetStore:
        if config["name"] == "away":
            asked.set()
            assert released.wait(10)
        return opened(topic, config)

    lab.offsets = SourceOffsetStores(lab.common, worker_settings(), slow, configs.get, lambda config: config)
    waiting = threading.Thread(target=lambda: lab.offsets.open("away", configs["away"]), daemon=True)
    waiting.start()
    assert asked.wait(10)
    other = threading.Thread(target=lambda: lab.offsets.open("here", configs["here"]), daemon=True)
    other.start()
    other.join(5)
    assert not other.is_alive()
    released.set()
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_store_is_closed_when_its_last_connector_is_gone_or_has_another_one() -> None:
    configs = {"a": own("a", "first"), "b": own("b", "first"), "c": own("c", "third")}
    lab = Lab(configs)
    for name, config in configs.items():
        lab.offsets.open(name, config)
    lab.offsets.open("a", own("a", "second"))
    assert lab.closed == []  # b has it still
    del configs["b"]
    lab.offsets.open("c", StoredConfig({"name": "c"}))
    until(lambda: sorted(lab.closed) == ["first", "third"])
    assert lab.offsets.open("c", own("c", "first")) is not None  # opened anew
    assert [config["name"] for config in lab.opened] == ["a", "c", "a", "c"]
