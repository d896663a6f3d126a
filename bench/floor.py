"""The floors: what Spark, a bare web server or a bare consumer costs before a single line of ours runs.

``python -m bench.floor spark`` opens a SparkSession and waits for its stdin to close; ``rest PORT`` serves one
empty JSON answer; ``consume "SERVERS TOPIC PARTITIONS COUNT"`` reads so many records with librdkafka and keeps none.
Started by the benchmarks as processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Self

import psutil

from spark_connect_rt.engine.startup.java_home import find_java
from tests.support.connect_rest import ConnectRest

START_LIMIT_S = 60.0


class Floor:
    """A floor process: ``with Floor("spark") as floor: floor.processes()``."""

    def __init__(self, kind: str, argument: str = "") -> None:
        self._command = [sys.executable, "-m", "bench.floor", kind, argument]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def await_ready(self) -> None:
        """Wait for the word that it is up."""
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready", "the floor process did not come up"

    def processes(self) -> list[psutil.Process]:
        """Return its processes."""
        assert self._process is not None
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()


def rest_start_s(port: int) -> float:
    """Return the seconds from process start to the first answer of an empty FastAPI application."""
    begun = time.monotonic()
    with Floor("rest", str(port)), ConnectRest(f"http://127.0.0.1:{port}") as rest:
        while not rest.probe():
            assert time.monotonic() - begun < START_LIMIT_S, "the empty application did not answer"
            time.sleep(0.01)
        return time.monotonic() - begun


def spark_start_s() -> float:
    """Return the seconds from process start until a bare SparkSession has run one job."""
    begun = time.monotonic()
    with Floor("spark") as floor:
        floor.await_ready()
        return time.monotonic() - begun


def consume_start_s(servers: str, topic: str, partitions: int, count: int) -> float:
    """Return the seconds from process start until a bare consumer has seen every record of a topic."""
    begun = time.monotonic()
    with Floor("consume", f"{servers} {topic} {partitions} {count}") as floor:
        floor.await_ready()
        return time.monotonic() - begun


def bare_read(servers: str, topic: str, partitions: int, count: int) -> None:
    """Read a topic's first ``count`` records as fast as librdkafka hands them over."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bare", "fetch.queue.backoff.ms": 5})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    seen = 0
    while seen < count:
        seen += len(consumer.consume(10_000, 0.1))
    consumer.close()


def _consume(argument: str) -> None:
    servers, topic, partitions, count = argument.split()
    bare_read(servers, topic, int(partitions), int(count))
    print("ready", flush=True)
    sys.stdin.read()


def _spark() -> None:
    import os

    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.range(1).collect()
    print("ready", flush=True)
    sys.stdin.read()
    session.stop()


def _rest(port: int) -> None:
    import threading

    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/")
    def root() -> dict[str, str]:
        return {}

    threading.Thread(
        target=uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")).run,
        daemon=True,
    ).start()
    sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1] == "spark":
        _spark()
    elif sys.argv[1] == "consume":
        _consume(sys.argv[2])
    else:
        _rest(int(sys.argv[2]))
