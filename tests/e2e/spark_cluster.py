"""A Spark standalone cluster on loopback from PySpark's own jars: a Master and Workers, each a process tree.

Owns addresses, folders and lives of the daemons. A node is a Worker with all that runs below it: its session. What it
says of executors is read from the machine's processes, not from Spark.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyspark

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import get_json, until
from tests.e2e.submitted import executors_of, kill_all, plain_environment, session_of

DEPLOY = "org.apache.spark.deploy"
START_S = 120.0
HOST = "127.0.0.1"
# A Worker that has lost its Master tries to register at once, after 5 to 15 s, and then every 30 to 90 s. Without this
# setting it makes the first six tries 5 to 15 s apart.
RETRIES = "-Dspark.worker.initialRegistrationRetries=1"
RETRY = "Retrying connection to master"


class Daemon:
    """A Master or a Worker, started again as often as asked; all its starts share one log."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], words: list[str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.pid = 0
        self._folder = folder
        self._environment = environment
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; what it is good for must be awaited."""
        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [spark_class, *self._words],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_end_with_owner,
            )
        self.pid = self._process.pid

    def processes(self) -> list[psutil.Process]:
        """Return it and all that it started, orphans too."""
        return session_of(self.pid) if self._process is not None else []

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs of the executors below it."""
        return executors_of(self.pid) if self._process is not None and self._process.poll() is None else []

    def printed(self) -> str:
        """Return everything that it and its earlier starts have logged."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """SIGKILL it and all that it started, as a machine that loses power."""
        if self._process is not None:
            kill_all(self.processes())
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """SIGTERM, as ``stop-master.sh`` and ``stop-worker.sh`` do; SIGKILL for what is left."""
        if self._process is not None:
            self._process.terminate()
            psutil.wait_procs(self.processes(), timeout=20)
            self.kill()


class SparkCluster:
    """One Master that keeps its state in a folder, and Workers of ``cores`` cores each."""

    def __init__(self, folder: Path, java: Java, workers: int = 2, cores: int = 4) -> None:
        port, self._master_ui, *uis = free_ports(2 + workers)
        self.url = f"spark://{HOST}:{port}"
        recovery = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={folder / 'recovery'}"
        environment = plain_environment() | {
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_MASTER_OPTS": f"-Dspark.master.rest.enabled=false {recovery}",
            "SPARK_WORKER_OPTS": RETRIES,
        }
        master = [f"{DEPLOY}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(self._master_ui)]
        self.master = Daemon("master", folder, environment, master)
        room = ["--cores", str(cores), "--memory", "4g", self.url]
        self.workers = []
        for number, ui in enumerate(uis):
            host = f"127.0.0.{number + 1}"  # hosts of their own: Spark copies no task to the host it runs on
            where = ["--host", host, "--webui-port", str(ui), "--work-dir", str(folder / f"work-{number}")]
            words = [f"{DEPLOY}.worker.Worker", *where, *room]
            self.workers.append(Daemon(f"worker-{number}", folder, environment | {"SPARK_LOCAL_IP": host}, words))

    def start(self) -> None:
        """Start all; return when the Master knows every Worker."""
        self.master.start()
        self.await_master()
        for worker in self.workers:
            worker.start()
        self.await_workers(len(self.workers))

    def await_master(self) -> None:
        """Wait until the Master, which was started, serves."""
        until(lambda: self.state().get("status") == "ALIVE", START_S, "the Master serves", self.said)

    def await_workers(self, count: int) -> None:
        """Wait until the Master has so many Workers alive."""

        def alive() -> list[str]:
            return [worker["id"] for worker in self.state().get("workers", ()) if worker["state"] == "ALIVE"]

        until(lambda: len(alive()) == count, START_S, f"{count} Workers", lambda: (alive(), self.said()))

    def await_retries(self, before: Sequence[int]) -> None:
        """Wait until each Worker has retried in vain since it had retried so often: its next try is 30 s away."""

        def retried() -> bool:
            return all(now > then for now, then in zip(self.retries(), before, strict=True))

        until(retried, START_S, "each Worker has retried", self.said, every_s=0.2)

    def retries(self) -> list[int]:
        """Return how often each Worker has tried to register again some time after it lost its Master."""
        return [worker.printed().count(RETRY) for worker in self.workers]

    def state(self) -> dict[str, object]:
        """Return what the Master says of itself, nothing when it does not answer."""
        try:
            found = get_json(f"http://{HOST}:{self._master_ui}/json/")
        except ValueError:  # while it starts, it answers without JSON
            return {}
        return found if isinstance(found, dict) else {}

    def executors(self) -> list[psutil.Process]:
        """Return the executors' JVMs on all nodes."""
        return [executor for worker in self.workers for executor in worker.executors()]

    def node_of(self, process: psutil.Process) -> Daemon:
        """Return the Worker that a process is below."""
        return next(worker for worker in self.workers if os.getsid(process.pid) == worker.pid)

    def said(self) -> str:
        """Return the end of each daemon's log, for a message."""
        return "\n".join(f"{daemon.name}:\n{daemon.printed()[-1500:]}" for daemon in (self.master, *self.workers))

    def stop(self) -> None:
        """Stop every daemon with all that is below it."""
        for worker in (*self.workers, self.master):
            worker.stop()


def _end_with_owner() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: a killed test leaves no cluster behind
