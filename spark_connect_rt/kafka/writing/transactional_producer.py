"""Kafka records by the batch, in transactions (KIP-618).

Owns: one transactional producer, and the answer to "was it fenced": librdkafka says so in one of several calls, later
ones only that the producer is broken. Must not: decide where transactions end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.errors import ConnectError, FencedError, TimedOutError
from spark_connect_rt.kafka.error_mapping import connect_error, is_code, kafka_error
from spark_connect_rt.kafka.executor_clients import ClientLostError
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.kafka.writing.transaction_coordinator import fenced_error

CALL_LIMIT_S = 1.0  # of one call of several that wait for the same
_SENT_LIMIT_MS = 5_000  # for what is aborted to go out; without a broker the abort itself has to wait
_FENCING = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID")


class KafkaTransactionalProducer(KafkaBatchProducer):
    """A TransactionalProducer on confluent-kafka. One thread."""

    def __init__(self, config: Mapping[str, str]) -> None:
        """Take Java properties, ``transactional.id`` among them."""
        self._id = config["transactional.id"]
        self._fenced_by: str | None = None
        self._committed = 0  # records of earlier transactions whose metadata waits to be taken
        super().__init__(config)

    def claim(self, timeout_ms: int) -> None:
        """Fence earlier producers of this id. Raises FencedError, TimedOutError, ConnectError."""
        self._patiently(self._producer.init_transactions, timeout_ms, "claiming")

    def begin(self) -> None:
        """Open a transaction, while none is open."""
        with self._explained("beginning a transaction of"):
            self._producer.begin_transaction()
        self._committed = len(self._metadata)

    def produce(self, batch: pa.RecordBatch) -> None:
        """Queue the rows of a batch in the open transaction. Raises FencedError and as the base."""
        with self._explained("producing as"):
            super().produce(batch)

    def commit(self, timeout_ms: int) -> None:
        """Make everything produced since ``begin`` visible. Raises FencedError, a failed delivery, TimedOutError."""
        self._patiently(self._producer.commit_transaction, timeout_ms, "committing a transaction of")

    def abort(self, timeout_ms: int) -> None:
        """Drop everything produced since ``begin``. Raises FencedError, TimedOutError."""
        # Queued records go out first. Dropped before, they would leave a gap in the sequence numbers: the broker
        # refuses the next transaction, if one was committed before. Ended while its partition is being added, the
        # transaction has none at the broker, which refuses its end (INVALID_TXN_STATE): fatal to librdkafka.
        with suppress(KafkaException):
            self._producer.flush(min(timeout_ms, _SENT_LIMIT_MS) / 1000)
        self._patiently(self._producer.abort_transaction, timeout_ms, "aborting a transaction of")
        self._failure = None  # it was of what is dropped now
        # Also what was sent lies nowhere for readers of committed data.
        self._metadata[self._committed :] = [None] * (len(self._metadata) - self._committed)

    def _patiently(self, call: Callable[[float], None], timeout_ms: int, doing: str) -> None:
        """Make a call that may be made again as long as Kafka says so.

        Between the calls, which wait for a short time each, the client is compared with a new one. One that has lost
        all its brokers raises ClientLostError: the next producer of this id aborts or ends what was open, and knows.
        """
        end_s = time.monotonic() + timeout_ms / 1000
        self._compare_at_s = math.inf
        while True:
            left_s = max(0.1, end_s - time.monotonic())
            try:
                with self._explained(doing):
                    call(min(left_s, CALL_LIMIT_S))
                    self._tell_contact(answered=True)
                    return
            except _AgainError as error:
                self._tell_contact()
                self._fail_if_left_behind()
                if isinstance(self._failure, ClientLostError):
                    raise self._failure from error
                if time.monotonic() >= end_s:
                    raise TimedOutError(f"{doing} {self._id}: {error}") from error

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        """Turn errors into ours; a fenced producer gets FencedError, whatever the call says."""
        try:
            yield
        except KafkaException as error:
            inner = kafka_error(error)
            self._poll_events()
            if self._is_fenced(inner):
                raise self._fenced(inner) from error
            if inner.retriable():
                raise _AgainError(inner.str()) from error
            raise self._failure or connect_error(error, f"{doing} {self._id}") from error
        except ConnectError as error:
            if self._is_fenced(error.__cause__ or error):
                raise self._fenced(error) from error
            raise

    def _poll_events(self) -> None:
        """Have ``_failed`` and ``_note`` called; the client raises here what is fatal."""
        try:
            self._producer.poll(0)
        except KafkaException as error:
            self._note(kafka_error(error))

    def _is_fenced(self, error: Any) -> bool:
        fenced = self._fenced_by is not None or is_code(error, *_FENCING)
        return fenced or isinstance(error, FencedError) or isinstance(self._failure, FencedError)

    def _fenced(self, error: Any) -> FencedError:
        why = self._fenced_by or (error.str() if isinstance(error, KafkaError) else str(error))
        return fenced_error(self._id, why)

    def _note(self, error: Any) -> None:
        super()._note(error)
        if is_code(error, *_FENCING):
            self._fenced_by = error.str()


class _AgainError(ConnectError):
    """Kafka says that the same call may succeed."""
