"""Connections to the brokers of a cluster and who leads which partition. All coroutines belong to one loop.

aiokafka's own client is not used: it hides why a broker refuses, never goes back to the bootstrap servers, and lets
brokers create topics that were deleted. Its connections are.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.bootstrap_servers import bootstrap_addresses
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka import cluster_contact
from spark_connect_rt.kafka.aiokafka_parts import (
    Array,
    FetchRequest,
    Int16,
    Int32,
    Int64,
    Request,
    RequestStruct,
    Response,
    Schema,
    String,
)
from spark_connect_rt.kafka.connection_problem import refusal_of_error
from spark_connect_rt.kafka.group_security import connect
from spark_connect_rt.kafka.membership.group_link import NETWORK_ERRORS
from spark_connect_rt.kafka.reading.fetch_settings import FetchSettings
from spark_connect_rt.kafka.reading.leaders_request import LeadersRequest, topic_leaders

FETCH, ASK = "fetch", "ask"  # a broker answers one connection in order, and a fetch may wait
Address = tuple[str, int]


class BrokerLinks:
    """Connections to the brokers of one cluster, and the known leaders of its partitions."""

    def __init__(
        self, settings: FetchSettings, opened: Callable[..., Awaitable[Any]] | None = None, *, creates: bool = False
    ) -> None:
        """Take the settings, what opens a connection, and whether brokers may create topics that are asked about.

        ``opened``: None: aiokafka's.
        """
        self._settings = settings
        self._connect = opened or connect
        self._creates = creates
        self._opening: dict[tuple[Address, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._connections: dict[tuple[Address, str], Any] = {}
        self._brokers: dict[int, Address] = {}
        self._let_in = False
        self.leaders: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}  # of these leaders, where brokers report them
        self.topic_ids: dict[str, str] = {}  # of topics asked about, where brokers report them
        self._known: set[TopicPartition] = set()
        self._topic_errors: dict[str, int] = {}

    async def refresh(self, topics: Collection[str]) -> None:
        """Ask for the leaders of these topics' partitions. Known leaders of other topics stay.

        Raises:
            RetriableError: no broker answers.
            ConnectError: none lets us in.
        """
        failure: Exception = OSError("bootstrap.servers is empty")
        for address in self._candidates():
            try:
                answer = await self._send(address, ASK, LeadersRequest(sorted(topics), self._creates))
            except NETWORK_ERRORS as error:
                failure = error if refusal_of_error(failure) is None else failure
                continue
            self._take(answer, set(topics))
            cluster_contact.found(self._settings.servers)
            return
        cluster_contact.lost(self._settings.servers, str(failure) or type(failure).__name__)
        raise self._problem(failure)

    async def ask(self, broker: int, request: Any, purpose: str = ASK) -> Any:
        """Return a broker's answer. Raises as ``refresh``."""
        address = self._brokers.get(broker)
        if address is None:
            raise RetriableError(f"broker {broker} is no longer known")
        try:
            return await self._send(address, purpose, request)
        except NETWORK_ERRORS as error:
            raise self._problem(error, f"{address[0]}:{address[1]}") from error

    def why_lost(self, partition: TopicPartition) -> int:
        """Return Kafka's error code of a partition that has no leader."""
        unknown = KafkaError.LEADER_NOT_AVAILABLE if partition in self._known else KafkaError.UNKNOWN_TOPIC_OR_PART
        return self._topic_errors.get(partition.topic, int(unknown))

    def partition_counts(self) -> Counter[str]:
        """Return how many partitions each topic had in its last answer, also without a leader."""
        return Counter(partition.topic for partition in self._known)

    async def close(self) -> None:
        """Close every connection and wait for at most a second."""
        closing = [connection.close() for connection in self._connections.values()]
        self._connections.clear()
        if any(closing):
            await asyncio.wait([future for future in closing if future is not None], timeout=1.0)

    def _candidates(self) -> Iterator[Address]:
        known = list(self._brokers.values())
        random.shuffle(known)
        yield from known
        servers = bootstrap_addresses(self._settings.servers)
        for address in random.sample(servers, len(servers)):
            if address not in known:
                yield address

    def _take(self, metadata: Any, topics: set[str]) -> None:
        if not metadata.brokers:
            return
        self._brokers = {broker[0]: (broker[1], broker[2]) for broker in metadata.brokers}
        found = list(topic_leaders(metadata))
        errors = {topic: code for topic, code in self._topic_errors.items() if topic not in topics}
        self._topic_errors = errors | {leaders.topic: leaders.error_code for leaders in found if leaders.error_code}
        self.topic_ids = {topic: known for topic, known in self.topic_ids.items() if topic not in topics}
        self.topic_ids |= {leaders.topic: leaders.topic_id for leaders in found if leaders.topic_id is not None}
        led_by = {partition: leader for leaders in found for partition, leader in leaders.leaders.items()}
        self._known = {partition for partition in self._known if partition.topic not in topics} | led_by.keys()
        led_by = {
            partition: broker for partition, broker in self.leaders.items() if partition.topic not in topics
        } | led_by
        self.leaders = {partition: broker for partition, broker in led_by.items() if broker in self._brokers}
        epochs = {partition: epoch for partition, epoch in self.epochs.items() if partition.topic not in topics}
        self.epochs = epochs | {partition: epoch for leaders in found for partition, epoch in leaders.epochs.items()}

    async def _send(self, address: Address, purpose: str, request: Any) -> Any:
        async with self._opening[address, purpose]:
            connection = self._connections.get((address, purpose))
            if connection is None or not connection.connected():
                connection = self._connections[address, purpose] = await self._opened(address)
        try:
            return await (request.sent_by(connection) if hasattr(request, "sent_by") else connection.send(request))
        except TimeoutError:
            connection.close()
            raise

    async def _opened(self, address: Address) -> Any:
        settings = self._settings
        opening = self._connect(
            *address,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_limit_ms,
            max_idle_ms=settings.idle_limit_ms,
            **settings.security,
        )
        connection = await asyncio.wait_for(opening, settings.setup_limit_ms / 1000)
        self._let_in = True
        return connection

    def _problem(self, error: Exception, where: str = "") -> ConnectError:
        """Return the error to raise.

        After a broker let this client in, a single refusal is retriable: rights may be changing.
        """
        refusal = None if self._let_in else refusal_of_error(error)
        if refusal is not None:
            return ConnectError(f"{refusal.setting}: {refusal.reason}")
        return RetriableError(f"{where or self._settings.servers}: {str(error) or type(error).__name__}")


# Leader epochs: how a reader learns that an unclean election cut the log it reads (KIP-320).
#
# Owns: OffsetForLeaderEpoch 3 and the epochs in Fetch from 9 on, where aiokafka's own end or leave them out.
# Brokers older than Kafka 2.3 send no epochs; then nothing is compared.
# Source: Kafka's ``OffsetForLeaderEpochRequest.json`` and its counterpart.


UNKNOWN = -1  # epoch or offset
_TEXT = String("utf-8")
_EPOCHS_IN_FETCH = 9  # version


class EpochEnd(NamedTuple):
    """Where a leader's log ends for an epoch asked about: of the last one it has that is not later."""

    error_code: int
    leader_epoch: int
    end_offset: int


class OffsetForLeaderEpochResponse_v3(Response):  # type: ignore[misc]  # noqa: N801
    """The answer of OffsetForLeaderEpoch, version 3, from which EpochEnd is read."""

    API_KEY, API_VERSION = 23, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class OffsetForLeaderEpochRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """The first version that asks for no more rights than to read the topic."""

    API_KEY, API_VERSION, RESPONSE_TYPE = 23, 3, OffsetForLeaderEpochResponse_v3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", _TEXT),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32))),
            ),
        ),
    )


class EpochEndsRequest(Request[OffsetForLeaderEpochRequest_v3]):  # type: ignore[misc]
    """Where the leader's log ends for epochs: partition -> (the leader's present epoch, the epoch asked about)."""

    API_KEY = 23

    def __init__(self, epochs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._epochs = epochs

    def build(self, request_struct_class: Any) -> Any:
        """Return the request with its partitions and epochs by topic."""
        by_topic = groupby(sorted(self._epochs.items()), key=lambda entry: entry[0].topic)
        topics = [(topic, [(place.partition, *epochs) for place, epochs in places]) for topic, places in by_topic]
        return request_struct_class(UNKNOWN, topics)


class FencedFetchRequest(FetchRequest):  # type: ignore[misc]
    """A FetchRequest that only the leader of the epochs given answers; where brokers know of none, as any other."""

    def __init__(self, *fields: Any, epochs: Mapping[tuple[str, int], int]) -> None:
        super().__init__(*fields)
        self._epochs = epochs

    def build(self, request_struct_class: Any) -> Any:
        """Return the request, with the leader epochs of its partitions if the version has them."""
        built = super().build(request_struct_class)
        if request_struct_class.API_VERSION >= _EPOCHS_IN_FETCH:
            built.topics = [
                (topic, [(number, self._epochs.get((topic, number), UNKNOWN), *rest) for number, _, *rest in places])
                for topic, places in built.topics
            ]
        return built


def epoch_ends(answer: Any) -> dict[TopicPartition, EpochEnd]:
    """Return the content of an answer to EpochEndsRequest by partition."""
    return {
        TopicPartition(topic, number): EpochEnd(code, epoch, offset)
        for topic, partitions in answer.topics
        for code, number, epoch, offset in partitions
    }
