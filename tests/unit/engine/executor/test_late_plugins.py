"""Plug-ins that came after the session began cross the control channel, whole and once; nothing else does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from spark_connect_rt.engine.driver import slice_runner as plugin_door
from spark_connect_rt.engine.driver.control_channel import ControlChannel, listen_tcp
from spark_connect_rt.engine.driver.slice_runner import PluginDownloads, SparkSliceLauncher, SparkSlotJob
from spark_connect_rt.engine.executor import late_plugins
from spark_connect_rt.engine.executor.late_plugins import ask_this_driver, fetch_java_host, fetch_late_plugins
from spark_connect_rt.engine.executor.ticket import SliceTicket

SESSION_MS = 5_000


@pytest.fixture
def channel() -> Iterator[ControlChannel]:
    opened = listen_tcp("127.0.0.1", SESSION_MS)
    yield opened
    opened.close()
    ask_this_driver(SliceTicket(1, "", "unix:none", 1, ""))


def ask_through(
    channel: ControlChannel,
    shipped: list[str],
    monkeypatch: pytest.MonkeyPatch,
    java_jars: Callable[[], Sequence[Path]] = tuple,
) -> SparkSlotJob:
    """Let this process be an executor's, of a slice of a driver with these folders."""
    launcher = SparkSliceLauncher(None, "", SESSION_MS, shipped=shipped, java_jars=java_jars)  # type: ignore[arg-type]
    monkeypatch.setattr(launcher, "channel", lambda: channel)
    slice_ = SparkSlotJob(launcher, 1)
    channel.expect(1, slice_)
    ask_this_driver(SliceTicket(1, slice_.token, channel.address, SESSION_MS, "", channel.certificate))
    return slice_


def test_missing_plugins_are_fetched_once(
    tmp_path: Path, channel: ControlChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_door, "PART_BYTES", 1_000)
    driver, here = tmp_path / "driver", tmp_path / "executor"
    big = os.urandom(4_500)
    for name, data in {"new-1/new/__init__.py": b"", "new-1/big.bin": big, "new-1/__pycache__/x.pyc": b"x"}.items():
        (driver / name).parent.mkdir(parents=True, exist_ok=True)
        (driver / name).write_bytes(data)
    (driver / "one.whl").write_bytes(big[:1_000])
    (driver / ".staging-1").mkdir()
    here.mkdir()
    (here / "connectrt-plugins-1" / "known-1").mkdir(parents=True)
    (driver / "known-1").mkdir()
    ask_through(channel, [str(tmp_path / "none"), str(driver)], monkeypatch)
    assert fetch_late_plugins(here)
    copy = here / "connectrt-plugins-1"
    assert sorted(path.name for path in copy.iterdir()) == ["known-1", "new-1", "one.whl"]
    assert (copy / "new-1" / "big.bin").read_bytes() == big
    assert (copy / "new-1" / "new" / "__init__.py").is_file()
    assert not (copy / "new-1" / "__pycache__").exists()
    assert (copy / "one.whl").read_bytes() == big[:1_000]
    assert not fetch_late_plugins(here)


def test_jars_that_host_java_come_when_a_session_began_without(
    tmp_path: Path, channel: ControlChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "executor"
    here.mkdir()
    jars = [tmp_path / "m2" / "a" / "a.jar", tmp_path / "host.jar"]
    jars[0].parent.mkdir(parents=True)
    for jar in jars:
        jar.write_bytes(os.urandom(600_000))
    found: list[Path] = []
    ask_through(channel, [], monkeypatch, lambda: found)
    assert not fetch_java_host(here), "the driver has no Java plug-in"
    found += jars
    assert fetch_java_host(here)
    copy = here / "connectrt-java-host"
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {jar.name: jar.read_bytes() for jar in jars}
    assert not fetch_java_host(here), "once"
    assert sorted(path.name for path in here.iterdir()) == [".connectrt-late-plugins.lock", "connectrt-java-host"]


def test_without_a_driver_elsewhere_or_with_a_lost_one_nothing_happens(
    tmp_path: Path, channel: ControlChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_this_driver(SliceTicket(1, "x", "unix:/nowhere", 1, ""))
    assert not fetch_late_plugins(tmp_path)
    monkeypatch.setattr(late_plugins, "_ANSWER_LIMIT_S", 0.5)
    slice_ = ask_through(channel, [], monkeypatch)
    ask_this_driver(SliceTicket(1, slice_.token + "wrong", channel.address, SESSION_MS, "", channel.certificate))
    assert not fetch_late_plugins(tmp_path)


def test_a_half_that_asks_separately_does_not_change_the_slice(
    tmp_path: Path, channel: ControlChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    slice_ = ask_through(channel, [], monkeypatch)
    aborted: list[str] = []
    monkeypatch.setattr(slice_, "abort", lambda: aborted.append("abort"))
    assert not fetch_late_plugins(tmp_path)
    assert aborted == []


@pytest.mark.parametrize(
    "question",
    [
        {"op": "part", "folder": 0, "plugin": "..", "file": "secret", "offset": 0},
        {"op": "part", "folder": 0, "plugin": "a", "file": "../../secret", "offset": 0},
        {"op": "part", "folder": 0, "plugin": "/", "file": "etc/passwd", "offset": 0},
        {"op": "part", "folder": 7, "plugin": "a", "file": "b", "offset": 0},
        {"op": "files", "folder": 0, "plugin": ""},
        {"op": "files"},
        {"op": "start"},
    ],
)
def test_only_files_of_plugins_are_read(tmp_path: Path, question: dict[str, object]) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "plugins" / "a").mkdir(parents=True)
    answer = PluginDownloads([str(tmp_path / "plugins")]).answer(question)
    assert answer["op"] == "refused", answer
