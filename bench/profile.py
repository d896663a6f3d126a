"""What each step of the hottest paths costs alone: records of 100 bytes, no Kafka, no Spark, one process.

µs of CPU a record, each step fed with what the one before gave. ``whole`` of a bench like ``source`` less these is what
Spark's transport, sockets and threads cost. ``python -m bench.performance`` writes the page that shows both.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from crc32c import crc32c

from bench.lab import Lab
from bench.report import Result, Run
from bench.source import write_input
from spark_connect_rt.api.data.schema import STRING
from spark_connect_rt.api.records import SinkBatch, SourceBatch
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.files.file_stream_sink import FileStreamSinkTask
from spark_connect_rt.connectors.files.file_stream_source import CHUNK_BYTES, complete_end, split_lines
from spark_connect_rt.engine.executor.frames import decode_records, encode_records
from spark_connect_rt.kafka.reading.fetch_consumer import fetched_rows
from spark_connect_rt.kafka.records.passed_batches import ready_to_send
from spark_connect_rt.kafka.records.record_batch_columns import Compression, record_batch, record_bytes
from spark_connect_rt.kafka.records.record_batches import whole_batches
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

TEXT = "org.apache.kafka.connect.storage.StringConverter"
CONFIG = {"key.converter": TEXT, "value.converter": TEXT}
PLACE = TopicPartition("lines", 0)
WARM = 5  # chunks that are not counted: imports, first calls


class Costs:
    """CPU of each step, in the order in which they were first met."""

    def __init__(self) -> None:
        self.rows = 0
        self._spent_s: dict[str, float] = {}

    def step(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """Do a step and return what it does."""
        begun = time.process_time()
        found = work(*given)
        self._spent_s[name] = self._spent_s.get(name, 0.0) + time.process_time() - begun
        return found

    def forget(self) -> None:
        """Begin to count."""
        self.rows, self._spent_s = 0, dict.fromkeys(self._spent_s, 0.0)

    def counted(self, batches: list[tuple[bytes, int]]) -> Iterator[bytes]:
        """Yield batches, given with the records each has; the first few are not counted."""
        for number, (batch, count) in enumerate(batches):
            if number == WARM:
                self.forget()
            yield batch
            self.rows += count

    def runs(self, path: str) -> list[Run]:
        """Return a run for each step."""
        rows = max(self.rows, 1)
        return [Run(f"{path}: {name}", {"us": round(s / rows * 1e6, 3)}) for name, s in self._spent_s.items()]


def run(lab: Lab, short: bool) -> Result:
    """Go through each path, step by step."""
    result = Result("profile", "µs of CPU a record of 100 bytes, each step alone", "us", False, "none")
    with tempfile.TemporaryDirectory() as folder:
        file = write_input(Path(folder) / "lines.txt", 20_000 if short else 1_000_000).file
        source, batches = _source(file)
        result.runs += source.runs("source")
        result.runs += _sink(batches, Path(folder) / "out.txt").runs("sink")
        result.runs += _mirror(batches).runs("mirror by batches")
        result.runs += _limits(batches).runs("limit")
    result.met = True
    return result


def _source(file: Path) -> tuple[Costs, list[tuple[bytes, int]]]:
    """From the file to the bytes of record batches; return these, too, and how many records each has."""
    costs, batches, at = Costs(), list[tuple[bytes, int]](), 0
    pipeline = SourcePipeline.from_config(CONFIG, CONFIG, bundled_plugins().class_of)
    descriptor = os.open(file, os.O_RDONLY)
    while chunk := costs.step("read the file", os.pread, descriptor, CHUNK_BYTES, at):
        end = complete_end(chunk)
        lines, _ = costs.step("find lines, check UTF-8", split_lines, chunk[:end])
        piece = SourceBatch({"filename": "f"}, {"position": at}, PLACE.topic, lines, STRING)
        (converted,) = costs.step("transformations and converters (none, text)", pipeline.convert, [piece])
        data = costs.step("make an Arrow stream", encode_records, converted.batch)
        rows = costs.step("read the Arrow stream", decode_records, data)
        costs.step("sizes, for the producer's buffer", record_bytes, rows)
        batch = costs.step("lay out the record batch, CRC", record_batch, rows, 1, Compression())
        batches.append((batch, len(lines)))
        at, costs.rows = at + end, costs.rows + len(lines)
        if len(batches) == WARM:
            costs.forget()
    os.close(descriptor)
    return costs, batches


def _sink(batches: list[tuple[bytes, int]], file: Path) -> Costs:
    """From record batches to a file's lines."""
    costs, task = Costs(), FileStreamSinkTask()
    task.start({"file": str(file)})
    pipeline = SinkPipeline.from_config(CONFIG, CONFIG, bundled_plugins().class_of)
    for batch in costs.counted(batches):
        fetched = costs.step(
            "take batches apart, CRC", lambda content: list(fetched_rows(PLACE, 0, content, None)), batch
        )
        for consumed, _ in fetched:
            data = costs.step("make an Arrow stream", encode_records, consumed)
            rows = costs.step("read the Arrow stream", decode_records, data)
            found = costs.step("converters and transformations (text, none)", pipeline.columns, rows)
            assert isinstance(found.columns, SinkBatch)
            assert costs.step("lines to the file", task.put_batch, found.columns)
    task.stop()
    return costs


def _mirror(batches: list[tuple[bytes, int]]) -> Costs:
    """From record batches to record batches, whole."""
    costs = Costs()
    for batch in costs.counted(batches):
        content = bytearray(batch)
        (head,) = costs.step("find the batches", lambda data: list(whole_batches(data)), batch)
        assert costs.step("check the CRC", crc32c, memoryview(content)[21:]) == head.crc
        costs.step("rewrite the heads", ready_to_send, content, head)
    return costs


def _limits(batches: list[tuple[bytes, int]]) -> Costs:
    """What no program of this kind goes below."""
    costs = Costs()
    for batch in costs.counted(batches):
        costs.step("CRC-32C", crc32c, batch)
        costs.step("a copy in memory", bytearray, batch)
        costs.step("through a Unix socket, both ends", _through, socket.AF_UNIX, batch)
        costs.step("through TCP on loopback, both ends", _through, socket.AF_INET, batch)
    return costs


_PAIRS: dict[int, tuple[socket.socket, socket.socket]] = {}


def _through(family: int, content: bytes) -> None:
    """Send bytes to this very process."""
    if family not in _PAIRS:
        _PAIRS[family] = socket.socketpair() if family == socket.AF_UNIX else _tcp_pair()
    sender, receiver = _PAIRS[family]
    thread = threading.Thread(target=sender.sendall, args=(content,))
    thread.start()
    left, into = len(content), bytearray(1 << 20)
    while left:
        left -= receiver.recv_into(into, min(left, len(into)))
    thread.join()


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        return sender, server.accept()[0]
