"""Partitions of one cluster to partitions of another, by whole record batches.

Owns the loop, which runs only inside its methods: no thread, so a task that is not polled copies nothing. Results of
its methods are acknowledged. Must not: know connectors, commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.kafka.buffered_connection import BufferPool, connect_buffered
from spark_connect_rt.kafka.copying.batch_sender import BatchSender
from spark_connect_rt.kafka.copying.pieces import ACKS_OF_ALL, CopiedBatch, CopyRules, behind, pieces_of
from spark_connect_rt.kafka.reading import fetch_settings as reading
from spark_connect_rt.kafka.reading.broker_links import BrokerLinks
from spark_connect_rt.kafka.reading.fetcher import Fetcher, PartitionAnswer, PartitionReading, has_steps_left
from spark_connect_rt.kafka.reading.log_moves import LogWatch
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT
from spark_connect_rt.kafka.writing import column_settings as writing

LOOKUP_TIMEOUT_S = 30.0
LOOP_EACH_S = 0.3  # its timers want to be seen to
REPORT_EACH_S = 0.2  # under load: each report costs a row through the JVM and a message
ANSWER_BYTES = 4 << 20  # unless fetch.max.bytes says: stays in the processor's cache from socket to socket
FLOWING_BYTES = 16 << 20  # in flight: no partition's turn waits for more, and the pool's buffers suffice
CLOSE_LIMIT_S = 1.0
_END_OF = {-1: FIRST, -2: NEXT}
_T = TypeVar("_T")


@dataclass(slots=True)
class Copied:
    """Records of one partition that are acknowledged at the target."""

    source: TopicPartition
    target: TopicPartition
    last: int = -1  # the offset of the last one at the source
    topic_id: str | None = None  # of the topic at the source that it belongs to, where it is known
    first_target: int = -1  # the offset of the first one at the target; -1: not known
    records: int = 0
    size: int = 0  # bytes
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    """(first offset at the source, first offset at the target, records), ascending; none where it is not known."""
    stamps: list[tuple[int, int, float, float]] = field(default_factory=list)
    """Of each batch (first timestamp, newest timestamp, when it was read, when it was acknowledged), ms."""

    def add(self, piece: CopiedBatch, offset: int, now_ms: float) -> None:
        """Take in a piece that is acknowledged at ``offset``."""
        self.last, self.records, self.size = piece.last, self.records + piece.count, self.size + piece.size
        self.topic_id = piece.topic_id
        if self.first_target < 0 or 0 <= offset < self.first_target:
            self.first_target = offset
        self.stamps.append((*piece.times, piece.read_ms, now_ms))
        if offset < 0:
            return
        for first, count in piece.runs():
            before, at, held = self.runs[-1] if self.runs else (-1, -1, 0)
            if before + held == first and at + held == offset and held:
                self.runs[-1] = before, at, held + count
            else:
                self.runs.append((first, offset, count))
            offset += count


def obstacles(consumer: Mapping[str, str], producer: Mapping[str, str]) -> list[str]:
    """Return the properties of both sides, by name, that a BatchCopier does not honour."""
    of_transactions = {"transactional.id"} & producer.keys()
    return sorted({*reading.not_honoured(consumer), *writing.not_honoured(producer), *of_transactions})


class BatchCopier:
    """See the module. One thread."""

    def __init__(
        self,
        consumer: Mapping[str, str],
        producer: Mapping[str, str],
        target: Callable[[TopicPartition], TopicPartition],
        watch: LogWatch | None = None,
    ) -> None:
        """Take Java's properties of both sides, without ``obstacles``, where a partition goes, who decides about moves.

        Raises BadConfigError.
        """
        self._settings = _fetch_settings(consumer)
        produced = writing.column_settings(producer)
        assert produced is not None, obstacles(consumer, producer)
        said = "compression.type" in producer
        rules = CopyRules(
            produced.compression if said else None,
            produced.batch_bytes,
            produced.request_bytes,
            self._settings.check_crcs,
            self._settings.committed_only,
            # A broker looks at the CRC of all it appends (Java UnifiedLog): here it is only when that is asked for.
            target_checks="check.crcs" not in consumer,
        )
        self._rules, self._target = rules, target
        self._buffer_bytes = produced.buffer_bytes
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._ran_s = self._reported_s = 0.0
        self._problem: ConnectError | None = None
        self._copied: dict[TopicPartition, Copied] = {}
        opened = partial(connect_buffered, BufferPool())
        self._fetcher = Fetcher(self._settings, BrokerLinks(self._settings, opened), watch)
        there = BrokerLinks(_link_settings(producer), opened, creates=True)
        limits_ms = (
            produced.client["request_timeout_ms"],
            produced.delivery_timeout_ms,
            produced.retry_backoff_ms,
            produced.client["metadata_max_age_ms"],
        )
        acks = ACKS_OF_ALL if produced.client["acks"] == "all" else 1
        self._sender = BatchSender(there, rules, acks, limits_ms, self._acknowledged)

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Copy these partitions from these offsets on (-1 beginning, -2 end)."""
        ends = {partition: _END_OF[offset] for partition, offset in offsets.items() if offset in _END_OF}
        found = {**offsets, **(self._run(self._fetcher.look_up(ends, LOOKUP_TIMEOUT_S)) if ends else {})}
        self._fetcher.readings.update(
            {partition: PartitionReading(found[partition], found[partition]) for partition in offsets}
        )

    def poll(self, timeout_ms: int) -> list[Copied]:
        """Copy for that long, and return what is acknowledged if it is time for a report.

        Raises ConnectError, never in the place of what is acknowledged.
        """
        until_s = time.monotonic() + timeout_ms / 1000
        try:
            if self._problem is None and not self._is_quiet(until_s):
                self._run(self._copy(until_s))
        except ConnectError as error:
            self._problem = error
        at_once = self._problem is not None or not self._sender.held_bytes
        if self._copied and (at_once or time.monotonic() - self._reported_s >= REPORT_EACH_S):
            return self._report()
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        return []

    def under_way(self) -> bool:
        """Return whether ``finish`` may have something to return."""
        return bool(self._copied) or (bool(self._sender.held_bytes) and self._sender.failure is None)

    def finish(self, timeout_ms: int) -> list[Copied]:
        """Read nothing more, wait for what is in flight no longer than that, and return what is acknowledged."""
        until_s = time.monotonic() + timeout_ms / 1000
        self._run(self._drained(until_s))
        return self._report()

    def close(self) -> None:
        """Give up what is in flight and close every connection."""
        if not self._loop.is_closed():
            self._run(self._closed())
            self._loop.close()

    def _report(self) -> list[Copied]:
        self._reported_s = time.monotonic()
        copied, self._copied = self._copied, {}
        return list(copied.values())

    def _is_quiet(self, until_s: float) -> bool:
        """As ``FetchConsumer``: wait for a sign from a broker without the loop; False: run the loop."""
        busy = self._sender.held_bytes or has_steps_left(self._loop) or not self._fetcher.only_waits()
        if busy or until_s - self._ran_s > LOOP_EACH_S:
            return False
        return not self._selector.select(max(0.0, until_s - time.monotonic()))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        self._ran_s = time.monotonic()
        return self._loop.run_until_complete(work)

    def _most_bytes(self) -> int:
        """Return how many bytes may be in flight.

        While a partition takes nothing, a larger limit keeps its waiting pieces from blocking others.
        """
        return self._buffer_bytes if self._sender.is_stalled else min(self._buffer_bytes, FLOWING_BYTES)

    async def _copy(self, until_s: float) -> None:
        while True:
            most_bytes = self._most_bytes()
            while self._fetcher.answers and self._sender.held_bytes < most_bytes:
                self._take(self._fetcher.answers.popleft())
            if self._sender.failure is not None:
                raise self._sender.failure
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                await self._fetcher.settled()  # answers that were taken must not wait for the next call
                return
            if self._sender.held_bytes >= most_bytes:
                await self._sender.changed(left_s, most_bytes * 3 // 4)  # not for each acknowledgement
            else:
                await self._fetcher.fill(left_s, goes_on=True)

    async def _drained(self, until_s: float) -> None:
        while self._sender.held_bytes and self._sender.failure is None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            await self._sender.changed(left_s)

    async def _closed(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._sender.close()
                await self._fetcher.close()

    def _take(self, answer: PartitionAnswer) -> None:
        """Send what counts of an answer, if its partition is still read as it was. Raises DataError: it is damaged."""
        place, state = answer.partition, answer.reading
        if self._fetcher.readings.get(place) is not state:
            return
        now_ms, target, sent = time.time() * 1000, self._target(place), list[CopiedBatch]()
        topic_id = self._fetcher.watch.topic_id(place)
        try:
            for piece in pieces_of(place, state.position, answer.batches, answer.aborted, self._rules):
                piece.read_ms, piece.topic_id = now_ms, topic_id
                self._sender.put(target, piece)
                sent.append(piece)
        except DataError:
            self._ask_again(place, sent, state.position)
            raise
        state.position = behind(state.position, answer.batches, sent)
        state.fetch_at = state.position if state.fetch_at is None else state.fetch_at

    def _ask_again(self, place: TopicPartition, sent: Sequence[CopiedBatch], position: int) -> None:
        """Never pass over what is damaged: it is met again."""
        position = sent[-1].last + 1 if sent else position
        self._fetcher.readings[place] = PartitionReading(position, position)

    def _acknowledged(self, target: TopicPartition, piece: CopiedBatch, offset: int) -> None:
        copied = self._copied.get(target)
        if copied is None:
            copied = self._copied[target] = Copied(piece.source, target)
        copied.add(piece, offset, time.time() * 1000)


def _fetch_settings(consumer: Mapping[str, str]) -> reading.FetchSettings:
    found = reading.fetch_settings(consumer)
    return found if "fetch.max.bytes" in consumer else replace(found, most_bytes=ANSWER_BYTES)


def _link_settings(producer: Mapping[str, str]) -> reading.FetchSettings:
    """Return how to reach the brokers of the target: the properties that both kinds of clients have."""
    others = reading.not_honoured(producer)
    return reading.fetch_settings({name: text for name, text in producer.items() if name not in others})
