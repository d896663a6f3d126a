"""What a dead letter says, which a filter wants, and where a page goes on."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.operations.dead_letters.letter import (
    Letter,
    LetterFilter,
    decode_cursor,
    encode_cursor,
    letter_of,
)

ERRORS = {
    "topic": b"orders",
    "partition": b"3",
    "offset": b"77",
    "stage": b"VALUE_CONVERTER",
    "class.name": b"org.apache.kafka.connect.json.JsonConverter",
    "exception.class.name": b"org.apache.kafka.connect.errors.DataException",
    "exception.message": b"Unexpected character ('x')",
}


def letter(at_ms: int = 1_000, **errors: bytes | None) -> Letter:
    headers = [(f"__connect.errors.{name.replace('_', '.')}", data) for name, data in {**ERRORS, **errors}.items()]
    return letter_of("dead", (0, 5, at_ms), b"k", b"v", [("h", b"1"), *headers])


def test_the_headers_of_the_record_and_of_connect_are_kept_apart() -> None:
    buried = letter()
    assert (buried.headers, buried.origin_topic, buried.origin_partition, buried.origin_offset) == (
        (("h", b"1"),),
        "orders",
        3,
        77,
    )
    assert buried.encoding("value") == "converter"


@pytest.mark.parametrize("hostile", [b"-1", b"", None, b"\xff", b"1e3", b"9" * 30, "٣".encode()])
def test_an_invalid_offset(hostile: bytes | None) -> None:
    assert letter(offset=hostile).origin_offset in (None, 3)


@pytest.mark.parametrize(
    ("wanted", "lets"),
    [
        ({}, True),
        ({"stage": "value_converter"}, True),
        ({"stage": "VALUE"}, False),
        ({"class": "JsonConverter"}, True),
        ({"class": "org.apache.kafka.connect.errors.DataException"}, True),
        ({"class": "Json"}, False),
        ({"message": "CHARACTER ('"}, True),
        ({"message": "digit"}, False),
        ({"origin": "orders"}, True),
        ({"origin": "orders-3"}, True),
        ({"origin": "order"}, False),
        ({"from_ms": "1000", "to_ms": 1001}, True),
        ({"to_ms": 1000}, False),
        ({"from_ms": 1001}, False),
        ({"partition": "0"}, True),
        ({"partition": 1}, False),
        ({"replayed": "false"}, True),
        ({"replayed": True}, False),
    ],
)
def test_filters(wanted: dict[str, Any], lets: bool) -> None:
    found = LetterFilter.of(wanted)
    assert found.lets(letter(), is_replayed=False) is lets
    assert LetterFilter.of(found.as_fields()) == found


@pytest.mark.parametrize(
    "wanted",
    [
        {"partition": "-1"},
        {"partition": 2**31},
        {"from_ms": 2**65},
        {"from_ms": 1.5},
        {"from_ms": True},
        {"to_ms": "²"},
        {"stage": 1},
        {"message": "x" * 10_001},
        {"replayed": "perhaps"},
        {"offset": 1},
    ],
)
def test_a_filter_that_is_invalid_is_refused_by_name(wanted: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError, match=next(iter(wanted))):
        LetterFilter.of(wanted)


def test_a_cursor_comes_back_as_it_was() -> None:
    text = encode_cursor("id", {1: 2**62, 0: 0})
    assert decode_cursor(text, "id") == {0: 0, 1: 2**62}
    with pytest.raises(BadRequestError, match="created again"):
        decode_cursor(text, "other")


@pytest.mark.parametrize(
    "text", ["x", "é", "W10", "[]", "W1tbXV0", "A" * 300_000, "bnVsbA", encode_cursor("id", {0: -1})]
)
def test_a_cursor_of_another_query(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a valid cursor"):
        decode_cursor(text, "id")
