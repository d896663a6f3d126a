"""Two workers of one group on a real broker, for the console; tasks on threads, for pictures the first's on Spark.

Owns: their start, beside each other, and a few connectors of each kind. What the console shows of Spark itself is tried
in ``tests/e2e/console_stories.py``, on a worker that is up there anyway: a start costs 20 CPU seconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.integration.kafka.threads_worker import ThreadsWorkerProcess
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


class RealGroup:
    """The workers and how to fill them."""

    def __init__(self, folder: Path, bootstrap_servers: str, name: str, spark: bool) -> None:
        self.folder, self.bootstrap_servers = folder, bootstrap_servers
        kind = SparkWorkerProcess if spark else ThreadsWorkerProcess
        self.first: WorkerProcess = kind(folder / "first", bootstrap_servers, name)
        self.second: WorkerProcess = ThreadsWorkerProcess(folder / "second", bootstrap_servers, name)

    def start(self) -> None:
        """Start both, beside each other."""
        self.first.launch()
        self.second.launch()
        for worker in (self.first, self.second):
            worker.await_answer("/health")

    def stop(self) -> None:
        """Stop both."""
        for worker in (self.second, self.first):
            with contextlib.suppress(OSError):
                worker.stop(timeout_s=0.5)  # how a worker ends in order is for other tests
            worker.rest.close()

    def source(self, name: str, lines: int = 20, **settings: str) -> Path:
        """Create a file source over a file of so many lines; return the file."""
        file = self.folder / f"{name}.txt"
        file.write_text("".join(f"line {number}\n" for number in range(lines)))
        self.create(name, {"connector.class": "FileStreamSource", "file": str(file), "topic": name, **settings})
        return file

    def sink(self, name: str, topic: str, **settings: str) -> None:
        """Create a file sink of a topic."""
        target = str(self.folder / f"{name}.out")
        self.create(name, {"connector.class": "FileStreamSink", "file": target, "topics": topic, **settings})

    def failing(self, name: str, topic: str) -> None:
        """Create a sink whose task fails: its folder is not there."""
        self.create(name, {"connector.class": "FileStreamSink", "file": "/nowhere/at/all", "topics": topic})

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector."""
        self.first.rest.create(name, dict(config))


@contextlib.contextmanager
def real_group(
    folder: Path, bootstrap_servers: str, name: str = "console", *, spark: bool = False
) -> Iterator[RealGroup]:
    """Start a group; stop it in the end. ``spark``: the first worker's tasks run on Spark."""
    group = RealGroup(folder, bootstrap_servers, name, spark)
    try:
        group.start()
        yield group
    finally:
        group.stop()
