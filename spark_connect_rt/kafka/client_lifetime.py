"""When clients of librdkafka are closed, and by whom.

A client that nothing refers to any more is destroyed by whatever drops it last. That may be Python's cyclic collector,
in any thread: one of the client's own, which then waits for itself, or one that holds a lock which a callback wants.
So every client has one owner, which closes it, and nothing that a client calls back refers to the owner of the client.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaException

from spark_connect_rt.errors import ConnectError

C = TypeVar("C")


class SharedClient(Generic[C]):
    """One client for any number of threads: made when it is first used, closed by the last to leave it.

    Example:
        >>> shared = SharedClient("admin client", lambda: make_admin(properties), close_admin)
        >>> with shared.use() as client:
        ...     client.list_topics(timeout=5)
        >>> shared.close()
    """

    def __init__(self, name: str, make: Callable[[], C], close: Callable[[C], None]) -> None:
        """``make`` and ``close`` are called by the threads that use it; ``name`` is for the message after its end."""
        self._name, self._make, self._close = name, make, close
        self._lock = threading.Lock()
        self._client: C | None = None
        self._users = 0
        self._ended = False

    @contextlib.contextmanager
    def use(self) -> Iterator[C]:
        """Give the client; until this context ends it is not closed. Raises ConnectError: ``close`` was called."""
        with self._lock:
            if self._ended:
                raise ConnectError(f"{self._name} is closed")
            if self._client is None:
                self._client = self._make()
            client = self._client
            self._users += 1
        try:
            yield client
        finally:
            with self._lock:
                self._users -= 1
                unused = self._given_up()
            if unused is not None:
                self._close(unused)

    def close(self) -> None:
        """Close the client now, or when the calls that are under way have ended. May be called twice. Never waits."""
        with self._lock:
            self._ended = True
            unused = self._given_up()
        if unused is not None:
            self._close(unused)

    def _given_up(self) -> C | None:
        """Return the client if it is time to close it, once."""
        if not self._ended or self._users:
            return None
        client, self._client = self._client, None
        return client


def close_admin(client: Any) -> None:
    """Destroy an admin client on this thread. No call of it may be under way, none may follow."""
    client.poll(0)  # hands over what is left of the library's log
    client.__exit__(None, None, None)  # its one way to say so


def close_producer(client: Any, flush_s: float = 1.0) -> None:
    """Give up what a producer has not sent, have each record answered, and destroy it on this thread.

    No call of it may be under way, none may follow. ``flush_s`` limits the wait for the answers; the client's own
    ``close`` waits for ever while a record is unanswered.
    """
    with contextlib.suppress(KafkaException):
        client.purge()
        client.flush(flush_s)
    with warnings.catch_warnings():
        # The library warns that a fenced producer could not be flushed. Its owner knows that it was fenced.
        warnings.simplefilter("ignore", RuntimeWarning)
        client.close()
