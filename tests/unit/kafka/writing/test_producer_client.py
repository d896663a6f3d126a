"""A producer's client ends when it is closed, although aiokafka suppresses the cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from spark_connect_rt.kafka.writing import producer_client
from spark_connect_rt.kafka.writing.column_settings import column_settings
from spark_connect_rt.kafka.writing.producer_client import ProducerClient


class Connection:
    """Stands for aiokafka's producer and its client. Its close suppresses a cancellation, as aiokafka's does."""

    made: list[Connection]
    connects = False

    def __init__(self, **_: Any) -> None:
        self.client = self
        self.starting, self.closing, self.go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.is_closed = False
        self.made.append(self)

    async def start(self) -> None:
        self.starting.set()
        if not self.connects:
            raise KafkaConnectionError
        with contextlib.suppress(asyncio.CancelledError):
            await self.go_on.wait()

    async def stop(self) -> None:
        """Nothing was sent."""

    async def close(self) -> None:
        self.is_closed = True
        self.closing.set()
        with contextlib.suppress(asyncio.CancelledError):
            await self.go_on.wait()


@pytest.mark.parametrize("connects", [False, True])
def test_connecting_ends_with_close_although_the_cancellation_is_suppressed(
    monkeypatch: pytest.MonkeyPatch, connects: bool
) -> None:
    Connection.made, Connection.connects = [], connects
    monkeypatch.setattr(producer_client, "AIOKafkaProducer", Connection)
    monkeypatch.setattr(producer_client, "RECONNECT_S", 0.01)
    settings = column_settings({"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": "false"})
    assert settings is not None

    async def close_while_it_connects() -> None:
        client = ProducerClient(settings)
        waiting = asyncio.create_task(client.connected())
        while not Connection.made:
            await asyncio.sleep(0)
        (connection,) = Connection.made
        await (connection.starting if connects else connection.closing).wait()
        waiting.cancel()
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0.05)
        connection.go_on.set()
        await asyncio.wait_for(closing, 5)

    asyncio.run(close_while_it_connects())
    assert [connection.is_closed for connection in Connection.made] == [True]
