from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import BadRequestError, DataError
from spark_connect_rt.topics.offset_changes import caught_up, check_source_offsets, one_per_partition, sink_offsets

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def at(topic: Any = "t", partition: Any = 0, offset: Any = 5) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset}


def test_the_later_one_of_two_equal_partitions_wins() -> None:
    pairs = [({"a": 1, "b": 2}, {"n": 1}), ({"a": 1.0, "b": 2}, {"n": 2}), ({"b": 2, "a": 1}, {"n": 3})]
    assert [offset for _, offset in one_per_partition(pairs)] == [{"n": 3}, {"n": 2}]


def test_a_sinks_numbers_may_be_texts_and_none_forgets() -> None:
    pairs = [at(partition="1", offset="7"), (at()[0], None)]
    assert sink_offsets(pairs) == {P1: 7, P0: None}


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ((None, {"kafka_offset": 1}), "cannot be null or missing"),
        (({"kafka_topic": "t"}, {"kafka_offset": 1}), "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        (at(topic=None), "valid strings"),
        (at(partition=None), "valid numbers"),
        (at(partition="x"), "partition value in the provided offsets: 'x'"),
        (at(partition=2**31), "Partition values for sink connectors need to be integers"),
        (at(partition=True), "'true'"),
        (at(offset=1.5), "offset value in the provided offsets: '1.5'"),
        (at(offset=None), "'null'"),
        (at(offset=2**63), "Offset values for sink connectors need to be integers"),
        ((at()[0], {}), "either be null or contain the key 'kafka_offset'"),
    ],
)
def test_invalid_sink_offset_is_refused(pair: Any, words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        sink_offsets([pair])


@pytest.mark.parametrize("pair", [({"a": {}}, {}), ({}, {"a": []})])
def test_maps_and_lists_inside_are_refused(pair: Any) -> None:
    with pytest.raises(DataError, match=r"field a contains (MAP|ARRAY)"):
        check_source_offsets([pair])
    check_source_offsets([({"a": 1, "b": None}, {"c": "x", "d": True, "e": 1.5}), (None, None)])


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64])
@pytest.mark.parametrize("pair", [({"a": 0}, {"a": 0}), ({"a": 0}, {"b": 1, "a": 0})])
def test_an_integer_that_java_has_no_type_for_is_refused_in_its_words(pair: Any, number: int) -> None:
    for fields in pair:
        check_source_offsets([pair])
        fields["a"] = number
        with pytest.raises(
            DataError, match=r"primitive types as values, but field a contains class java.math.BigInteger"
        ):
            check_source_offsets([pair])
        fields["a"] = 0 if number > 0 else -(2**63)
    check_source_offsets([({"a": number}, None)])  # who stored it may forget it


def test_lost_commit_is_made_up_only_within_the_offsets_of_the_table() -> None:
    held = {P0: (10, 20), P1: (10, 20)}
    assert caught_up(held, {P0: 15, P1: 20}) == {P0: 20}
    assert caught_up(held, {P0: 9, P1: 25}) == {}
    assert caught_up(held, {}) == {P0: 20, P1: 20}
