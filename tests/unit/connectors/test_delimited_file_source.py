"""The CSV and JSON-lines source: places, types, restarts, bad input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.connectors.delimited_file_source import DelimitedFileSourceConnector, DelimitedFileSourceTask
from spark_connect_rt.connectors.delimited_text import complete_rows_end, raw_rows
from spark_connect_rt.errors import ConnectError, DataError


class Reader:
    def __init__(self, stored: Mapping[str, Any] | None) -> None:
        self.stored = stored

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return [self.stored for _ in partitions]


class Context:
    def __init__(self, stored: Mapping[str, Any] | None = None, tolerant: bool = False) -> None:
        self.offset_reader = Reader(stored)
        self.errant: list[str] = []
        self._tolerant = tolerant

    def report_errant(self, place: str, error: Exception) -> None:
        self.errant.append(f"{place}: {error}")
        if not self._tolerant:
            raise DataError(self.errant[-1])


def a_task(path: Path, context: Context | None = None, **config: str) -> DelimitedFileSourceTask:
    task = DelimitedFileSourceTask()
    task.context = context or Context()
    task.start({"file": str(path), "topic": "t", **config})
    return task


def rows_of(task: DelimitedFileSourceTask) -> list[Any]:
    rows: list[Any] = []
    while polled := task.poll():
        for one in polled:
            rows += one.values.to_pylist() if isinstance(one, SourceBatch) else [one.value]
    return rows


def test_a_csv_gives_one_typed_record_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,name,delay\n1,"a, b",2.5\n2,NA,NA\n')
    task = a_task(path, schema="id:int32,delay:float64", **{"null.values": "NA"})
    assert rows_of(task) == [{"id": 1, "name": "a, b", "delay": 2.5}, {"id": 2, "name": None, "delay": None}]


def test_an_incomplete_last_row_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n2")
    task = a_task(path)
    assert rows_of(task) == [{"id": "1"}]
    with path.open("a") as file:
        file.write("3\n")
    assert rows_of(task) == [{"id": "23"}]


def test_a_line_break_inside_quotes_does_not_end_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,"two\nlines"\n2,x\n')
    task = a_task(path)
    assert rows_of(task) == [{"id": "1", "text": "two\nlines"}, {"id": "2", "text": "x"}]


def test_a_restart_goes_on_behind_the_committed_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n2\n")
    first = a_task(path)
    (batch,) = first.poll() or []
    assert isinstance(batch, SourceBatch)
    assert dict(batch.source_offset) == {"position": 7, "line": 3}
    with path.open("a") as file:
        file.write("3\n")
    assert rows_of(a_task(path, Context(batch.source_offset))) == [{"id": "3"}]


def test_an_unreadable_row_fails_naming_file_line_and_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,n\n1,1\n2,two\n3,3\n")
    task = a_task(path, schema="n:int32")
    with pytest.raises(DataError, match=rf"file {path} line 3 offset 9: column n: 'two' is no int32"):
        task.poll()


def test_an_unreadable_row_is_skipped_and_reported_when_errors_are_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,n\n1,1\n2,two\n3\n4,"x\ny"\n5,5\n')
    context = Context(tolerant=True)
    task = a_task(path, context, schema="n:int32")
    assert rows_of(task) == [{"id": "1", "n": 1}, {"id": "5", "n": 5}]
    places = [line.split(":")[0].rsplit("line", 1)[1] for line in context.errant]
    assert places == [" 3 offset 9", " 4 offset 15", " 5 offset 17"]


def test_json_lines_give_any_value_and_name_the_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n[2]\n{oops\n"x"\n')
    context = Context(tolerant=True)
    assert rows_of(a_task(path, context, format="jsonl")) == [{"a": 1}, [2], "x"]
    assert len(context.errant) == 1
    assert "line 3 offset 13" in context.errant[0]


def test_json_lines_offsets_resume_in_the_middle_of_a_poll(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n3\n")
    polled = list(a_task(path, format="jsonl").poll() or [])
    assert isinstance(polled[1], SourceRecord)
    assert rows_of(a_task(path, Context(polled[1].source_offset), format="jsonl")) == [3]


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"nowhere\.csv: No such file or directory; correct `file`") as refused:
        a_task(tmp_path / "nowhere.csv")
    assert refused.value.code == "CRT-1051"


def test_a_truncated_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n1\n")
    with pytest.raises(ConnectError, match="it has 5 bytes but the committed offset is 900"):
        a_task(path, Context({"position": 900, "line": 50}))


def test_a_schema_that_names_no_column_of_the_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id\n")
    with pytest.raises(ConnectError, match="the header lacks: nope"):
        a_task(path, schema="nope:int32")


def test_a_bad_schema_is_found_by_validation() -> None:
    problems = DelimitedFileSourceConnector().validate({"schema": "a:int32,b:integer"})
    assert "schema entry 'b:integer'" in problems["schema"][0]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters='"\n\r'), min_size=1), min_size=1), st.data())
def test_rows_are_found_whatever_is_quoted(cells: list[str], data: st.DataObject) -> None:
    quoted = [f'"{c}\n{c}"' if data.draw(st.booleans()) else c for c in cells]
    text = "".join(f"{cell}\n" for cell in quoted).encode()
    cut = data.draw(st.integers(0, len(text)))
    end = complete_rows_end(text[:cut], b'"')
    rows = list(raw_rows(text[:end], b'"', 1, 0))
    assert [row.text for row in rows] == [f"{cell}\n".encode() for cell in quoted][: len(rows)]
    for row in rows:
        assert text[row.offset : row.offset + len(row.text)] == row.text
        assert row.line == text[: row.offset].count(b"\n") + 1
