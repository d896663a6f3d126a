"""The parts of ``connectrt dev`` by themselves: given records, snapshots of files, entry points, lines of records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.app.development.dev_loop import changed_files, failure_lines, snapshot
from spark_connect_rt.app.development.given_records import GivenRecord, RecordFile, parse_record
from spark_connect_rt.app.development.project import Project, declared_entries, project_root, target_of
from spark_connect_rt.app.development.runs import content, sink_offset_line, source_offset_lines
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import BadConfigError, NotFoundError


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ("1", GivenRecord("t", 1)),
        ('"text"', GivenRecord("t", "text")),
        ('{"id": 1}', GivenRecord("t", {"id": 1})),
        ('{"value": 1, "other": 2}', GivenRecord("t", {"value": 1, "other": 2})),
        ('{"value": null, "key": "k"}', GivenRecord("t", None, "k")),
        (
            '{"value": 1, "topic": "u", "partition": 2, "timestamp": 3, "headers": {"a": "b", "n": null, "c": 1}}',
            GivenRecord("u", 1, None, 2, 3, (("a", b"b"), ("n", None), ("c", b"1"))),
        ),
        ('{"value": {"schema": {}, "payload": 1}}', GivenRecord("t", b'{"schema": {}, "payload": 1}')),
    ],
)
def test_a_line_is_a_value_or_a_whole_record(line: str, record: GivenRecord) -> None:
    assert parse_record(line, "t", "f:1") == record


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "is not JSON"),
        ('{"value": 1, "headers": []}', "headers must be an object"),
        ('{"value": 1, "partition": "a"}', "must be whole numbers"),
        ('{"value": 1, "timestamp": -1}', "must be whole numbers"),
    ],
)
def test_an_invalid_line_is_refused_by_its_number(line: str, words: str) -> None:
    with pytest.raises(BadConfigError, match=words) as refused:
        parse_record(line, "t", "records.jsonl:7")
    assert list(refused.value.problems) == ["records.jsonl:7"]


def test_only_whole_lines_that_are_new_are_read(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('1\n\n{"id":')
    file = RecordFile(path, "t")
    assert [record.value for record in file.new_records()] == [1]
    with path.open("a") as more:
        more.write(" 2}")
    assert [record.value for record in file.new_records()] == [{"id": 2}]
    assert file.new_records() == []
    path.write_text("3")
    assert [record.value for record in file.new_records()] == [3]
    path.unlink()
    with pytest.raises(BadConfigError, match="cannot be read"):
        file.new_records()


def test_sources_are_watched_and_what_a_connector_writes_is_not(tmp_path: Path) -> None:
    for name in ("a.py", "pkg/b.py", ".venv/c.py", "env/d.py", "__pycache__/e.py", "out.json", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "env/pyvenv.cfg").write_text("")
    before = snapshot([tmp_path], [tmp_path / "connector.json"])
    assert sorted(str(path.relative_to(tmp_path)) for path in before) == ["a.py", "pkg/b.py", "pyproject.toml"]
    os.utime(tmp_path / "a.py", ns=(1, 1))
    (tmp_path / "pkg/b.py").unlink()
    (tmp_path / "connector.json").write_text("{}")
    after = snapshot([tmp_path], [tmp_path / "connector.json"])
    assert [path.name for path in changed_files(before, after)] == ["a.py", "connector.json", "b.py"]
    assert changed_files(after, after) == []


def test_the_project_of_a_file_is_the_folder_that_declares_plug_ins(tmp_path: Path) -> None:
    file = tmp_path / "conf/dev/connector.json"
    file.parent.mkdir(parents=True)
    assert project_root(file) == file.parent
    (tmp_path / "entry_points.txt").write_text("[spark_connect_rt.converters]\nCsv = csv_lines:Csv\n")
    assert project_root(file) == tmp_path
    assert declared_entries(tmp_path) == [("spark_connect_rt.converters", "Csv", "csv_lines:Csv")]
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(BadConfigError, match="entry points cannot be read"):
        declared_entries(tmp_path)


def test_classes_are_found_in_a_src_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "src").mkdir()
    (tmp_path / "src/ledger_of_src.py").write_text("class Ledger:\n    pass\n")
    file = tmp_path / "connector.json"
    file.write_text('{"name": "l", "config": {"connector.class": "ledger_of_src:Ledger"}}')
    project = Project(file)
    assert project.load().connector_class.__name__ == "Ledger"
    project.forget()
    assert "ledger_of_src" not in __import__("sys").modules
    file.write_text('{"name": "l", "config": {"connector.class": "ledger_of_src:Other"}}')
    with pytest.raises(NotFoundError, match="ledger_of_src:Other cannot be imported"):
        project.load()


def test_names_of_classes_have_two_forms() -> None:
    assert [target_of(name) for name in ("a.b.C", "a.b:C.D", "C")] == ["a.b:C", "a.b:C.D", ":C"]


def test_the_cause_in_the_authors_code_is_named_under_a_wrapping_error(tmp_path: Path) -> None:
    code = "def fail():\n    return {}['id']\n"
    (tmp_path / "mine.py").write_text(code)
    names: dict[str, Any] = {}
    exec(compile(code, str(tmp_path / "mine.py"), "exec"), names)
    try:
        try:
            names["fail"]()
        except KeyError as error:
            raise ValueError("record 7 failed") from error
    except ValueError as error:
        lines = [text for text, _ in failure_lines(error, [tmp_path])]
    assert lines[:4] == [
        "FAILED  ValueError: record 7 failed",
        "        caused by KeyError: 'id'",
        "  mine.py:2 in fail",
        "      return {}['id']",
    ]
    assert lines[4] == "the whole traceback:"


def test_bytes_and_offsets_are_shown_in_one_line() -> None:
    assert [content(data) for data in (None, b"", b"a", b"\xff", b"a\nb", b"\0")] == [
        "null",
        '""',
        "a",
        "0xff (1 byte)",
        "a\\nb",
        "0x00 (1 byte)",
    ]
    assert len(content(b"x" * 1_000)) == 301
    assert source_offset_lines({'{"p": 1}': {"n": 1}}, [({"p": 1}, {"n": 1}), ({"p": 2}, {"n": 3})]) == [
        'would commit {"p": 2} -> {"n": 3}'
    ]
    place = TopicPartition("t", 0)
    assert sink_offset_line({place: 1}, {place: 1}) is None
    assert sink_offset_line({}, {place: 4}) == "would commit t-0: 4"
