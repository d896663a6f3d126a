"""Plug-ins that are copied into the folders of plugin.path while a worker runs."""

from __future__ import annotations

import os
import threading
import zipfile
from pathlib import Path

import pytest

from spark_connect_rt.engine.process_plugins import plugins_in
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.plugins.discovery import Discovered, discover
from spark_connect_rt.plugins.path_watch import PathWatch
from spark_connect_rt.plugins.registry import Plugins
from tests.unit.plugins.plugin_folders import make_folder, stamp_plugin

OLD_NS = 1_600_000_000_000_000_000


class Watched:
    """A watch of some folders that counts its searches."""

    def __init__(self, *folders: Path, look_each_s: float = 0.0) -> None:
        self.searches = 0
        self.fails = False
        self.searched, self.failed = threading.Event(), threading.Event()
        self.watch = PathWatch([str(folder) for folder in folders], self._search, look_each_s)

    def _search(self) -> None:
        self.searches += 1
        if self.fails:
            self.fails = False
            self.failed.set()
            raise OSError("a disk that is gone for a moment")
        self.searched.set()

    def settled(self) -> int:
        """Return how many searches two looks begin."""
        before = self.searches
        self.watch.look()
        self.watch.look()
        return self.searches - before


def jar(path: Path, content: str = "one") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", content)
    return path


def test_new_plugin_counts_when_two_polls_found_the_same(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert not watched.watch.look()
    new = jar(tmp_path / "mine" / "lib" / "mine.jar")
    assert not watched.watch.look()
    with new.open("ab") as more:
        more.write(b"x" * 100)  # it is still being copied
    assert not watched.watch.look()
    assert watched.watch.look()
    assert not watched.watch.look()
    assert watched.searches == 1


def test_a_name_that_is_not_known_waits_for_no_second_look(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert not watched.watch.look_now()
    jar(tmp_path / "mine.jar")
    assert watched.watch.look_now()
    assert not watched.watch.look_now()


def test_changes_at_any_depth_and_ends_are_seen(tmp_path: Path) -> None:
    deep = jar(tmp_path / "a" / "b" / "c" / "d.jar")
    for folder in (tmp_path, *tmp_path.glob("**")):  # long ago: their listings are kept
        os.utime(folder, ns=(OLD_NS, OLD_NS))
    watched = Watched(tmp_path, tmp_path / "later")
    assert watched.settled() == 0
    jar(deep, "another of the same name")
    os.utime(deep.parent, ns=(OLD_NS, OLD_NS))  # as if written in place
    assert watched.settled() == 1
    jar(deep.parent / "e.jar")
    assert watched.settled() == 1
    (tmp_path / "a").rename(tmp_path / ".removed-a")
    assert watched.settled() == 1
    jar(tmp_path / "later" / "plugin" / "f.jar")  # a folder of plugin.path that was not there
    assert watched.settled() == 1


def test_files_without_plugins_start_no_search(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "stamps", stamp_plugin("stamps", "1.0"))
    (folder / "again").symlink_to(folder)  # leads back
    watched = Watched(tmp_path)
    make_folder(folder, {"stamps/__pycache__/x.pyc": "", "stamps/notes.txt": "", "stamps/more.py": ""})
    jar(tmp_path / ".staging-1" / "half.jar")
    (tmp_path / "README.md").write_text("words")
    assert watched.settled() == 0


def test_a_search_that_fails_ends_no_watch(tmp_path: Path) -> None:
    watched = Watched(tmp_path, look_each_s=0.01)
    watched.fails = True
    watched.watch.start()
    jar(tmp_path / "one.jar")
    assert watched.failed.wait(30)
    jar(tmp_path / "two.jar")
    assert watched.searched.wait(30)
    watched.watch.rounds.stop(10)


def test_a_registry_finds_what_was_dropped_after_it_had_searched(tmp_path: Path) -> None:
    def search() -> Discovered:
        return discover([str(tmp_path)], with_environment=False)

    plugins = Plugins((), search)
    watch = PathWatch([str(tmp_path)], plugins.refresh, 0)
    plugins.look = watch.look_now
    with pytest.raises(NotFoundError):
        plugins.find("Stamp")
    make_folder(tmp_path / "stamps", stamp_plugin("stamps", "1.0"))
    assert plugins.find("Stamp").version == "1.0"


def test_a_slots_process_finds_what_was_put_deeper_than_its_folders_time_shows(tmp_path: Path) -> None:
    (tmp_path / "stamps").mkdir()
    with pytest.raises(NotFoundError):
        plugins_in([str(tmp_path)]).find("Stamp")
    make_folder(tmp_path / "stamps", stamp_plugin("stamps", "1.0"))
    assert plugins_in([str(tmp_path)]).find("Stamp").version == "1.0"
