"""One plug-in into one folder: whole or not at all, checked, allowed, side by side with other versions."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from spark_connect_rt.errors import AlreadyExistsError, BadRequestError, ConnectError, ForbiddenError
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError
from spark_connect_rt.operations.plugin_install.folders import PluginFolder
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.plugins.interfaces import WantedPlugin
from tests.unit.operations.plugin_install.archives import jar_bytes, plugin_zip

SOURCE = "org.example.OneSource"


@pytest.fixture
def folder(tmp_path: Path) -> PluginFolder:
    return PluginFolder(tmp_path / "plugins")


def installer(folder: PluginFolder, allowed: tuple[str, ...] = (), limit_bytes: int = 10_000_000) -> Installer:
    return Installer(folder, allowed, limit_bytes, lambda: 1_000)


def left(folder: PluginFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir() if path.name != ".install.lock")


def test_a_file_becomes_a_folder_that_says_where_it_came_from(
    tmp_path: Path, folder: PluginFolder, caplog: pytest.LogCaptureFixture
) -> None:
    archive = plugin_zip(tmp_path / "one-1.0.zip")
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    with caplog.at_level(logging.INFO, "spark_connect_rt.audit"):
        plugin = installer(folder).install(WantedPlugin(str(archive), sha512=digest.upper()), "ann@127.0.0.1")
    assert (plugin.name, plugin.version, plugin.source, plugin.sha512) == ("one", "1.0", f"file:{archive}", digest)
    assert (plugin.plugins, plugin.installed_by) == ((SOURCE,), "ann@127.0.0.1")
    assert folder.installed() == [plugin]
    assert (folder.path / "one-1.0" / "lib" / "one.jar").is_file()
    assert any("by=ann@127.0.0.1" in message and str(archive) in message for message in caplog.messages)


def test_several_versions_side_by_side_and_none_twice(tmp_path: Path, folder: PluginFolder) -> None:
    installs = installer(folder)
    for version in ("1.0", "2.0"):
        installs.install(WantedPlugin(str(plugin_zip(tmp_path / f"one-{version}.zip"))), "t")
    with pytest.raises(AlreadyExistsError, match=r"one-2\.0 is already installed"):
        installs.install(WantedPlugin(str(tmp_path / "one-2.0.zip")), "t")
    installs.install(WantedPlugin(str(tmp_path / "one-2.0.zip"), name="other", version="9"), "t")
    assert [(found.name, found.version) for found in folder.installed()] == [
        ("one", "1.0"),
        ("one", "2.0"),
        ("other", "9"),
    ]
    installs.remove(folder.installed()[0], "t")
    assert left(folder) == ["one-2.0", "other-9"]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (lambda path: WantedPlugin(str(path), sha512="0" * 128), NotFetchedError),
        (lambda path: WantedPlugin(str(path.with_name("gone-1.zip"))), NotFetchedError),
        (lambda path: WantedPlugin(str(path), name="../up"), BadRequestError),
        (lambda path: WantedPlugin(str(broken(path))), BadRequestError),
        (lambda path: WantedPlugin(str(empty(path))), BadRequestError),
    ],
)
def test_failed_install_changes_nothing(
    tmp_path: Path, folder: PluginFolder, wanted: Callable[[Path], WantedPlugin], error: type[Exception]
) -> None:
    archive = plugin_zip(tmp_path / "one-1.0.zip")
    installs = installer(folder)
    installs.install(WantedPlugin(str(archive), version="0"), "t")
    with pytest.raises(error):
        installs.install(wanted(archive), "t")
    assert left(folder) == ["one-0"]


def broken(archive: Path) -> Path:
    cut = archive.with_name("cut-1.zip")
    cut.write_bytes(archive.read_bytes()[:-30])
    return cut


def empty(archive: Path) -> Path:
    none = archive.with_name("none-1.zip")
    none.write_bytes(jar_bytes({"README": b"no plug-in"}))
    return none


def test_too_large_is_refused_before_it_is_kept(tmp_path: Path, folder: PluginFolder) -> None:
    with pytest.raises(BadRequestError, match=r"connectrt\.plugins\.size\.max\.bytes"):
        installer(folder, limit_bytes=100).install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "t")
    assert left(folder) == []


def test_a_way_around_the_list_of_allowed_folders(tmp_path: Path, folder: PluginFolder) -> None:
    (tmp_path / "drop").mkdir()
    plugin_zip(tmp_path / "one-1.0.zip")
    installs = installer(folder, (f"file:{tmp_path}/drop/*",))
    with pytest.raises(ForbiddenError):
        installs.install(WantedPlugin(f"file:{tmp_path}/drop/../one-1.0.zip"), "t")
    installs.install(WantedPlugin(str(plugin_zip(tmp_path / "drop" / "one-1.0.zip"))), "t")
    assert left(folder) == ["one-1.0"]


def test_leftovers_of_a_killed_process_are_removed_by_the_next_change(tmp_path: Path, folder: PluginFolder) -> None:
    (folder.path / ".staging-x" / "content").mkdir(parents=True)
    (folder.path / ".removed-1-y").mkdir()
    installer(folder).install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "t")
    assert left(folder) == ["one-1.0"]


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("a file, which not even root can write into")
    with pytest.raises(ConnectError, match="cannot be installed in"):
        installer(PluginFolder(tmp_path / "plugins")).install(WantedPlugin("a:b:1"), "t")


def test_a_record_of_another_content_is_not_taken_for_the_same(tmp_path: Path, folder: PluginFolder) -> None:
    installs = installer(folder)
    plugin = installs.install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "t")
    assert installs.install_recorded(plugin) == plugin
    elsewhere = installer(PluginFolder(tmp_path / "other"))
    assert elsewhere.install_recorded(plugin).sha512 == plugin.sha512
    plugin_zip(tmp_path / "one-1.0.zip", jar=jar_bytes({"x": b"changed since"}))
    with pytest.raises(NotFetchedError, match="is required"):
        installer(PluginFolder(tmp_path / "third")).install_recorded(plugin)


class _Answers(BaseHTTPRequestHandler):
    def __init__(self, root: Path, port: list[int], *rest: object) -> None:
        self._root, self._port = root, port
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path == "/moved-1.0.zip":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self._port[0]}/one-1.0.zip")
            self.end_headers()
            return
        data = (self._root / "one-1.0.zip").read_bytes()
        self.send_response(200 if self.path in ("/one-1.0.zip", "/cut-1.0.zip") else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: 40 if "cut" in self.path else None])

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    plugin_zip(tmp_path / "one-1.0.zip")
    port: list[int] = []
    with HTTPServer(("127.0.0.1", 0), partial(_Answers, tmp_path, port)) as server:
        port.append(server.server_port)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_by_url_with_redirects_only_to_allowed_hosts(folder: PluginFolder, web: str) -> None:
    installer(folder, ("127.0.0.1",)).install(WantedPlugin(f"{web}/one-1.0.zip"), "t")
    with pytest.raises(ForbiddenError, match="localhost"):
        installer(folder, ("127.0.0.1",)).install(WantedPlugin(f"{web}/moved-1.0.zip"), "t")
    both = installer(folder, ("127.0.0.1", "localhost"))
    assert both.install(WantedPlugin(f"{web}/moved-1.0.zip"), "t").name == "moved"
    assert left(folder) == ["moved-1.0", "one-1.0"]


@pytest.mark.parametrize("path", ["/gone-1.0.zip", "/cut-1.0.zip"])
def test_a_download_that_fails_or_breaks_off(folder: PluginFolder, web: str, path: str) -> None:
    with pytest.raises(NotFetchedError):
        installer(folder).install(WantedPlugin(f"{web}{path}"), "t")
    assert left(folder) == []
