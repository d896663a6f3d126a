from __future__ import annotations

import errno
from pathlib import Path

import pytest

from spark_connect_rt.base.cache import DownloadJournal, reason_of


def test_a_file_whose_download_was_killed_is_deleted_by_the_next_try(tmp_path: Path) -> None:
    half, journal = tmp_path / "a.jar", tmp_path / "kafka.downloading"
    writing = DownloadJournal(journal).writing(half)
    writing.__enter__()
    half.write_bytes(b"PK half")  # then the process is gone: nothing leaves the block
    DownloadJournal(journal).forget_half()
    assert not half.exists()
    assert not journal.exists()
    DownloadJournal(journal).forget_half()  # nothing left to do


def test_a_file_whose_download_failed_is_deleted_and_a_whole_one_stays(tmp_path: Path) -> None:
    journal = DownloadJournal(tmp_path / "kafka.downloading")
    half, whole = tmp_path / "half.jar", tmp_path / "whole.jar"

    def write_half() -> None:
        with journal.writing(half):
            half.write_bytes(b"PK half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_half()
    with journal.writing(whole):
        whole.write_bytes(b"PK whole")
    journal.forget_half()
    assert [path.name for path in tmp_path.iterdir()] == ["whole.jar"]


def test_the_reason_of_a_failed_download_is_a_cause_with_its_fix(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/cache/a.jar")
    assert reason_of(full) == "the disk is full (/cache/a.jar). Free 200 MB there, or set CONNECTRT_CACHE"
    read_only = OSError(errno.EROFS, "Read-only file system", "/cache")
    assert reason_of(read_only) == "/cache is not writable. Set CONNECTRT_CACHE to a folder that is"

    class ConnectTimeout(Exception):
        pass

    assert "Check the network" in reason_of(ConnectTimeout("HTTPSConnectionPool(...)"))
    assert reason_of(RuntimeError("no such artifact")) == "no such artifact"
