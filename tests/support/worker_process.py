"""A Connect worker as an operating-system process, ours or Java's, driven through files, signals and REST.

Owns: the worker's properties file, its process group, its log file, waiting until it answers. Tests and benchmarks use
it so that one driver serves both implementations; it must know nothing of the code that runs inside.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.errors import StartupError
from tests.support.connect_rest import ConnectRest

EXIT_WORKER_FAILED = 17
START_LIMIT_S = 120.0


def worker_properties(bootstrap_servers: str, group_id: str, rest_port: int) -> dict[str, str]:
    """Return the smallest distributed worker configuration that a single broker accepts (no converters)."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group_id,
        "config.storage.topic": f"{group_id}-configs",
        "offset.storage.topic": f"{group_id}-offsets",
        "status.storage.topic": f"{group_id}-statuses",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": f"http://127.0.0.1:{rest_port}",
        "rest.advertised.host.name": "127.0.0.1",
    }


class WorkerProcess(ABC):
    """One worker under one directory. Subclasses return the command that runs it."""

    def __init__(
        self,
        directory: Path,
        bootstrap_servers: str,
        group_id: str,
        *,
        properties: Mapping[str, str] | None = None,
        rest_port: int | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.group_id = group_id
        self.rest_port = rest_port or free_ports(1)[0]
        self.properties = {
            **worker_properties(bootstrap_servers, group_id, self.rest_port),
            **(properties or {}),
        }
        self.rest = ConnectRest(f"http://127.0.0.1:{self.rest_port}")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        """Return the file that holds everything the worker printed, over all its starts."""
        return self.directory / "worker.log"

    @property
    def pid(self) -> int:
        """Return the process id of the command; 0 when it does not run."""
        return self._process.pid if self._process else 0

    @abstractmethod
    def command(self, properties_file: Path) -> list[str]:
        """Return the command line of the worker."""

    def environment(self) -> dict[str, str]:
        """Return the environment of the process."""
        return dict(os.environ)

    def launch(self) -> None:
        """Start the process and return at once."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()), encoding="utf-8")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(file),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,  # relative ``file`` settings mean the same for every implementation
                env=self.environment(),
                start_new_session=True,  # Ctrl-C is for the owner, which then stops the worker in order
                preexec_fn=_end_with_owner,
            )

    def start(self, limit_s: float = START_LIMIT_S) -> Self:
        """Start the process and wait until ``/health`` reports that it may be used. Raises StartupError."""
        self.launch()
        self.await_answer("/health", limit_s)
        return self

    def await_answer(self, path: str, limit_s: float = START_LIMIT_S) -> None:
        """Wait until ``GET path`` answers 200. Raises StartupError with the end of the log."""
        begun = time.monotonic()
        while (waited_s := time.monotonic() - begun) < limit_s and not self.ended():
            if self.rest.probe(path):
                return
            time.sleep(0.02)
        state = f"ended ({self._process and self._process.returncode})" if self.ended() else "runs"
        tail = self.log_file.read_text(encoding="utf-8", errors="replace")[-3000:]
        self.stop()
        raise StartupError(
            f"GET {path} of worker {self.rest.url} gave no 200 in {waited_s:.0f} s, the process {state}; "
            f"{self.log_file} ends:\n{tail}",
            exit_code=EXIT_WORKER_FAILED,
        )

    def processes(self) -> list[psutil.Process]:
        """Return the live processes of the worker, itself first, then every descendant."""
        try:
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self, timeout_s: float = 30.0) -> int | None:
        """Send SIGTERM, wait, SIGKILL remaining processes; return the exit code, None if it never ran."""
        if self._process is None:
            return None
        descendants = self.processes()[1:]
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._reap(descendants)

    def kill(self) -> None:
        """SIGKILL the worker's own process only, as a crash would; its children are left to notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.rest.close()

    def ended(self) -> bool:
        """Return whether the process does not run (any more)."""
        return self._process is None or self._process.poll() is not None

    def _reap(self, descendants: list[psutil.Process]) -> int:
        process = self._process
        assert process is not None
        _, alive = psutil.wait_procs(descendants, timeout=5.0 if process.poll() is not None else 0.1)
        for child in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        if process.poll() is None:
            process.kill()
        self._process = None
        return process.wait()


class SparkWorkerProcess(WorkerProcess):
    """Our worker, started through the command line entry point."""

    def command(self, properties_file: Path) -> list[str]:
        """Return the command line of ``python -m spark_connect_rt worker FILE``."""
        return [sys.executable, "-m", "spark_connect_rt", "worker", str(properties_file)]

    def environment(self) -> dict[str, str]:
        """Return the environment with this very package first on the module path."""
        root = str(Path(__file__).resolve().parents[2])
        others = os.environ.get("PYTHONPATH", "")
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, others]))}


def _end_with_owner() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: a killed test leaves no worker behind
