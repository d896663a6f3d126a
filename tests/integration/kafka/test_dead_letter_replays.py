"""Replays of dead letters on a real Kafka: none is lost and none comes twice, whoever is killed or hangs."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.errors import BadConfigError, BadRequestError, NotFoundError
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.operations.dead_letters.model import LetterQuery, ReplayInfo, WantedReplay
from tests.integration.kafka.dead_letter_worker import DeadLetterWorker, Nursery
from tests.support.consumed import consumed

MEND = {"patch": [{"op": "replace", "path": "/value/json/amount", "value": 0}]}
LIMIT_S = 30.0
KEPT = {"retention.ms": "-1"}  # letters are as old as their records


class Story:
    """A queue of letters, and the topic they came from."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.servers = kafka.bootstrap_servers
        self.worker = DeadLetterWorker(self.servers, f"replays-{uuid.uuid4().hex[:6]}")
        self._others: list[DeadLetterWorker] = []
        for topic, partitions in ((self.worker.queue, 2), (self.worker.lines, 3)):
            self.worker.admin.create_topic(TopicSpec(topic, partitions, 1, KEPT))
        self._producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})

    def other(self, worker: str) -> DeadLetterWorker:
        made = DeadLetterWorker(self.servers, self.worker.name, worker)
        self._others.append(made)
        return made

    def put(self, number: int, value: bytes, **more: str) -> None:
        place = {"topic": self.worker.lines, "partition": str(number % 3), "offset": str(number)}
        errors = {**place, "connector.name": "orders", "stage": "TASK_PUT", **more}
        headers = [("h", b"%d" % number)]
        headers += [(f"__connect.errors.{name}", text.encode()) for name, text in errors.items()]
        key, where = b"k%d" % number, number % 2
        while True:
            try:
                self._producer.produce(self.worker.queue, value, key, where, timestamp=1_000 + number, headers=headers)
                return
            except BufferError:
                self._producer.poll(0.1)

    def written(self) -> None:
        assert self._producer.flush(30) == 0

    def wanted(self, **more: Any) -> WantedReplay:
        given = {"filter": {}, "letters": None, "edit": {}, "rate": None, "again": False, "target": "topic", **more}
        return WantedReplay(connector="orders", topic=None, **given)

    def start(self, **more: Any) -> str:
        return self.worker.replays.start_replay(self.wanted(**more), "ann@127.0.0.1").id

    def info(self, replay: str) -> ReplayInfo:
        return self.worker.replays.replay(replay)

    def until(self, replay: str, good: Callable[[ReplayInfo], bool]) -> ReplayInfo:
        end_s = time.monotonic() + LIMIT_S
        while not good(info := self.info(replay)):
            assert time.monotonic() < end_s, info
            time.sleep(0.01)
        return info

    def delivered(self) -> list[Message]:
        """Return what a reader of committed data finds in the topic that the letters came from."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "truth",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self.worker.lines, number, 0) for number in range(3)])
        found, ended = list[Message](), set[int]()
        while len(ended) < 3:
            for message in consumed(consumer, 1_000, 0.2):
                if message.error() is None:
                    found.append(message)
                else:
                    ended.add(message.partition())
        consumer.close()
        return found

    def close(self) -> None:
        for worker in (*self._others, self.worker):
            worker.close()


@pytest.fixture
def story(broker: EmbeddedKafka) -> Iterator[Story]:
    made = Story(broker)
    yield made
    made.close()


def numbers(messages: list[Message]) -> list[int]:
    return sorted(int((message.key() or b"k")[1:]) for message in messages)


def test_ten_thousand_letters_half_of_them_edited_and_three_times_killed(story: Story) -> None:
    count = 10_000
    process = Nursery(story.servers, story.worker.name)
    for number in range(count):
        amount, message = (b'"x"', "bad amount") if number % 2 else (b"1", "away")
        story.put(number, b'{"id":%d, "amount":%s}' % (number, amount), **{"exception.message": message})
    story.written()
    edited = story.start(filter={"message": "bad amount"}, edit=MEND, rate=4_000)
    rest = story.start(rate=4_000)
    assert "waits for replay" in (story.info(rest).error or "")
    try:
        for replay, done in ((edited, 1_000), (edited, 3_000), (rest, 1_000)):
            process.begin()
            seen = story.until(replay, lambda info, done=done: info.done >= done)  # type: ignore[misc]
            process.kill()
            assert (seen.state, seen.done < count // 2) == ("running", True)
        process.begin()
        ended = story.until(rest, lambda info: info.state == "done")
    finally:
        process.close()
    assert (story.info(edited).done, ended.done, ended.failed) == (count // 2, count // 2, 0)
    found = story.delivered()
    assert numbers(found) == list(range(count))
    for letter in found:
        number = int((letter.key() or b"")[1:])
        whole = b'{"id":%d,"amount":0}' % number if number % 2 else b'{"id":%d, "amount":1}' % number
        assert (letter.value(), letter.partition(), letter.headers()) == (whole, number % 3, [("h", b"%d" % number)])
    assert story.worker.desk.page(LetterQuery("orders", filter={"replayed": "false"})).letters == []


def test_a_worker_that_hangs_is_fenced_by_its_successor(story: Story) -> None:
    for number in range(600):
        story.put(number, b"{}")
    story.written()
    hung, goes_on = threading.Event(), threading.Event()
    slow, quick = story.worker, story.other("two:2")
    new_edit = slow.replays._parts.new_edit

    class Hanging:
        def __init__(self, edit: Any) -> None:
            self.edit = edit

        def apply(self, letter: Any, connector: str | None) -> Any:
            if letter.offset == 250:  # one transaction was committed, the next is being made
                hung.set()
                goes_on.wait(LIMIT_S)
            return self.edit.apply(letter, connector)

        def close(self) -> None:
            self.edit.close()

    slow.replays._parts = replace(slow.replays._parts, new_edit=lambda replay: Hanging(new_edit(replay)))
    quick.replays._lease_s = 0.5
    slow.replays.start()
    replay = story.start()
    assert hung.wait(LIMIT_S)
    assert story.info(replay).worker_id == "one:1"
    quick.replays.start()
    ended = story.until(replay, lambda info: info.state == "done")
    goes_on.set()
    story.start(letters=[(0, 0)], again=True)
    assert (ended.done, ended.failed) == (600, 0)
    slow.replays.stop()
    assert set(numbers(story.delivered())) == set(range(600))
    assert len(story.delivered()) - 600 in (0, 1)  # the one that was wanted again


def test_letter_that_cannot_be_edited_fails_alone_and_stays(story: Story) -> None:
    story.put(0, b'{"id":0,"amount":"x"}')
    story.put(1, b"{no json")
    story.put(2, b'{"id":2}')
    story.put(3, b'{"id":3,"amount":"x"}', topic="elsewhere")
    story.put(4, b'{"id":4,"amount":"x"}', **{"value.encoding": "input"})
    story.put(5, b'{"id":5,"amount":"x"}')
    story.written()
    dry = story.worker.replays.dry_run(story.wanted(edit=MEND))
    assert (dry.matched, dry.complete) == (6, True)
    first = dry.sample[0]
    assert first.before["value"] == {"json": {"id": 0, "amount": "x"}}
    assert first.after is not None
    assert first.after["value"] == {"json": {"id": 0, "amount": 0}}
    assert [letter.error is None for letter in dry.sample] == [True, False, False, False, True, True]
    assert story.delivered() == []
    story.worker.replays.start()
    ended = story.until(story.start(edit=MEND), lambda info: info.state == "done")
    assert (ended.matched, ended.done, ended.failed) == (6, 3, 3)
    assert {failure.offset * 2 + failure.partition for failure in ended.failures} == {1, 2, 3}
    assert numbers(story.delivered()) == [0, 4, 5]
    left = story.worker.desk.page(LetterQuery("orders", filter={"replayed": False})).letters
    assert [letter.origin.offset for letter in left] == [1, 2, 3]
    # One of them is replayed as it is, the queue deleted up to what is left.
    assert story.until(story.start(letters=[(0, 1)]), lambda info: info.state == "done").done == 1
    deleted = story.worker.replays.delete("orders", None)
    assert (deleted.deleted, deleted.up_to) == (3, {"0": 3, "1": 0})
    left = story.worker.desk.page(LetterQuery("orders")).letters
    assert [letter.origin.offset for letter in left] == [1, 3, 5]


def test_a_chain_of_transformations_and_stopping(story: Story) -> None:
    for number in range(40):
        story.put(number, b'{"id":%d}' % number if number % 4 else b"")
    story.written()
    chain = {
        "transforms": "stamp,drop",
        "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.stamp.static.field": "by",
        "transforms.stamp.static.value": "hand",
        "transforms.stamp.predicate": "empty",
        "transforms.stamp.negate": "true",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "empty",
        "predicates": "empty",
        "predicates.empty.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    with pytest.raises(BadConfigError, match=r"transforms\.x\.type"):
        story.start(edit={"transforms": {"transforms": "x"}})
    with pytest.raises(BadConfigError, match="operation 0"):
        story.start(edit={"patch": [{"op": "replace", "path": "/topic", "value": 1}]})
    with pytest.raises(BadRequestError, match="at most 262144 bytes"):
        story.start(edit={"patch": [{"op": "replace", "path": "/value", "value": {"text": "x" * 300_000}}]})
    with pytest.raises(BadRequestError, match="cannot be written as JSON"):
        story.start(edit={"patch": [{"op": "replace", "path": "/value", "value": float("inf")}]})
    with pytest.raises(BadRequestError, match="rate"):
        story.start(rate=0.0)
    with pytest.raises(NotFoundError):
        story.info("none")
    story.worker.replays.start()
    replay = story.start(edit={"transforms": chain}, rate=10.0)
    story.until(replay, lambda info: info.done >= 10)
    assert story.worker.replays.stop_replay(replay).state == "stopped"
    stopped = story.until(replay, lambda info: info.worker_id == "")
    time.sleep(0.3)
    done = story.info(replay).done
    assert stopped.done <= done < 40
    story.worker.replays.resume_replay(replay)
    ended = story.until(replay, lambda info: info.state == "done")
    assert (ended.done, ended.failed) == (40, 0)
    found = story.delivered()
    assert [json.loads(message.value() or b"")["by"] for message in found] == ["hand"] * len(found)
    assert numbers(found) == [number for number in range(40) if number % 4]


def test_a_failed_or_stopped_sink_resumes_after_the_records_it_took(story: Story) -> None:
    for number in range(20):
        story.put(number, b'{"id":%d}' % number)
    story.put(20, b"{}", topic="elsewhere")
    story.written()
    feed, worker = story.worker.fake_feed(), story.worker
    feed.leads = False
    worker.replays.start()
    replay = story.start(target="sink")
    name, side = f"orders-replay-{replay}", f"{worker.queue}-replay-{replay}-0"
    assert "leader" in (story.info(replay).error or "")
    feed.leads = True
    story.until(replay, lambda info: info.failed == 1)  # that of another topic
    feed.taken[side] = 5  # of the copies, which lie in the order of the letters' times
    taken = story.until(replay, lambda info: info.done == 5)
    assert (taken.state, taken.delivery) == ("running", "at least once")
    assert feed.running[name]["topics"] == side
    feed.why = "disk full"
    failed = story.until(replay, lambda info: info.state == "failed")
    assert (failed.done, feed.running) == (5, {})
    assert "disk full" in (failed.error or "")

    feed.why = ""
    worker.replays.resume_replay(replay)
    feed.taken[side] = 12
    story.until(replay, lambda info: info.done == 12)
    worker.replays.stop_replay(replay)
    end_s = time.monotonic() + LIMIT_S
    while feed.running:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    refused = [("__connect.errors.topic", side.encode()), ("__connect.errors.offset", b"13")]
    story._producer.produce(f"{worker.queue}-replay-{replay}-refused", b"{}", headers=refused)
    story.written()
    worker.replays.resume_replay(replay)
    feed.taken[side] = 21  # behind the transaction's marker
    ended = story.until(replay, lambda info: info.state == "done")
    assert (ended.matched, ended.done, ended.failed) == (21, 19, 2)
    left = worker.desk.page(LetterQuery("orders", filter={"replayed": "false"})).letters
    assert [letter.origin.offset for letter in left] == [13, 20]
    assert (feed.running, worker.admin.partition_count(side), story.delivered()) == ({}, None, [])
