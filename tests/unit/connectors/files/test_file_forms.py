"""Files that are refused by name, rows that leave a letter, digits that stay, errors that pass."""

from __future__ import annotations

import errno
import gzip
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.files import delimited_rows
from spark_connect_rt.connectors.files.delimited_file_source import DelimitedFileSourceTask
from spark_connect_rt.connectors.files.directory_source import DirectorySourceTask
from spark_connect_rt.errors import ConnectError, DataError, RetriableError
from tests.unit.connectors.files.test_directory_source import Run, names
from tests.unit.connectors.task_context import Context


def zipped(text: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.csv", text)
    return out.getvalue()


TABLE = b"n,m\n" + b"1,2\n" * 5_000
REFUSED = {
    "a zip archive": zipped(TABLE),
    "compressed by xz": b"\xfd7zXZ\x00" + TABLE,
    "an Avro file": b"Obj\x01" + TABLE,
    "cannot be read as gzip": gzip.compress(TABLE)[:-20],
    "Set file.encoding to the file's encoding": "prénom,m\nA,B\n".encode("latin-1"),
    "so it is not UTF-8 text. Set file.encoding": "n,m\n1,2\n".encode("utf-16-le"),
    "line ends that are not LF, CRLF or CR": "n,m\u20281,2\u2028".encode(),
    "the header has no end within 9 bytes. Close its quotes": b'"n,m\n1,2\n',
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_file_that_cannot_be_read_is_refused_by_name_and_never_done(tmp_path: Path, why: str) -> None:
    folder, done, bad = (str(tmp_path / name) for name in ("in", "done", "bad"))
    os.mkdir(folder)
    (tmp_path / "in" / "a.csv").write_bytes(REFUSED[why])
    with pytest.raises(DataError, match=rf"unreadable input at file .*a\.csv: file .*a\.csv.*{why}|header: .*{why}"):
        Run(tmp_path / "in", file_done="move", file_done_directory=done).poll()
    Run(tmp_path / "in", file_done="move", file_done_directory=done, file_error_directory=bad).poll()
    assert names(tmp_path) == ["bad/a.csv"]


def test_a_file_with_bytes_and_no_row_stays_and_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_text("n,m\n")
    (tmp_path / "b.csv").write_text("")
    run = Run(tmp_path, file_done="delete")
    assert (run.poll(), run.poll()) == ([], [])
    assert names(tmp_path) == ["a.csv"]
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"file {tmp_path}/a.csv has 4 bytes but no rows: it stays")


def test_a_growing_file_that_is_compressed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(gzip.compress(TABLE))
    task = DelimitedFileSourceTask()
    task.context = Context()
    task.start({"file": str(tmp_path / "a.csv"), "topic": "t"})
    with pytest.raises(ConnectError, match=r"a\.csv is compressed.*DirectorySource"):
        task.poll()


def test_a_row_whose_quote_is_never_closed_leaves_its_bytes_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited_rows, "LETTER_BYTES", 8)
    (tmp_path / "a.csv").write_text('n,m\n1,2\n3,"4 and more\n5,6\n')
    run = Run(tmp_path, tolerant=True)
    letters: list[tuple[str, str, bytes | None]] = []
    run.context.report_errant = lambda place, error, data=None: letters.append((place, str(error), data))  # type: ignore[method-assign]
    assert [tuple(row.values()) for _, row in run.poll()] == [("1", "2"), ("5", "6")]
    ((place, error, data),) = letters
    assert (place, data) == (f"file {tmp_path}/a.csv line 3 offset 8", b'3,"4 and')
    assert error.endswith("Is a closing quote missing?; only the first 8 of its 14 bytes are shown")


def test_inferred_types_keep_every_digit(tmp_path: Path) -> None:
    table = {
        "zip": ("00123", "04567", "string"),
        "signed": ("-012", "3", "string"),
        "big": ("12345678901234567890", "1", "string"),
        "mixed": ("9007199254740993", "1.5", "string"),
        "fine": ("0.12345678901234567890", "1.0", "string"),
        "int": ("9223372036854775807", "0", "int64"),
        "float": ("0.5", "-1e3", "float64"),
        "exact": ("1.5000000000000000000", "2", "float64"),
    }
    rows = [list(table), *([column[at] for column in table.values()] for at in (0, 1))]
    (tmp_path / "a.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    (_, first), (_, second) = Run(tmp_path, schema_infer="true").poll()
    python = {"string": str, "int64": int, "float64": float}
    for name, (cell, other, kind) in table.items():
        assert (first[name], second[name]) == (python[kind](cell), python[kind](other)), name


def test_a_later_row_whose_digits_the_inferred_type_would_lose_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited_rows, "CHUNK_BYTES", 32)
    rows = ["zip,f"] + ["1234,1.5"] * 5 + ["00123,1.5", "7,0.5", "8,0.12345678901234567890", "9,07.5", "10,0.25"]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    run = Run(tmp_path, tolerant=True, schema_infer="true")
    found = [(row["zip"], row["f"]) for _, row in run.poll()]
    assert found == [(1234, 1.5)] * 5 + [(7, 0.5), (10, 0.25)]
    assert [place.split()[3] for place, _ in run.context.errant] == ["7", "9", "10"]
    assert "column zip: int64, the type of the first rows, would lose digits" in run.context.errant[0][1]


def test_a_json_number_of_too_many_digits_asks_for_a_schema(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1, "big": 12345678901234567890}\n')
    with pytest.raises(DataError, match="column big contains a number with more digits than a float64 keeps"):
        Run(tmp_path, schema_infer="true", format="jsonl").poll()


PASSING = [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EMFILE]


@pytest.mark.parametrize("number", PASSING)
def test_an_error_that_passes_is_retried_and_the_file_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes(TABLE)
    monkeypatch.setattr(delimited_rows, "CHUNK_BYTES", 4_096)
    run = Run(folder, file_error_directory=str(tmp_path / "bad"), file_done="delete")
    found = list(run.task.poll() or ())
    read = os.pread

    def failing(*_: Any) -> bytes:
        raise OSError(number, os.strerror(number))

    for _ in range(2):
        monkeypatch.setattr(os, "pread", failing)
        with pytest.raises(RetriableError, match=r"a\.csv cannot be read"):
            run.task.poll()
    monkeypatch.setattr(os, "pread", read)
    rest = run.poll()
    (first,) = found
    assert isinstance(first, SourceBatch)
    run.store.stored.setdefault(str(folder / "a.csv"), first.source_offset)
    assert len(first.values) + len(rest) == 5_000
    assert names(tmp_path) == []


@pytest.mark.parametrize("number", PASSING)
def test_a_parquet_file_is_not_bad_because_of_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"n": range(20_000)}), folder / "a.parquet", row_group_size=5_000)
    run = Run(folder, format="parquet", file_error_directory=str(tmp_path / "bad"))
    (first,) = run.task.poll() or ()
    assert isinstance(first, SourceBatch)
    opened = pq.ParquetFile

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    assert run.task._reading is not None
    monkeypatch.setattr(run.task._reading._rows, "_batches", map(failing, [1]))
    monkeypatch.setattr(pq, "ParquetFile", failing)
    for _ in range(2):  # while it is read, and while it is opened again
        with pytest.raises(RetriableError, match=r"a\.parquet"):
            run.task.poll()
    monkeypatch.setattr(pq, "ParquetFile", opened)
    assert [row["n"] for _, row in run.poll()] == list(range(len(first.values), 20_000))
    assert names(tmp_path) == ["in/a.parquet"]


def test_a_move_that_fails_for_now_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("n\n1\n")
    run = Run(folder, file_done="move", file_done_directory=str(tmp_path / "done"))
    (batch,) = run.task.poll() or ()
    run.store.stored[str(folder / "a.csv")] = batch.source_offset
    made = os.makedirs

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "makedirs", full)
    assert run.task.poll() is None
    for _ in range(2):
        run.now_ms += 2_000
        with pytest.raises(RetriableError, match="No space left"):
            run.task.poll()
    monkeypatch.setattr(os, "makedirs", made)
    run.poll()
    assert names(tmp_path) == ["done/a.csv"]


def test_an_error_of_permissions_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n")

    def failing(*_: Any) -> bytes:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "pread", failing)
    run = Run(tmp_path, tolerant=True)
    assert run.poll() == []
    assert ["Permission denied" in error for _, error in run.context.errant] == [True]
    assert isinstance(run.task, DirectorySourceTask)
