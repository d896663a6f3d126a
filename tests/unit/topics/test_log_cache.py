import logging
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from spark_connect_rt.topics.log_snapshot import LogCache, LogFacts, LogSnapshot, ReadPosition

FACTS = LogFacts("cluster", "offsets", "id-1", {0: 0}, {0: 9}, 10_000)
SNAPSHOT = LogSnapshot("cluster", "offsets", "id-1", 1_000, {0: ReadPosition(5, 4, 99)}, ((0, 4, b"k", b"v", 7),))


@pytest.fixture
def cache(tmp_path: Path) -> LogCache:
    return LogCache(tmp_path / "a" / "b", lambda: 2_000)


def test_saved_snapshot_is_loaded_and_only_its_owner_may_read_it(cache: LogCache) -> None:
    assert cache.load(FACTS) is None
    assert cache.save(FACTS, SNAPSHOT)
    assert cache.load(FACTS) == SNAPSHOT
    assert stat.S_IMODE(cache.path(FACTS).stat().st_mode) == 0o600
    assert [file.name for file in cache.path(FACTS).parent.iterdir()] == [cache.path(FACTS).name]


def test_a_damaged_file_is_removed(cache: LogCache, caplog: pytest.LogCaptureFixture) -> None:
    cache.save(FACTS, SNAPSHOT)
    data = cache.path(FACTS).read_bytes()
    cache.path(FACTS).write_bytes(data[: len(data) // 2])
    assert cache.load(FACTS) is None
    assert "discarding the snapshot" in caplog.text
    assert not cache.path(FACTS).exists()


def test_a_snapshot_that_does_not_fit_the_topic_is_removed(cache: LogCache) -> None:
    cache.save(FACTS, SNAPSHOT)
    assert cache.load(replace(FACTS, topic_id="id-2")) is None
    assert not cache.path(FACTS).exists()


def test_another_cluster_has_another_file(cache: LogCache) -> None:
    cache.save(FACTS, SNAPSHOT)
    other = replace(FACTS, cluster_id="../x")
    assert cache.load(other) is None
    assert cache.path(other).parent == cache.path(FACTS).parent
    cache.path(other).write_bytes(cache.path(FACTS).read_bytes())  # copied by hand
    assert cache.load(other) is None
    assert cache.load(FACTS) == SNAPSHOT


def test_a_folder_that_cannot_be_used_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = LogCache(tmp_path / "file", lambda: 0)
    with caplog.at_level(logging.WARNING):
        assert not cache.save(FACTS, SNAPSHOT)
        assert cache.load(FACTS) is None
    assert "the snapshot cannot be written" in caplog.text
