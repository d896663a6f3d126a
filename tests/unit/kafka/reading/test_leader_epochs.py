"""An unclean election cuts the log that is read: a new leader is asked before anything is read of it (KIP-320)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer
from tests.unit.kafka.fake_broker import (
    EPOCH_ENDS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PLACE,
    POLL_MS,
    FakeBroker,
    consumer_of,
    read,
)


@pytest.fixture
def consumer(broker: FakeBroker) -> Iterator[FetchConsumer]:
    consumer = consumer_of()
    yield consumer
    consumer.close()


def test_records_written_in_place_of_truncated_records_are_read(
    broker: FakeBroker, consumer: FetchConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    broker.write("a", "b", "c", "lost")
    consumer.assign({PLACE: 0})
    assert read(consumer, 4)[-1] == (3, "lost")
    broker.elect(epoch=1, end_offset=2)
    broker.write("C", "D", "E", "F")  # longer than before: no offset is out of range
    with caplog.at_level(logging.WARNING):
        assert read(consumer, 4) == [(2, "C"), (3, "D"), (4, "E"), (5, "F")]
    assert (
        "t-0: the log was truncated to offset 2 by an unclean leader election, but was read up to 4, continuing at 2"
        in caplog.text
    )
    assert consumer.position(PLACE) == 6


def test_position_beyond_a_shorter_log_goes_back_to_its_end_not_its_beginning(
    broker: FakeBroker, consumer: FetchConsumer
) -> None:
    broker.write("a", "b", "c", "lost")
    consumer.assign({PLACE: 0})
    read(consumer, 4)
    broker.elect(epoch=3, end_offset=3)
    for _ in range(10):
        assert consumer.poll(100, POLL_MS) is None
        if consumer.position(PLACE) < 4:
            break
    assert consumer.position(PLACE) == 3
    broker.write("D")
    assert read(consumer, 1) == [(3, "D")]


def test_rows_that_were_fetched_but_not_returned_are_read_again(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.write("a", "b", "lost", "lost")
    consumer.assign({PLACE: 0})
    assert read(consumer, 1, most=1) == [(0, "a")]
    broker.elect(epoch=1, end_offset=2)
    broker.write("C")
    found = [(0, "a"), *read(consumer, 2, most=1)]
    while found[-1][1] == "lost":  # returned before the election was heard of
        found += read(consumer, 1, most=1)
    assert found[-1] == (2, "C")
    assert [value for offset, value in found if offset < 2] == ["a", "b"]


def test_a_clean_election_is_asked_about_once_and_nothing_is_read_twice(
    broker: FakeBroker, consumer: FetchConsumer
) -> None:
    broker.write("a", "b")
    consumer.assign({PLACE: 0})
    read(consumer, 2)
    broker.elect(epoch=1, end_offset=2)
    broker.write("c")
    assert read(consumer, 1) == [(2, "c")]
    assert broker.asked.count(EPOCH_ENDS) == 1
    broker.write("d")
    assert read(consumer, 1) == [(3, "d")]
    assert broker.asked.count(EPOCH_ENDS) == 1


def test_nothing_is_asked_while_the_leader_stays(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.epoch = 7
    broker.write("a")
    consumer.assign({PLACE: 0})
    read(consumer, 1)
    broker.write("b")
    assert read(consumer, 1) == [(1, "b")]
    assert EPOCH_ENDS not in broker.asked


def test_without_a_policy_the_cut_is_an_error_and_position_stays(broker: FakeBroker) -> None:
    consumer = consumer_of(reset="none")
    broker.write("a", "b", "lost")
    consumer.assign({PLACE: 0})
    read(consumer, 3)
    broker.elect(epoch=1, end_offset=2)
    with pytest.raises(ConnectError, match="truncated to offset 2 by an unclean leader election"):
        read(consumer, 1)
    assert consumer.position(PLACE) == 3
    consumer.close()


def test_a_leader_that_knows_no_such_epoch_means_the_reset_policy(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.epoch = 5
    broker.write("a", "b")
    consumer.assign({PLACE: 0})
    read(consumer, 2)
    broker.elect(epoch=0, end_offset=0)  # the topic was created again
    broker.write("A")
    assert read(consumer, 1) == [(0, "A")]


def test_brokers_without_epochs_are_read_as_before(broker: FakeBroker, consumer: FetchConsumer) -> None:
    broker.versions = {METADATA: (0, 5), FETCH: (4, 11), LIST_OFFSETS: (1, 5)}
    broker.write("a")
    consumer.assign({PLACE: 0})
    assert read(consumer, 1) == [(0, "a")]
    broker.write("b")
    assert read(consumer, 1) == [(1, "b")]
