"""What ordinary clients send leaves no warning behind."""

from __future__ import annotations

import http.client
import logging

import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.rest.server import RestServer
from tests.unit.rest.fake_herder import FakeHerder


def test_a_client_that_offers_http_2_is_served_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    server = RestServer(create_app(FakeHerder()), "127.0.0.1", 0)
    with caplog.at_level(logging.WARNING):
        server.start()
        try:
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAA"}
            client.request("GET", "/connectors", headers=headers)
            assert client.getresponse().status == 200
            client.close()
        finally:
            server.stop()
    assert caplog.messages == []
