"""A broker that is a script, in the place of every broker that a FetchConsumer connects to."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.kafka.reading import fetch_consumer
from tests.unit.kafka.fake_broker import FakeBroker, FakeConnection


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    broker = FakeBroker()

    async def connect(*_: Any, **__: Any) -> FakeConnection:
        return FakeConnection(broker)

    monkeypatch.setattr(fetch_consumer, "connect_buffered", connect)
    return broker
