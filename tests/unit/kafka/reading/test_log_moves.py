"""A log that is not what was read before: noticed, counted, and continued or refused as the reader says."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.reading.log_moves import LogMove, LogWatch
from tests.unit.kafka.fake_broker import PLACE, POLL_MS, FakeBroker, consumer_of, read


class Moves(LogWatch):
    """Takes note of moves; refuses them while told so."""

    def __init__(self, topic_id: str | None = None) -> None:
        super().__init__({PLACE: topic_id} if topic_id else {}, self._note)
        self.seen: list[LogMove] = []
        self.refuses = False

    def _note(self, move: LogMove) -> None:
        self.seen.append(move)
        if self.refuses:
            raise ConnectError(str(move))


def test_records_that_were_deleted_before_they_were_read_are_counted(broker: FakeBroker) -> None:
    broker.write(*"abcde")
    broker.begin = 3
    moves = Moves()
    consumer = consumer_of(watch=moves)
    consumer.assign({PLACE: 1})
    assert read(consumer, 2) == [(3, "d"), (4, "e")]
    assert [(move.wanted, move.found, move.missed, move.recreated) for move in moves.seen] == [(1, 3, 2, False)]
    assert "2 offsets from 1 on were deleted before they were read; it continues at offset 3" in str(moves.seen[0])
    consumer.close()


def test_without_a_watch_a_gap_is_a_warning(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker.write(*"abc")
    broker.begin = 2
    consumer = consumer_of()
    consumer.assign({PLACE: 0})
    read(consumer, 1)
    consumer.close()
    assert "t-0: 2 offsets from 0 on were deleted" in caplog.text


@pytest.mark.parametrize("new", [1, 5], ids=["shorter than what was read", "longer"])
def test_a_topic_that_was_created_again_meanwhile_is_read_from_its_beginning(broker: FakeBroker, new: int) -> None:
    broker.write(*"abc")
    first = Moves()
    consumer = consumer_of(watch=first)
    consumer.assign({PLACE: 0})
    read(consumer, 3)
    topic_id = first.topic_id(PLACE)
    assert topic_id is not None
    consumer.close()
    broker.create_topic()
    broker.write(*"ABCDE"[:new])
    moves = Moves(topic_id)
    again = consumer_of(watch=moves)
    again.assign({PLACE: 3})
    assert [value for _, value in read(again, new)] == list("ABCDE"[:new])
    assert [(move.wanted, move.found, move.recreated) for move in moves.seen] == [(3, 0, True)]
    assert moves.topic_id(PLACE) not in (None, topic_id)
    again.close()


def test_a_topic_that_is_deleted_and_created_again_while_it_is_read(broker: FakeBroker) -> None:
    broker.write(*"abc")
    moves = Moves()
    consumer = consumer_of(watch=moves)
    consumer.assign({PLACE: 0})
    read(consumer, 3)
    broker.delete_topic()
    assert consumer.poll(100, POLL_MS) is None
    broker.create_topic()
    broker.write(*"ABCDE")
    assert [value for _, value in read(consumer, 5)] == list("ABCDE")
    assert [move.recreated for move in moves.seen] == [True]
    consumer.close()


def test_a_reader_that_refuses_stays_where_it_was_until_it_does_not(broker: FakeBroker) -> None:
    broker.write(*"abcd")
    broker.begin = 2
    moves = Moves()
    moves.refuses = True
    consumer = consumer_of(watch=moves)
    consumer.assign({PLACE: 0})
    for _ in range(2):
        with pytest.raises(ConnectError, match="2 offsets from 0 on"):
            read(consumer, 1)
        assert consumer.position(PLACE) == 0
    moves.refuses = False
    assert read(consumer, 2) == [(2, "c"), (3, "d")]
    consumer.close()


def test_a_reader_without_a_reset_policy_refuses_a_topic_that_was_created_again(broker: FakeBroker) -> None:
    broker.write(*"abc")
    consumer = consumer_of("none", LogWatch({PLACE: "another"}))
    consumer.assign({PLACE: 1})
    with pytest.raises(ConnectError, match="deleted and created again"):
        read(consumer, 1)
    consumer.close()


def test_ids_and_partition_counts_are_those_of_topics_that_are_there(broker: FakeBroker) -> None:
    consumer = consumer_of()
    assert consumer.topic_ids(["t"]) == {"t": "AQEBAQEBAQEBAQEBAQEBAQ"}
    assert consumer.partition_counts(["t"]) == {"t": 1}
    broker.delete_topic()
    assert consumer.topic_ids(["t"]) == {}
    assert consumer.partition_counts(["t"]) == {}
    consumer.close()
