"""``/admin/loggers`` as Java answers it."""

import pytest

from spark_connect_rt.runtime.herder.herder_requests import SetGroupLoggerLevel, SetLoggerLevel
from tests.unit.rest.conftest import Asked
from tests.unit.rest.fake_herder import FakeHerder


def test_levels_are_shown(rest: Asked) -> None:
    assert rest("GET", "/admin/loggers").text == (
        '{"root":{"level":"INFO","last_modified":null},"org.x":{"level":"DEBUG","last_modified":1690000000000}}'
    )
    assert rest("GET", "/admin/loggers/root").json() == {"level": "INFO", "last_modified": None}
    missing = rest("GET", "/admin/loggers/none")
    assert (missing.status_code, missing.json()["message"]) == (404, "Logger none not found.")


def test_a_level_is_set_here_or_everywhere(rest: Asked, herder: FakeHerder) -> None:
    here = rest("PUT", "/admin/loggers/org.x", b'{"level":"debug"}')
    assert (here.status_code, here.json()) == (200, ["org.x", "org.x.y"])
    everywhere = rest("PUT", "/admin/loggers/org.x?scope=cluster", b'{"level":"TRACE"}')
    assert (everywhere.status_code, everywhere.content) == (204, b"")
    assert herder.requests == [SetLoggerLevel("org.x", "DEBUG"), SetGroupLoggerLevel("org.x", "TRACE")]
    assert rest("PUT", "/admin/loggers/org.x?scope=elsewhere", b'{"level":"INFO"}').status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{}", 400, "Desired 'level' parameter was not specified in request."),
        (b'{"level":"LOUD"}', 404, "invalid log level 'LOUD'."),
        (b"{", 500, "The request body is not JSON"),
        (b"", 500, "Cannot deserialize"),
        (b'{"level":[]}', 500, "Cannot deserialize"),
    ],
)
def test_refusals(rest: Asked, body: bytes, status: int, message: str) -> None:
    answer = rest("PUT", "/admin/loggers/org.x", body)
    assert answer.status_code == status
    assert answer.json()["message"].startswith(message)
