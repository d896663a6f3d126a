"""Clients of librdkafka have an end that somebody chose: never the cyclic collector's."""

from __future__ import annotations

import ast
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_connect_rt
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.client_lifetime import SharedClient
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
PACKAGE = Path(spark_connect_rt.__file__).parent
RACING = {"list_offsets", "delete_records"}


class Shared:
    """A client that counts."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = 0
        self.client = SharedClient("the client of t", self._make, self._close)

    def _make(self) -> str:
        self.made += 1
        return "client"

    def _close(self, client: str) -> None:
        assert client == "client"
        self.closed += 1


def test_a_shared_client_is_made_once_when_it_is_first_used() -> None:
    shared = Shared()
    assert shared.made == 0
    with shared.client.use() as first, shared.client.use() as second:
        assert first is second
    assert (shared.made, shared.closed) == (1, 0)


def test_the_last_to_leave_a_shared_client_closes_it() -> None:
    shared = Shared()
    with shared.client.use():
        with shared.client.use():
            shared.client.close()
        assert shared.closed == 0
    assert shared.closed == 1
    shared.client.close()
    assert shared.closed == 1


def test_a_shared_client_that_was_closed_is_refused_by_its_name() -> None:
    shared = Shared()
    shared.client.close()
    with pytest.raises(ConnectError, match="the client of t is closed"), shared.client.use():
        pass
    assert (shared.made, shared.closed) == (0, 0)


def test_many_threads_share_one_client_and_one_of_them_closes_it() -> None:
    shared, begun = Shared(), threading.Barrier(8)

    def use() -> None:
        begun.wait(10)
        for _ in range(200):
            with shared.client.use():
                pass

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    shared.client.close()
    assert (shared.made, shared.closed) == (1, 1)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "make",
    [
        lambda: KafkaAdmin(NOWHERE),
        lambda: MirrorAdmin(NOWHERE, 100),
        lambda: KafkaBatchProducer(NOWHERE),
        lambda: KafkaBatchProducer({**NOWHERE, "connectrt.reports": "x"}),
    ],
)
@pytest.mark.usefixtures("no_collector")
def test_client_owner_is_in_no_reference_cycle(make: Callable[[], Any]) -> None:
    owner = make()
    gone = weakref.ref(owner)
    del owner
    assert gone() is None


def test_a_closed_admin_refuses_each_question() -> None:
    admin = KafkaAdmin(NOWHERE)
    admin.close()
    admin.close()
    with pytest.raises(ConnectError, match=r"admin client of 127\.0\.0\.1:1 is closed"):
        admin.partition_count("t", 100)
    with pytest.raises(ConnectError, match=r"client for offsets of 127\.0\.0\.1:1 is closed"):
        admin.end_offsets([TopicPartition("t", 0)], 100)


def test_requests_that_race_in_librdkafka_are_made_in_one_place() -> None:
    """Offsets are asked through a consumer; deletions have a client of their own, in one module."""
    found = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if "request_timeout" in (text := path.read_text(encoding="utf-8"))  # the others are not parsed: 5 s of CPU
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RACING
        if any(keyword.arg == "request_timeout" for keyword in node.keywords)  # the library's, not a method of ours
    ]
    assert found == ["kafka/admin.py"]
