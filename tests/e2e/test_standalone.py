"""What a bad connector or offset file costs a standalone worker: an end with a documented exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.embedded.kafka import EmbeddedKafka
from spark_connect_rt.testing.standalone_process import OFFSETS, SparkStandalone


@pytest.mark.parametrize(
    ("text", "offsets", "code", "told"),
    [
        ("name=a\nconnector.class=FileStreamSource\nfile=x\n", b"", 20, "topic"),
        ("connector.class=FileStreamSource\n", b"", 20, "is missing the mandatory 'name' configuration"),
        ("name=a\nconnector.class=FileStreamSource\ntopic=t\n", b"hello", 21, "offsets.file cannot be read"),
    ],
)
def test_a_bad_file_ends_the_worker(
    broker: EmbeddedKafka, tmp_path: Path, text: str, offsets: bytes, code: int, told: str
) -> None:
    file = tmp_path / "a.properties"
    file.write_text(text)
    worker = SparkStandalone(tmp_path / "worker", broker.bootstrap_servers, connectors=[file])
    worker.directory.mkdir()
    (worker.directory / OFFSETS).write_bytes(offsets)
    worker.launch()
    assert worker._process is not None
    try:
        assert worker._process.wait(120) == code
    finally:
        worker.stop()
        worker.rest.close()
    assert told in worker.log_file.read_text()
