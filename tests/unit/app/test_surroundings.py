"""Before a worker joins: the port that the system chose is its address, and a Spark Connect session is refused."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from spark_connect_rt.app import entry
from spark_connect_rt.app.rest.rest_api import settled_listeners
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.app.settings_file import REQUIRED
from spark_connect_rt.app.standalone import StandaloneWorker
from spark_connect_rt.config.worker_config import RestSettings
from spark_connect_rt.engine.startup.surroundings import require_own_spark
from spark_connect_rt.errors import EXIT_LISTENER_TAKEN, BadConfigError, StartupError
from spark_connect_rt.rest.listening.free_ports import FreePorts
from spark_connect_rt.rest.server import RestServer
from tests.unit.rest.fake_herder import FakeHerder

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def _worker(folder: Path, **more: str) -> StandaloneWorker:
    settings = {"key.converter": BYTES, "value.converter": BYTES, "offset.storage.file.filename": f"{folder}/offsets"}
    return StandaloneWorker({**settings, **more})


def test_a_port_that_the_system_chooses_is_advertised_and_stays_bound(tmp_path: Path) -> None:
    first = _worker(tmp_path, listeners="http://127.0.0.1:0")
    second = _worker(tmp_path, listeners="http://127.0.0.1:0")
    for worker in (first, second):
        worker._bind()
    addresses = {worker.address.worker_id for worker in (first, second)}
    assert len(addresses) == 2
    host, _, port = first.address.worker_id.partition(":")
    assert (host, first.address.url) == ("127.0.0.1", f"http://127.0.0.1:{port}/")
    socket.create_connection((host, int(port)), timeout=5).close()
    server = RestServer(create_app(FakeHerder()), host, int(port), ports=first._ports)
    server.start()  # on the very socket
    server.stop()
    for worker in (first, second):
        worker.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(second.address.worker_id.partition(":")[2])), timeout=5)


def test_advertised_address_of_the_file_stays(tmp_path: Path) -> None:
    worker = _worker(tmp_path, **{"listeners": "http://127.0.0.1:0", "rest.advertised.port": "8083"})
    worker._bind()
    assert worker.address.worker_id == "127.0.0.1:8083"
    worker.stop()


def test_a_free_port_on_an_address_that_is_not_here_names_the_setting() -> None:
    raw = {"listeners": "http://127.0.0.1:8083", "admin.listeners": "http://192.0.2.1:0"}
    with pytest.raises(StartupError, match=r"http://192.0.2.1:0 \(setting 'admin.listeners'\)") as refused:
        settled_listeners(RestSettings.of(raw), FreePorts())
    assert refused.value.exit_code == EXIT_LISTENER_TAKEN


@pytest.mark.parametrize(
    ("settings", "environment", "where"),
    [
        ({"spark.remote": "sc://spark:15002"}, {}, "spark.remote"),
        ({"spark.api.mode": "Connect"}, {}, "spark.api.mode"),
        ({"spark.master": "local[2]"}, {"SPARK_REMOTE": "sc://spark:15002"}, "SPARK_REMOTE"),
        ({}, {"SPARK_CONNECT_MODE_ENABLED": "1"}, "SPARK_CONNECT_MODE_ENABLED"),
    ],
)
def test_a_worker_on_a_spark_connect_session_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    where: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    worker = _worker(tmp_path, listeners="http://127.0.0.1:0", **settings)
    with pytest.raises(BadConfigError, match="cannot run on a Spark Connect session") as refused:
        worker.start()
    assert list(refused.value.problems) == [where]
    assert "set spark.master" in str(refused.value.problems)
    file = tmp_path / "worker.properties"
    file.write_text(
        "".join(f"{name}={value}\n" for name, value in {**dict.fromkeys(REQUIRED, "x"), **settings}.items())
    )
    assert not entry.begin_jvm(["worker", str(file)])


def test_a_separate_spark_is_accepted() -> None:
    require_own_spark({"spark.master": "local[2]", "spark.api.mode": "classic"}, {"SPARK_REMOTE": ""})
