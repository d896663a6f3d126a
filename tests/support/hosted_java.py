"""A JVM that hosts test plug-ins, spoken to frame by frame."""

from __future__ import annotations

import queue
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.jar import connect_jars, host_jar
from spark_connect_rt.engine.java_host.process import JavaProcess, command_line
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava, consumed, produce_batches
from spark_connect_rt.engine.startup.java_home import find_java
from tests.support.java_test_plugins import SINK, SINK_TASK, SOURCE, SOURCE_TASK

LIMIT_S = 30
STRING = "org.apache.kafka.connect.storage.StringConverter"


class HostedJava:
    """A JVM, and its messages for each number, without heartbeats."""

    def __init__(
        self,
        plugin_path: Path,
        heap: str = "96m",
        silence_limit_s: float = 60.0,
        options: Sequence[str] = (),
        **levels: str,
    ) -> None:
        java, connect = find_java(), connect_jars()
        jars = [*connect, host_jar(java, connect)]
        self.frames: dict[int, queue.Queue[Frame]] = defaultdict(queue.Queue)
        self.beats: dict[int, queue.Queue[Any]] = defaultdict(queue.Queue)
        self.gone: queue.Queue[str] = queue.Queue()
        worker = {
            "key.converter": STRING,
            "value.converter": STRING,
            "plugin.path": str(plugin_path),
            "plugin.discovery": "service_load",
        }
        self.process = JavaProcess(
            lambda path: command_line(
                HostProgram(java.executable, tuple(jars)), path, heap, ["-XX:TieredStopAtLevel=1", *options]
            ),
            worker,
            self._take,
            self.gone.put,
            levels,
            silence_limit_s,
        )

    def _take(self, frame: Frame) -> None:
        if frame.kind is FromJava.HEARTBEAT:
            self.beats[frame.host].put(frame.head)
        elif frame.kind is FromJava.OFFSETS:  # nothing is stored
            count = len(frame.head["partitions"])
            answer = {"question": frame.head["question"], "offsets": [None] * count}
            self.process.send(ToJava.OFFSETS, frame.host, answer)
        else:
            self.frames[frame.host].put(frame)

    def source(self, number: int, misbehave: str = "", **config: str) -> None:
        """Start a source task and grant it a poll."""
        self._start(number, SOURCE, SOURCE_TASK, misbehave, sink=False, **config)
        self.process.send(ToJava.ROOM, number, 1)

    def sink(self, number: int, misbehave: str = "", **config: str) -> None:
        """Start a sink task in the Java host."""
        self._start(number, SINK, SINK_TASK, misbehave, sink=True, topics="t", **config)

    def _start(self, number: int, connector: str, task: str, misbehave: str, *, sink: bool, **config: str) -> None:
        named = {"name": f"c{number}", "connector.class": connector, "misbehave": misbehave} | config
        head = {"name": named["name"], "number": 0, "sink": sink, "connector": named, "task": named}
        self.process.send(ToJava.START, number, head | {"task": named | {"task.class": task}})

    def next(self, number: int, kind: FromJava) -> Frame:
        """Return the next frame of that kind of a number; others before it are dropped."""
        end_s = time.monotonic() + LIMIT_S
        while True:
            frame = self.frames[number].get(timeout=max(0.01, end_s - time.monotonic()))
            if frame.kind is kind:
                return frame

    def beat(self, number: int, field: str) -> Any:
        """Return the next heartbeat of a number that has such a field."""
        end_s = time.monotonic() + LIMIT_S
        while True:
            head = self.beats[number].get(timeout=max(0.01, end_s - time.monotonic()))
            if field in head:
                return head

    def poll(self, number: int) -> list[str]:
        """Grant a source task one more poll; return the values of the next batch."""
        self.process.send(ToJava.ROOM, number, 1)
        frame = self.next(number, FromJava.BATCH)
        return [
            row["value"].decode()
            for batch in produce_batches(frame.head["sections"], frame.data)
            for row in batch.to_pylist()
        ]

    def call(self, number: int, kind: ToJava, head: Any, data: Any = ()) -> Any:
        """Have a sink task do something; return its answer."""
        self.process.send(kind, number, head, data)
        return self.next(number, FromJava.DONE).head

    def put(self, number: int, batch: Any) -> Any:
        """Put a batch of consumed records, and return the host's answer."""
        return self.call(number, ToJava.PUT, *consumed(batch))

    def failure(self, number: int) -> Any:
        """Return how a task failed; it has ended then."""
        head = self.next(number, FromJava.FAILED).head
        self.process.send(ToJava.STOP, number)
        self.next(number, FromJava.ENDED)
        return head
