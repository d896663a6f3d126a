"""Standalone mode through spark-submit.sh, and what a bad connector or offset file costs: a documented exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.topics.offset_file import decode_byte_map
from tests.e2e.commands import get_json, launch, spark_submit, until, worker_file
from tests.support.standalone_process import OFFSETS, SparkStandalone
from tests.support.worker_process import worker_properties


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


def test_lines_go_through_and_a_second_run_moves_only_new_ones(broker: EmbeddedKafka, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = worker_properties(broker.bootstrap_servers, "unused", port)
    settings |= {"offset.storage.file.filename": str(tmp_path / OFFSETS), "spark.master": "local[*]"}
    file = worker_file(tmp_path, settings)
    source, sink = tmp_path / "source.properties", tmp_path / "sink.json"
    source.write_text(f"name=src\nconnector.class=FileStreamSource\nfile={tmp_path / 'in.txt'}\ntopic=alone\n")
    out = tmp_path / "out.txt"
    config = {"connector.class": "FileStreamSink", "file": str(out), "topics": "alone"}
    sink.write_text(json.dumps({"name": "snk", "config": config}))
    lines: list[str] = []
    for number in range(2):
        lines.append(f"line {number}")
        (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
        log = tmp_path / "log"
        worker = launch(spark_submit("--standalone", str(file), str(source), str(sink)), log)
        try:
            until(lambda: out.exists() and out.read_text().split("\n") == [*lines, ""], 240, "lines", log.read_text)
            assert sorted(get_json(f"http://127.0.0.1:{port}/connectors")) == ["snk", "src"]
            worker.terminate()
            assert worker.wait(60) == 0, log.read_text()
        finally:
            worker.kill()
        position = sum(len(line) + 1 for line in lines)
        (offset,) = decode_byte_map((tmp_path / OFFSETS).read_bytes()).values()
        assert offset == b'{"position":%d}' % position
