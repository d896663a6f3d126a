"""A long topic read in whole record batches, many partitions an answer.

Owns the fetch requests of such a read: the leader of each partition, and the size of each request. It reads what is
there and continues as long as every answer brings something. Anything unusual (a leader that moved, a codec
that is not installed) ends it, and the caller's consumer reads on from where it got to.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiokafka.errors import KafkaError

from spark_connect_rt.config.bootstrap_servers import bootstrap_addresses
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.kafka.aiokafka_parts import FetchRequest, MetadataRequest
from spark_connect_rt.kafka.group_security import connect, connection_arguments
from spark_connect_rt.kafka.logs.compaction import Latest, latest_of
from spark_connect_rt.kafka.records.record_batches import offset_behind

ANSWER_BYTES = 8 * 1024 * 1024  # of two at a time: one is taken apart while the next is on its way
PARTITION_BYTES = 2 * 1024 * 1024
ANSWER_LIMIT_MS = 10_000  # also how long a stopping worker may have to wait for a broker that hangs
CONNECT_LIMIT_S = 10.0
_NETWORK_ERRORS = (OSError, EOFError, KafkaError)
_ABORTED = 5  # where an answer's partition holds its aborted transactions, from version 5 on

OnLatest = Callable[[int, Latest], None]


class BulkReadEndedError(Exception):
    """The bulk read could not continue. Records that it delivered stay read."""


class BulkRead:
    """One read of one topic. Any one thread."""

    def __init__(self, topic: str, consumer: Mapping[str, str], is_over: Callable[[], bool]) -> None:
        """Take the topic, a consumer's properties by their Java names, and whether to stop early."""
        self._topic = topic
        self._consumer = consumer
        self._is_over = is_over
        self._committed_only = consumer.get("isolation.level", "").lower() == "read_committed"

    def run(self, positions: Mapping[int, int], ends: Mapping[int, int], on_latest: OnLatest) -> None:
        """Read partitions from ``positions`` up to ``ends``; ``on_latest`` is called on this thread, answer by answer.

        Raises:
            BulkReadEndedError: also where these connections cannot be as safe as the consumer's. And what
                ``on_latest`` raises.
        """
        asyncio.run(self._read(dict(positions), ends, on_latest))

    async def _read(self, positions: dict[int, int], ends: Mapping[int, int], on_latest: OnLatest) -> None:
        for (host, port), numbers in (await self._leaders()).items():
            connection = await self._connect(host, port)
            try:
                led = {number: end for number, end in ends.items() if number in numbers}
                await self._read_from(connection, positions, led, on_latest)
            finally:
                connection.close()

    async def _read_from(
        self, connection: Any, positions: dict[int, int], ends: Mapping[int, int], on_latest: OnLatest
    ) -> None:
        """Read what one broker leads. The next answer is asked for before one is taken apart: both sides are busy."""
        coming = self._next(connection, positions, ends)
        while coming is not None:
            answer = await self._arrived(coming)
            reached = positions | {
                number: offset_behind(batches, positions[number]) for number, batches in _parts(answer)
            }
            stuck = reached == positions or self._is_over()
            coming = None if stuck else self._next(connection, reached, ends)
            try:
                for number, latest in self._answered(answer, positions):
                    on_latest(number, latest)
                    positions[number] = latest.next_offset
            except BaseException:
                if coming is not None:
                    coming.close()
                raise

    def _next(self, connection: Any, positions: Mapping[int, int], ends: Mapping[int, int]) -> Any:
        """Send a request for what is missing; return the answer to be awaited, None: nothing is missing."""
        wanted = {number: positions[number] for number, end in ends.items() if positions[number] < end}
        return self._sent(connection, self._request(wanted)) if wanted else None

    async def _ask(self, connection: Any, request: Any) -> Any:
        return await self._arrived(self._sent(connection, request))

    def _sent(self, connection: Any, request: Any) -> Any:
        """Send a request; return the answer to be awaited."""
        try:
            return connection.send(request)
        except _NETWORK_ERRORS as error:
            raise self._ended(error) from error

    async def _arrived(self, coming: Any) -> Any:
        try:
            return await coming
        except _NETWORK_ERRORS as error:
            raise self._ended(error) from error

    def _ended(self, error: Exception) -> BulkReadEndedError:
        return BulkReadEndedError(f"topic {self._topic} is read record by record from here: {error!r}")

    async def _leaders(self) -> dict[tuple[str, int], list[int]]:
        """Return broker -> the partitions it leads, by what the first bootstrap server that answers says."""
        failure = BulkReadEndedError("bootstrap.servers is empty")
        servers = bootstrap_addresses(self._consumer["bootstrap.servers"])
        for host, port in random.sample(servers, len(servers)):
            try:
                connection = await self._connect(host, port)
            except BulkReadEndedError as error:
                failure = error
                continue
            try:
                metadata = await self._ask(connection, MetadataRequest([self._topic]))
            finally:
                connection.close()
            brokers = {broker[0]: (broker[1], broker[2]) for broker in metadata.brokers}
            led: dict[tuple[str, int], list[int]] = defaultdict(list)
            for partition in metadata.topics[0][3]:
                if partition[2] in brokers:
                    led[brokers[partition[2]]].append(partition[1])
            return led
        raise failure

    async def _connect(self, host: str, port: int) -> Any:
        client_id = self._consumer.get("client.id") or "connect"
        try:
            security = connection_arguments(self._consumer)
            opening = connect(host, port, client_id=client_id, request_timeout_ms=ANSWER_LIMIT_MS, **security)
            return await asyncio.wait_for(opening, CONNECT_LIMIT_S)
        except (BadConfigError, *_NETWORK_ERRORS) as error:
            raise self._ended(error) from error

    def _request(self, positions: Mapping[int, int]) -> FetchRequest:
        partitions = [(number, position, PARTITION_BYTES) for number, position in positions.items()]
        return FetchRequest(100, 1, ANSWER_BYTES, int(self._committed_only), [(self._topic, partitions)])

    def _answered(self, answer: Any, positions: Mapping[int, int]) -> Iterator[tuple[int, Latest]]:
        for _, partitions in answer.topics or ():
            for partition in partitions:
                number, error_code, batches = partition[0], partition[1], partition[-1]
                if error_code:
                    raise self._ended(KafkaError(f"partition {number}: error {error_code}"))
                aborted = partition[_ABORTED] if self._committed_only else None
                try:
                    latest = latest_of(number, positions[number], batches or b"", aborted)
                except (DataError, KafkaError) as error:
                    raise self._ended(error) from error
                yield number, latest


def _parts(answer: Any) -> Iterator[tuple[int, bytes]]:
    """Yield partition and record batches of an answer."""
    for _, partitions in answer.topics or ():
        for partition in partitions:
            yield partition[0], partition[-1] or b""
