"""Header fields of HTTP as their RFCs write them; absent and not understood are different answers."""

from __future__ import annotations

import pytest

from spark_connect_rt.connectors.http.http_headers import json_text, links_of, next_target, retry_after_ms
from spark_connect_rt.errors import DataError

NOW_S = 784_111_770.0  # seven seconds before the date of RFC 9110's examples
NEXT = "https://x/items?p=2"


@pytest.mark.parametrize(
    "header",
    [
        f'<{NEXT}>; rel="next"',
        f"<{NEXT}>; rel=next",
        f'<{NEXT}>;rel="next"',
        f'< {NEXT} >  ;  rel = "next" ',
        f'<{NEXT}>; REL="Next"',
        f'<{NEXT}>; rel="next last"',
        f'<{NEXT}>; rel="https://x/rels/page next"',
        f'<https://x/1>; rel="prev", <{NEXT}>; rel="next"',
        f'<https://x/1>; rel="prev",<{NEXT}>;rel=next',
        f'<https://x/1>; title="a, b; rel=next"; rel=prev, <{NEXT}>; rel="next"',
        f'<https://x/1>; title="a \\" , <y>; rel=next"; rel=prev, <{NEXT}>; rel="next"',
        f'<{NEXT}>; results="true"; rel="next"; cursor="0:100:0"',
        f"<{NEXT}>; title*=UTF-8''a%20b; rel=next",
        f'<{NEXT}>; rel="next"; rel="prev"',
        f'<{NEXT}>; crossorigin; rel="next"',
        f', ,<{NEXT}>; ; rel="next",,',
        f'<https://x/a,b>; rel="prev", <{NEXT}>; rel="next"',
    ],
)
def test_the_next_page_of_a_link_header(header: str) -> None:
    assert next_target(header) == NEXT


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        " , ",
        "</3>; rel=last",
        "</3>",
        '</3>; rel="nextish"',
        '</3>; rel="prev"; rel="next"',
        '</3>; title="next"',
        '</3>; rev="next"',
        '</3>; rel="next"; anchor="/other"',
    ],
)
def test_no_next_page(header: str | None) -> None:
    assert next_target(header) is None


@pytest.mark.parametrize(
    "header",
    ["https://x/2; rel=next", "</2; rel=next", '</2>; rel="next', "</2> rel=next", "</2>; rel=", "</2>; rel=[next]"],
)
def test_a_link_header_that_is_not_understood_is_not_the_last_page(header: str) -> None:
    with pytest.raises(DataError, match="Link header is invalid"):
        next_target(header)


def test_all_links_with_their_parameters() -> None:
    assert links_of('<a>; rel=x; Title="1\\"2", <b>') == [("a", {"rel": "x", "title": '1"2'}), ("b", {})]


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        (None, None),
        ("0", 0),
        (" 120 ", 120_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 7_000),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 7_000),
        ("Sun Nov  6 08:49:37 1994", 7_000),
        ("Sat, 05 Nov 1994 08:49:37 GMT", 0),
    ],
)
def test_retry_after(header: str | None, wait_ms: int | None) -> None:
    assert retry_after_ms(header, NOW_S) == wait_ms


def test_a_wish_of_any_length_is_a_number() -> None:
    assert retry_after_ms("9" * 5_000, NOW_S) == 10**18


@pytest.mark.parametrize("header", ["soon", "", "-1", "0.5", "1e3", "٣", "3, 4", "Sun, 99 Nov 1994 08:49:37 GMT"])
def test_a_retry_after_that_is_not_understood_is_not_an_absent_one(header: str) -> None:
    with pytest.raises(DataError, match="Retry-After"):
        retry_after_ms(header, NOW_S)


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ("é".encode(), None),
        ("é".encode(), "utf-8"),
        ("é".encode(), "UTF8"),
        (b"\xef\xbb\xbf" + "é".encode(), None),
        (b"\xe9", "iso-8859-1"),
        ("é".encode("utf-16"), "utf-16"),
    ],
)
def test_a_body_is_read_by_its_charset(content: bytes, charset: str | None) -> None:
    assert json_text(content, charset).decode() == "é"


def test_a_body_of_utf_16_without_a_charset() -> None:
    assert json_text('{"a": 1}'.encode("utf-16-le"), None) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("content", "charset"), [(b"{}", "klingon"), (b"\xff\xff", "utf-16-le-x"), (b"\xff", "utf-16")]
)
def test_a_body_that_is_not_of_its_charset_is_not_understood(content: bytes, charset: str) -> None:
    with pytest.raises(DataError, match="charset"):
        json_text(content, charset)
