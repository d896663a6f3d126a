"""Produce requests are aiokafka's, byte for byte, though their batches are put together once."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from aiokafka.producer import sender
from aiokafka.protocol import produce

from spark_connect_rt.kafka.aiokafka_parts import ProduceRequest

STRUCTS: list[Any] = [getattr(produce, f"ProduceRequest_v{version}") for version in range(8)]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda request: request.__name__)
@pytest.mark.parametrize("topics", [[], [("a", [(0, b"batch"), (3, b"")]), ("b", [])], [("c", [(1, None)])]], ids=len)
@pytest.mark.parametrize("transaction", [None, "t-1"])
def test_the_bytes_are_aiokafkas(struct: Any, topics: Any, transaction: str | None) -> None:
    if transaction and struct.API_VERSION < 3:
        return
    given = (transaction, -1, 30_000, topics)
    assert ProduceRequest(*given).build(struct).encode() == produce.ProduceRequest(*given).build(struct).encode()


def test_a_request_that_is_over_keeps_no_batch_until_garbage_is_looked_for() -> None:
    batch = bytes(1000)
    held = sys.getrefcount(batch)
    gc.disable()
    try:
        ProduceRequest(None, -1, 30_000, [("a", [(0, batch)])]).build(STRUCTS[-1]).encode()
        assert sys.getrefcount(batch) == held
    finally:
        gc.enable()


def test_aiokafkas_producer_makes_them() -> None:
    assert sender.ProduceRequest is ProduceRequest
    assert len(STRUCTS) == 8
