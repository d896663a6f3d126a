"""``/health`` answers at once whatever else a listener does. Runs while no other test does: the limits are seconds."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable

from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.runtime.values import InternalKey
from tests.integration.rest.clients import connected, health_s, until_closed
from tests.unit.rest.fake_herder import FakeHerder

HEALTH_S = 1.0  # or a third of what the others take, on a machine that is busy


def test_health_answers_within_a_second_next_to_a_thousand_idle_connections(start: Callable[..., RestServer]) -> None:
    server = start()
    idle = [connected(server) for _ in range(1_010)]
    assert min(health_s(server) for _ in range(5)) < HEALTH_S
    for client in idle:
        client.close()


def test_health_answers_within_a_second_next_to_large_unsigned_bodies(
    start: Callable[..., RestServer], herder: FakeHerder
) -> None:
    herder.key = InternalKey(required=True, key=b"k" * 32)
    server, size, over = start(), 63 * 1024 * 1024, threading.Event()
    body, statuses = b" " * size, list[int]()

    def send() -> None:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        client.request("POST", "/connectors/src/tasks", body, {"Content-Type": "application/json"})
        statuses.append(client.getresponse().status)
        client.close()

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    begun_s, worst_s = time.monotonic(), 0.0
    while any(sender.is_alive() for sender in senders):
        worst_s = max(worst_s, health_s(server))
        over.wait(0.02)
    assert statuses == [400] * 8
    assert worst_s < max(HEALTH_S, (time.monotonic() - begun_s) / 3)


def test_health_answers_within_a_second_next_to_a_thousand_lists_of_connectors(
    start: Callable[..., RestServer], herder: FakeHerder
) -> None:
    names = [f"c{number:04}" for number in range(300)]
    herder.list_connectors = lambda: tuple(names)  # type: ignore[method-assign]
    server, head = (
        start(),
        b"GET /connectors?expand=status&expand=info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    )
    clients = [connected(server) for _ in range(1_000)]
    lengths: list[int] = []

    def read() -> None:
        for client in clients:
            lengths.append(len(until_closed(client)))

    for client in clients:
        client.sendall(head)
    reader = threading.Thread(target=read)
    reader.start()
    begun_s, worst_s = time.monotonic(), health_s(server)
    while reader.is_alive():
        worst_s = max(worst_s, health_s(server))
        reader.join(0.05)
    took_s = time.monotonic() - begun_s
    for client in clients:
        client.close()
    assert len(lengths) == 1_000
    assert set(lengths) == {lengths[0]}
    assert worst_s < max(HEALTH_S, took_s / 3)
