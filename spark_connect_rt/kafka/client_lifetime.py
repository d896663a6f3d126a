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
from spark_connect_rt.kafka.lost_brokers import CallWatch, is_unanswered, warn_replaced

C = TypeVar("C")


class _Lease(Generic[C]):
    """One client of a SharedClient, and how many threads use it."""

    __slots__ = ("client", "retired", "users")

    def __init__(self, client: C) -> None:
        self.client = client
        self.users = 0
        self.retired = False


class SharedClient(Generic[C]):
    """One client for any number of threads: made when it is first used, closed by the last to leave it.

    ``renew`` has a new client made for later users. Current users keep the old one, and the last of them closes it.

    Example:
        >>> shared = SharedClient("admin client", lambda: make_admin(properties), close_admin)
        >>> with shared.use() as client:
        ...     client.list_topics(timeout=5)
        >>> shared.close()
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], C],
        close: Callable[[C], None],
        has_broker: Callable[[C], bool] | None = None,
    ) -> None:
        """``make`` and ``close`` are called by the threads that use it; ``name`` is for the message after its end.

        With ``has_broker`` a client whose calls are not answered for some seconds is asked whether a broker answers it
        at all. If none does, a new client replaces it (``lost_brokers``).
        """
        self._name, self._make, self._close = name, make, close
        self._has_broker = has_broker
        self._watch = CallWatch()
        self._lock = threading.Lock()
        self._lease: _Lease[C] | None = None
        self._ended = False

    def make_now(self) -> None:
        """Make the client before its first use. Raises what ``make`` raises."""
        with self._lock:
            self._lease = self._lease or _Lease(self._make())

    @contextlib.contextmanager
    def use(self) -> Iterator[C]:
        """Give the client; until this context ends it is not closed. Raises ConnectError: ``close`` was called."""
        with self._lock:
            if self._ended:
                raise ConnectError(f"{self._name} is closed")
            if self._lease is None:
                self._lease = _Lease(self._make())
            lease = self._lease
            lease.users += 1
        begun_s = self._watch.now()
        try:
            yield lease.client
        except Exception as error:
            if is_unanswered(error):
                self._note_failure(lease, begun_s)
            raise
        else:
            self._note_answer(lease)
        finally:
            self._leave(lease)

    def renew(self) -> None:
        """Have the next user get a new client. The old one is closed when the last of its users has left it."""
        with self._lock:
            lease, self._lease = self._lease, None
            unused = self._given_up(lease)
        if unused is not None:
            self._close(unused.client)

    def close(self) -> None:
        """Close the client now, or when the calls in progress have ended. May be called twice. Never waits."""
        with self._lock:
            self._ended = True
        self.renew()

    def _leave(self, lease: _Lease[C]) -> None:
        with self._lock:
            lease.users -= 1
            is_last = lease.retired and not lease.users
        if is_last:
            self._close(lease.client)

    def _given_up(self, lease: _Lease[C] | None) -> _Lease[C] | None:
        """Retire a client; return it if it has no user, so that the caller closes it."""
        if lease is None:
            return None
        lease.retired = True
        return None if lease.users else lease

    def _note_answer(self, lease: _Lease[C]) -> None:
        with self._lock:
            if lease is self._lease:
                self._watch.succeeded()

    def _note_failure(self, lease: _Lease[C], begun_s: float) -> None:
        """Replace the client if none of its brokers answers. The caller still uses it, and closes it if it is last."""
        with self._lock:
            if self._has_broker is None or lease is not self._lease or not self._watch.failed(begun_s):
                return
        if self._has_broker(lease.client):  # slow: without the lock
            self._note_answer(lease)
            return
        with self._lock:
            if lease is not self._lease:
                return
            self._watch.replaced()
            self._lease, lease.retired = None, True
        warn_replaced(self._name)


def close_admin(client: Any) -> None:
    """Destroy an admin client on this thread. No call of it may be in progress, none may follow."""
    client.poll(0)  # hands over what is left of the library's log
    client.__exit__(None, None, None)  # its one way to say so


def close_producer(client: Any, flush_s: float = 1.0) -> None:
    """Give up what a producer has not sent, have each record answered, and destroy it on this thread.

    No call of it may be in progress, none may follow. ``flush_s`` limits the wait for the answers; the client's own
    ``close`` waits forever while a record is unanswered.
    """
    with contextlib.suppress(KafkaException):
        client.purge()
        client.flush(flush_s)
    with warnings.catch_warnings():
        # The library warns that a fenced producer could not be flushed. Its owner knows that it was fenced.
        warnings.simplefilter("ignore", RuntimeWarning)
        client.close()
