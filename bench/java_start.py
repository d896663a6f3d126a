"""CPU of one host JVM from its start to Debezium's first batch, no Kafka and no Spark: ``python -m bench.java_start``.

In turns: without an archive of classes, with the host's own, with one that holds the plug-in's classes, too.
"""

from __future__ import annotations

import queue
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.hosted.captured import database_server
from spark_connect_rt.engine.java_host.class_archive import HostProgram, make_archive
from spark_connect_rt.engine.java_host.jar import program_jars
from spark_connect_rt.engine.java_host.plugin_folders import jvm_worker_config, with_plugins
from spark_connect_rt.engine.java_host.process import JavaProcess, command_line, for_records, rehearsal
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.startup.java_home import find_java
from tests.support.captured_database import CapturedDatabase, postgres_source
from tests.support.java_plugins import DEBEZIUM_POSTGRES, plugin_folder
from tests.support.postgres_server import PostgresServer

POSTGRES = "io.debezium.connector.postgresql.Postgres"
WITHOUT = "-Xshare:auto", "-XX:SharedArchiveFile=/nonexistent", "-Xlog:cds*=off"


class Start:
    """One start."""

    def __init__(self, program: HostProgram, place: Path, options: tuple[str, ...]) -> None:
        self._frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._begun_s = time.monotonic()
        worker = with_plugins(jvm_worker_config({}), [str(place)], f"{POSTGRES}Connector")
        self.process = JavaProcess(
            lambda socket: command_line(program, socket, "256m", [*for_records("256m"), *options]),
            worker,
            self._frames.put,
            lambda why: sys.exit(why),
            {"root": "WARN"},
        )
        self.figures = [*self._now()]

    def _now(self) -> tuple[float, float]:
        times = psutil.Process(self.process.pid).cpu_times()
        return time.monotonic() - self._begun_s, float(times.user + times.system)

    def first_batch(self, server: PostgresServer, name: str) -> list[float]:
        """Return [s until it answers, CPU s, s until the first batch, CPU s]."""
        database = CapturedDatabase(server)
        database.fill(1)
        config = {"name": name, **postgres_source(database, name)}
        head = {"name": name, "number": 0, "sink": False, "connector": config}
        task = config | {"task.class": f"{POSTGRES}ConnectorTask", "task.id": "0"}
        self.process.send(ToJava.START, 1, {**head, "task": task})
        self.process.send(ToJava.ROOM, 1, 8)
        while (frame := self._frames.get(timeout=60)).kind is not FromJava.BATCH:
            if frame.kind is FromJava.FAILED:
                sys.exit(frame.head["trace"])
            if frame.kind is FromJava.OFFSETS:
                unknown = [None] * len(frame.head["partitions"])
                self.process.send(ToJava.OFFSETS, 1, {"question": frame.head["question"], "offsets": unknown})
        self.figures += self._now()
        self.process.close()
        database.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
        database.close()
        return self.figures


def main(turns: int = 4) -> None:
    """Print medians."""
    java = find_java()
    with tempfile.TemporaryDirectory(prefix="connectrt-start-") as name, database_server() as server:
        place = plugin_folder(Path(name), "postgres", DEBEZIUM_POSTGRES)
        plain = HostProgram(java.executable, tuple(program_jars(java)))
        whole = HostProgram(plain.java, plain.jars, (place.resolve(),))
        for program in (plain, whole):
            begun_s = time.monotonic()
            path = make_archive(program, rehearsal(program))
            print(f"{path.stat().st_size / 1e6:.1f} MB, made in {time.monotonic() - begun_s:.1f} s")
        found: dict[str, list[list[float]]] = {}
        sides = (("none", plain, WITHOUT), ("host's", plain, ()), ("plug-in's too", whole, ()))
        for turn in range(turns):
            for who, program, options in sides:
                figures = Start(program, place, options).first_batch(server, f"start{turn}")
                found.setdefault(who, []).append(figures)
        for who, rows in found.items():
            print(f"{who:14}", *(f"{statistics.median(column):6.2f}" for column in zip(*rows, strict=True)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
