"""The HTTP source's offsets, templates, pointers and waits."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.connectors.http.http_connection import (
    PassingFailure,
    Patience,
    retry_after_ms,
    same_origin,
    shown,
)
from spark_connect_rt.connectors.http.http_pages import (
    PagePosition,
    filled,
    next_of_link,
    pointed,
    records_at,
    standing_of,
    taken,
)
from spark_connect_rt.errors import ConnectError, DataError


def test_an_offset_says_where_a_pass_stands() -> None:
    begun = standing_of({"since": 1}, {"since": 0, "kind": "a"})
    assert begun == PagePosition({"since": 1, "kind": "a"}, {"since": 1, "kind": "a"})
    within = begun.after_page({"since": 5}, "/next")
    assert within.fields == {"since": 1, "kind": "a"}
    assert standing_of(within.offset(), {}) == within
    over = within.after_page({"since": 9}, None)
    assert over.offset() == {"since": 9}
    assert all(isinstance(one, str | int) for one in within.offset().values())


def test_templates() -> None:
    assert filled("a=${offset.x}&b=${offset.none}&c=${x}", {"x": 5}) == "a=5&b=&c=${x}"
    assert filled("${offset.x}", {"x": "t"}) == "t"


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", {"a": [{"b/c": 1, "~": None}]}), ("/a/0/b~1c", 1), ("/a/0/~0", None)],
)
def test_pointers(pointer: str, found: Any) -> None:
    assert pointed({"a": [{"b/c": 1, "~": None}]}, pointer) == found


@pytest.mark.parametrize("pointer", ["/x", "/a/1", "/a/-", "/a/0/b/c"])
def test_pointers_to_nothing(pointer: str) -> None:
    with pytest.raises(DataError, match=pointer):
        pointed({"a": [{"b": 1}]}, pointer)


def test_records_of_a_page() -> None:
    assert records_at([1, 2], "") == [1, 2]
    assert records_at({"a": {"b": 1}}, "/a") == [{"b": 1}]
    assert records_at({"a": None}, "/a") == []


def test_the_next_of_a_link_header() -> None:
    header = '<https://x/1>; rel="prev", </items?p=2>; rel="next"'
    assert next_of_link(header, "https://x/items?p=1") == "https://x/items?p=2"
    assert next_of_link("</3>; rel=last", "https://x/") is None


def test_what_is_taken_of_records() -> None:
    pointers = {"at": "/at"}
    assert taken({}, pointers, {"at": 2}, largest=True) == {"at": 2}
    assert taken({"at": 3}, pointers, {"at": 2}, largest=True) == {"at": 3}
    assert taken({"at": 3}, pointers, {"at": 2}, largest=False) == {"at": 2}
    for record in ({}, {"at": None}, {"at": [1]}, {"at": "x"}):
        with pytest.raises(DataError):
            taken({"at": 3}, pointers, record, largest=True)


def test_addresses_are_shown_without_what_may_be_secret() -> None:
    assert shown("https://ann:pw@x.org:8443/a/b?key=1#f") == "https://x.org:8443/a/b"
    assert same_origin("https://x/a", "https://x/b?c")
    assert not same_origin("https://x/a", "http://x/a")


def test_waits_grow_until_patience_ends() -> None:
    patience = Patience({"http.retries.max": 4, "http.retry.backoff.ms": 100, "http.retry.backoff.max.ms": 300})
    waits = [patience.wait_ms(PassingFailure("x", wish)) for wish in (None, None, 5_000, None)]
    assert waits == [100, 200, 5_000, 300]
    with pytest.raises(ConnectError, match="5 failures"):
        patience.wait_ms(PassingFailure("x"))
    patience.succeeded()
    assert patience.wait_ms(PassingFailure("x")) == 100


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after_ms("3", 0.0) == 3_000
    assert retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", 55.0) == 5_000
    assert retry_after_ms("Thu, 01 Jan 1970 00:01:00 GMT", 90.0) == 0
    assert retry_after_ms("soon", 0.0) is None
    assert retry_after_ms(None, 0.0) is None
