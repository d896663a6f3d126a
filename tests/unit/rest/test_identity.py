"""Who asked, also through another worker: a signed group believes only what its workers say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from starlette.requests import Request

from spark_connect_rt.rest.client_identity import CLIENT_HEADER, handed_on, who
from spark_connect_rt.runtime.values import InternalKey

OPEN, SIGNED = InternalKey(required=False, key=None), InternalKey(required=True, key=b"k" * 32)


def request_of(headers: dict[str, str], key: InternalKey = OPEN, query: str = "", user: str = "") -> Request:
    app = SimpleNamespace(state=SimpleNamespace(internal_key=lambda: key))
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/connectors/a/config",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("10.0.0.7", 4711),
        "app": app,
    }
    if user:
        scope["user"] = SimpleNamespace(display_name=user)
    return Request(scope)


def test_a_client_is_its_user_and_address() -> None:
    assert who(request_of({})) == "10.0.0.7"
    assert who(request_of({}, user="ada")) == "ada@10.0.0.7"


@pytest.mark.parametrize("key", [OPEN, SIGNED])
def test_a_forwarded_request_keeps_the_first_client(key: InternalKey) -> None:
    first = Request({**request_of({}).scope, "client": ("192.0.2.9", 1)})
    headers = dict(handed_on(first, key))
    assert who(request_of(headers, key, "forward=true", "ada")) == "ada@192.0.2.9"
    further = dict(handed_on(request_of(headers, key, "forward=true"), key))
    assert who(request_of(further, key, "forward=false")) == "192.0.2.9"


def test_no_client_names_another_address_in_a_signed_group() -> None:
    assert who(request_of({CLIENT_HEADER: "192.0.2.9"}, SIGNED, "forward=true")) == "10.0.0.7"
    assert who(request_of({CLIENT_HEADER: "192.0.2.9"}, OPEN)) == "10.0.0.7"  # nothing was forwarded
    assert who(request_of({CLIENT_HEADER: "a\tb"}, OPEN, "forward=true")) == "10.0.0.7"
