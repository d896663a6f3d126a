"""The HTTP source's offsets, templates, pointers and waits."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.connectors.http.http_connection import PassingFailure, Patience, page_address, same_origin, shown
from spark_connect_rt.connectors.http.http_headers import retry_after_ms
from spark_connect_rt.connectors.http.http_pages import (
    PagePosition,
    cursor_at,
    filled,
    pointed,
    records_at,
    standing_of,
    taken,
)
from spark_connect_rt.errors import ConnectError, DataError, ExternalError


def test_an_offset_says_where_a_pass_stands() -> None:
    begun = standing_of({"since": 1}, {"since": 0, "kind": "a"})
    assert begun == PagePosition({"since": 1, "kind": "a"}, {"since": 1, "kind": "a"})
    within = begun.after_page({"since": 5}, "/next")
    assert within.fields == {"since": 1, "kind": "a"}
    assert standing_of(within.offset(), {}) == within
    over = within.after_page({"since": 9}, None)
    assert over.offset() == {"since": 9}
    assert all(isinstance(value, str | int) for value in within.offset().values())


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


@pytest.mark.parametrize(
    "page",
    [
        "{",
        "5",
        "[]",
        '{"next": 3}',
        '{"next": null, "newest": {}}',
        '{"next": true, "newest": {}}',
        '{"next": 3, "newest": []}',
        '{"next": 3, "newest": {}, "count": "x"}',
    ],
)
def test_an_offset_with_an_invalid_page_is_refused(page: str) -> None:
    with pytest.raises(ConnectError, match="page"):
        standing_of({"page": page}, {})


def test_how_full_a_numbered_page_was_is_part_of_the_offset() -> None:
    within = PagePosition({"since": 1}, {"since": 1}).after_page({"since": 5}, 3, 7)
    assert standing_of(within.offset(), {}) == within
    assert standing_of({"page": '{"next": 3, "newest": {}}'}, {}).count == 0  # of an earlier version


@pytest.mark.parametrize("end", [{}, {"n": None}, {"n": False}, {"n": ""}, {"n": 0}, {"n": {}}, {"n": []}, [], None])
def test_no_next_page(end: Any) -> None:
    assert cursor_at(end, "/n") is None


def test_a_next_page_and_what_is_not_understood() -> None:
    assert [cursor_at({"n": value}, "/n") for value in ("abc", 7, 1.5)] == ["abc", 7, "1.5"]
    for wrong in (True, {"href": "/2"}, ["/2"]):
        with pytest.raises(DataError, match="/n"):
            cursor_at({"n": wrong}, "/n")


def test_cursor_values_are_taken_from_records() -> None:
    pointers = {"at": "/at"}
    assert taken({}, pointers, {"at": 2}, largest=True) == {"at": 2}
    assert taken({"at": 3}, pointers, {"at": 2}, largest=True) == {"at": 3}
    assert taken({"at": 3}, pointers, {"at": 2}, largest=False) == {"at": 2}
    for record in ({}, {"at": None}, {"at": [1]}, {"at": "x"}):
        with pytest.raises(DataError):
            taken({"at": 3}, pointers, record, largest=True)


def test_addresses_are_shown_without_what_may_be_secret() -> None:
    assert shown("https://ann:pw@x.org:8443/a/b?key=1#f") == "https://x.org:8443/a/b"
    assert shown("https://x.org:99999/a") == "https://x.org:?/a"


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("https://x/a", "https://x/b?c", True),
        ("https://x/a", "https://x:443/b", True),
        ("http://x:80/a", "http://X/b", True),
        ("https://ann:pw@x/a", "https://x/b", True),
        ("http://[::1]:80/a", "http://[::1]/b", True),
        ("https://x/a", "http://x/a", False),
        ("https://x/a", "https://x:444/a", False),
        ("http://x/a", "http://x:443/a", False),
        ("https://x/a", "https://x.evil/a", False),
        ("https://x/a", "https://x@evil/a", False),
        ("https://x/a", "/a", False),
        ("https://x/a", "https://x:99999999/a", False),
    ],
)
def test_origins(address: str, other: str, same: bool) -> None:
    assert same_origin(address, other) is same


def test_a_next_page_is_on_the_same_server() -> None:
    assert page_address("https://x/items?p=1", "?p=2") == "https://x/items?p=2"
    assert page_address("https://x/items", "https://x:443/b") == "https://x/b"
    for other in ("//evil/b", "http://x/b", "https://evil/", "https://x:bad/"):
        with pytest.raises(ConnectError, match=r"another server|not a valid address"):
            page_address("https://x/items", other)


PATIENCE = {
    "http.retries.max": 4,
    "http.retry.backoff.ms": 100,
    "http.retry.backoff.max.ms": 300,
    "http.retry.after.max.ms": 6_000,
}


def test_waits_grow_until_patience_ends() -> None:
    patience = Patience(PATIENCE, chance=lambda: 0.5)
    waits = [patience.wait_ms(PassingFailure("x", wish)) for wish in (None, None, 5_000, None)]
    assert waits == [100, 200, 5_000, 300]
    with pytest.raises(ExternalError, match="5 failures"):
        patience.wait_ms(PassingFailure("x"))
    assert patience.wait_ms(PassingFailure("x")) == 100


def test_waits_of_many_tasks_are_spread() -> None:
    waits = {Patience(PATIENCE, chance=lambda at=at: at).wait_ms(PassingFailure("x")) for at in (0.0, 0.25, 1.0)}  # type: ignore[misc]
    assert waits == {80, 90, 120}


def test_a_server_cannot_ask_for_a_wait_without_end(caplog: pytest.LogCaptureFixture) -> None:
    wish = retry_after_ms("99999999999", 0.0)
    assert wish == 99_999_999_999_000
    assert Patience(PATIENCE).wait_ms(PassingFailure("x", wish)) == 6_000
    assert "http.retry.after.max.ms=6000" in caplog.text
    assert Patience({**PATIENCE, "http.retry.after.max.ms": 0}).wait_ms(PassingFailure("x", 10)) == 0
