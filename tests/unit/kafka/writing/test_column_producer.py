"""What ended the sending thread is what every later call says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.config.client_properties import source_producer_properties
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.writing import column_producer
from spark_connect_rt.kafka.writing.column_producer import ColumnProducer
from spark_connect_rt.kafka.writing.column_settings import column_settings
from spark_connect_rt.testing.worker_settings import worker_settings


class FailingSender:
    """A ColumnSender that ends by an error when told."""

    fails = threading.Event()
    last_error = ""

    def __init__(self, settings: Any, delivered: Callable[..., None]) -> None: ...

    async def run(self) -> None:
        while not self.fails.is_set():
            await asyncio.sleep(0.001)
        raise ConnectError("the brokers refuse this client")

    def put(self, produced: Any) -> None: ...


class Watched(ColumnProducer):
    """Notes whether the loop was gone when the failure was recorded."""

    closed_before_failure: bool | None = None

    def _fail(self, error: Exception) -> None:
        self.closed_before_failure = self._loop.is_closed()
        super()._fail(error)


def test_the_failure_is_known_before_the_loop_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_producer, "ColumnSender", FailingSender)
    settings = column_settings(source_producer_properties(worker_settings({"bootstrap.servers": "k:9092"}), {}, "c", 0))
    assert settings is not None
    producer = Watched(settings)
    rows = pa.record_batch({"value": pa.array([b"v"], pa.large_binary())}, metadata={"topic": "t"})
    said = threading.Event()
    assert producer.is_empty(said.set)
    producer.produce(rows)
    assert not producer.is_empty(said.set)
    assert not said.is_set()
    FailingSender.fails.set()
    assert said.wait(20), "who waits for it to be empty learns of the failure by flush"
    assert producer.is_empty(said.set)
    with pytest.raises(ConnectError, match="the brokers refuse"):
        producer.flush(5_000)
    assert producer.closed_before_failure is False
    with pytest.raises(ConnectError, match="the brokers refuse"):
        producer.produce(rows)
    producer.close()
