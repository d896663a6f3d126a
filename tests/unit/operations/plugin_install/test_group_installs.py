"""Workers of a group install what one of them has; one that cannot says so, and the others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.errors import ConnectError, NotFoundError, PluginInUseError
from spark_connect_rt.operations.plugin_install import group_installs
from spark_connect_rt.operations.plugin_install.folders import PluginFolder
from spark_connect_rt.operations.plugin_install.group_installs import (
    GroupInstalls,
    GroupRecord,
    plugin_record,
    worker_record,
)
from spark_connect_rt.operations.plugin_install.installer import Installer
from spark_connect_rt.plugins.interfaces import FAILED, INSTALLED, InstallState, WantedPlugin
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord, LogSource, OnEnd
from tests.unit.operations.plugin_install.archives import plugin_zip

LIMIT_S = 10.0


class Group:
    """Workers over one topic, each with a folder of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.topic = MemoryLogTopic("configs-plugins")
        self.made = False
        self.users: list[str] = []
        self.refreshed: list[str] = []
        self.may_refresh = threading.Event()
        self.may_refresh.set()
        self.ends: list[OnEnd] = []
        self._tmp_path = tmp_path
        self._started: list[GroupInstalls] = []

    def folder(self, name: str) -> Path:
        return self._tmp_path / f"plugins-{name}"

    def worker(self, name: str, allowed: tuple[str, ...] = (), alone: bool = False) -> GroupInstalls:
        def open_log(on_end: OnEnd) -> CompactedLog:
            self.made = True
            self.ends.append(on_end)
            return MemoryCompactedLog(self.topic)

        installs = GroupInstalls(
            name,
            Installer(PluginFolder(self.folder(name)), allowed, 10_000_000, lambda: 1_000),
            lambda: self._refresh(name),
            lambda folder: self.users,
            None if alone else LogSource(lambda: self.made, open_log),
        )
        installs.start()
        self._started.append(installs)
        return installs

    def _refresh(self, name: str) -> None:
        self.may_refresh.wait(LIMIT_S)
        self.refreshed.append(name)

    def stop(self) -> None:
        for installs in self._started:
            installs.stop()


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    monkeypatch.setattr(group_installs, "LOOK_S", 0.02)
    monkeypatch.setattr(group_installs, "RETRY_FIRST_S", 0.05)
    made = Group(tmp_path)
    yield made
    made.stop()


def eventually(is_so: Callable[[], Any]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, "never"
        time.sleep(0.01)


def states(worker: GroupInstalls) -> dict[str, dict[str, str]]:
    return {
        f"{info.name}-{info.version}": {name: state.state for name, state in info.workers.items()}
        for info in worker.installed()
    }


def test_one_installs_and_all_have_it_also_one_that_comes_later(group: Group, tmp_path: Path) -> None:
    a, b = group.worker("a"), group.worker("b")
    time.sleep(0.1)
    assert not group.made  # no topic before the first install
    done = a.install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "ann")
    assert (done.name, done.version, done.recorded) == ("one", "1.0", True)
    c = group.worker("c")
    for installs in (b, c):
        eventually(lambda installs=installs: states(installs) == {"one-1.0": dict.fromkeys("abc", INSTALLED)})
    assert all((group.folder(name) / "one-1.0" / "lib" / "one.jar").is_file() for name in "abc")
    assert set(group.refreshed) == set("abc")


def test_a_plugin_is_reported_as_installed_only_when_it_can_be_used(group: Group, tmp_path: Path) -> None:
    a, b = group.worker("a"), group.worker("b")
    group.may_refresh.clear()  # a search that asks Java takes its time
    source = WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip")))
    threading.Thread(target=a.install, args=(source, "ann"), daemon=True).start()
    eventually((group.folder("a") / "one-1.0").is_dir)
    assert states(a) == {"one-1.0": {}}
    group.may_refresh.set()
    eventually(lambda: states(b) == {"one-1.0": dict.fromkeys("ab", INSTALLED)})
    assert {"a", "b"} <= set(group.refreshed)


def test_workers_that_share_a_folder_both_look_there_again(group: Group, tmp_path: Path) -> None:
    group.folder("a").mkdir()
    group.folder("b").symlink_to(group.folder("a"))
    a, b = group.worker("a"), group.worker("b")
    a.install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "ann")
    eventually(lambda: states(b) == {"one-1.0": dict.fromkeys("ab", INSTALLED)})
    eventually(lambda: "b" in group.refreshed)
    group.refreshed.clear()
    a.remove("one", "1.0", "ann")
    eventually(lambda: not states(b) and "b" in group.refreshed)


def test_removed_from_all_unless_it_is_used(group: Group, tmp_path: Path) -> None:
    a, b = group.worker("a"), group.worker("b")
    a.install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "ann")
    eventually(lambda: states(a).get("one-1.0", {}).keys() == {"a", "b"})
    group.users = ["orders", "payments"]
    with pytest.raises(PluginInUseError, match="used by orders, payments"):
        b.remove("one", "1.0", "bob")
    group.users = []
    b.remove("one", "1.0", "bob")
    eventually(lambda: not states(a) and not states(b))
    assert not any((group.folder(name) / "one-1.0").exists() for name in "ab")
    with pytest.raises(NotFoundError, match="Installed: none"):
        b.remove("one", "1.0", "bob")
    a.install(WantedPlugin(str(tmp_path / "one-1.0.zip")), "ann")  # again: a tombstone is no ban
    eventually(lambda: states(b).get("one-1.0", {}).keys() == {"a", "b"})


def test_a_worker_that_cannot_says_so_and_tries_again(group: Group, tmp_path: Path) -> None:
    archive = plugin_zip(tmp_path / "one-1.0.zip")
    a = group.worker("a")
    group.worker("b", allowed=("org.none:*",))
    group.worker("c")
    a.install(WantedPlugin(str(archive)), "ann")
    eventually(lambda: states(a) == {"one-1.0": {"a": INSTALLED, "b": FAILED, "c": INSTALLED}})
    (found,) = a.installed()
    assert "connectrt.plugins.allowed" in found.workers["b"].reason
    archive.rename(tmp_path / "away.zip")
    e = group.worker("e")
    eventually(lambda: states(e).get("one-1.0", {}).get("e") == FAILED)
    group.may_refresh.clear()
    (tmp_path / "away.zip").rename(archive)
    eventually((group.folder("e") / "one-1.0").is_dir)
    assert states(e)["one-1.0"]["e"] == FAILED  # until it can be used
    group.may_refresh.set()
    eventually(lambda: states(e)["one-1.0"]["e"] == INSTALLED)
    assert not (group.folder("b") / "one-1.0").exists()


def test_failed_install_is_not_recorded_for_others(group: Group, tmp_path: Path) -> None:
    a, b = group.worker("a"), group.worker("b")
    with pytest.raises(ConnectError):
        a.install(WantedPlugin(str(tmp_path / "gone-1.0.zip")), "ann")
    assert states(a) == states(b) == {}
    assert GroupRecord().plugins == {}


def test_a_topic_that_fails_is_followed_again(group: Group, tmp_path: Path) -> None:
    a, b = group.worker("a"), group.worker("b")
    a.install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "ann")
    eventually(lambda: len(states(b)) == 1)
    for on_end in group.ends[:]:
        on_end("the broker is gone")
    a.install(WantedPlugin(str(plugin_zip(tmp_path / "one-2.0.zip"))), "ann")
    eventually(lambda: states(b).get("one-2.0", {}).get("b") == INSTALLED)
    eventually(lambda: len(group.ends) >= 4)
    eventually(lambda: a.problem() == b.problem() == "")


def test_a_standalone_worker_needs_no_topic(group: Group, tmp_path: Path) -> None:
    installs = group.worker("a", alone=True)
    done = installs.install(WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "ann")
    assert not done.recorded
    installs.remove("one", "1.0", "ann")
    assert (states(installs), group.made) == ({}, False)


def test_records_of_other_programs_are_left_out(tmp_path: Path) -> None:
    plugin = Installer(PluginFolder(tmp_path / "p"), (), 10_000_000, lambda: 1).install(
        WantedPlugin(str(plugin_zip(tmp_path / "one-1.0.zip"))), "ann"
    )
    key, value = plugin_record(plugin)
    bad = [
        (b"plugin:../../etc", value),
        (b"plugin:x", b"{}"),
        (b"plugin:y", b"no json"),
        (b"worker:w", b'{"plugins": 1}'),
        (b"other", b"{}"),
        (None, None),
    ]
    record = GroupRecord()
    good = [(key, value), worker_record("w2", {"one-1.0": InstallState(INSTALLED)})]
    record.take([LogRecord(0, at, key, value) for at, (key, value) in enumerate([*bad, *good])])
    assert record.plugins == {"one-1.0": plugin}
    assert record.workers == {"w2": {"one-1.0": InstallState(INSTALLED)}}
