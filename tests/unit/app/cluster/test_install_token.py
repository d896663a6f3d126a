"""The token of installs is this user's alone, made once, and sent by the command line to workers of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_connect_rt.app.rest.rest_api import RestApi
from spark_connect_rt.app.standalone import StandaloneWorker
from spark_connect_rt.engine.process_plugins import plugins_of
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.operations.plugin_install.install_token import made_token, read_token, token_file
from tests.support.stand_in_cluster import StandInCluster
from tests.unit.app.cluster.conftest import Commands
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.test_plugin_installs import FakeInstalls

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_token_is_made_once_and_readable_by_its_user_only(cache: Path) -> None:
    made = made_token(token_file())
    assert len(made) >= 32
    assert made_token(token_file()) == read_token(cache / "install.token") == made
    assert (cache / "install.token").stat().st_mode & 0o777 == 0o600
    assert made_token(token_file(str(cache / "own"))) != made


@pytest.mark.parametrize(
    ("mode", "text", "why"),
    [(0o640, "t" * 43, "chmod 600"), (0o600, "short", "contains no token"), (0o600, "", "no token")],
)
def test_a_file_that_others_may_read_or_that_can_be_guessed_is_refused(
    tmp_path: Path, mode: int, text: str, why: str
) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(BadConfigError, match="token") as refused:
        made_token(file)
    assert why in str(refused.value.problems)
    with pytest.raises(BadConfigError, match="token"):
        made_token(tmp_path / "gone" / "token")


def _rights(**settings: str) -> list[tuple[str, bool]]:
    """Return (token, is private) of each application that a worker with these settings serves /admin by."""
    given = {"key.converter": BYTES, "value.converter": BYTES, "offset.storage.file.filename": os.devnull}
    worker, seen = StandaloneWorker({**given, **settings}), list[tuple[str, bool]]()

    def note(*_: object, **named: object) -> None:
        rights = named.get("installs") or _[2]
        seen.append((rights.token, rights.is_private))  # type: ignore[attr-defined]
        raise LookupError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("spark_connect_rt.app.rest.rest_api.create_app", lambda *_, **__: None)
        patched.setattr("spark_connect_rt.app.rest.rest_api.create_admin_app", note)
        if "admin.listeners" not in settings:
            patched.setattr("spark_connect_rt.app.rest.rest_api.create_app", note)
        with pytest.raises(LookupError):
            RestApi(worker.config, FakeHerder(), plugins_of(worker.config.raw), lambda: 0, installs=FakeInstalls())
    return seen


def test_only_admin_listeners_on_loopback_addresses_take_a_client_at_its_address() -> None:
    token = made_token(token_file())
    console = {"connectrt.console.enabled": "false"}
    assert _rights(**console) == [(token, False)]
    assert _rights(listeners="http://127.0.0.1:8083", **console) == [(token, False)]
    own = {"admin.listeners": "http://127.0.0.1:8084,http://[::1]:8084"}
    assert _rights(**own, **console) == [(token, True)]
    assert _rights(**{"admin.listeners": "http://127.0.0.1:8084,http://:8085"}, **console) == [(token, False)]
    assert _rights(**{"connectrt.plugins.install": "deny"}, **console) == [("", False)]


def test_without_a_place_for_a_token_the_worker_starts_and_none_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = str(tmp_path / "gone" / "token")
    monkeypatch.setattr("spark_connect_rt.app.rest.rest_api.token_file", lambda configured: Path(nowhere))
    assert _rights(**{"connectrt.console.enabled": "false"}) == [("", False)]
    with pytest.raises(BadConfigError, match="token"):
        _rights(**{"connectrt.plugins.install.token.file": nowhere})


def test_the_command_line_shows_the_token_to_workers_of_this_machine(
    cluster: StandInCluster, connectrt: Commands
) -> None:
    cluster.admin["POST /admin/plugins"] = (201, {"name": "o", "version": "1", "plugins": [], "left_out": []})
    connectrt("plugins", "install", "g:a:1", "--url", "http://127.0.0.1:8083")
    assert "x-connectrt-install-token" not in cluster.headers[-1]  # no worker has made one
    token = made_token(token_file())
    connectrt("plugins", "install", "g:a:1", "--url", "http://127.0.0.1:8083")
    assert cluster.headers[-1]["x-connectrt-install-token"] == token
    connectrt("plugins", "install", "g:a:1", "--url", "http://w1")
    assert "x-connectrt-install-token" not in cluster.headers[-1]


def test_a_local_file_is_sent_to_a_worker_of_this_machine_as_an_absolute_path(
    cluster: StandInCluster, connectrt: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.admin["POST /admin/plugins"] = (201, {"name": "o", "version": "1", "plugins": [], "left_out": []})
    (tmp_path / "dist").mkdir()
    wheel = tmp_path / "dist" / "orders-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    monkeypatch.chdir(tmp_path)
    sent = []
    for source, url in (
        ("dist/orders-0.1.0-py3-none-any.whl", "http://127.0.0.1:8083"),
        ("dist/orders-0.1.0-py3-none-any.whl", "http://w1"),
        ("dist/gone-0.1.0-py3-none-any.whl", "http://127.0.0.1:8083"),
        ("g:a:1", "http://127.0.0.1:8083"),
    ):
        assert connectrt("plugins", "install", source, "--url", url).code == 0
        sent.append(cluster.bodies[-1]["source"])
    assert sent == [str(wheel), "dist/orders-0.1.0-py3-none-any.whl", "dist/gone-0.1.0-py3-none-any.whl", "g:a:1"]
