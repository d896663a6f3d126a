"""A standalone worker under plain spark-submit, with the wheel and nothing else of this repository."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.topics.offset_file import decode_byte_map
from tests.e2e.commands import until, worker_file
from tests.e2e.submitted import killed_at_the_end, named, submitted
from tests.support.worker_process import worker_properties
from tests.topics import count_records

LINES = 20_000


def test_a_standalone_worker_with_a_shipped_wheel(
    tmp_path: Path, broker: EmbeddedKafka, java: Java, wheel: Path, python_without_the_package: Path
) -> None:
    (port,) = free_ports(1)
    settings = worker_properties(broker.bootstrap_servers, "unused", port)
    offsets = tmp_path / "offsets.file"
    file = worker_file(tmp_path, settings | {"offset.storage.file.filename": str(offsets)})
    lines, source = tmp_path / "lines.txt", tmp_path / "source.properties"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    source.write_text(f"name=alone\nconnector.class=FileStreamSource\nfile={lines}\ntopic=submitted-alone\n")
    log = tmp_path / "submit.log"
    environment = {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}

    def kept() -> list[bytes]:
        return list(decode_byte_map(offsets.read_bytes()).values()) if offsets.exists() else []

    where = ["--master", "local[2]"]
    with killed_at_the_end(
        submitted("connect_standalone.py", [file, source], wheel, where, environment, log)
    ) as worker:
        end = b'{"position":%d}' % lines.stat().st_size
        until(lambda: kept() == [end], 240, "the offset is that of the file's end", lambda: log.read_text()[-3000:])
        assert count_records(broker.bootstrap_servers, "submitted-alone") == LINES
        below = psutil.Process(worker.pid).children(recursive=True)
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
        _, alive = psutil.wait_procs(below, timeout=30)
        assert named(alive) == [], log.read_text()[-3000:]
        assert kept() == [end]
