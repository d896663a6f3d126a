"""Batches keep their order and arrive whatever brokers answer: later, another leader, no connection, too large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.protocol import produce
from confluent_kafka import KafkaError
from crc32c import crc32c

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError
from spark_connect_rt.kafka.copying import batch_sender
from spark_connect_rt.kafka.copying.batch_sender import BatchSender
from spark_connect_rt.kafka.copying.pieces import CopiedBatch, CopyRules, ProduceBatches, ProduceResult, pieces_of
from spark_connect_rt.kafka.records.record_batches import whole_batches
from tests.unit.kafka.records.test_record_batches import batch

HERE, THERE = TopicPartition("t", 0), TopicPartition("A.t", 0)
OTHER = TopicPartition("A.t", 1)
RULES = CopyRules(None, 100_000, 20_000, check_crcs=True, committed_only=False)
LARGE = b"x" * 5_000


class Links:
    """Brokers that append what they take, and answer as a script says before that."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.leaders = {THERE: 1, OTHER: 1}
        self.logs: dict[TopicPartition, list[bytes]] = {THERE: [], OTHER: []}
        self.refreshed: Callable[[], None] = lambda: None
        self.most_under_way = self.under_way = 0
        self.sizes: list[int] = []

    async def ask(self, broker: int, request: Any, purpose: str) -> Any:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0.001)
        self.under_way -= 1
        said = self.script.pop(0) if self.script else 0
        if isinstance(said, Exception):
            raise said
        if broker != self.leaders[request._batches[0][0]]:
            said = int(KafkaError.NOT_LEADER_FOR_PARTITION)
        self.sizes.append(sum(len(content) for _, content in request._batches))
        return {place: self._outcome(place, bytes(content), said) for place, content in request._batches}

    def _outcome(self, place: TopicPartition, content: bytes, said: Any) -> ProduceResult:
        code = said(content) if callable(said) else said
        log, values = self.logs[place], [] if code else list(_values(content))
        offset = -1 if code else len(log)
        log.extend(values)
        return ProduceResult(code, offset)

    async def refresh(self, topics: set[str]) -> None:
        self.refreshed()

    def why_lost(self, place: TopicPartition) -> int:
        return int(KafkaError.UNKNOWN_TOPIC_OR_PART)

    async def close(self) -> None: ...


def _values(content: bytes) -> Iterator[bytes]:
    from aiokafka.record.memory_records import MemoryRecords

    assert len(list(whole_batches(content))) == 1, "newer brokers take one batch of a partition"
    found = MemoryRecords(content).next_batch()
    assert found.validate_crc()
    return (record.value for record in found)


def blob(at: int, *values: bytes, producer: int = 5) -> bytes:
    return batch(at, *[(b"k", value) for value in values], producer=producer)


def copied(
    links: Links,
    batches: list[bytes],
    *,
    delivery_ms: int = 60_000,
    place: TopicPartition = THERE,
    rules: CopyRules = RULES,
) -> Any:
    """Send batches; return (offset at the source, at the target, count) as they were acknowledged, and the failure."""
    done: list[tuple[int, int, int]] = []
    topic_ids: set[str | None] = set()

    def acknowledged(where: TopicPartition, piece: CopiedBatch, offset: int) -> None:
        topic_ids.add(piece.topic_id)
        for first, count in piece.runs():
            done.append((first, offset, count))
            offset += count

    async def run() -> ConnectError | None:
        sender = BatchSender(links, rules, -1, (1_000, delivery_ms, 1, 300_000), acknowledged)  # type: ignore[arg-type]
        for piece in pieces_of(HERE, 0, memoryview(bytearray(b"".join(batches))), None, rules):
            piece.topic_id = "id"
            sender.put(place, piece)
        async with asyncio.timeout(10):
            while sender.held_bytes and sender.failure is None:
                await sender.changed(0.05)
        await sender.close()
        return sender.failure

    failure = asyncio.run(run())
    assert topic_ids <= {"id"}, "an offset without it does not show that its topic was created again"
    return done, failure


PASSING = [
    int(KafkaError.NOT_LEADER_FOR_PARTITION),
    int(KafkaError.REQUEST_TIMED_OUT),
    int(KafkaError.NOT_ENOUGH_REPLICAS),
    int(KafkaError.KAFKA_STORAGE_ERROR),
    RetriableError("the connection broke"),
]


@pytest.mark.parametrize("trouble", PASSING, ids=str)
def test_a_batch_is_sent_again_and_those_behind_it_wait(trouble: Any) -> None:
    links = Links(trouble, trouble)
    done, failure = copied(links, [blob(10 * n, LARGE, b"%d" % n) for n in range(4)])
    assert failure is None
    assert links.logs[THERE] == [value for n in range(4) for value in (LARGE, b"%d" % n)]
    assert done == [(10 * n, 2 * n, 2) for n in range(4)]
    assert links.most_under_way == 1


def test_another_broker_leads_in_the_middle_of_it() -> None:
    links = Links()

    def moved() -> None:
        links.leaders[THERE] = 2

    links.refreshed = moved
    done, failure = copied(links, [blob(n, LARGE) for n in range(3)])
    assert (failure, len(done), links.leaders[THERE]) == (None, 3, 2)


def test_a_partition_that_comes_later_is_waited_for() -> None:
    links = Links()
    del links.leaders[THERE]
    links.refreshed = lambda: links.leaders.update({THERE: 1})
    assert copied(links, [blob(0, LARGE)]) == ([(0, 0, 1)], None)


def test_an_unknown_partition_is_a_permanent_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what a poll is tried again for nor what a mirror waits for: its task would stand still for ever."""
    monkeypatch.setattr(batch_sender, "UNKNOWN_LIMIT_S", 0.02)
    links = Links()
    links.leaders.clear()
    _, failure = copied(links, [blob(0, LARGE)])
    assert isinstance(failure, ExternalError)
    assert "UNKNOWN_TOPIC_OR_PART" in str(failure)


@pytest.mark.parametrize("known", [True, False])
def test_a_partition_without_a_leader_does_not_wait_forever(known: bool) -> None:
    """What its replicas' brokers are away for, and what no broker was there to be asked about."""
    links = Links()
    links.leaders.clear()
    links.why_lost = lambda place: int(KafkaError.LEADER_NOT_AVAILABLE)  # type: ignore[method-assign]
    if not known:
        links.refreshed = _away
    _, failure = copied(links, [blob(0, LARGE)], delivery_ms=50)
    assert isinstance(failure, ExternalError)
    assert ("LEADER_NOT_AVAILABLE" if known else "no broker answers") in str(failure)


def _away() -> None:
    raise RetriableError("no broker answers")


def test_batch_waiting_for_a_stalled_partition_keeps_no_answer_in_memory() -> None:
    async def run() -> None:
        links = Links()
        links.leaders.clear()
        sender = BatchSender(links, RULES, -1, (1_000, 60_000, 1, 300_000), lambda *_: None)  # type: ignore[arg-type]
        for number in range(3):
            answer = bytearray(blob(number, LARGE) + bytes(1_000_000))
            (piece,) = pieces_of(HERE, 0, memoryview(answer)[: len(blob(0, LARGE))], None, RULES)
            sender.put(THERE, piece)
            answer.clear()  # BufferError while any view of it is left
        assert sender.is_stalled
        links.leaders[THERE] = 1
        links.refreshed = lambda: None
        while sender.held_bytes:
            await sender.changed(1.0)
        assert not sender.is_stalled
        await sender.close()

    asyncio.run(run())


def test_it_does_not_try_forever() -> None:
    links = Links(*[int(KafkaError.NOT_ENOUGH_REPLICAS)] * 1_000)
    _, failure = copied(links, [blob(0, LARGE)], delivery_ms=50)
    assert isinstance(failure, ExternalError)
    assert "NOT_ENOUGH_REPLICAS" in str(failure)


def test_batch_too_large_for_the_topic_is_halved_until_it_fits() -> None:
    values = [b"%03d" % n + b"y" * 200 for n in range(30)]
    links = Links(*[lambda content: int(KafkaError.MSG_SIZE_TOO_LARGE) if len(content) > 1_000 else 0] * 100)
    done, failure = copied(links, [blob(7, *values)])
    assert (failure, links.logs[THERE]) == (None, values)
    assert [(up - 7, down) for up, down, _ in done] == [(down, down) for _, down, _ in done]
    assert sum(count for *_, count in done) == 30


def test_a_batch_that_is_refused_as_it_is_goes_as_rows_and_then_fails_for_good() -> None:
    def takes_nobody_elses(content: bytes) -> int:
        return int(KafkaError.INVALID_RECORD)

    links = Links(takes_nobody_elses)
    assert copied(links, [blob(0, LARGE, b"2")]) == ([(0, 0, 2)], None)
    _, failure = copied(Links(*[takes_nobody_elses] * 9), [blob(0, LARGE, b"2")])
    assert isinstance(failure, DataError)


def test_damaged_batch_fails_for_good_and_later_batches_are_not_sent() -> None:
    def checks(content: bytes) -> int:
        return 0 if crc32c(content[21:]) == int.from_bytes(content[17:21], "big") else int(KafkaError.INVALID_MSG)

    damaged = bytearray(blob(1, LARGE, producer=-1))
    damaged[-1] ^= 1
    links = Links(*[checks] * 9)
    rules = replace(RULES, target_checks=True)
    batches = [blob(0, LARGE, producer=-1), bytes(damaged), blob(2, LARGE, producer=-1)]
    done, failure = copied(links, batches, rules=rules)
    assert done == [(0, 0, 1)]
    assert isinstance(failure, DataError)
    assert "offset 1 is damaged" in str(failure)


def test_small_batches_that_wait_leave_as_one_and_keep_their_order() -> None:
    links = Links()
    done, failure = copied(links, [blob(2 * n, b"%d" % n) for n in range(100)])
    assert (failure, links.logs[THERE]) == (None, [b"%d" % n for n in range(100)])
    assert done == [(2 * n, n, 1) for n in range(100)]  # every second offset is a hole
    assert len(links.sizes) <= 3


def test_small_batches_of_recreated_topic_do_not_join_older_ones() -> None:
    links, acknowledged = Links(), list[tuple[str | None, int, int]]()

    def note(where: TopicPartition, piece: CopiedBatch, offset: int) -> None:
        acknowledged.append((piece.topic_id, piece.last, piece.count))

    async def run() -> None:
        sender = BatchSender(links, RULES, -1, (1_000, 60_000, 1, 300_000), note)  # type: ignore[arg-type]
        for topic_id in ("old", "new"):
            batches = b"".join(blob(at, b"%d" % at) for at in range(3))
            for piece in pieces_of(HERE, 0, memoryview(bytearray(batches)), None, RULES):
                piece.topic_id = topic_id
                sender.put(THERE, piece)
        while sender.held_bytes:
            await sender.changed(1.0)
        await sender.close()

    asyncio.run(run())
    assert links.logs[THERE] == [b"0", b"1", b"2"] * 2
    assert acknowledged == [("old", 2, 3), ("new", 2, 3)]


def later(links: Links, first: int, second: int) -> list[int]:
    """Send so many batches of one partition, and when the first is under way of another; return the requests' sizes."""

    async def run() -> None:
        sender = BatchSender(links, RULES, -1, (1_000, 60_000, 1, 300_000), lambda *_: None)  # type: ignore[arg-type]
        for place, count in ((THERE, first), (OTHER, second)):
            batches = b"".join(blob(n, LARGE) for n in range(count))
            for piece in pieces_of(HERE, 0, memoryview(bytearray(batches)), None, RULES):
                sender.put(place, piece)
            while not links.under_way:
                await asyncio.sleep(0)
        while sender.held_bytes:
            await sender.changed(1.0)
        await sender.close()

    asyncio.run(run())
    return links.sizes


def test_partitions_with_more_behind_leave_together() -> None:
    """Each request has its price: two streams of small batches share theirs, whichever began first."""
    links = Links()
    sizes = later(links, 5, 4)
    assert [round(size / len(LARGE)) for size in sizes] == [1, 2, 2, 2, 2]
    assert links.most_under_way == 1


def test_new_batch_does_not_wait_for_another_partition() -> None:
    links = Links()
    later(links, 5, 1)
    assert links.most_under_way == 2


def test_a_request_does_not_exceed_max_request_size() -> None:
    links = Links()
    done, failure = copied(links, [blob(n, LARGE) for n in range(20)])
    assert (failure, len(done)) == (None, 20)
    assert max(links.sizes) <= RULES.request_bytes


@pytest.mark.parametrize("version", range(3, 9))
def test_an_answer_is_read_as_the_library_writes_it(version: int) -> None:
    """Of two topics, partitions refused and not; from version 8 on with texts and records that are to blame."""
    form = getattr(produce, f"ProduceResponse_v{version}")
    start = [0] if version >= 5 else []
    errors = [[(4, "null key"), (7, None)], "it was refused"] if version >= 8 else []
    nothing: list[Any] = [[], None] if version >= 8 else []
    topics = [
        ("t", [(0, 0, 70, -1, *start, *nothing), (3, 87, -1, -1, *start, *errors)]),
        ("ü", [(1, 6, -1, -1, *start, *nothing)]),
    ]
    blob = form(topics, 0).encode()
    request = ProduceBatches([], -1, 1_000)
    expected = {
        HERE: ProduceResult(0, 70),
        TopicPartition("t", 3): ProduceResult(87, -1),
        TopicPartition("ü", 1): ProduceResult(6, -1),
    }
    assert request.decoded(blob, version) == expected
    assert request.version({0: (0, version)}) == version
