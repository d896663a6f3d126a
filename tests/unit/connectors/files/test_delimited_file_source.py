"""Delimited file source: typed rows, offsets with lines, bad rows, growth, headers, JSON lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.connectors.files import delimited_rows
from spark_connect_rt.connectors.files.delimited_file_source import (
    DelimitedFileSourceConnector,
    DelimitedFileSourceTask,
)
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from tests.unit.connectors.task_context import Context, poll_all, values_of


def started(
    file: Path, offset: Mapping[str, Any] | None = None, tolerant: bool = False, **settings: str
) -> DelimitedFileSourceTask:
    task = DelimitedFileSourceTask()
    task.context = Context(offset, tolerant)
    config = {
        "file": str(file),
        "topic": "t",
        "schema": "n:int32",
        **{k.replace("_", "."): v for k, v in settings.items()},
    }
    task.start(config)
    return task


def errant(task: DelimitedFileSourceTask) -> list[tuple[str, str]]:
    assert isinstance(task.context, Context)
    return task.context.errant


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def test_rows_are_structs_with_typed_columns(file: Path) -> None:
    file.write_text('n,f,name,on\n1,2.5,"a ""b""",true\nNA,,NA,false\n3,4,"NA",\n')
    task = started(file, schema="n:int32,f:float64,on:boolean", null_values="NA")
    (batch,) = poll_all(task)
    assert batch.values.to_pylist() == [
        {"n": 1, "f": 2.5, "name": 'a "b"', "on": True},
        {"n": None, "f": None, "name": None, "on": False},
        {"n": 3, "f": 4.0, "name": "NA", "on": None},
    ]
    assert batch.source_offset == {"position": file.stat().st_size, "line": 4}
    assert batch.source_partition == {"filename": str(file)}
    assert batch.value_schema is not None
    assert [(m.name, m.schema) for m in batch.value_schema.fields] == [
        ("n", s.OPTIONAL_INT32),
        ("f", s.OPTIONAL_FLOAT64),
        ("name", s.OPTIONAL_STRING),
        ("on", s.OPTIONAL_BOOLEAN),
    ]
    task.stop()


def test_appended_rows_follow_and_a_restart_resumes_after_the_last_row(file: Path) -> None:
    file.write_text("n\n1\n2")
    task = started(file)
    (batch,) = poll_all(task)
    assert (batch.values.to_pylist(), batch.source_offset) == ([{"n": 1}], {"position": 4, "line": 2})
    with file.open("a") as more:
        more.write("2\n3\n")
    assert values_of(poll_all(task)) == [{"n": 22}, {"n": 3}]
    task.stop()
    task = started(file, batch.source_offset)
    (batch,) = poll_all(task)
    assert (batch.values.to_pylist(), batch.source_offset) == ([{"n": 22}, {"n": 3}], {"position": 9, "line": 4})
    task.stop()


def test_quoted_line_breaks_stay_inside_their_row_also_across_chunks(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(number, f"line\n{number},\r\nend") for number in range(50)]
    file.write_text("n,text\n" + "".join(f'{number},"{text}"\n' for number, text in rows), newline="")
    for chunk_bytes in (16, 64, 1 << 20):
        monkeypatch.setattr(delimited_rows, "CHUNK_BYTES", chunk_bytes)
        task = started(file)
        batches = poll_all(task)
        assert [(row["n"], row["text"]) for row in values_of(batches)] == rows
        assert batches[-1].source_offset == {"position": file.stat().st_size, "line": 1 + 3 * 50}
        task.stop()


BAD = "n,m\n1,a\n2,b\nx,c\n4,d\n5,e,f\n6,g\n"


def test_tolerance_none_hands_on_the_rows_before_and_names_file_line_and_offset(file: Path) -> None:
    file.write_text(BAD)
    task = started(file)
    polled = task.poll()
    assert polled is not None
    (batch,) = polled
    assert values_of([batch]) == [{"n": 1, "m": "a"}, {"n": 2, "m": "b"}]  # type: ignore[list-item]
    assert batch.source_offset == {"position": 12, "line": 3}
    place = re.escape(f"unreadable input at file {file} line 4 offset 12: column n: ")
    with pytest.raises(DataError, match=place + ".*invalid value 'x'"):
        task.poll()
    task.stop()
    with pytest.raises(DataError, match=place):  # a restart meets it again
        started(file, batch.source_offset).poll()


def test_tolerance_all_skips_and_counts_every_unreadable_row(file: Path) -> None:
    file.write_text(BAD)
    task = started(file, tolerant=True)
    batches = poll_all(task)
    assert [row["n"] for row in values_of(batches)] == [1, 2, 4, 6]
    assert [place for place, _ in errant(task)] == [f"file {file} line 4 offset 12", f"file {file} line 6 offset 20"]
    assert batches[-1].source_offset == {"position": len(BAD), "line": 7}
    task.stop()


def test_many_unreadable_rows_cost_no_row_between_them(file: Path) -> None:
    rows = [f"{n},x" if n % 7 else f"bad{n},x" for n in range(300)]
    file.write_text("n,m\n" + "\n".join(rows) + "\n")
    task = started(file, tolerant=True)
    assert [row["n"] for row in values_of(poll_all(task))] == [n for n in range(300) if n % 7]
    assert len(errant(task)) == len(range(0, 300, 7))
    task.stop()


def test_a_quote_that_is_never_closed_is_one_unreadable_row(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited_rows, "CHUNK_BYTES", 64)
    monkeypatch.setattr(delimited_rows, "ROW_LIMIT_BYTES", 256)
    file.write_text('n,m\n1,"open\n' + "2,b\n" * 100)
    task = started(file, tolerant=True)
    assert len(values_of(poll_all(task))) == 100
    assert [place for place, _ in errant(task)] == [f"file {file} line 2 offset 4"]
    task.stop()


def test_bytes_that_are_not_text_are_unreadable(file: Path) -> None:
    file.write_bytes(b"n,m\n1,\xff\n2,ok\n")
    task = started(file, tolerant=True)
    assert values_of(poll_all(task)) == [{"n": 2, "m": "ok"}]
    assert len(errant(task)) == 1
    task.stop()


def test_blank_lines_are_not_rows_but_count_as_lines(file: Path) -> None:
    file.write_text("n,m\n\n1,a\n\nx,b\n")
    task = started(file, tolerant=True)
    assert values_of(poll_all(task)) == [{"n": 1, "m": "a"}]
    assert errant(task)[0][0].endswith("line 5 offset 10")
    task.stop()


def test_other_delimiters_no_header_keys_and_byte_order_mark(file: Path) -> None:
    file.write_text("1;a\n2;b,c\n")
    task = started(file, schema="n:int64,m:string", header="false", delimiter=";", key_field="n")
    (batch,) = poll_all(task)
    assert batch.values.to_pylist() == [{"n": 1, "m": "a"}, {"n": 2, "m": "b,c"}]
    assert batch.keys is not None
    assert (batch.keys.to_pylist(), batch.key_schema) == (["1", "2"], s.OPTIONAL_STRING)
    task.stop()
    file.write_bytes(b"\xef\xbb\xbfn\tm\n1\t2\n")
    for delimiter in ("\t", "\\t"):
        task = started(file, delimiter=delimiter)
        assert values_of(poll_all(task)) == [{"n": 1, "m": "2"}]
        task.stop()


def test_an_empty_file_and_half_a_header_are_waited_for(file: Path) -> None:
    file.write_text("")
    task = started(file)
    assert task.poll() is None
    with file.open("a") as more:
        more.write("n,")
    assert task.poll() is None
    with file.open("a") as more:
        more.write("m\n")
    assert task.poll() is None
    with file.open("a") as more:
        more.write("1,x\n")
    assert values_of(poll_all(task)) == [{"n": 1, "m": "x"}]
    task.stop()


def test_a_truncated_file_starts_over_with_its_new_header(file: Path) -> None:
    file.write_text("n,m\n1,a\n2,b\n")
    task = started(file)
    poll_all(task)
    with file.open("r+") as same:
        same.truncate(0)
        same.write("k,n\nx,7\n")
    (batch,) = poll_all(task)
    assert (batch.values.to_pylist(), batch.source_offset) == ([{"k": "x", "n": 7}], {"position": 8, "line": 2})
    task.stop()


def test_json_lines(file: Path) -> None:
    file.write_text('{"n": 1, "m": "a", "extra": [1]}\n\n{"m": null}\n{"n": "x"}\n[1]\n{"n": 1}{"n": 2}\n{"n": 5}\n')
    task = started(file, tolerant=True, format="jsonl", schema="n:int32,m:string")
    batches = poll_all(task)
    assert values_of(batches) == [{"n": 1, "m": "a"}, {"n": None, "m": None}, {"n": 5, "m": None}]
    assert [place.rsplit(" line ")[1].split()[0] for place, _ in errant(task)] == ["4", "5", "6"]
    assert batches[-1].source_offset["line"] == 7
    task.stop()


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"gone.csv does not exist where the task runs \(setting 'file'\)"):
        started(tmp_path / "gone.csv")
    with pytest.raises(ConnectError, match="is not a regular file"):
        started(tmp_path)


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("a,b\n1,2\n", {"schema": "n:int32"}, "the header has no column n"),
        ("n,n\n1,2\n", {}, "column names must not be empty or repeated"),
        ("n,m\n1,2\n", {"key_field": "k"}, "column k does not exist"),
    ],
)
def test_a_header_that_does_not_fit_is_a_clear_error(
    file: Path, content: str, settings: dict[str, str], message: str
) -> None:
    file.write_text(content)
    task = started(file, **settings)
    with pytest.raises(ConnectError, match=message):
        task.poll()
    task.stop()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"schema": "n:int33"}, "schema"),
        ({"schema": "n:int32,n:string"}, "schema"),
        ({"schema": "", "format": "jsonl"}, "schema"),
        ({"schema": "", "header": "false"}, "schema"),
        ({"format": "xml"}, "format"),
        ({"delimiter": ";;"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"topic": ""}, "topic"),
    ],
)
def test_wrong_settings_are_named_at_the_start_and_by_validation(
    file: Path, settings: dict[str, str], name: str
) -> None:
    file.write_text("n\n")
    with pytest.raises(BadConfigError) as caught:
        started(file, **settings)
    assert list(caught.value.problems) == [name]
    connector = DelimitedFileSourceConnector()
    config = {"file": str(file), "topic": "t", "schema": "n:int32", **settings}
    own = {value.name for value in connector.config_def().validate(config) if value.errors}
    assert own | set(connector.validate(config)) == {name}


def test_the_connector_makes_one_task() -> None:
    connector = DelimitedFileSourceConnector()
    connector.start({"file": "/f", "topic": "t"})
    assert connector.task_configs(9) == [{"file": "/f", "topic": "t"}]
    assert connector.validate({"file": "/f", "topic": "t"}) == {}
    assert connector.alter_offsets({"file": "/f"}, [({"filename": "/f"}, {"position": 1})])
    with pytest.raises(ConnectError):
        connector.alter_offsets({"file": "/f"}, [({"filename": "/f"}, {"position": "1"})])
