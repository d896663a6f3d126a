"""All listeners of a worker on loopback sockets: https, client certificates, /admin apart, extensions, peers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.app.rest.rest_api import RestApi
from spark_connect_rt.cli.session import CommandContext
from spark_connect_rt.errors import BadConfigError, NotLeaderError, RetriableError, StartupError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.rest.peers import HttpPeerClient
from spark_connect_rt.rest.tls import client_tls
from spark_connect_rt.runtime.herder.herder_requests import DeleteConnector
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.support.certificates import Certificates
from tests.support.command_line import Ended, run_command
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.test_around_the_api import Hello


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


class Apis:
    """Starts APIs; stops them all at the end of a test."""

    def __init__(self) -> None:
        self._started: list[RestApi] = []

    def start(self, settings: Mapping[str, str], herder: FakeHerder, peers: HttpPeerClient | None = None) -> None:
        api = RestApi(worker_settings(settings), herder, bundled_plugins(), lambda: 0, peers, environment={})
        self._started.append(api)
        api.start()

    def stop(self) -> None:
        for api in self._started:
            api.stop()


@pytest.fixture
def apis() -> Iterator[Apis]:
    apis = Apis()
    yield apis
    apis.stop()
    assert not any(thread.name == "rest-server" for thread in threading.enumerate())


def test_http_and_https_side_by_side_and_admin_on_its_own_port(apis: Apis, certificates: Certificates) -> None:
    plain, secure, admin = free_ports(3)
    listeners = f"http://127.0.0.1:{plain},https://127.0.0.1:{secure}"
    settings = {"listeners": listeners, "admin.listeners": f"https://127.0.0.1:{admin}", **certificates.settings("")}
    apis.start({**settings, "access.control.allow.origin": "*"}, FakeHerder())
    for url in (f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{secure}"):
        assert certificates.get(f"{url}/connectors").json() == ["src"]
        assert certificates.get(f"{url}/admin/story").status_code == 404
        assert certificates.get(f"{url}/").headers["vary"] == "Origin"
    assert certificates.get(f"https://127.0.0.1:{admin}/admin/story").status_code == 200
    assert certificates.get(f"https://127.0.0.1:{admin}/connectors").status_code == 404
    with pytest.raises(httpx.HTTPError):
        certificates.get(f"http://127.0.0.1:{secure}/connectors")


def test_a_client_without_a_certificate_is_turned_away(apis: Apis, certificates: Certificates) -> None:
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}/connectors"
    apis.start({"listeners": f"https://127.0.0.1:{port}", **certificates.settings(auth="required")}, FakeHerder())
    for key in (None, certificates.stranger):
        with pytest.raises(httpx.HTTPError):
            certificates.get(url, key)
    assert certificates.get(url, certificates.worker).status_code == 200


def test_the_command_line_shows_its_certificate_and_finds_admin_elsewhere(
    apis: Apis, certificates: Certificates, tmp_path: Path
) -> None:
    port, admin = free_ports(2)
    listeners = {"listeners": f"https://127.0.0.1:{port}", "admin.listeners": f"http://127.0.0.1:{admin}"}
    apis.start({**listeners, **certificates.settings(auth="required")}, FakeHerder())
    around = CommandContext({"CONNECTRT_CONFIG": str(tmp_path / "config.json")}, interactive=False)

    def connectrt(*words: str) -> Ended:
        return run_command(words, around)

    urls = ("--url", f"https://127.0.0.1:{port}", "--admin-url", f"http://127.0.0.1:{admin}")
    made = connectrt("config", "set-context", "x", *urls, "--ca", str(certificates.authority))
    assert made.code == 0
    assert connectrt("get", "connectors").code == 7
    connectrt("config", "set-context", "x", "--cert", str(certificates.worker))
    assert connectrt("get", "connectors", "-o", "name").out == "src\n"
    assert connectrt("get", "loggers", "-o", "name").out == "root\norg.x\n"
    assert connectrt("get", "connectors", "--url", f"https://localhost:{port}").code == 7  # a name it is not made for
    assert connectrt("config", "set-context", "x", "--insecure").code == 0
    assert connectrt("get", "connectors", "--context", "x", "--url", f"https://localhost:{port}").code == 0


def test_a_certificate_that_is_only_requested_may_be_left_out(apis: Apis, certificates: Certificates) -> None:
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}/connectors"
    apis.start({"listeners": f"https://127.0.0.1:{port}", **certificates.settings(auth="requested")}, FakeHerder())
    assert certificates.get(url).status_code == 200
    assert certificates.get(url, certificates.worker).status_code == 200
    with pytest.raises(httpx.HTTPError):
        certificates.get(url, certificates.stranger)


def test_a_follower_forwards_to_a_leader_that_wants_certificates(apis: Apis, certificates: Certificates) -> None:
    leader_port, follower_port = free_ports(2)
    leader_url = f"https://127.0.0.1:{leader_port}"
    settings = certificates.settings(auth="required")
    apis.start({"listeners": leader_url, **settings}, FakeHerder())
    follower = FakeHerder()
    follower.answers[DeleteConnector] = NotLeaderError("not here", leader_url + "/")
    peers = HttpPeerClient(lambda: client_tls(settings))
    apis.start({"listeners": f"http://127.0.0.1:{follower_port}"}, follower, peers)
    with httpx.Client(trust_env=False) as client:
        answer = client.delete(f"http://127.0.0.1:{follower_port}/connectors/src")
    assert answer.status_code == 204
    peers.close()
    strangers = HttpPeerClient(lambda: client_tls({}))
    with pytest.raises(RetriableError):
        strangers.request("GET", f"{leader_url}/connectors")
    strangers.close()


def test_the_host_name_of_a_peer_is_checked_unless_that_is_switched_off(apis: Apis, certificates: Certificates) -> None:
    (port,) = free_ports(1)
    settings = certificates.settings()
    apis.start({"listeners": f"https://localhost:{port}", **settings}, FakeHerder())
    checking = HttpPeerClient(lambda: client_tls(settings))
    with pytest.raises(RetriableError, match="certificate"):
        checking.request("GET", f"https://localhost:{port}/connectors")
    checking.close()
    off = {**settings, "listeners.https.ssl.endpoint.identification.algorithm": ""}
    trusting = HttpPeerClient(lambda: client_tls(off))
    assert trusting.request("GET", f"https://localhost:{port}/connectors").status == 200
    trusting.close()


def test_extensions_of_users_wrap_the_api_and_are_closed(apis: Apis) -> None:
    (port,) = free_ports(1)
    name = f"{Hello.__module__}:Hello"
    settings = {"listeners": f"http://127.0.0.1:{port}", "rest.extension.classes": name, "hello.greeting": "hi"}
    before = Hello.closed
    apis.start(settings, FakeHerder())
    with httpx.Client(trust_env=False, base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get("/connectors").headers["x-greeting"] == "hi"
        assert (client.get("/hello").status_code, client.get("/hello").text) == (200, "src")
        assert client.get("/nope").status_code == 404
    apis.stop()
    assert Hello.closed == before + 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"listeners": "https://127.0.0.1:0"}, "ssl.keystore.location"),
        ({"rest.extension.classes": "no.such:Extension"}, "rest.extension.classes"),
        ({"rest.extension.classes": "StringConverter"}, "rest.extension.classes"),
        ({"listeners": "https://127.0.0.1:0", "ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols"),
    ],
)
def test_invalid_setting_is_named_before_a_port_is_taken(settings: Mapping[str, str], named: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        RestApi(worker_settings(settings), FakeHerder(), bundled_plugins(), lambda: 0, environment={})
    assert named in refused.value.problems


def test_a_taken_admin_port_is_named_and_the_others_are_given_back() -> None:
    port, taken = free_ports(2)
    first = RestApi(
        worker_settings({"listeners": f"http://127.0.0.1:{taken}"}), FakeHerder(), bundled_plugins(), lambda: 0
    )
    first.start()
    settings = {"listeners": f"http://127.0.0.1:{port}", "admin.listeners": f"http://127.0.0.1:{taken}"}
    second = RestApi(worker_settings(settings), FakeHerder(), bundled_plugins(), lambda: 0)
    with pytest.raises(StartupError, match=f"{taken} \\(setting 'admin.listeners'\\)"):
        second.start()
    first.stop()
    second.start()
    second.stop()
