"""Producers of a process share one loop thread; it ends with the last of them."""

from __future__ import annotations

import asyncio
import threading

from spark_connect_rt.kafka.writing import shared_loop
from spark_connect_rt.testing.memory_executor_clients import wait_until


def thread_of(loop: asyncio.AbstractEventLoop) -> threading.Thread:
    async def here() -> threading.Thread:
        return threading.current_thread()

    return asyncio.run_coroutine_threadsafe(here(), loop).result(5)


def test_users_share_a_thread_until_the_last_one_leaves() -> None:
    loop = shared_loop.enter()
    assert shared_loop.enter() is loop
    thread = thread_of(loop)
    shared_loop.leave()
    assert thread_of(loop) is thread
    shared_loop.leave()
    thread.join(5)
    assert not thread.is_alive()
    assert loop.is_closed()


def test_who_comes_after_the_last_one_left_has_a_new_thread() -> None:
    first = shared_loop.enter()
    shared_loop.leave()
    second = shared_loop.enter()
    assert second is not first
    assert thread_of(second).is_alive()
    shared_loop.leave()


def test_what_is_left_there_is_cancelled_at_the_end() -> None:
    loop, cancelled = shared_loop.enter(), threading.Event()

    async def hang() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    asyncio.run_coroutine_threadsafe(hang(), loop)
    thread_of(loop)  # it has begun
    shared_loop.leave()
    assert cancelled.wait(5)
    wait_until(loop.is_closed)
