"""A real Apache Kafka of one process (KRaft: broker and controller), loopback only, for first runs and tests.

Owns: the broker's directory, its ports, its process. A broker that outlived its owner (kill -9) is taken over
by the next start on the same directory, so no data directory is ever opened twice.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.base.cache import KAFKA_BROKER, KAFKA_VERSION, resolve_jars
from spark_connect_rt.base.downloads import Downloads
from spark_connect_rt.engine.startup.class_archives import ArchiveAtEnd
from spark_connect_rt.engine.startup.java_home import Java, find_java
from spark_connect_rt.errors import StartupError

EXIT_BROKER_FAILED = 13
# Without them the broker is silent: kafka_2.13 brings no logger. "!": without their dependency management.
LOG_COORDINATES = (
    "org.apache.logging.log4j:log4j-core:2.24.3!",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3!",
)
START_LIMIT_S = 90.0
FULL_BYTES = 16_000_000  # free on a disk that a broker found full: a segment's index takes 10 MiB

LOG_CONFIG = """Configuration:
  status: error
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d{ISO8601} %p %c{1} %m%n"}}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: out}}
    Logger: [%s]
"""

_ADVERTISED = re.compile(r"^advertised\.listeners=\w+://[^:]*:(\d+)", re.MULTILINE)
_log = logging.getLogger(__name__)


def free_ports(count: int) -> list[int]:
    """Return ``count`` different free loopback TCP ports."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def kept_port(properties: Path) -> int | None:
    """Return the port of a broker's earlier start, by its properties file, if it is free; None: another is needed."""
    try:
        found = _ADVERTISED.search(properties.read_text(encoding="utf-8"))
    except OSError:
        return None
    if found is None:
        return None
    port = int(found.group(1))
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does: connections may linger
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return None
    return port


def why_it_failed(log_end: str, free_bytes: int) -> str:
    """Return what to do about a broker that ended, by the end of its log and the space on its disk; empty: unknown.

    A broker whose disk is full ends without a word: unless it was asked for, it has no log.
    """
    if "No space left on device" in log_end or free_bytes < FULL_BYTES:
        return "the disk is full. Free 500 MB and run it again; it continues. "
    if "Read-only file system" in log_end or "Permission denied" in log_end:
        return "its folder is not writable. Choose another one (quickstart.directory). "
    if "BindException" in log_end or "Address already in use" in log_end:
        return "its port was taken at that moment. Run it again. "
    if "OutOfMemoryError" in log_end or "Could not reserve enough space" in log_end:
        return "the machine has too little free memory. 512 MB are needed. "
    return ""


# A request of 1 MiB is humongous in regions of 1 MiB, as the JVM chooses for a heap below 2 GiB: each one then brings a
# concurrent mark nearer (0.22 of 2.0 us a record with all processes). Kafka's own advice is 16M, for 6 GiB.
REGIONS = "-XX:G1HeapRegionSize=4m"
FORMAT_OPTIONS = ("-XX:TieredStopAtLevel=1",)  # a second's work: nothing stays hot


def log_config(levels: Mapping[str, str]) -> str:
    """Return the broker's log4j2 set-up: warnings, and the given loggers at their levels."""
    loggers = ", ".join(f'{{name: "{name}", level: {level}}}' for name, level in levels.items())
    return LOG_CONFIG.replace("[%s]", f"[{loggers}]")


def broker_properties(directory: Path, port: int, controller_port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a single-node broker; ``extra`` wins."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "logs"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **extra,
    }


class EmbeddedKafka:
    """One broker under one directory. ``with EmbeddedKafka(path) as kafka: kafka.bootstrap_servers``."""

    def __init__(
        self,
        directory: Path,
        *,
        java: Java | None = None,
        heap_mb: int = 512,
        properties: Mapping[str, str] | None = None,
        die_with_parent: bool = False,
        port: int | None = None,
        cluster_id: str | None = None,
        jvm_options: Sequence[str] = (),
        log_levels: Mapping[str, str] | None = None,
        version: str = KAFKA_VERSION,
        downloads: Downloads | None = None,
    ) -> None:
        """Make a broker, not yet started.

        ``properties`` win over the ones of ``broker_properties``; ``cluster_id`` is that of brokers that belong
        together; ``jvm_options`` go before the class path; ``log_levels`` are of loggers, the others' is
        warn; without any the broker logs nothing; ``downloads`` shows the progress of its jars. Without a ``port`` it
        keeps the one of its earlier start in that directory, if it is free, so that clients find it again.
        """
        self.directory = Path(directory).absolute()
        self._java = java
        self._heap_mb = heap_mb
        self._properties = dict(properties or {})
        self._die_with_parent = die_with_parent
        self._wanted_port = port
        self._cluster_id = cluster_id
        self._jvm_options = tuple(jvm_options)
        self._log_levels = dict(log_levels or {})
        self._coordinates = (f"{KAFKA_BROKER}:{version}", *(LOG_COORDINATES if log_levels else ()))
        self._downloads = downloads
        self._archive: ArchiveAtEnd | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.port = 0
        self.adopted = False

    @property
    def bootstrap_servers(self) -> str:
        """Return the broker's address, ``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        """Return the file that holds what the broker printed."""
        return self.directory / "broker.log"

    def start(self) -> EmbeddedKafka:
        """Start (or take over) the broker and wait until it answers. Raises StartupError (exit code 13)."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._adopt():
            self._wait_until_ready()
            return self
        java = self._java or find_java()
        jars = resolve_jars(self._coordinates, self._downloads)
        port = self._wanted_port or kept_port(self.directory / "broker.properties")
        wanted = [port] if port else []
        self.port, controller_port = (wanted + free_ports(2))[:2]
        self._write_files(controller_port)
        self._launch(java, jars)
        self._wait_until_ready()
        return self

    def stop(self, timeout_s: float = 20.0) -> None:
        """Stop the broker: SIGTERM, then SIGKILL at the time-out. Safe to call twice."""
        if not self.pid:
            return
        self._signal(signal.SIGTERM)
        if not self._await_end(timeout_s if self._archive is None else self._archive.limit_s(timeout_s)):
            self._signal(signal.SIGKILL)
            self._await_end(5.0)
        self._keep_archive()
        (self.directory / "broker.json").unlink(missing_ok=True)
        self.pid = 0

    def kill(self) -> None:
        """Kill the broker at once (for tests); ``start`` brings it back on the same directory and port."""
        self._wanted_port = self.port
        self._signal(signal.SIGKILL)
        self._await_end(10.0)
        self._keep_archive()
        self.pid = 0

    def __enter__(self) -> EmbeddedKafka:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_files(self, controller_port: int) -> None:
        settings = broker_properties(self.directory, self.port, controller_port, self._properties)
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.directory / "broker.properties").write_text(text, encoding="utf-8")
        (self.directory / "log4j2.yaml").write_text(log_config(self._log_levels), encoding="utf-8")

    def _keep_archive(self) -> None:
        if self._archive is not None:
            self._archive.keep()

    def _launch(self, java: Java, jars: list[Path]) -> None:
        self._archive = ArchiveAtEnd("broker", java, jars)
        base = [
            str(java.executable),
            "-Xms128m",
            f"-Xmx{self._heap_mb}m",
            REGIONS,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.yaml'}",
            *self._jvm_options,
            "-cp",
            os.pathsep.join(map(str, jars)),
        ]
        config = str(self.directory / "broker.properties")
        with self.log_file.open("ab") as log:
            if not (self.directory / "logs" / "meta.properties").exists():
                subprocess.run(
                    [
                        base[0],
                        *self._archive.options(),
                        *FORMAT_OPTIONS,
                        *base[1:],
                        "kafka.tools.StorageTool",
                        "format",
                        "-t",
                        self._cluster_id or new_cluster_id(),
                        "-c",
                        config,
                    ],
                    stdout=log,
                    stderr=log,
                    check=False,
                )
            self._process = subprocess.Popen(
                [base[0], *self._archive.options_to_write(), *base[1:], "kafka.Kafka", config],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the owner, which then stops the broker in order
                preexec_fn=_die_with_parent if self._die_with_parent else None,
            )
        self.pid = self._process.pid
        state = {"pid": self.pid, "port": self.port}
        (self.directory / "broker.json").write_text(json.dumps(state), encoding="utf-8")

    def _adopt(self) -> bool:
        try:
            state: dict[str, Any] = json.loads((self.directory / "broker.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if not _runs(state["pid"], str(self.directory / "broker.properties")):
            return False
        self.pid, self.port, self.adopted = int(state["pid"]), int(state["port"]), True
        if self._process is not None and self._process.pid != self.pid:
            self._process = None
        _log.info("taking over the broker pid=%d that an earlier run left in %s", self.pid, self.directory)
        return True

    def _wait_until_ready(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(
            {"bootstrap.servers": self.bootstrap_servers, "reconnect.backoff.max.ms": 300, "log_level": 0}
        )
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if not self._is_alive():
                break
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=1.0).brokers:
                    return
        self.stop()
        raise self._failed("did not start")

    def require_alive(self) -> None:
        """Raise StartupError (exit code 13) when the broker has ended by itself."""
        if self.pid and not self._is_alive():
            raise self._failed("ended")

    def _failed(self, what: str) -> StartupError:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace")[-2000:].splitlines()
        tail = "\n".join(line for line in lines if not line.startswith("SLF4J: "))  # that it has no logger
        free_bytes = shutil.disk_usage(self.directory).free
        return StartupError(
            f"the embedded Kafka in {self.directory} {what}: {why_it_failed(tail, free_bytes)}its log ends:\n{tail}",
            exit_code=EXIT_BROKER_FAILED,
            code="CRT-1083",
        )

    def _is_alive(self) -> bool:
        """Return whether the broker runs. A child just begun shows no command line yet: its exit code tells."""
        if self._process is not None:
            return self._process.poll() is None
        return _runs(self.pid, str(self.directory / "broker.properties"))

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _await_end(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self._is_alive():
                return True
            time.sleep(0.05)
        return False


def _runs(pid: int, argument: str) -> bool:
    """Return whether ``pid`` is alive and is a process started with ``argument`` (pids are used again)."""
    try:
        if sys.platform == "linux":
            return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def new_cluster_id() -> str:
    """Return a cluster id as the format tool takes it."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # the format tool would read it as an option
            return text


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
