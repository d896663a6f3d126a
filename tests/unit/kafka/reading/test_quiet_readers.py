"""A reader waits for its sockets without the loop only when the loop has nothing left to do."""

from __future__ import annotations

import time

import pytest

from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from spark_connect_rt.kafka.reading.fetcher import Fetcher


def test_bytes_that_the_loop_has_taken_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fetcher, "only_waits", lambda _: True)
    consumer = FetchConsumer({"bootstrap.servers": "127.0.0.1:1"})
    consumer._ran_s = time.monotonic()
    soon_s = time.monotonic() + 0.001
    assert consumer._is_quiet(soon_s)
    consumer._loop.call_soon(int)  # as at the loop's last step: the next one hands on what was received
    assert not consumer._is_quiet(soon_s)
    consumer.close()
