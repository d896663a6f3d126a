"""FileStreamSource: lines, offsets, restart, growth, truncation, replacement."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.data.schema import STRING
from spark_connect_rt.connectors.files import file_stream_source, poll_interval
from spark_connect_rt.connectors.files.file_stream_source import FileStreamSourceConnector, FileStreamSourceTask
from spark_connect_rt.errors import BadConfigError, ConnectError
from tests.unit.connectors.task_context import Context, poll_all, values_of


def started(file: Path, offset: Mapping[str, Any] | None = None, **settings: str) -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    task.context = Context(offset)
    task.start({"file": str(file), "topic": "t", **{k.replace("_", "."): v for k, v in settings.items()}})
    return task


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lines.txt"


def test_a_few_lines_and_many_are_split_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b"one\n\n" + b"%0100d\n" % 7 + b"\n\x00end\n"
    few = file_stream_source.split_lines(lines)
    monkeypatch.setattr(file_stream_source, "SMALL_BYTES", 0)
    many = file_stream_source.split_lines(lines)
    assert few[0].equals(many[0])
    assert few[1] == many[1]
    few[0].validate(full=True)


def test_only_complete_lines_are_records(file: Path) -> None:
    file.write_text("one\ntwo\n\nthr")
    task = started(file)
    (batch,) = poll_all(task)
    assert batch.values.to_pylist() == ["one", "two", ""]
    assert (batch.source_partition, batch.source_offset) == ({"filename": str(file)}, {"position": 9})
    assert (batch.topic, batch.value_schema, batch.keys) == ("t", STRING, None)
    assert task.poll() is None
    with file.open("a") as more:
        more.write("ee\nfour\n")
    (batch,) = poll_all(task)
    assert (batch.values.to_pylist(), batch.source_offset) == (["three", "four"], {"position": 20})
    task.stop()


def test_it_resumes_at_javas_offset_and_asks_for_javas_partition(file: Path) -> None:
    file.write_text("one\ntwo\n")
    task = started(file, {"position": 4})
    assert isinstance(task.context, Context)
    assert task.context.offset_reader.asked == [{"filename": str(file)}]
    assert values_of(poll_all(task)) == ["two"]
    task.stop()


def test_line_ends_are_those_of_java(file: Path) -> None:
    file.write_bytes(b"a\r\nb\rc\n\rd\r")
    task = started(file)
    assert values_of(poll_all(task)) == ["a", "b", "c", ""]
    with file.open("ab") as more:
        more.write(b"\ne\r")
    assert values_of(poll_all(task)) == ["d"]  # the CR at the end may still become CRLF
    with file.open("ab") as more:
        more.write(b"f\n")
    assert values_of(poll_all(task)) == ["e", "f"]
    task.stop()


def test_a_line_longer_than_a_chunk_is_one_record(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stream_source, "CHUNK_BYTES", 8)
    file.write_text("x" * 100 + "\nshort\n" + "y" * 9)
    task = started(file)
    assert values_of(poll_all(task)) == ["x" * 100, "short"]
    monkeypatch.setattr(file_stream_source, "LINE_LIMIT_BYTES", 20)
    with file.open("a") as more:
        more.write("y" * 100)
    with pytest.raises(ConnectError, match=r"the line at byte 107 has no end"):
        task.poll()
    task.stop()


def test_batch_size_counts_when_it_is_set(file: Path) -> None:
    file.write_bytes(b"a\nbb\r\nc\nd\ne\n")
    task = started(file, batch_size="2")
    batches = poll_all(task)
    assert [batch.values.to_pylist() for batch in batches] == [["a", "bb"], ["c", "d"], ["e"]]
    assert [batch.source_offset["position"] for batch in batches] == [6, 10, 12]
    task.stop()


def test_a_missing_file_is_waited_for_and_said_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = started(file)
    with caplog.at_level(logging.WARNING):
        assert task.poll() is None
        assert task.poll() is None
    sentence = f"file {file} does not exist, waiting for it"
    assert [record.getMessage() for record in caplog.records] == [sentence]
    assert isinstance(task.context, Context)
    assert task.context.events == [sentence]
    file.write_text("here\n")
    assert values_of(poll_all(task)) == ["here"]
    task.stop()


def test_a_truncated_file_is_read_from_its_beginning(file: Path) -> None:
    file.write_text("one\ntwo\nthree\n")
    task = started(file)
    poll_all(task)
    with file.open("r+") as same:
        same.truncate(0)
        same.write("new\n")
    (batch,) = poll_all(task)
    assert (batch.values.to_pylist(), batch.source_offset) == (["new"], {"position": 4})
    task.stop()


def test_an_offset_past_the_end_of_the_file_starts_over(file: Path) -> None:
    file.write_text("one\n")
    task = started(file, {"position": 100})
    assert values_of(poll_all(task)) == ["one"]
    task.stop()


def test_rotation_loses_no_line(file: Path) -> None:
    file.write_text("one\ntwo\n")
    task = started(file)
    assert values_of(poll_all(task)) == ["one", "two"]
    with file.open("a") as old:
        old.write("last of the old\nno end")
    file.rename(file.with_suffix(".1"))
    assert values_of(poll_all(task)) == ["last of the old"]  # the name is gone, the file is not
    file.write_text("new\n")
    (batch,) = poll_all(task)
    assert (batch.values.to_pylist(), batch.source_offset) == (["new"], {"position": 4})
    task.stop()


@pytest.mark.parametrize("new", ["4\n", "4444\n5555\n6666\n", "one\nTWO\nthree\nfour\n"])
def test_another_file_under_the_name_is_read_from_its_beginning_however_long(
    file: Path, new: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text("one\ntwo\nno end")
    task = started(file)
    assert values_of(poll_all(task)) == ["one", "two"]
    (other := file.with_suffix(".new")).write_text(new)
    os.replace(other, file)
    batches = poll_all(task)
    assert values_of(batches) == new.split()
    assert batches[-1].source_offset == {"position": len(new)}
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.endswith(
        "was replaced; the old file was read to position 8, except 6 bytes without a line end: "
        "reading it from its beginning"
    )
    task.stop()


def test_a_file_saved_again_by_an_editor_continues_at_the_position(file: Path) -> None:
    file.write_text("one\ntwo\n")
    task = started(file)
    poll_all(task)
    saved = file.with_suffix(".new")
    saved.write_text("one\ntwo\nthree\n")
    os.replace(saved, file)
    assert values_of(poll_all(task)) == ["three"]
    task.stop()


def test_text_that_is_not_utf8_is_replaced(file: Path) -> None:
    file.write_bytes("é\n".encode() + b"\xff\n")
    task = started(file)
    assert values_of(poll_all(task)) == ["é", "\ufffd"]
    task.stop()


def test_idle_waits_grow_when_nothing_comes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_interval, "RECENT_LOOKS", 2)
    file.write_text("one\n")
    task = started(file)
    assert task.idle_wait_ms() == 100
    poll_all(task)
    assert task.idle_wait_ms() == 20
    task.poll()
    assert task.idle_wait_ms() == 100
    task.stop()


def test_the_check_of_an_idle_task_sees_what_a_poll_would_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_interval, "RECENT_LOOKS", 1)
    task = started(file)

    def look_after_empty_polls() -> Callable[[], bool]:
        assert poll_all(task) == []
        look = task.idle_look()
        assert look is not None
        assert not look()
        return look

    look = look_after_empty_polls()
    file.write_text("one\ntw")
    assert look()
    assert values_of(poll_all(task)) == ["one"]
    look = look_after_empty_polls()  # half a line is nothing new
    with file.open("a") as more:
        more.write("o\n")
    assert look()
    assert values_of(poll_all(task)) == ["two"]
    look = look_after_empty_polls()
    other = file.with_suffix(".new")
    other.write_text("one\ntwo\n")
    os.replace(other, file)
    assert look()
    look = look_after_empty_polls()
    file.write_text("")
    assert look()
    look_after_empty_polls()
    task.stop()


def test_others_look_for_a_task_only_when_it_has_nothing_to_do(file: Path) -> None:
    file.write_text("one\n")
    task = started(file)
    assert values_of(poll_all(task)) == ["one"]
    assert task.idle_look() is None  # more may follow soon
    for _ in range(poll_interval.RECENT_LOOKS):
        task.poll()
    assert task.idle_look() is not None
    file.unlink()
    task.poll()
    assert task.idle_look() is None  # what is open may grow without a name
    task.stop()


def test_an_unreadable_file_and_wrong_settings_are_named(tmp_path: Path) -> None:
    task = started(tmp_path)  # a folder
    with pytest.raises(ConnectError, match=str(tmp_path)):
        task.poll()
    task.stop()
    with pytest.raises(BadConfigError, match="topic"):
        started(tmp_path / "f", topic="")
    with pytest.raises(ConnectError, match="file must be set"):
        FileStreamSourceTask().start({"topic": "t"})
    with pytest.raises(ConnectError, match="position 'x'"):
        started(tmp_path / "f", {"position": "x"})
    FileStreamSourceTask().stop()  # also after a start that failed


def test_the_connector_makes_one_task_and_checks_altered_offsets() -> None:
    connector = FileStreamSourceConnector()
    config = {"file": "/f", "topic": "t"}
    connector.start(config)
    assert connector.task_configs(5) == [config]
    assert connector.task_class() is FileStreamSourceTask
    assert connector.validate(config) == {}
    assert "file" in connector.validate({"topic": "t"})
    partition = {"filename": "/f"}
    assert connector.alter_offsets(config, [(partition, {"position": 3}), ({"x": "y"}, None), (None, None)])
    for pair, words in (
        (({"x": "y"}, {"position": 3}), "contain the key 'filename'"),
        ((None, {"position": 3}), "Partition objects cannot be null"),
        ((partition, {"line": 3}), "contain the key 'position'"),
        ((partition, {"position": -1}), "should be a non-negative value"),
        ((partition, {"position": "3"}), "expected to be a Long value"),
        ((partition, {"position": True}), "expected to be a Long value"),
    ):
        with pytest.raises(ConnectError, match=words):
            connector.alter_offsets(config, [pair])
    with pytest.raises(ConnectError, match="'file' configuration is unspecified"):
        connector.alter_offsets({"topic": "t"}, [])
