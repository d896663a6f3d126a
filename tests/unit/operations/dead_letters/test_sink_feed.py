"""The connector that feeds a sink with letters: the real one's settings, its own name, topics and queue."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadRequestError, DataError
from spark_connect_rt.operations.dead_letters.sink_replay import (
    PLACE_HEADER,
    feed_config,
    feed_name,
    place_header,
    place_of,
    refused_topic,
    side_topic,
)
from tests.unit.operations.dead_letters.test_letter import letter

CONFIG = {
    "name": "orders",
    "connector.class": "JdbcSink",
    "topics.regex": "shop[.].*",
    "tasks.max": "7",
    "connection.password": "${file:/secrets:p}",
    "consumer.override.group.id": "mine",
    "transforms": "cast",
    "transforms.cast.type": "Cast",
    "errors.tolerance": "none",
}


def test_sink_feed_reads_side_topics_and_restores_topic_names_first() -> None:
    made = feed_config(CONFIG, "orders-replay-r", [("q.dead-replay-r-0", "shop.a"), ("s1", "shop.b")], "refused")
    assert made["transforms"].split(",") == [
        "connectrt_replay_0",
        "connectrt_replay_1",
        "connectrt_replay_place",
        "cast",
    ]
    assert made["transforms.connectrt_replay_0.regex"] == "q[.]dead-replay-r-0"
    assert made["transforms.connectrt_replay_1.replacement"] == "shop.b"
    assert made["transforms.connectrt_replay_place.headers"] == PLACE_HEADER
    assert made["topics"] == "q.dead-replay-r-0,s1"
    assert not {"topics.regex", "consumer.override.group.id"} & made.keys()
    assert (made["name"], made["tasks.max"], made["errors.tolerance"]) == ("orders-replay-r", "1", "all")
    assert (made["connection.password"], made["connector.class"]) == ("${file:/secrets:p}", "JdbcSink")
    assert made["consumer.override.isolation.level"] == "read_committed"
    assert made["errors.deadletterqueue.topic.name"] == "refused"


@pytest.mark.parametrize("reset", ["latest", "none", "earliest"])
def test_every_copy_is_read_by_one_task_whatever_the_sink_says(reset: str) -> None:
    own = {"consumer.override.auto.offset.reset": reset, "tasks.max.auto": "1-8"}
    made = feed_config({**CONFIG, **own, "consumer.override.group.instance.id": "i"}, "r", [("s", "a")], "refused")
    assert made["consumer.override.auto.offset.reset"] == "earliest"
    assert not {"tasks.max.auto", "consumer.override.group.instance.id"} & made.keys()
    assert made["tasks.max"] == "1"


def test_a_sink_that_reads_from_other_brokers_is_refused() -> None:
    with pytest.raises(BadRequestError, match=r"consumer\.override\.bootstrap\.servers"):
        feed_config({**CONFIG, "consumer.override.bootstrap.servers": "b:9092"}, "r", [("s", "a")], "refused")


def test_a_copy_is_known_by_its_last_header_of_that_name() -> None:
    buried = letter()
    assert place_of([(PLACE_HEADER, b'"9-9"'), ("h", None), place_header(buried)]) == (buried.partition, buried.offset)
    for data in (b"", b'"1"', b'"a-b"', b'"-1-2"', b"\xff", None):
        with pytest.raises(DataError, match="copy"):
            place_of([(PLACE_HEADER, data)])
    with pytest.raises(DataError, match="copy"):
        place_of([])


def test_names_fit_into_what_kafka_allows() -> None:
    assert len(side_topic("q" * 249, "0123456789ab", 49)) <= 249
    assert len(refused_topic("q" * 249, "0123456789ab")) <= 249
    assert feed_name("orders", "r") == "orders-replay-r"
