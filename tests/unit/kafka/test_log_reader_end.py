"""The reader of an internal topic that ends by an error ends the worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spark_connect_rt.base.supervision import SupervisedPart
from spark_connect_rt.config.client_properties import LogClientProperties
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.kafka.client_lifetime import SharedClient
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog


def test_a_reader_that_fails_is_reported() -> None:
    heard: list[tuple[SupervisedPart, str]] = []
    nobody: Any = None
    spec = TopicSpec("statuses", 1)
    clients = LogClientProperties({}, {})
    log = KafkaCompactedLog(spec, nobody, clients, report=lambda part, why: heard.append((part, str(why))))

    def fail(_: object) -> None:
        raise MemoryError("nothing left")

    log._producers = SharedClient("log", lambda: None, lambda _: None)
    log._consumer = SimpleNamespace(assign=fail, close=lambda: None)
    log._run()
    assert heard == [(SupervisedPart.LOG, "topic statuses: MemoryError: nothing left")]
