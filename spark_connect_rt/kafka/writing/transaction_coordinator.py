"""Speaks with the coordinator of one transactional id, on the event loop (the requests of Java ``TransactionManager``).

Owns: the producer's id and epoch, which partitions are in the open transaction, whom to ask and when to ask again.
Must not: send records, decide where a transaction ends. Every call asks until it is answered: callers bound it.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import FencedError
from spark_connect_rt.kafka.aiokafka_parts import (
    AddPartitionsToTxnRequest,
    CompactString,
    ConnectionGroup,
    CoordinationType,
    EndTxnRequest,
    InitProducerIdRequest,
    Int16,
    Int32,
    Int64,
    Request,
    RequestStruct,
    Response,
    Schema,
    TaggedFields,
)
from spark_connect_rt.kafka.error_mapping import client_error, connect_error, is_retriable

# The one request of transactions that aiokafka lacks: InitProducerId of a producer that has an id (KIP-360).


_TEXT = CompactString("utf-8")


class InitProducerIdResponse_v3(Response):  # type: ignore[misc]  # noqa: N801
    """The answer of InitProducerId, version 3."""

    API_KEY, API_VERSION = 22, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class InitProducerIdRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801
    """InitProducerId that is refused when a newer producer has the transactional id."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 22, 3, InitProducerIdResponse_v3
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("transaction_timeout_ms", Int32),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class RenewProducerIdRequest(Request[InitProducerIdRequest_v3]):  # type: ignore[misc]
    """Asks for the next epoch of a producer."""

    API_KEY = 22

    def __init__(self, transactional_id: str, timeout_ms: int, producer_id: int, producer_epoch: int) -> None:
        """Take what the producer has."""
        self._fields = (transactional_id, timeout_ms, producer_id, producer_epoch)

    def build(self, request_struct_class: type[InitProducerIdRequest_v3]) -> InitProducerIdRequest_v3:
        """Return the request with its fields and no tags."""
        return request_struct_class(*self._fields, {})


# The error of a producer whose transactional id another one has.


FENCED = "CRT-1061"


def fenced_error(transactional_id: str, why: str) -> FencedError:
    """Return the error of a fenced producer; ``why`` is what Kafka said."""
    return FencedError(
        f"The producer with transactional id {transactional_id} is fenced: a newer run of this task has started "
        "elsewhere, or its transaction was open for longer than transaction.timeout.ms. Nothing of the open "
        "transaction is visible to readers of committed data. If the task runs nowhere else, restart it. If it "
        f"happens again, raise producer.override.transaction.timeout.ms or use transaction.boundary=poll ({why})",
        code=FENCED,
    )


FIRST_PAUSE_S = 0.005  # the markers of the transaction before are mostly written by then; Java's clients wait 20 ms
FENCING = (NamedError.INVALID_PRODUCER_EPOCH, 90)  # PRODUCER_FENCED, which confluent-kafka has no name for
_MOVED = (NamedError.NOT_COORDINATOR, NamedError.COORDINATOR_NOT_AVAILABLE)
_BUSY = (NamedError.COORDINATOR_LOAD_IN_PROGRESS, NamedError.CONCURRENT_TRANSACTIONS)
_NOT_ATTEMPTED = 55


class TransactionCoordinator:
    """See the module. All on one event loop, which ``connect`` begins."""

    def __init__(self, transactional_id: str, timeout_ms: int, retry_backoff_ms: int) -> None:
        """Take the id, how long a transaction may be open, and the longest pause between two questions."""
        self.transactional_id = transactional_id
        self.last_error = ""
        self.unanswered = ""  # why the last question reached no broker; empty: it did
        self._timeout_ms = timeout_ms
        self._pause_s = Backoff(FIRST_PAUSE_S, max(retry_backoff_ms / 1000, FIRST_PAUSE_S))
        self._producer: tuple[int, int] | None = None  # id and epoch
        self._added = set[TopicPartition]()
        self._wanted = set[TopicPartition]()
        self._asked_to_add = False  # of the open transaction: the coordinator may have it
        self._node: int | None = None

    def connect(self, client: Any) -> None:
        """Take aiokafka's client of a loop that has begun."""
        self._client = client
        self._adding = asyncio.Lock()
        self._node = None

    @property
    def producer(self) -> tuple[int, int]:
        """The producer's id and epoch."""
        assert self._producer is not None, "claim comes first"
        return self._producer

    async def claim(self) -> None:
        """Fence every earlier producer of the id, and have aborted what it left open. Raises ConnectError."""
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        await self._take_producer(request, "claiming")

    async def add(self, place: TopicPartition) -> None:
        """Make a partition part of the open transaction.

        Raises UnknownTopicOrPartitionError (retriable), FencedError, ConnectError.
        """
        if place in self._added:
            return
        self._wanted.add(place)
        async with self._adding:
            if place in self._added:
                return  # another one's question held it
            wanted, self._wanted = {*self._wanted, place}, set()
            await self._add(wanted)
            self._added |= wanted

    async def _add(self, places: set[TopicPartition]) -> None:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for place in sorted(places):
            by_topic[place.topic].append(place.partition)
        self._asked_to_add = True
        request = AddPartitionsToTxnRequest(self.transactional_id, *self.producer, list(by_topic.items()))
        doing = f"adding {', '.join(map(str, sorted(places)))} to a transaction of"
        await self._answer(request, _worst_of_partitions, doing)

    async def end(self, *, committed: bool) -> None:
        """End the open transaction. Raises FencedError, ConnectError."""
        request = EndTxnRequest(self.transactional_id, *self.producer, committed)
        if committed:
            if self._added:
                await self._answer(request, _error_code, "committing a transaction of")
        elif self._asked_to_add:
            # Of a transaction that may never have come to be, the coordinator says that there is none to abort.
            fine = () if self._added else (NamedError.INVALID_TXN_STATE,)
            await self._answer(request, _error_code, "aborting a transaction of", fine)
        self._added.clear()
        self._asked_to_add = False

    async def abort_and_renew(self) -> None:
        """Abort what is open and begin a new epoch: it is unknown which records of the old one the partitions have.

        Raises FencedError: a newer producer has the id.
        """
        await self.end(committed=False)
        request = RenewProducerIdRequest(self.transactional_id, self._timeout_ms, *self.producer)
        await self._take_producer(request, "beginning a new epoch of")

    def fenced(self, code: int, doing: str) -> FencedError:
        """Return the error of a producer that was refused with this code, one of FENCING."""
        return fenced_error(self.transactional_id, f"{doing}: error {code}")

    async def _take_producer(self, request: Any, doing: str) -> None:
        answer = await self._answer(request, _error_code, doing)
        self._producer = (answer.producer_id, answer.producer_epoch)

    async def _answer(self, request: Any, code_of: Callable[[Any], int], doing: str, fine: tuple[int, ...] = ()) -> Any:
        """Ask until there is an answer that is not "later"; return it."""
        failures = 0
        while True:
            answer = await self._tried(self._asked(request), doing)
            code = self._most_severe(answer, code_of)
            if code == 0 or code in fine:
                return answer
            if code in FENCING:
                raise self.fenced(code, doing)
            if code == UnknownTopicOrPartitionError.errno:
                raise UnknownTopicOrPartitionError()
            if code not in (*_MOVED, *_BUSY):
                raise connect_error(NamedError(code), f"{doing} {self.transactional_id}")
            if code in _MOVED:
                self._node = None
            failures += 1
            await asyncio.sleep(self._pause_s.wait(failures, random.random()))

    def _most_severe(self, answer: Any, code_of: Callable[[Any], int]) -> int:
        """Return the code of an answer; of none, that the coordinator must be looked for."""
        if answer is None:
            return int(NamedError.COORDINATOR_NOT_AVAILABLE)
        code = code_of(answer)
        if code in (*_MOVED, *_BUSY):
            self.last_error = NamedError(code).name()
        return code

    async def _asked(self, request: Any) -> Any:
        if self._node is None:
            kind = CoordinationType.TRANSACTION
            if self._client.get_random_node() is None:
                await self._client.force_metadata_update()
            self._node = await self._client.coordinator_lookup(kind, self.transactional_id)
        return await self._client.send(self._node, request, group=ConnectionGroup.COORDINATION)

    async def _tried(self, asked: Awaitable[Any], doing: str) -> Any:
        """Return the answer; None: to ask again may help."""
        try:
            answer = await asked
            self.unanswered = ""
            return answer
        except KafkaError as error:
            if not is_retriable(error):
                raise client_error(error, f"{doing} {self.transactional_id}") from error
            self.last_error = self.unanswered = repr(error)
            self._client.force_metadata_update()
            return None


def _error_code(answer: Any) -> int:
    return int(answer.error_code)


def _worst_of_partitions(answer: Any) -> int:
    """Return the first real error: the other partitions are reported as not tried."""
    codes = [int(code) for _, partitions in answer.errors for _, code in partitions]
    return next((code for code in codes if code not in (0, _NOT_ATTEMPTED)), 0)
