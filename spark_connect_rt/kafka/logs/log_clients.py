"""The two clients of a log: how they are made, and made again when they have lost all their brokers.

Owns: their settings and their last error. Must not: refer to the log, which owns the clients.
"""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import KafkaException

from spark_connect_rt.config.client_properties import LogClientProperties
from spark_connect_rt.kafka.client_factory import make_consumer, make_producer
from spark_connect_rt.kafka.client_lifetime import SharedClient, close_producer
from spark_connect_rt.kafka.lost_brokers import BrokerWatch

PURGE_LIMIT_S = 1.0  # for the answers of appends that a lost producer holds

_CONSUMER = {
    "enable.partition.eof": "true",
    "queued.min.messages": "50000",
    "fetch.queue.backoff.ms": "5",  # the default second would halve the speed of a long read
    "fetch.message.max.bytes": "4194304",
}
_HELD = {"fetch.wait.max.ms": "2000"}  # records end it; the end behind a transaction's marker shows only then
_PRODUCER = {"linger.ms": "0", "queue.buffering.max.kbytes": "16384"}


class LogClients:
    """Makes the clients of one topic. The reader's thread polls them and asks whether they are lost."""

    def __init__(self, topic: str, properties: LogClientProperties, *, is_transactional: bool) -> None:
        self._topic, self._properties = topic, properties
        self._settings = {**_CONSUMER, **({} if is_transactional else _HELD)}
        self.consumer_watch = BrokerWatch(f"the consumer of topic {topic}")
        self.producer_watch = BrokerWatch(f"the producer of topic {topic}")
        self.last_error = ""  # of either client

    def note(self, error: Any) -> None:
        """Take an error that a client reports."""
        self.last_error = f"{error.str()} ({error.name()})"

    def new_consumer(self) -> Any:
        """Return a consumer that is assigned nothing yet. Raises BadConfigError."""
        own = {**self._settings, **self.consumer_watch.settings(), "error_cb": self.note}
        return make_consumer({"group.id": self._topic, **self._properties.consumer}, own)

    def new_producer(self) -> Any:
        """Return a producer. Raises BadConfigError."""
        own = {**_PRODUCER, **self.producer_watch.settings(), "error_cb": self.note}
        return make_producer(self._properties.producer, own)

    def shared_producer(self) -> SharedClient[Any]:
        """Return the producer for the appends of all threads. Raises BadConfigError."""
        shared = SharedClient(f"the log of topic {self._topic}", self.new_producer, close_producer)
        shared.make_now()  # since it may raise
        return shared

    def replace_producer(self, producers: SharedClient[Any], lost: Any) -> None:
        """Have later appends use a new producer; those that the lost one never sent are answered now."""
        self.producer_watch.replaced()
        producers.renew()
        with contextlib.suppress(KafkaException):
            lost.purge()
            lost.flush(PURGE_LIMIT_S)
