"""Sends pieces to the brokers that lead their partitions, until they are acknowledged. One loop.

Of a partition one batch is in flight, so its order holds across attempts; of a broker a few requests are, each with
the batches of as many partitions as wait. An error that passes is waited for; a batch that a broker refuses is taken
apart and sent as rows, in halves where it is too large.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import (
    ConnectError,
    DataError,
    ExternalError,
    RetriableError,
    TimedOutError,
    UnknownTopicError,
)
from spark_connect_rt.kafka.copying.pieces import (
    SMALL_BYTES,
    CopiedBatch,
    CopyRules,
    ProduceBatches,
    ProduceResult,
    halves,
    laid_out,
    taken_apart,
)
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.reading.broker_links import BrokerLinks
from spark_connect_rt.kafka.records.passed_batches import put_back_offset, ready_to_send

MOST_REQUESTS = 2  # in flight to one broker: it has one while the other is made; each has a price, so no more
LANES = tuple(f"produce {number}" for number in range(MOST_REQUESTS))  # a broker answers a connection in order
FULL_BYTES = 256 << 10  # of a request: with more a byte costs no less
SAY_STALLED_EACH_S = 10.0
UNKNOWN_LIMIT_S = 30.0  # until a partition that no broker knows counts as one that does not exist
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART
_NO_ANSWER = ProduceResult(KafkaError.NETWORK_EXCEPTION, -1)
log = logging.getLogger(__name__)
OnAcknowledged = Callable[[TopicPartition, CopiedBatch, int], None]


class BatchSender:
    """See the module. Times s of the monotonic clock."""

    def __init__(
        self,
        links: BrokerLinks,
        rules: CopyRules,
        acks: int,
        limits_ms: tuple[int, int, int, int],
        on_acknowledged: OnAcknowledged,
    ) -> None:
        """Take the way to the brokers, and (request, delivery, wait, age of metadata) limits; see ``BatchCopier``."""
        self._links = links
        self._rules = rules
        self._acks = acks
        self._request_ms, delivery_ms, retry_ms, age_ms = limits_ms
        self._delivery_s, self._retry_s, self._age_s = delivery_ms / 1000, retry_ms / 1000, age_ms / 1000
        self._on_acknowledged = on_acknowledged
        self._waiting: dict[TopicPartition, deque[CopiedBatch]] = {}
        self._busy: set[TopicPartition] = set()  # in flight, or resting until they are tried again
        self._ready: dict[int, deque[TopicPartition]] = defaultdict(deque)  # by leader
        self._requests: Counter[int] = Counter()  # in flight, by broker
        self._lanes = defaultdict[int, list[str]](lambda: list(LANES))  # by broker, those without a request
        self._due: set[int] = set()  # brokers to which something will be sent in this step or the next one of the loop
        self._lost: dict[TopicPartition, float] = {}  # without a leader, since when
        self._stalled: set[TopicPartition] = set()  # lost, or not taken at the last attempt
        self._refreshed_s = self._said_s = -1e9
        self._unanswered = False  # the last question for leaders
        self._refreshing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._below = 0  # held bytes below which a waiting caller continues
        self.held_bytes = 0  # by what is not acknowledged
        self.failure: ConnectError | None = None
        """For good, so never one that asks to be tried again."""
        self.last_error = ""

    def put(self, place: TopicPartition, piece: CopiedBatch) -> None:
        """Send a piece behind all others of its partition."""
        waiting = self._waiting.get(place)
        if waiting is None:
            waiting = self._waiting[place] = deque()
        if place in self._stalled:
            piece.keep()
        waiting.append(piece)
        self.held_bytes += piece.size
        if len(waiting) == 1:
            self._make_ready(place)

    @property
    def is_stalled(self) -> bool:
        """Return whether a partition has no leader, or took nothing at its last attempt."""
        return bool(self._stalled)

    async def changed(self, limit_s: float, below: int = 1) -> None:
        """Return when less than ``below`` bytes are held, something failed, or the time is up."""
        self._changed.clear()
        self._below = below
        if self.failure is None and self.held_bytes >= below:
            try:
                async with asyncio.timeout(limit_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Give up what is in flight."""
        tasks = [*self._tasks, *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._links.close()

    # -- which partition's turn it is

    def _make_ready(self, place: TopicPartition) -> None:
        if place in self._busy or not self._waiting.get(place):
            return
        leader = self._links.leaders.get(place)
        if leader is None:
            self._lost.setdefault(place, time.monotonic())
            self._stall(place)
            self._refresh()
            return
        self._busy.add(place)
        self._ready[leader].append(place)
        if leader not in self._due and self._requests[leader] < MOST_REQUESTS:
            # Not at once, so that other pieces that have come in leave with it.
            self._due.add(leader)
            asyncio.get_running_loop().call_soon(self._send_ready, leader)

    def _send_ready(self, broker: int) -> None:
        self._due.discard(broker)
        while self._requests[broker] < MOST_REQUESTS and (chosen := self._next_request(broker)):
            self._start(self._send(broker, chosen))

    def _next_request(self, broker: int) -> dict[TopicPartition, tuple[CopiedBatch, Any]] | None:
        """Return what leaves next, counted as in flight; None: nothing now."""
        if time.monotonic() - self._refreshed_s > self._age_s:
            self._refresh()
        ready = self._ready[broker]
        if not ready or self.failure is not None or (self._requests[broker] and self._gains_by_waiting(ready)):
            return None
        chosen = self._chosen(ready)
        self._requests[broker] += bool(chosen)
        return chosen

    def _gains_by_waiting(self, ready: deque[TopicPartition]) -> bool:
        """Return whether what is ready should leave with the request that is in flight.

        Of small batches the request is what costs, here and at the broker. Where more of each partition waits, those
        that leave together come back together; where not, a batch that has just come in must not wait.
        """
        size = 0
        for place in ready:
            waiting = self._waiting[place]
            size += waiting[0].size
            if len(waiting) == 1 or size >= FULL_BYTES:
                return False
        return True

    def _chosen(self, ready: deque[TopicPartition]) -> dict[TopicPartition, tuple[CopiedBatch, Any]]:
        """Take the next batches of partitions whose turn it is, a request full of them."""
        chosen: dict[TopicPartition, tuple[CopiedBatch, Any]] = {}
        size = 0
        while ready:
            place = ready[0]
            try:
                piece = self._next(place)
                if chosen and size + piece.size > self._rules.request_bytes:
                    break
                chosen[place] = piece, self._content(piece)
            except Exception as error:  # noqa: BLE001 - the loop would only log it, and the copy would stand still
                self._fail(
                    error if isinstance(error, ConnectError) else ConnectError(f"producing to {place}: {error!r}")
                )
                break
            size += piece.size
            ready.popleft()
        return chosen

    def _next(self, place: TopicPartition) -> CopiedBatch:
        """Return the first piece that waits; small batches of one topic that wait are made one first."""
        waiting = self._waiting[place]
        if len(waiting) > 1 and _may_be_one(waiting[0], waiting[1]):
            small = [waiting.popleft()]
            size = small[0].size
            while waiting and _may_be_one(small[0], waiting[0]) and size + waiting[0].size <= self._rules.batch_bytes:
                size += waiting[0].size
                small.append(waiting.popleft())
            self._replace(place, small, list(taken_apart(small, 0, self._rules)))
        return waiting[0]

    def _replace(self, place: TopicPartition, old: list[CopiedBatch], new: list[CopiedBatch]) -> None:
        """Put pieces in the place of others, which are not in the queue any more."""
        self.held_bytes += sum(piece.size for piece in new) - sum(piece.size for piece in old)
        for piece in new:
            piece.read_ms, piece.until_s, piece.topic_id = old[0].read_ms, old[0].until_s, old[0].topic_id
        self._waiting[place].extendleft(reversed(new))

    def _content(self, piece: CopiedBatch) -> Any:
        if piece.head is None:
            return laid_out(piece, int(time.time() * 1000), self._rules)
        if isinstance(piece.content, bytes) or piece.content.readonly:
            piece.keep()
        ready_to_send(piece.content, piece.head)
        return piece.content

    # -- requests

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, ConnectError) else ConnectError(f"producing: {error!r}"))

    async def _send(self, broker: int, chosen: dict[TopicPartition, tuple[CopiedBatch, Any]] | None) -> None:
        """Send a request, and what is ready then: a task for each would cost the loop a turn."""
        while chosen:
            await self._sent(broker, chosen)
            chosen = self._next_request(broker)
            self._send_ready(broker)

    async def _sent(self, broker: int, chosen: dict[TopicPartition, tuple[CopiedBatch, Any]]) -> None:
        now_s = time.monotonic()
        for piece, _ in chosen.values():
            piece.until_s = piece.until_s or now_s + self._delivery_s
        batches = [(place, content) for place, (_, content) in chosen.items()]
        found: dict[TopicPartition, ProduceResult] = {}
        lane = self._lanes[broker].pop()
        try:
            request = ProduceBatches(batches, self._acks, self._request_ms)
            found = await self._links.ask(broker, request, lane)
        except RetriableError as error:
            self.last_error = str(error)
        finally:
            self._lanes[broker].append(lane)
            self._requests[broker] -= 1
        self._due.add(broker)
        for place, (piece, _) in chosen.items():
            self._take(place, piece, found.get(place, _NO_ANSWER))
        if self.held_bytes < self._below:
            self._changed.set()

    def _take(self, place: TopicPartition, piece: CopiedBatch, outcome: ProduceResult) -> None:
        if not outcome.code:
            waiting = self._waiting[place]
            waiting.popleft()
            self._stalled.discard(place)
            self.held_bytes -= piece.size
            self._on_acknowledged(place, piece, outcome.offset)
            self._busy.discard(place)
            if waiting:
                self._make_ready(place)
            else:
                del self._waiting[place]
            return
        problem = connect_error(KafkaError(outcome.code), f"producing to {place}")
        # Java's producer sends a batch again whose bytes are not those of its checksum. This one was copied: it is sent
        # as rows, with their own checksum.
        if isinstance(problem, RetriableError) and outcome.code != KafkaError.INVALID_MSG:
            self._rest(place, piece, problem)
        elif piece.head is not None:
            self._send_rows(place, piece, problem)
        elif outcome.code in _TOO_LARGE and piece.count > 1:
            self._waiting[place].popleft()
            self._replace(place, [piece], halves(piece))
            self._again(place)
        else:
            self._fail(problem)

    def _send_rows(self, place: TopicPartition, piece: CopiedBatch, problem: ConnectError) -> None:
        """Send rows in the place of a batch that the broker refuses as it is."""
        assert piece.head is not None
        self._waiting[place].popleft()
        put_back_offset(piece.content, piece.head)
        log.info(
            "%s: a batch of %d records was rejected (%s), sending it record by record", place, piece.count, problem
        )
        try:
            rows = list(taken_apart([piece], 0, self._rules))
        except DataError as error:
            self._fail(error)
            return
        self._replace(place, [piece], rows)
        self._again(place)

    def _rest(self, place: TopicPartition, piece: CopiedBatch, problem: ConnectError) -> None:
        """Try again after a while, by newer metadata. Fails when the time for that is up."""
        now_s = time.monotonic()
        self.last_error = str(problem)
        self._stall(place)
        piece.attempts += 1
        begun_s = now_s if piece.until_s is None else piece.until_s - self._delivery_s
        self._say_stalled(place, now_s - begun_s, self.last_error)
        if piece.until_s is not None and now_s >= piece.until_s:
            self._fail(TimedOutError(f"producing to {place}: not acknowledged in time; last error: {problem}"))
            return
        if isinstance(problem, UnknownTopicError):
            first_s = self._lost.setdefault(place, now_s)
            if now_s - first_s > UNKNOWN_LIMIT_S:
                self._fail(problem)
                return
        wait_s = Backoff(self._retry_s, max(1.0, self._retry_s)).wait(piece.attempts, random.random())
        self._refresh()
        asyncio.get_running_loop().call_later(wait_s, self._again, place)

    def _stall(self, place: TopicPartition) -> None:
        """Mark the partition as stalled. Its pieces may wait for long and must not keep whole answers in memory."""
        self._stalled.add(place)
        for piece in self._waiting[place]:
            piece.keep()

    def _say_stalled(self, place: TopicPartition, since_s: float, why: str) -> None:
        if since_s > SAY_STALLED_EACH_S and time.monotonic() - self._said_s > SAY_STALLED_EACH_S:
            self._said_s = time.monotonic()
            log.warning("%s has accepted nothing for %d s: %s", place, since_s, why)

    def _again(self, place: TopicPartition) -> None:
        self._busy.discard(place)
        self._make_ready(place)

    def _fail(self, error: ConnectError) -> None:
        self.failure = self.failure or (ExternalError(str(error)) if isinstance(error, RetriableError) else error)
        self._changed.set()

    # -- who leads what

    def _refresh(self) -> None:
        if self._refreshing is None and self._waiting:
            self._refreshing = asyncio.get_running_loop().create_task(self._refreshed())

    async def _refreshed(self) -> None:
        topics = {place.topic for place in self._waiting}
        try:
            await self._links.refresh(topics)
            self._refreshed_s, self._unanswered = time.monotonic(), False
        except RetriableError as error:
            self.last_error, self._unanswered = str(error), True
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error if isinstance(error, ConnectError) else ConnectError(f"asking for leaders: {error!r}"))
            return
        finally:
            self._refreshing = None
        self._look_for_lost(time.monotonic())
        if self._lost:
            is_new = any(place.topic not in topics for place in self._lost)
            asyncio.get_running_loop().call_later(0 if is_new else self._retry_s, self._refresh)

    def _look_for_lost(self, now_s: float) -> None:
        """Continue with partitions that have a leader now. Fails when the time for that is up."""
        for place, since_s in list(self._lost.items()):
            code = self._links.why_lost(place)
            if place in self._links.leaders:
                del self._lost[place]
                self._make_ready(place)
            elif now_s - since_s > UNKNOWN_LIMIT_S and code == _UNKNOWN and not self._unanswered:
                self._fail(connect_error(KafkaError(_UNKNOWN), f"producing to {place}"))
            else:
                why = self.last_error if self._unanswered else KafkaError(code).name()
                self._say_stalled(place, now_s - since_s, why)
                if now_s - since_s > self._delivery_s:
                    self._fail(TimedOutError(f"producing to {place}: no leader in time; last error: {why}"))


def _is_small(piece: CopiedBatch) -> bool:
    return piece.head is not None and piece.size < SMALL_BYTES and not piece.attempts


def _may_be_one(first: CopiedBatch, second: CopiedBatch) -> bool:
    return _is_small(first) and _is_small(second) and first.topic_id == second.topic_id
