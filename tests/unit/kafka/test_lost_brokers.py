"""When a client of librdkafka has lost all its brokers, and when a new client takes over."""

from __future__ import annotations

import itertools
import logging
from contextlib import suppress
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_connect_rt.errors import BadConfigError, TimedOutError, UnknownTopicError
from spark_connect_rt.kafka.client_lifetime import SharedClient
from spark_connect_rt.kafka.lost_brokers import (
    BrokerWatch,
    CallWatch,
    brokers_in,
    has_broker,
    is_left_behind,
    is_unanswered,
)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def statistics(*sources: str) -> str:
    brokers = {f"{source}-{number}": {"source": source} for number, source in enumerate(sources)}
    return orjson.dumps({"name": "rdkafka#producer-1", "brokers": brokers, "topics": {}}).decode()


LOST = statistics("logical", "internal")
AWAY = statistics("configured", "logical")  # librdkafka lists a broker to which it has no connection, too


def test_only_brokers_that_can_be_asked_count() -> None:
    assert brokers_in(statistics("learned", "configured", "logical", "internal")) == 2
    assert brokers_in(LOST) == 0
    assert brokers_in(b"{}") == 0


class TestBrokerWatch:
    def test_a_client_without_brokers_is_lost_after_some_seconds(self, clock: Clock) -> None:
        watch = BrokerWatch("the producer of t", clock)
        watch.take(LOST)
        assert not watch.is_lost()
        clock.now_s += 4.9
        watch.take(LOST)
        assert not watch.is_lost()
        clock.now_s += 0.1
        assert watch.is_lost()

    def test_brokers_that_come_back_end_the_suspicion(self, clock: Clock) -> None:
        watch = BrokerWatch("the producer of t", clock)
        watch.take(LOST)
        clock.now_s += 4
        watch.take(statistics("learned"))
        clock.now_s += 4
        watch.take(LOST)
        assert not watch.is_lost()

    def test_a_broker_that_is_only_away_costs_no_client(self, clock: Clock) -> None:
        watch = BrokerWatch("the producer of t", clock)
        for _ in range(180):
            watch.take(AWAY)
            assert not watch.is_lost()
            clock.now_s += 4

    def test_replacements_are_at_most_every_half_minute_while_it_lasts(self, clock: Clock) -> None:
        watch = BrokerWatch("the producer of t", clock)
        begun_s, times = clock.now_s, []
        while clock.now_s < begun_s + 720:
            watch.take(LOST)
            if watch.is_lost():
                watch.replaced()
                times.append(clock.now_s - begun_s)
            clock.now_s += 1
        waits = [after - before for before, after in itertools.pairwise(times)]
        assert times[0] == 5
        assert waits[:3] == [10, 20, 30]
        assert set(waits[2:]) == {30}
        assert len(times) == 25

    def test_the_log_names_the_client_and_the_next_step(self, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            BrokerWatch("the producer of topic statuses", clock).replaced()
        assert "the producer of topic statuses had no usable broker for 5 s" in caplog.text
        assert "starts from bootstrap.servers" in caplog.text


class TestCallWatch:
    def test_a_long_call_without_an_answer_is_enough(self, clock: Clock) -> None:
        watch, begun_s = CallWatch(clock), clock.now_s
        clock.now_s += 5
        assert watch.failed(begun_s)

    def test_short_calls_without_an_answer_add_up(self, clock: Clock) -> None:
        watch = CallWatch(clock)
        for _ in range(5):
            begun_s = clock.now_s
            clock.now_s += 0.9
            assert not watch.failed(begun_s)
        begun_s = clock.now_s
        clock.now_s += 0.6
        assert watch.failed(begun_s)

    def test_an_answer_ends_the_suspicion(self, clock: Clock) -> None:
        watch, begun_s = CallWatch(clock), clock.now_s
        clock.now_s += 4
        watch.failed(begun_s)
        watch.succeeded()
        begun_s = clock.now_s
        clock.now_s += 4
        assert not watch.failed(begun_s)


class Client:
    """Answers ``list_topics`` with this code; None: in time."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        if self.code is not None:
            raise KafkaException(KafkaError(self.code))


LOST_CLIENT, LATE, GOOD = Client(KafkaError._TRANSPORT), Client(KafkaError._TIMED_OUT), Client(None)


def test_a_late_answer_is_from_a_broker() -> None:
    assert [has_broker(client) for client in (LOST_CLIENT, LATE, GOOD)] == [False, True, True]


@pytest.mark.parametrize(
    ("client", "new", "is_lost"),
    [(LOST_CLIENT, GOOD, True), (LOST_CLIENT, LOST_CLIENT, False), (GOOD, GOOD, False), (LATE, GOOD, False)],
)
def test_a_client_is_left_behind_when_a_new_one_finds_a_broker(client: Client, new: Client, is_lost: bool) -> None:
    closed: list[Client] = []
    assert is_left_behind(client, lambda: new, closed.append) is is_lost
    assert closed == ([new] if client is LOST_CLIENT else [])


def test_only_errors_that_pass_make_a_client_suspect() -> None:
    assert is_unanswered(KafkaException(KafkaError(KafkaError._TRANSPORT)))
    assert is_unanswered(TimedOutError("late"))
    assert is_unanswered(UnknownTopicError("a client without brokers knows no topic"))
    assert not is_unanswered(BadConfigError({"x": ["wrong"]}))
    assert not is_unanswered(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))


class Shared:
    """A SharedClient whose clients are numbers; those in ``lost`` have no broker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
        self.made, self.closed, self.lost = 0, list[int](), set[int]()
        self.shared = SharedClient("the client of t", self._make, self.closed.append, lambda n: n not in self.lost)
        monkeypatch.setattr(self.shared, "_watch", CallWatch(clock))
        self.clock = clock

    def _make(self) -> int:
        self.made += 1
        return self.made

    def fail(self, seconds: float) -> int:
        """Make a call that fails after so many seconds; return its client."""
        used = []
        with suppress(TimedOutError), self.shared.use() as client:
            used.append(client)
            self.clock.now_s += seconds
            raise TimedOutError("no answer")
        return used[0]


class TestSharedClient:
    @pytest.fixture
    def it(self, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Shared:
        return Shared(monkeypatch, clock)

    def test_a_client_without_brokers_is_replaced_for_the_next_call(self, it: Shared) -> None:
        it.lost = {1}
        assert it.fail(5) == 1
        assert it.closed == [1]
        with it.shared.use() as client:
            assert client == 2

    def test_a_client_with_a_broker_is_kept_however_its_calls_fail(self, it: Shared) -> None:
        assert {it.fail(30) for _ in range(5)} == {1}
        assert it.closed == []

    def test_calls_in_progress_keep_the_old_client_until_they_leave_it(self, it: Shared) -> None:
        it.lost = {1}
        with it.shared.use() as old:
            it.fail(5)
            with it.shared.use() as new:
                assert (old, new) == (1, 2)
            assert it.closed == []
        assert it.closed == [1]

    def test_a_late_failure_of_the_old_client_does_not_replace_the_new_one(self, it: Shared) -> None:
        it.lost = {1, 2}
        with suppress(TimedOutError), it.shared.use():
            it.fail(5)
            with it.shared.use():
                pass
            it.clock.now_s += 60
            raise TimedOutError("no answer")
        assert (it.made, it.closed) == (2, [1])

    def test_an_outage_of_twelve_minutes_costs_a_client_each_half_minute_at_most(self, it: Shared) -> None:
        it.lost = set(range(100))
        for _ in range(720):
            it.fail(1)
        assert it.made <= 26
        assert it.closed == list(range(1, it.made))[: len(it.closed)]
        assert it.made - len(it.closed) <= 1

    def test_a_renewed_client_that_is_not_used_is_closed_at_once(self, it: Shared) -> None:
        with it.shared.use():
            pass
        it.shared.renew()
        it.shared.renew()
        assert it.closed == [1]
