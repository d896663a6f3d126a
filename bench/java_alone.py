"""CPU of one host JVM alone, no Kafka and no Spark: ``python -m bench.java_alone [RECORDS] [RUNS] [JVM OPTIONS]``.

Java's FileStreamSource (String, then JSON with schema) and FileStreamSink, lines of 100 bytes, run after run in one
JVM: the first runs show what its compiler costs, the last ones what a record does. Processor time, so that a busy
machine matters less; compare only turns of one sitting.
"""

from __future__ import annotations

import queue
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.plugin_folders import jvm_worker_config, with_plugins
from spark_connect_rt.engine.java_host.process import JavaProcess, command_line, for_records
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava, consumed
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from tests.support.java_plugins import FILES, plugin_folder

FILE = "org.apache.kafka.connect.file.FileStream"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
AHEAD, PUT_ROWS = 8, 5_000


class Alone:
    """A host JVM, and the tasks that are run in it one after another."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        java, self._folder, self._numbers = find_java(), folder, 0
        place = plugin_folder(folder / "plugins", "file", FILES)
        program = HostProgram(java.executable, tuple(program_jars(java)))
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self.process = JavaProcess(
            lambda socket: command_line(program, socket, "256m", [*for_records("256m"), *options]),
            with_plugins(jvm_worker_config({}), [str(place)], f"{FILE}SourceConnector"),
            self._frames.put,
            lambda why: sys.exit(why),
        )

    def cpu_s(self) -> float:
        """Return what the JVM has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def send(self, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> None:
        self.process.send(kind, self._numbers, head, data)

    def start(self, kind: str, converter: str, **settings: str) -> None:
        """Start a task of ``FileStream`` + ``kind``."""
        self._numbers += 1
        config = {"name": f"alone-{self._numbers}", "connector.class": f"{FILE}{kind}Connector", **settings}
        config |= {"key.converter": STRING, "value.converter": converter}
        head = {"name": config["name"], "number": 0, "sink": kind == "Sink", "connector": config, "consumer": {}}
        self.send(ToJava.START, {**head, "task": config | {"task.class": f"{FILE}{kind}Task"}})

    def wait(self, kind: FromJava) -> Frame:
        """Return the task's next frame of a kind; offsets that it asks for are unknown."""
        while (frame := self._frames.get()).host != self._numbers or frame.kind is not kind:
            if frame.kind is FromJava.FAILED:
                sys.exit(frame.head["trace"])
            if frame.kind is FromJava.OFFSETS:
                self.send(ToJava.OFFSETS, {"question": frame.head["question"], "offsets": [None]})
        return frame

    def source(self, lines: Path, records: int, converter: str) -> None:
        """Read a file."""
        self.start("Source", converter, file=str(lines), topic="alone")
        self.send(ToJava.ROOM, AHEAD)
        while records > 0:
            head = self.wait(FromJava.BATCH).head
            records -= sum(section["rows"] for section in head["sections"])
            self.send(ToJava.ROOM, int(head["poll_ends"]))
        self.send(ToJava.STOP, {"last": True})
        self.wait(FromJava.ENDED)

    def sink(self, records: int) -> None:
        """Write a file."""
        self.start("Sink", STRING, file=str(self._folder / "out.txt"), topics="alone")
        self.wait(FromJava.STARTED)
        for kind, head, data in [(ToJava.OPEN, [("alone", 0)], []), *_puts(records)]:
            self.send(kind, head, data)
            if "error" in (answer := self.wait(FromJava.DONE).head):
                sys.exit(answer["error"]["trace"])
        self.send(ToJava.STOP)
        self.wait(FromJava.ENDED)


def _puts(records: int) -> list[tuple[ToJava, Any, Any]]:
    values = pa.array([b"%0100d" % row for row in range(PUT_ROWS)], pa.binary())
    made = []
    for first in range(0, records, PUT_ROWS):
        offsets = pa.array(range(first, first + PUT_ROWS), pa.int64())
        batch = pa.record_batch({"offset": offsets, "timestamp": offsets, "value": values})
        made.append((ToJava.PUT, *consumed(batch.replace_schema_metadata({TOPIC: b"alone", PARTITION: b"0"}))))
    return made


def main(records: int = 300_000, runs: int = 4, options: Sequence[str] = ()) -> None:
    """Print microseconds of CPU a record, a line for each run."""
    with tempfile.TemporaryDirectory(prefix="connectrt-alone-") as name:
        folder = Path(name)
        lines = folder / "lines.txt"
        lines.write_bytes(b"".join(b"%0100d\n" % number for number in range(records)))
        work: dict[str, Callable[[Alone], None]] = {
            "source, String": lambda alone: alone.source(lines, records, STRING),
            "source, JSON with schema": lambda alone: alone.source(lines, records, JSON),
            "sink, String": lambda alone: alone.sink(records),
        }
        for title, run in work.items():
            alone = Alone(folder, options)
            for number in range(1, runs + 1):
                jvm_s, python_s = alone.cpu_s(), time.process_time()
                run(alone)
                jvm_s, python_s = alone.cpu_s() - jvm_s, time.process_time() - python_s
                print(
                    f"{title}, run {number}: JVM {jvm_s / records * 1e6:.2f} us, Python {python_s / records * 1e6:.2f}"
                )
            alone.process.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *([sys.argv[3:]] if sys.argv[3:] else []))
