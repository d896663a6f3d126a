"""The first embedded broker that stops in order leaves an archive of its classes, which the next one maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup import class_archives as archive_at_end
from spark_connect_rt.engine.startup.class_archives import ArchiveAtEnd, failed_mark
from spark_connect_rt.engine.startup.java_home import Java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without an archive; the jars stay where they are."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(archive_at_end, "cache_directory", lambda: folder)
    return folder / "broker"


def test_a_broker_that_stops_writes_the_archive_and_the_next_one_maps_it(
    cache: Path, java: Java, tmp_path: Path
) -> None:
    first = EmbeddedKafka(tmp_path / "first", java=java, die_with_parent=True)
    first.start()
    first.kill()
    assert list(cache.iterdir()) == [], "it wrote nothing"
    first.start()
    first.stop()
    (archive,) = cache.iterdir()
    assert archive.stat().st_size > 10_000_000
    with EmbeddedKafka(tmp_path / "second", java=java, die_with_parent=True) as second:
        assert str(archive) in Path(f"/proc/{second.pid}/maps").read_text(encoding="utf-8")
    assert list(cache.iterdir()) == [archive]


def test_archive_that_the_jvm_rejects_is_not_tried_again(cache: Path, java: Java, tmp_path: Path) -> None:
    jar = tmp_path / "some.jar"
    jar.write_bytes(b"no jar")
    end = ArchiveAtEnd("broker", java, [jar])
    (option, _) = end.options_to_write()
    Path(option.partition("=")[2]).write_bytes(b"no archive")
    assert end.limit_s(1.0) > 1.0
    end.keep()
    assert end.limit_s(1.0) == 1.0
    (mark,) = cache.iterdir()
    assert mark == failed_mark(mark)
    assert ArchiveAtEnd("broker", java, [jar]).options_to_write() == []


def test_without_a_cache_a_broker_starts_without_one(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> Path:
        raise OSError("no space left on device")

    monkeypatch.setattr(archive_at_end, "cache_directory", full)
    end = ArchiveAtEnd("broker", java, [])
    assert (end.options_to_write(), end.limit_s(1.0)) == ([], 1.0)
    end.keep()
