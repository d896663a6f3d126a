"""What bounds a listener, without sockets: connections, turns, and what is said when no more can be accepted."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from spark_connect_rt.rest.connectors import SharedAnswers
from spark_connect_rt.rest.listening.connections import EXTRA_MAX, Connections, connections_max
from spark_connect_rt.rest.listening.event_driven_server import LOG_EVERY_S, AcceptErrors, ReservedDescriptors
from spark_connect_rt.rest.listening.turns import IN_A_ROUND, InTurns, LoopTurns


class Client:
    """A connection."""

    def __init__(self, idle: bool = True, late: bool = False) -> None:
        self.idle, self.late, self.ended = idle, late, False

    def is_idle(self) -> bool:
        return self.idle

    def is_late(self, now_s: float) -> bool:
        return self.late

    def end(self) -> None:
        self.ended = True


def test_at_the_limit_the_connection_that_was_idle_longest_goes() -> None:
    connections, busy, first, second = Connections(3), Client(idle=False), Client(), Client()
    for client in (busy, first, second):
        assert connections.opened(client)
    connections.active(first)
    assert connections.opened(Client())
    assert (busy.ended, first.ended, second.ended, len(connections)) == (False, False, True, 3)


def test_while_all_are_busy_a_few_more_are_taken_and_the_rest_closed() -> None:
    connections = Connections(2)
    busy = [Client(idle=False) for _ in range(2 + EXTRA_MAX)]
    assert [connections.opened(client) for client in busy] == [True, True] + [False] * EXTRA_MAX
    too_many = Client(idle=False)
    assert not connections.opened(too_many)
    assert (too_many.ended, any(client.ended for client in busy), len(connections)) == (True, False, 2 + EXTRA_MAX)


def test_a_late_client_is_closed_and_a_closed_one_forgotten() -> None:
    connections, late, other = Connections(), Client(idle=False, late=True), Client()
    connections.opened(late)
    connections.opened(other)
    assert (connections.close_late(0.0), late.ended, len(connections)) == (1, True, 1)
    connections.closed(other)
    connections.active(other)  # its last bytes came together with its end
    assert len(connections) == 0


def test_after_a_shortage_half_as_many_connections_are_taken_for_a_minute() -> None:
    connections = Connections(100)
    clients = [Client() for _ in range(40)]
    for client in clients:
        connections.opened(client)
    for now_s in (0.0, 1.0):
        connections.lower(now_s)
        assert (len(connections), [client.ended for client in clients]) == (20, [True] * 20 + [False] * 20)
    assert connections.opened(Client())
    assert (len(connections), clients[20].ended) == (20, True)
    connections.close_late(60.9)
    connections.opened(Client())
    assert len(connections) == 20
    connections.close_late(61.0)
    connections.opened(Client())
    assert len(connections) == 21


@pytest.mark.parametrize(
    ("wanted", "descriptors", "listeners", "most"),
    [(1_024, 20_000, 1, 1_024), (1_024, 1_024, 1, 512), (1_024, 512, 2, 128), (8, 20_000, 1, 8), (1_024, 0, 0, 1)],
)
def test_connections_take_at_most_half_of_the_descriptors(
    wanted: int, descriptors: int, listeners: int, most: int
) -> None:
    assert connections_max(wanted, descriptors, listeners) == most


def test_turns_come_in_order_and_a_few_in_each_round_of_the_loop() -> None:
    async def run() -> list[int]:
        turns, rounds, order = LoopTurns(), [0], list[tuple[int, int]]()

        async def count() -> None:
            while True:
                rounds[0] += 1
                await asyncio.sleep(0)

        async def request(number: int) -> None:
            await turns.turn()
            order.append((number, rounds[0]))

        counting = asyncio.ensure_future(count())
        cancelled = [asyncio.ensure_future(request(1_000 + number)) for number in range(IN_A_ROUND)]
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(request(number)) for number in range(5 * IN_A_ROUND)]
        await asyncio.gather(*waiting, *cancelled)
        counting.cancel()
        in_order = [number for number, _ in order if number < 1_000]
        assert in_order == sorted(in_order)
        return [sum(turn == of for _, turn in order) for of in range(rounds[0] + 1)]

    assert max(asyncio.run(run())) <= IN_A_ROUND


def test_a_cancelled_request_takes_no_turn() -> None:
    async def run() -> None:
        turns = LoopTurns()
        waiting = [asyncio.ensure_future(turns.turn()) for _ in range(4 * IN_A_ROUND)]
        await asyncio.sleep(0)
        for task in waiting[IN_A_ROUND : 3 * IN_A_ROUND]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)

    asyncio.run(run())


def test_health_does_not_wait() -> None:
    async def run() -> list[str]:
        begun: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.append(scope["path"])

        in_turns = InTurns(app)
        paths = ["/connectors"] * (IN_A_ROUND + 5) + ["/health/live"]
        asked = [in_turns({"type": "http", "path": path}, None, None) for path in paths]
        await asyncio.gather(*asked)
        return begun

    assert asyncio.run(run()).index("/health/live") == IN_A_ROUND


def test_one_answer_serves_all_who_asked_before_it_was_begun() -> None:
    async def run() -> tuple[list[bytes], int]:
        shared, made = SharedAnswers(), [0]
        begun, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def make() -> bytes:
            made[0] += 1
            if made[0] == 1:
                loop.call_soon_threadsafe(begun.set)
                asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
            return b"%d" % made[0]

        first = asyncio.ensure_future(shared.answer("a", make))
        await begun.wait()
        others = [asyncio.ensure_future(shared.answer("a", make)) for _ in range(100)]
        await asyncio.sleep(0)
        others[0].cancel()
        go_on.set()
        found = await asyncio.gather(first, *others[1:])
        return found, made[0]

    found, made = asyncio.run(run())
    assert (found[0], set(found[1:]), made) == (b"1", {b"2"}, 2)


def test_an_answer_that_fails_fails_for_all_and_not_for_the_next() -> None:
    async def run() -> None:
        shared = SharedAnswers()

        def fail() -> bytes:
            raise LookupError("gone")

        found = await asyncio.gather(*(shared.answer("a", fail) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in found] == ["gone"] * 3
        assert await shared.answer("a", lambda: b"there") == b"there"

    asyncio.run(run())


def test_a_shortage_is_logged_once_a_minute_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now_s, lowered = [0.0], list[float]()
    reserved = ReservedDescriptors(2)
    reserved.hold()
    handler = AcceptErrors(reserved, lowered.append, lambda: now_s[0])
    loop = asyncio.new_event_loop()
    context = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
    }
    with caplog.at_level(logging.WARNING):
        for _ in range(500):
            handler(loop, context)
        now_s[0] = LOG_EVERY_S
        handler(loop, context)
        handler(loop, {"message": "a task failed", "exception": OSError(errno.EMFILE, "of something else")})
    loop.close()
    accept = [record for record in caplog.records if record.name != "asyncio"]
    assert [record.exc_info for record in accept] == [None, None]
    assert "Too many open files (500 attempts" in accept[1].getMessage()
    assert len(caplog.records) == 3
    assert lowered == [0.0] * 500 + [LOG_EVERY_S]
    assert reserved.release() == 0
