"""Kafka records by the Arrow batch, in transactions (KIP-618), laid out as record batches without a loop over records.

Owns: what the calls of a ``TransactionalProducer`` mean to the thread that sends. After a failure that is no fence the
open transaction can only be aborted: sending starts over then, with a new epoch (KIP-360), because nobody knows
which of the records arrived. Must not: decide where transactions end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from spark_connect_rt.errors import ConnectError, FencedError, TimedOutError
from spark_connect_rt.kafka.writing.column_producer import CLOSE_LIMIT_S, ColumnProducer
from spark_connect_rt.kafka.writing.column_sender import ColumnSender
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.transaction_coordinator import TransactionCoordinator
from spark_connect_rt.kafka.writing.transactional_sender import TransactionalSender

_LEAST_LIMIT_MS = 100  # of a question before which the time was used up
_SENT_LIMIT_MS = 5_000  # for what is under way when its transaction is aborted


class ColumnTransactionalProducer(ColumnProducer):
    """A TransactionalProducer on aiokafka's connections. One thread; another one is its own."""

    _sender: TransactionalSender

    def __init__(self, settings: ColumnSettings) -> None:
        """Take what ``column_settings`` returned of properties with a ``transactional.id``."""
        assert settings.transaction is not None
        self._id = settings.transaction.id
        self._coordinator = TransactionCoordinator(self._id, settings.transaction.timeout_ms, settings.retry_backoff_ms)
        super().__init__(settings)

    def _new_sender(self, settings: ColumnSettings) -> ColumnSender:
        return TransactionalSender(settings, self._coordinator, self._delivered, self._dropped)

    def claim(self, timeout_ms: int) -> None:
        """See ``kafka.executor_clients.TransactionalProducer.claim``."""
        self._ask(self._sender.claim, timeout_ms, "claiming")

    def begin(self) -> None:
        """See ``kafka.executor_clients.TransactionalProducer.begin``. The first record opens it at the broker."""
        with self._changed:
            if self._failure is not None:
                raise self._failure

    def commit(self, timeout_ms: int) -> None:
        """See ``kafka.executor_clients.TransactionalProducer.commit``."""
        end_s = time.monotonic() + timeout_ms / 1000
        if not self._wait(self._is_idle, timeout_ms, hurried=False):
            raise TimedOutError(f"{self._records} records not acknowledged in {timeout_ms} ms{self._why()}")
        left_ms = int(1000 * (end_s - time.monotonic()))
        self._ask(lambda: self._sender.end(committed=True), left_ms, "committing a transaction of")

    def abort(self, timeout_ms: int) -> None:
        """See ``kafka.executor_clients.TransactionalProducer.abort``."""
        end_s = time.monotonic() + timeout_ms / 1000
        if isinstance(self._failure, FencedError):
            raise self._failure
        settled = self._nothing_is_under_way(min(timeout_ms, _SENT_LIMIT_MS))
        if not settled:
            self._start_over()
        left_ms = int(1000 * (end_s - time.monotonic()))
        end = (lambda: self._sender.end(committed=False)) if settled else self._sender.abort_and_renew
        self._ask(end, left_ms, "aborting a transaction of")

    def _is_idle(self) -> bool:
        return not self._records

    def _nothing_is_under_way(self, limit_ms: int) -> bool:
        """Drop what waits, and wait for the answers to what was sent; return whether all of it is known."""
        sender = self._sender
        sender.dropping = True
        try:
            return self._wait(self._is_idle, limit_ms, hurried=False)
        except ConnectError:
            return False
        finally:
            sender.dropping = False

    def _start_over(self) -> None:
        """Have another thread send, for a transaction that nothing was sent of. Raises TimedOutError."""
        self.close()
        if self._thread.is_alive():
            raise TimedOutError(f"{self._id}: the thread that sends did not end in {CLOSE_LIMIT_S:.0f} s")
        with self._changed:
            self._failure = None
            self._records = self._bytes = 0
        self._start(self._new_sender(self._settings))

    def _ask(self, make: Callable[[], Coroutine[Any, Any, None]], limit_ms: int, doing: str) -> None:
        """Run a question to the coordinator on the loop. Raises its error; FencedError for good; TimedOutError."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            call = asyncio.run_coroutine_threadsafe(make(), self._loop)  # it is closed only behind a failure
        call.add_done_callback(self._notify)
        if not self._wait(call.done, max(limit_ms, _LEAST_LIMIT_MS), hurried=False):
            call.cancel()
            last = self._coordinator.last_error or self._sender.last_error
            raise TimedOutError(f"{doing} {self._id}: no answer in time; the client's last error: {last or None}")
        try:
            call.result()
        except FencedError as error:
            self._fail(error)
            raise

    def _notify(self, _call: Any) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- the loop's thread

    def _dropped(self, records: int, size: int) -> None:
        with self._changed:
            self._records -= records
            self._bytes -= size
            self._changed.notify_all()
