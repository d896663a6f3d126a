from __future__ import annotations

import pytest

from spark_connect_rt.config.worker_config import Advertised, Listener, RestSettings, advertised, parse_listeners
from spark_connect_rt.errors import BadConfigError


def test_listeners_are_read() -> None:
    assert parse_listeners(["http://:8083", "https://a.b:1", "HTTP://[::1]:2/"]) == [
        Listener("http", "", 8083),
        Listener("https", "a.b", 1),
        Listener("http", "::1", 2),
    ]


@pytest.mark.parametrize("text", ["localhost:8083", "http://x", "ftp://x:1", "http://x:99999", ""])
def test_a_bad_listener_is_named(text: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        parse_listeners([text])
    assert repr(text) in refused.value.problems["listeners"][0]


def test_the_advertised_address_is_what_was_set_then_the_listener_then_this_host() -> None:
    both = {"listeners": "http://0.0.0.0:8083,https://in.example:8443"}
    assert known_as(both).url == "http://here:8083/"
    assert known_as({**both, "rest.advertised.listener": "https"}).worker_id == "in.example:8443"
    proxy = {"rest.advertised.listener": "HTTPS", "rest.advertised.host.name": "proxy", "rest.advertised.port": "443"}
    assert known_as({"listeners": "http://127.0.0.1:8083", **proxy}).url == "https://proxy:443/"
    own = {"rest.advertised.host.name": "out", "rest.advertised.port": "9"}
    assert known_as({**both, **own}).url == "http://out:9/"
    assert known_as({"listeners": "http://[::1]:2"}).url == "http://[::1]:2/"


def known_as(given: dict[str, str]) -> Advertised:
    return advertised(RestSettings.of(given), "here")
