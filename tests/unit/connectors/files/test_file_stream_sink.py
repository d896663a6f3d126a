"""FileStreamSink: toString lines, appended; errors name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.connectors.files.file_stream_sink import FileStreamSinkConnector, FileStreamSinkTask
from spark_connect_rt.errors import ConnectError


def records(*values: Any) -> list[SinkRecord]:
    return [SinkRecord("t", 0, offset, value) for offset, value in enumerate(values)]


def test_values_become_lines_and_later_runs_append(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    for _ in range(2):
        task = FileStreamSinkTask()
        task.start({"file": str(file)})
        task.put([])
        task.put(records("a", 1, None, {"k": 1.5}))
        task.flush({})
        task.stop()
        task.stop()
    assert file.read_text() == "a\n1\nnull\n{k=1.5}\n" * 2


def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    task = FileStreamSinkTask()
    task.start({"file": "/dev/full"})
    with pytest.raises(ConnectError, match="file /dev/full cannot be written: No space left on device"):
        task.put(records("a"))
    task.stop()


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"none/out\.txt cannot be opened"):
        FileStreamSinkTask().start({"file": str(tmp_path / "none" / "out.txt")})
    with pytest.raises(ConnectError, match="file must be set"):
        FileStreamSinkTask().start({})


def test_every_task_gets_the_same_configuration() -> None:
    connector = FileStreamSinkConnector()
    connector.start({"file": "/f"})
    assert connector.task_configs(2) == [{"file": "/f"}, {"file": "/f"}]
    assert connector.validate({"file": "/f"}) == {}
    assert "file" in connector.validate({})
