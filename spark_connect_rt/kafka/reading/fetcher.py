"""Fetch requests: one in flight per broker, for all partitions it leads that are read. One loop.

The request that follows an answer is sent before the answer is taken apart, so both sides are busy. Unread are at most
one answer of each broker and the one behind it. A partition's answer is dropped if the partition was given up or is
read from elsewhere since the request.

A partition whose leader is of another epoch is read on only when the new one has the same log up to there (KIP-320):
an unclean election may have cut it. Requests name the epoch, so that no broker answers for another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, NotFoundError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.aiokafka_parts import OffsetRequest
from spark_connect_rt.kafka.error_mapping import connect_error, gone
from spark_connect_rt.kafka.reading.broker_links import (
    FETCH,
    UNKNOWN,
    BrokerLinks,
    EpochEnd,
    EpochEndsRequest,
    FencedFetchRequest,
    epoch_ends,
)
from spark_connect_rt.kafka.reading.fetch_settings import FetchSettings, backoff_s
from spark_connect_rt.kafka.reading.log_moves import LogMove, LogWatch
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT
from spark_connect_rt.kafka.records.record_batches import last_batch

# The first or next offset of partitions, asked of their leaders through ``broker_links``.


RETRY_WAIT_S = 0.05
OFFSETS_UNKNOWN_LIMIT_S = 5.0  # a missing topic may be so new that this broker does not know it yet


async def look_up(
    links: BrokerLinks, ends: Mapping[TopicPartition, int], committed_only: bool, timeout_s: float
) -> dict[TopicPartition, int]:
    """Return the offset at the end asked for (offset_lookup.FIRST or NEXT) of each partition.

    Under ``committed_only`` NEXT is the last stable offset. Raises the error's kind; RetriableError kinds only once
    the time is up.
    """
    started_s = time.monotonic()
    found: dict[TopicPartition, int] = {}
    while missing := {partition: end for partition, end in ends.items() if partition not in found}:
        try:
            await _ask(links, missing, committed_only, found)
        except UnknownTopicError as error:
            if time.monotonic() - started_s > min(OFFSETS_UNKNOWN_LIMIT_S, timeout_s):
                raise gone(error) from error
        except RetriableError:
            if time.monotonic() - started_s > timeout_s:
                raise
        else:
            continue
        await asyncio.sleep(RETRY_WAIT_S)
        links.leaders.clear()
    return found


async def _ask(
    links: BrokerLinks, ends: Mapping[TopicPartition, int], committed_only: bool, found: dict[TopicPartition, int]
) -> None:
    """Ask for what can be asked for; raise what kept one from being ``found``."""
    if not ends.keys() <= links.leaders.keys():
        await links.refresh({place.topic for place in ends} | {leader.topic for leader in links.leaders})
    problem: ConnectError | None = None
    by_leader: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for place, end in ends.items():
        if place in links.leaders:
            by_leader[links.leaders[place]][place.topic].append((place.partition, end))
        else:
            problem = _refused(place, links.why_lost(place))
    for broker, topics in by_leader.items():
        answer = await links.ask(broker, OffsetRequest(-1, int(committed_only), list(topics.items())))
        for topic, partitions in answer.topics:
            for partition, code, _, offset in partitions:
                topic_partition = TopicPartition(topic, partition)
                if code:
                    problem = _refused(topic_partition, code)
                else:
                    found[topic_partition] = offset
    if problem is not None:
        raise problem


def _refused(partition: TopicPartition, code: int) -> ConnectError:
    return connect_error(KafkaError(code), f"looking up offsets of {partition}")


TICK_S = 0.001  # a wait may end that much early
UNKNOWN_LIMIT_S = 30.0  # until a partition that no broker knows counts as deleted
_RESET_LIMIT_S = 1.0
_STEPS_OF_AN_ANSWER = 6  # of the loop, from bytes on the socket to a task that is done
_ABORTED = 5  # where an answer's partition holds its aborted transactions, from version 5 on
_OUT_OF_RANGE = 1
log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class PartitionReading:
    """How far one partition is read, from one assignment of it on."""

    position: int  # of the next row to return
    fetch_at: int | None  # what to ask for next; None: the present answer shows it
    failures: int = 0
    retry_s: float = 0.0
    epoch: int = UNKNOWN  # of the last batch before ``fetch_at``
    leader_epoch: int = UNKNOWN  # of the leader whose log was found to be the same up to ``fetch_at``
    unknown_s: float | None = None  # since when no broker knows it


_Doubted = dict[TopicPartition, tuple[PartitionReading, int]]
"""Partitions whose leader changed: how they are read, and the epoch of the new one."""


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """The answer of a broker for one partition."""

    partition: TopicPartition
    reading: PartitionReading
    batches: bytes
    aborted: list[tuple[int, int]] | None


class Fetcher:
    """See the module. Times s of the monotonic clock."""

    def __init__(
        self, settings: FetchSettings, links: BrokerLinks | None = None, watch: LogWatch | None = None
    ) -> None:
        """Take the settings, and the way to the brokers and who decides about moved logs if they are not the usual."""
        self._settings = settings
        self.watch = watch or LogWatch()
        self._links = links or BrokerLinks(settings)
        self._under_way: dict[int, asyncio.Task[Any]] = {}
        self._asked: dict[int, dict[TopicPartition, PartitionReading]] = {}
        self._checks: dict[int, tuple[asyncio.Task[Any], _Doubted]] = {}  # by broker
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed_s = -1e9
        self._outdated = False
        self._failures: dict[int | None, int] = defaultdict(int)  # in a row, by broker; None: of metadata
        self._retry_s: dict[int | None, float] = {}
        self.readings: dict[TopicPartition, PartitionReading] = {}  # those that had something go to the end
        self.answers: deque[PartitionAnswer] = deque()

    async def fill(self, limit_s: float, *, goes_on: bool = False) -> None:
        """Return when there is an answer with something in it, or the time is up.

        ``goes_on``: the loop runs on behind it, so that only the next request has to be on its way. Raises ConnectError
        if waiting does not resolve the problem.
        """
        until_s, has_waited = time.monotonic() + limit_s, False
        while True:
            self._send_due()
            left_s = until_s - time.monotonic()
            if self.answers or (has_waited and left_s < TICK_S):
                break
            await self._any_done(max(0.0, left_s))
            await self._take_done()
            has_waited = True
        await self.settled(1 if goes_on else _STEPS_OF_AN_ANSWER)

    async def settled(self, steps: int = _STEPS_OF_AN_ANSWER) -> None:
        """Let the loop do what is due: a request goes out only now, and what has come in becomes an answer."""
        for _ in range(steps):
            await asyncio.sleep(0)

    def only_waits(self) -> bool:
        """Return whether every partition is asked for and nothing else is to be done."""
        asked = sum(map(len, self._asked.values()))
        has_more = self.answers or self._refreshing or any(task.done() for task in self._under_way.values())
        return not has_more and 0 < asked == len(self.readings)

    def forget(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these and drop their answers too: a paused reader keeps nothing."""
        for partition in partitions:
            self.readings.pop(partition, None)
        self.answers = deque(answer for answer in self.answers if self.readings.get(answer.partition) is answer.reading)

    async def look_up(self, ends: dict[TopicPartition, int], limit_s: float) -> dict[TopicPartition, int]:
        """Look up offsets with the fetcher's connections and isolation level."""
        return await look_up(self._links, ends, self._settings.committed_only, limit_s)

    async def ask_topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of topics that have one. Raises RetriableError: no broker answers; ConnectError."""
        await self._links.refresh(topics)
        return {topic: self._links.topic_ids[topic] for topic in topics if topic in self._links.topic_ids}

    async def ask_partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return how many partitions topics have. Raises RetriableError: no broker answers; ConnectError."""
        await self._links.refresh(topics)
        counts = self._links.partition_counts()
        return {topic: counts[topic] for topic in topics if topic in counts}

    async def close(self) -> None:
        """End what is in flight."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._links.close()

    def _send_due(self) -> None:
        """Ask every broker that owes no answer."""
        now_s = time.monotonic()
        self._refresh_if_due(now_s)
        wanted: dict[int, dict[TopicPartition, PartitionReading]] = defaultdict(dict)
        doubted: dict[int, _Doubted] = defaultdict(dict)
        for partition, reading in self.readings.items():
            leader = self._links.leaders.get(partition)
            if leader is not None and reading.fetch_at is not None and reading.retry_s <= now_s:
                epoch = self._links.epochs.get(partition, UNKNOWN)
                if epoch != reading.leader_epoch and UNKNOWN not in (epoch, reading.epoch):
                    doubted[leader][partition] = (reading, epoch)
                    continue
                reading.leader_epoch = epoch
                wanted[leader][partition] = reading
        for broker, readings in doubted.items():
            self._check(broker, readings, now_s)
        for broker, partitions in wanted.items():
            if broker not in self._under_way and self._retry_s.get(broker, 0.0) <= now_s:
                self._asked[broker] = partitions
                asking = self._links.ask(broker, self._request(partitions), FETCH)
                self._under_way[broker] = asyncio.get_running_loop().create_task(asking)

    def _check(self, broker: int, doubted: _Doubted, now_s: float) -> None:
        """Ask a new leader whether its log is the one read so far, once what the last one answered is in."""
        asked = [reading for partitions in self._asked.values() for reading in partitions.values()]
        settled = {place: doubt for place, doubt in doubted.items() if doubt[0] not in asked}
        if settled and broker not in self._checks and self._retry_s.get(broker, 0.0) <= now_s:
            request = EpochEndsRequest({place: (epoch, reading.epoch) for place, (reading, epoch) in settled.items()})
            self._checks[broker] = asyncio.get_running_loop().create_task(self._links.ask(broker, request)), settled

    def _refresh_if_due(self, now_s: float) -> None:
        lost = not self.readings.keys() <= self._links.leaders.keys()
        old = now_s - self._refreshed_s > self._settings.metadata_age_ms / 1000
        due = self.readings and (lost or old or self._outdated)
        if due and self._refreshing is None and self._retry_s.get(None, 0.0) <= now_s:
            self._outdated = False
            topics = {partition.topic for partition in self.readings}
            self._refreshing = asyncio.get_running_loop().create_task(self._links.refresh(topics))

    def _request(self, partitions: dict[TopicPartition, PartitionReading]) -> FencedFetchRequest:
        settings, topics = self._settings, dict[str, list[tuple[int, Any, int]]]()
        epochs: dict[tuple[str, int], int] = {}
        for partition, reading in partitions.items():
            epochs[partition.topic, partition.partition] = reading.leader_epoch
            topics.setdefault(partition.topic, []).append(
                (partition.partition, reading.fetch_at, settings.partition_bytes)
            )
        committed = int(settings.committed_only)
        return FencedFetchRequest(
            settings.wait_ms,
            settings.least_bytes,
            settings.most_bytes,
            committed,
            list(topics.items()),
            epochs=epochs,
        )

    def _tasks(self) -> list[asyncio.Task[Any]]:
        checks = [task for task, _ in self._checks.values()]
        return [*self._under_way.values(), *checks, *([self._refreshing] if self._refreshing else [])]

    async def _any_done(self, limit_s: float) -> None:
        """Wait for an answer, for the time when one may be asked for again, at most for ``limit_s``."""
        tasks = self._tasks()
        now_s = time.monotonic()
        retries_s = [*self._retry_s.values(), *(reading.retry_s for reading in self.readings.values())]
        waits_s = [limit_s, *(retry_s - now_s for retry_s in retries_s if retry_s > now_s)]
        if tasks:
            await asyncio.wait(tasks, timeout=min(waits_s), return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(min(waits_s))

    async def _take_done(self) -> None:
        if self._refreshing is not None and self._refreshing.done():
            task, self._refreshing = self._refreshing, None
            if self._succeeded(task, None):
                self._refreshed_s = time.monotonic()
                await self._compare_topics()
                self._look_for_lost()
        for broker in [broker for broker, (task, _) in self._checks.items() if task.done()]:
            task, doubted = self._checks.pop(broker)
            if self._succeeded(task, broker):
                await self._take_ends(epoch_ends(task.result()), doubted)
            else:
                self._outdated = True
        for broker in [broker for broker, task in self._under_way.items() if task.done()]:
            task, asked = self._under_way.pop(broker), self._asked.pop(broker)
            if self._succeeded(task, broker):
                await self._take(task.result(), asked)
            else:
                self._outdated = True

    def _succeeded(self, task: asyncio.Task[Any], broker: int | None) -> bool:
        """Raises ConnectError of another kind than RetriableError."""
        with contextlib.suppress(RetriableError):
            task.result()
            self._failures.pop(broker, None)
            self._retry_s.pop(broker, None)
            return True
        self._failures[broker] += 1
        self._retry_s[broker] = time.monotonic() + backoff_s(
            self._settings.reconnect_ms, self._failures[broker], random.random()
        )
        return False

    def _look_for_lost(self) -> None:
        """Give partitions without a leader some time: a failover, or metadata in flight; raise when it is up."""
        lost = {
            partition: reading for partition, reading in self.readings.items() if partition not in self._links.leaders
        }
        if lost:  # before a partition is given up, so that a caller that continues with the others asks no more often
            self._retry_s[None] = time.monotonic() + backoff_s(self._settings.retry_ms, 1, random.random())
        for partition, reading in lost.items():
            self._refused(partition, reading, self._links.why_lost(partition))

    async def _take(self, answer: Any, asked: dict[TopicPartition, PartitionReading]) -> None:
        for place, fields in _parts(answer):
            reading, code, batches = asked.get(place), fields[1], fields[-1]
            if reading is None or self.readings.get(place) is not reading:
                continue
            if code == _OUT_OF_RANGE:
                await self._reset(place, reading)
            elif code:
                self._refused(place, reading, code)
            elif batches:
                assert reading.fetch_at is not None, place
                last = last_batch(batches)
                if last is not None and last.next_offset > reading.fetch_at:
                    reading.fetch_at, reading.epoch = last.next_offset, last.leader_epoch
                else:
                    reading.fetch_at = None
                reading.failures, reading.unknown_s = 0, None
                aborted = fields[_ABORTED] if self._settings.committed_only else None
                self.answers.append(PartitionAnswer(place, reading, batches, aborted))
                self.readings[place] = self.readings.pop(place)

    async def _take_ends(self, ends: dict[TopicPartition, EpochEnd], doubted: _Doubted) -> None:
        """Read on where the new leader has the same log; else go back to where it is another one, as Java."""
        for place, (reading, leader_epoch) in doubted.items():
            end = ends.get(place, EpochEnd(KafkaError.UNKNOWN_LEADER_EPOCH, UNKNOWN, UNKNOWN))
            if self.readings.get(place) is not reading or reading.fetch_at is None:
                continue
            if end.error_code:
                self._refused(place, reading, end.error_code)
            elif UNKNOWN in (end.leader_epoch, end.end_offset):
                log.warning("%s: its leader knows nothing of epoch %d that was read", place, reading.epoch)
                await self._reset(place, reading)
            elif end.end_offset < reading.fetch_at:
                self._go_back(place, reading, end, leader_epoch)
            else:
                reading.leader_epoch = leader_epoch

    def _go_back(self, place: TopicPartition, reading: PartitionReading, end: EpochEnd, leader_epoch: int) -> None:
        """Read the log's present records in place of the truncated ones. Answers about those are dropped."""
        position = min(reading.position, end.end_offset)
        text = (
            f"the log was truncated to offset {end.end_offset} by an unclean leader election, but was read up to "
            f"{reading.position}"
        )
        if position < reading.position and self._settings.reset == "none":
            raise connect_error(KafkaError(KafkaError._AUTO_OFFSET_RESET, text), f"reading {place}")
        log.warning("%s: %s, continuing at %d", place, text, position)
        self.readings[place] = PartitionReading(position, position, epoch=end.leader_epoch, leader_epoch=leader_epoch)

    async def _compare_topics(self) -> None:
        """Read topics from their beginning that were deleted and created again behind their positions (KIP-516)."""
        for place, reading in list(self.readings.items()):
            topic_id = self._links.topic_ids.get(place.topic)
            if topic_id is None or not self.watch.is_another(place, topic_id):
                continue
            try:
                found = (await self.look_up({place: FIRST}, _RESET_LIMIT_S))[place]
            except (RetriableError, NotFoundError):
                self._forget_leaders([place])  # nothing is asked of it at a position of the other topic
                continue
            self._decide(LogMove(place, reading.position, found, recreated=True))
            self.watch.take(place, topic_id)
            self.readings[place] = PartitionReading(found, found)

    def _forget_leaders(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self._links.leaders.pop(place, None)

    def _decide(self, move: LogMove) -> None:
        """Ask whether to continue after a move. Raises ConnectError: it must not, and the move is found again later."""
        try:
            if self._settings.reset == "none":
                raise connect_error(KafkaError(KafkaError._AUTO_OFFSET_RESET, str(move)), f"reading {move.partition}")
            self.watch.decide(move)
        except ConnectError:
            self._outdated = True
            self._forget_leaders([move.partition])
            raise

    async def _reset(self, partition: TopicPartition, reading: PartitionReading) -> None:
        """Continue where auto.offset.reset says, because the records to read are gone."""
        wanted = reading.fetch_at
        assert wanted is not None, partition
        try:
            await self._links.refresh({partition.topic})
            await self._compare_topics()
            if self.readings.get(partition) is not reading or partition not in self._links.leaders:
                return
            found = (await self.look_up({partition: FIRST}, _RESET_LIMIT_S))[partition]
            if self._settings.reset == "latest":
                found = (await self.look_up({partition: NEXT}, _RESET_LIMIT_S))[partition]
        except (RetriableError, NotFoundError):
            self._wait(reading)
            return
        self._decide(LogMove(partition, wanted, found, recreated=False))
        self.readings[partition] = PartitionReading(found, found)

    def _refused(self, partition: TopicPartition, reading: PartitionReading, code: int) -> None:
        """Ask for the leader again and wait a little; raise what that does not resolve."""
        problem = connect_error(KafkaError(code), f"reading {partition}")
        now_s = time.monotonic()
        if isinstance(problem, UnknownTopicError):
            self._forget_leaders([partition])  # a topic of that name may be another one when it is there again
            reading.unknown_s = reading.unknown_s or now_s
            if now_s - reading.unknown_s > UNKNOWN_LIMIT_S:
                self._outdated = True
                self._wait(reading)
                raise gone(problem)
        elif not isinstance(problem, RetriableError) or code == KafkaError.INVALID_MSG:
            raise problem  # a corrupt batch is retriable for producers; as Java's consumers, this one stops at it
        self._outdated = True
        self._wait(reading)

    def _wait(self, reading: PartitionReading) -> None:
        reading.failures += 1
        reading.retry_s = time.monotonic() + backoff_s(self._settings.retry_ms, reading.failures, random.random())


def has_steps_left(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop that is not running has more to do at once, which no selector shows any more.

    CPython's own list: there is no public way to ask.
    """
    return bool(getattr(loop, "_ready", ()))


def _parts(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic, partitions in answer.topics or ():
        for fields in partitions:
            yield TopicPartition(topic, fields[0]), fields
