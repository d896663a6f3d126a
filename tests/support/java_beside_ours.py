"""Java Connect and ours on one broker with one ``plugin.path``: the same connector in both, and kills of ours.

Owns: both workers of a comparison, waiting for their topics, finding the processes of a hosted task.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import psutil

from tests.support.java_connect import JavaConnect
from tests.support.topic_content import Content, Digests, TopicReader, differences, normalised
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

HOST_CLASS = "org.sparkconnectrt.host.Host"
SIDES = ("java", "ours")
FAST = {"offset.flush.interval.ms": "500", "plugin.discovery": "service_load"}
WHOLE = "CONNECTRT_JAVA_PROOFS"  # =whole: the sizes of ./test.sh java


def whole() -> bool:
    """Return whether this is the long form."""
    return os.environ.get(WHOLE) == "whole"


# Of waits for a condition: two workers start at once, and other programs may run at the same time as the long form.
START_S, LIMIT_S = (900.0, 900.0) if whole() else (300.0, 120.0)


class JavaBesideOurs:
    """Runs a Java worker and one of ours with the same connectors, each in a separate group.

    ``with JavaBesideOurs(folder, servers, plugin_path, "word") as both: both.create(...)``.
    """

    def __init__(self, folder: Path, servers: str, plugin_path: Path, word: str, **more: str) -> None:
        """``more``: settings of both workers, underscores for dots."""
        own = {name.replace("_", "."): value for name, value in more.items()}
        properties = {"plugin.path": str(plugin_path), **FAST, **own}
        self._servers, self._properties = servers, properties
        self.java: WorkerProcess = JavaConnect(folder / "java", servers, f"{word}-java", properties=properties)
        self.ours: WorkerProcess = SparkWorkerProcess(folder / "ours", servers, f"{word}-ours", properties=properties)
        self.reader = TopicReader(servers)

    def worker(self, side: str) -> WorkerProcess:
        """Return the worker of the group "java" or "ours"."""
        return self.java if side == "java" else self.ours

    def __enter__(self) -> Self:
        for side in SIDES:
            self.worker(side).launch()
        for side in SIDES:
            self.worker(side).await_answer("/health", START_S)
        return self

    def __exit__(self, *_: object) -> None:
        for side in SIDES:
            self.worker(side).stop()
            self.worker(side).rest.close()
        self.reader.close()

    def create(self, name: str, configs: Mapping[str, Mapping[str, str]], tasks: int = 1) -> None:
        """Create ``name-java`` and ``name-ours`` (side -> configuration); wait until both run.

        Two names, for the name of a sink is that of its consumer group.
        """
        for side, config in configs.items():
            self.worker(side).rest.create(f"{name}-{side}", config)
        for side in configs:
            self.worker(side).rest.await_states(f"{name}-{side}", "RUNNING", ["RUNNING"] * tasks, max(LIMIT_S, 180.0))

    def await_count(self, suffix: str, least: int, limit_s: float = LIMIT_S) -> None:
        """Wait until ``java.suffix`` and ``ours.suffix`` hold so many records each."""
        self._await(lambda side: self.reader.count(f"{side}.{suffix}") >= least, f"{least} in {suffix}", limit_s)

    def await_key(self, suffix: str, key: bytes, limit_s: float = LIMIT_S) -> None:
        """Wait until a record of this key is among the last of both topics."""
        self._await(lambda side: key in self.reader.last_keys(f"{side}.{suffix}"), f"{key!r} in {suffix}", limit_s)

    def assert_equal(self, suffix: str, form: Callable[[Content], Content] = normalised) -> int:
        """Compare both topics by key: records, headers, order. Returns how many records ours holds.

        ``form``: returns the compared parts of a record, without those that differ from run to run.
        """
        java, ours = (Digests(self.reader.each(f"{side}.{suffix}"), form) for side in SIDES)
        if java.of_keys != ours.of_keys:
            found = differences(self.reader.each(f"java.{suffix}"), self.reader.each(f"ours.{suffix}"), form)
            raise AssertionError(f"{suffix} differs:\n" + "\n".join(found))
        return ours.count

    def _await(self, reached: Callable[[str], bool], what: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        for side in SIDES:
            while not reached(side):
                late = time.monotonic() > deadline
                assert not late, f"{side}: no {what} after {limit_s:.0f} s; {self._states(side)}"
                time.sleep(0.2)

    def _states(self, side: str) -> str:
        rest = self.worker(side).rest
        names = rest.request("GET", "/connectors").json()
        return "; ".join(rest.request("GET", f"/connectors/{name}/status").body.decode()[:3000] for name in names)

    def swap_groups(self) -> None:
        """Stop both; each starts again on the other's group: on its configurations, offsets and statuses."""
        for side in SIDES:
            self.worker(side).stop()
            self.worker(side).rest.close()
        java, ours = self.java, self.ours
        self.java = SparkWorkerProcess(
            ours.directory, self._servers, java.group_id, properties=self._properties, rest_port=ours.rest_port
        )
        self.ours = JavaConnect(
            java.directory, self._servers, ours.group_id, properties=self._properties, rest_port=java.rest_port
        )
        self.__enter__()

    def hosts(self, jar: str = "") -> list[psutil.Process]:
        """Return the JVMs that host our tasks (not the driver's JVM).

        ``jar``: only those that have loaded such a jar.
        """
        return [process for process in self.ours.processes() if _hosts(process, jar, self.ours.pid)]

    def kill_host(self, jar: str) -> int:
        """SIGKILL the JVM of the tasks of that jar; return its pid."""
        host = self.host(jar)
        host.kill()
        return int(host.pid)

    def host(self, jar: str) -> psutil.Process:
        """Return the JVM of the tasks of that jar; waits until there is one, for they may be hosted again just now."""
        deadline = time.monotonic() + LIMIT_S
        while not (hosts := self.hosts(jar)):
            assert time.monotonic() < deadline, f"no JVM hosts a task of {jar}"
            time.sleep(0.05)
        return hosts[0]

    def slot(self, jar: str) -> psutil.Process:
        """Return the Python process whose child that JVM is."""
        slot = self.host(jar).parent()
        assert slot is not None
        return slot


def _hosts(process: psutil.Process, jar: str, driver: int) -> bool:
    try:
        if HOST_CLASS not in process.cmdline() or process.ppid() == driver:
            return False
        return not jar or any(jar in Path(file.path).name for file in process.open_files())
    except psutil.Error:
        return False
