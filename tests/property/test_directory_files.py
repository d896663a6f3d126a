"""Files of a directory: for any encoding, compression, line ends, delimiter and cut, the rows are those written."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.files import delimited_rows
from spark_connect_rt.connectors.files.delimited_file_source import DelimitedFileSourceTask
from spark_connect_rt.connectors.files.directory_source import DirectorySourceConnector, DirectorySourceTask
from tests.unit.connectors.task_context import Context, poll_all, values_of

slow_machine = settings(deadline=None, max_examples=60)
ENCODINGS = {  # the setting -> its codec, letters in addition to ASCII
    "UTF-8": ("utf-8", "é漢😀"),
    "utf-8-sig": ("utf-8-sig", "é漢😀"),
    "ISO-8859-1": ("latin-1", "éß"),
    "windows-1252": ("cp1252", "é€"),
    "UTF-16LE": ("utf-16-le", "é漢😀"),
    "UTF-16": ("utf-16", "é漢😀"),
    "Shift_JIS": ("shift_jis", "漢ア"),
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "gz of two members": lambda data: gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :]),
}
DELIMITERS = {",": ",", "\\t": "\t", "\t": "\t", " ": " ", ";": ";", "|": "|", "^": "^", "\x01": "\x01"}


class Stored:
    def __init__(self) -> None:
        self.offset: Mapping[str, Any] | None = None

    def offsets(self, partitions: Sequence[Any]) -> list[Mapping[str, Any] | None]:
        return [self.offset for _ in partitions]


def read_with_restarts(folder: Path, runs_of: int, config: dict[str, str]) -> list[Any]:
    """Return all rows; after each ``runs_of`` polls another task resumes from the stored offset."""
    found: list[Any] = []
    stored, now_ms = Stored(), [0]
    for _ in range(100):
        task = DirectorySourceTask()
        task.clock = lambda: now_ms[0]  # type: ignore[method-assign]
        task.context = Context()
        task.context.offset_reader = stored  # type: ignore[assignment]
        task.start(config)
        for _ in range(runs_of):
            polled = task.poll()
            now_ms[0] += 0 if polled else 2_000
            for batch in polled or ():
                assert isinstance(batch, SourceBatch)
                found += batch.values.to_pylist()
                stored.offset = batch.source_offset
        task.stop()
        if not list(folder.glob("in*")):
            return found
    raise AssertionError(f"the file was never done, after {len(found)} rows")


@slow_machine
@given(st.data())
def test_rows_of_any_written_form_are_read_across_restarts_and_the_file_is_done(data: st.DataObject) -> None:
    encoding, (codec, letters) = data.draw(st.sampled_from(list(ENCODINGS.items())))
    delimiter, cut = data.draw(st.sampled_from(list(DELIMITERS.items())))
    fields = st.text(st.sampled_from(f'ab0 "{cut}{letters}'), min_size=1, max_size=9)
    table = data.draw(st.lists(st.tuples(fields, fields), min_size=1, max_size=40))
    line_end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    form = data.draw(st.sampled_from(["csv", "csv without header", "jsonl"]))
    names = data.draw(st.sampled_from([("007", "1.10"), (f"n{letters[0]}", "x y"), ("true", "2026-01-01")]))
    text = written(form, [names, *table], cut, line_end)
    text = text if data.draw(st.booleans()) else text.removesuffix(line_end)
    packed = data.draw(st.sampled_from(list(COMPRESSIONS)))
    config = {"delimiter": delimiter, "file.encoding": encoding, "format": form.partition(" ")[0], "topic": "t"}
    if form != "csv":
        config |= {"header": "false", "schema": ",".join(f"{name}:string" for name in names)}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited_rows, "CHUNK_BYTES", data.draw(st.sampled_from([500, 613, 1 << 20])))
        place = Path(folder)
        (place / "in.txt").write_bytes(COMPRESSIONS[packed](text.encode(codec)))
        config |= {"directory": folder, "file.settle.ms": "0", "file.done": "delete"}
        found = read_with_restarts(place, data.draw(st.sampled_from([1, 2, 5])), config)
    assert found == [dict(zip(names, row, strict=True)) for row in table]


def written(form: str, rows: Sequence[tuple[str, ...]], delimiter: str, line_end: str) -> str:
    names, *table = rows
    if form == "jsonl":
        return "".join(orjson.dumps(dict(zip(names, row, strict=True))).decode() + line_end for row in table)
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows(
        table if "without" in form else rows
    )
    return out.getvalue()


@slow_machine
@given(
    st.sampled_from(list(ENCODINGS)),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.text(st.sampled_from("ab0é漢"), min_size=1, max_size=6), min_size=1, max_size=20),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_a_file_that_grows_by_any_bytes_gives_its_rows_once(
    encoding: str, line_end: str, texts: list[str], cuts: list[int]
) -> None:
    codec, letters = ENCODINGS[encoding]
    table = [text.replace("é", letters[0]).replace("漢", letters[-1]) for text in texts]
    data = "".join(text + line_end for text in ["007", *table]).encode(codec)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.csv"
        path.write_bytes(b"")
        found: list[Any] = []
        offset: Mapping[str, Any] | None = None
        for end in [*sorted(cuts), len(data)]:
            path.write_bytes(data[:end])  # the same file, as long as that by now
            task = DelimitedFileSourceTask()
            task.context = Context(offset)
            task.start({"file": str(path), "topic": "t", "file.encoding": encoding})
            batches = poll_all(task)
            found += values_of(batches)
            offset = batches[-1].source_offset if batches else offset
            task.stop()
    assert found == [{"007": text} for text in table]


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_validation_and_task_accept_the_same_delimiters(tmp_path: Path, delimiter: str) -> None:
    config = {"directory": str(tmp_path), "topic": "t", "delimiter": delimiter}
    connector = DirectorySourceConnector()
    assert [value.errors for value in connector.config_def().validate(config) if value.errors] == []
    assert connector.validate(config) == {}
    DirectorySourceTask().start(config)


def test_byte_order_marks_override_the_setting(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(codecs.BOM_UTF16_LE + "né\nß\n".encode("utf-16-le"))
    config = {"directory": str(tmp_path), "topic": "t", "file.settle.ms": "0", "file.done": "delete"}
    assert read_with_restarts(tmp_path, 3, config) == [{"né": "ß"}]
