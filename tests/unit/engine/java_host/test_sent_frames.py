"""Which batches of a JVM's task are durable, and where each of their records is."""

from __future__ import annotations

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.engine.java_host.source_task import SentFrames


def at(topic: str, offset: int) -> RecordMetadata:
    return RecordMetadata(topic, 0, offset, 5)


def test_a_batch_is_durable_with_its_last_row_and_its_places_are_by_topic() -> None:
    sent = SentFrames()
    assert sent.add([(2, 2), (1, 1)], [("a", 2, 2), ("b", 1, 1)]) is None
    assert sent.durable(1, [at("a", 0), at("a", 1)]) is None
    assert sent.durable(1, [at("b", 7)]) == {
        "batches": 1,
        "places": {"a": [(0, 0, 2, 5, "a")], "b": [(0, 7, 1, 5, "b")]},
    }
    assert len(sent) == 0


def test_dead_letters_have_places_that_no_task_asks_for() -> None:
    sent = SentFrames()
    sent.add([(0, 1), (1, 1)], [("a", 1, 1)])
    durable = sent.durable(2, [at("dead", 3), at("a", 0)])
    assert durable == {"batches": 1, "places": {"a": [(0, 0, 1, 5, "a")]}}


def test_batches_of_which_nothing_is_sent_are_durable_with_what_came_before_them() -> None:
    sent = SentFrames()
    assert sent.add([], []) == {"batches": 1, "places": {}}
    sent.add([(1, 1)], [("a", 1, 1)])
    assert sent.add([], []) is None
    durable = sent.durable(1, [None])
    assert durable == {"batches": 2, "places": {"a": [(-1, -1, 1, -1, "")]}}


def test_split_records_have_the_position_of_their_first_and_dropped_records_none() -> None:
    sent = SentFrames()
    sent.add([(2, 2)], [("a", 2, 1), ("a", 0, 1)])
    durable = sent.durable(1, [at("b", 4), at("b", 5)])
    assert durable == {"batches": 1, "places": {"a": [(0, 4, 1, 5, "b"), (-1, -1, 1, -1, "")]}}


def test_without_metadata_batches_are_counted() -> None:
    sent = SentFrames()
    sent.add([(3, 3)], [("a", 3, 3)], 700)
    assert sent.data_bytes == 700
    durable = sent.durable(1, [])
    assert sent.data_bytes == 0
    assert durable is not None
    assert durable["batches"] == 1
