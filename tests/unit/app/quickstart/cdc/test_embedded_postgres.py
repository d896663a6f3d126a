"""What the quickstart's PostgreSQL says when it cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.cdc import embedded_postgres
from spark_connect_rt.app.quickstart.cdc.embedded_postgres import EmbeddedPostgres, closed_to_others, why_it_failed
from spark_connect_rt.errors import StartupError

MUCH = 10_000_000_000


@pytest.mark.parametrize(
    ("log_end", "free_bytes", "sentence"),
    [
        ("PANIC: could not write: No space left on device", MUCH, "the disk is full. Free 500 MB"),
        ("", 1_000, "the disk is full"),
        ("initdb: could not create: Permission denied", MUCH, "its folder is not writable"),
        ("LOG: could not bind IPv4 address", MUCH, "its port was taken"),
        ("FATAL: could not map anonymous shared memory", MUCH, "the machine has too little free memory"),
        ("FATAL: database files are incompatible with server", MUCH, "its data were written by another version"),
    ],
)
def test_the_reason_of_a_failed_start_is_a_sentence(log_end: str, free_bytes: int, sentence: str) -> None:
    assert why_it_failed(log_end, free_bytes).startswith(sentence)


def test_an_unknown_reason_leaves_the_log_to_speak() -> None:
    assert why_it_failed("LOG: something else", MUCH) == ""


def test_a_folder_that_other_users_cannot_enter_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    first_closed = closed_to_others(tmp_path) or tmp_path / "closed"  # pytest's own folders may be closed, too
    assert closed_to_others(inner) == first_closed
    (tmp_path / "closed").chmod(0o711)
    assert closed_to_others(inner) == closed_to_others(tmp_path)


def test_root_gets_a_sentence_when_the_other_user_may_not_enter_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_postgres.os, "geteuid", lambda: 0)
    (tmp_path / "closed").mkdir(mode=0o700)
    with pytest.raises(StartupError, match=r"cannot enter .*another user, or use a folder") as refused:
        EmbeddedPostgres(tmp_path / "closed" / "postgres").start()
    assert refused.value.exit_code == 30
