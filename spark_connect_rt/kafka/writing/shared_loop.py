"""One thread with an event loop for all producers of a process: many small sends share its turns.

Owns the thread's life: it begins with the first user and ends with the last. Must not: know what runs there.
"""

from __future__ import annotations

import asyncio
import threading

_lock = threading.Lock()
_users = 0
_running: _LoopThread | None = None


class _LoopThread:
    """An event loop and its thread."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.loop = self._runner.get_loop()
        self._over = asyncio.Event()
        threading.Thread(target=self._run, name="column-producers", daemon=True).start()

    def _run(self) -> None:
        with self._runner:  # cancels what is left
            self._runner.run(self._until_over())

    async def _until_over(self) -> None:
        await self._over.wait()

    def end(self) -> None:
        """End the thread; does not wait."""
        self.loop.call_soon_threadsafe(self._over.set)


def enter() -> asyncio.AbstractEventLoop:
    """Return the loop, which runs until as many ``leave`` as entered. Any thread."""
    global _users, _running
    with _lock:
        if _running is None:
            _running = _LoopThread()
        _users += 1
        return _running.loop


def leave() -> None:
    """Need the loop no more. Any thread but the loop's own."""
    global _users, _running
    with _lock:
        _users -= 1
        if not _users and _running is not None:
            _running.end()
            _running = None
