"""A real MariaDB on loopback, from Debian's packages: downloaded by apt, unpacked into the cache, not installed.

No wheel holds a MySQL or MariaDB server; Debian and Ubuntu have MariaDB's. For the long form of the Java proofs only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.base.cache import cache_directory, exclusive
from spark_connect_rt.errors import StartupError

PACKAGES = ("mariadb-server-core", "mariadb-client-core", "mariadb-common", "liburing2", "libaio1", "libnuma1")
START_LIMIT_S = 60.0
EXIT_NOT_UP = 17


class MariaDbServer:
    """``with MariaDbServer() as server: server.run("CREATE ...")``. Row-based binary log; the data go with it."""

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self._folder = Path(tempfile.mkdtemp(prefix="connectrt-mariadb-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._user = "nobody" if os.geteuid() == 0 else None

    def __enter__(self) -> Self:
        root = _unpacked()
        self._environment = {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, root.glob("**/x86_64-linux-gnu"))),
        }
        self._programs = root / "usr"
        if self._user:
            shutil.chown(self._folder, self._user)
        data = self._folder / "data"
        make = ["sh", "usr/bin/mariadb-install-db", "--no-defaults", f"--basedir={self._programs}", f"--datadir={data}"]
        self._call([*make, "--auth-root-authentication-method=normal", "--skip-test-db"], cwd=root)
        self._process = subprocess.Popen(
            [
                str(self._programs / "sbin/mariadbd"),
                "--no-defaults",
                f"--datadir={data}",
                f"--lc-messages-dir={self._programs / 'share/mysql'}",
                f"--socket={self._folder / 'socket'}",
                f"--port={self.port}",
                "--bind-address=127.0.0.1",
                "--log-bin=binlog",
                "--binlog-format=ROW",
                "--binlog-row-image=FULL",
                "--server-id=1",
            ],
            env=self._environment,
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / "log").open("ab"),
            cwd=self._folder,
        )
        self._await_ready()
        self.run("CREATE USER 'debezium'@'%' IDENTIFIED BY 'debezium'; GRANT ALL ON *.* TO 'debezium'@'%'")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, statements: str, database: str = "") -> str:
        """Run SQL by MariaDB's own client; return its output."""
        words = ["--no-defaults", "-u", "root", f"--socket={self._folder / 'socket'}", "-N", "-e", statements]
        return self._call([str(self._programs / "bin/mariadb"), *words, *([database] if database else [])])

    def _call(self, command: list[str], cwd: Path | None = None) -> str:
        done = subprocess.run(
            command, env=self._environment, user=self._user, cwd=cwd, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StartupError(f"{command[0]} failed: {done.stderr[-1000:]}", exit_code=EXIT_NOT_UP)
        return done.stdout

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.run("SELECT 1")
                return
            except StartupError as error:
                if time.monotonic() > deadline:
                    log = (self._folder / "log").read_text(errors="replace")[-2000:]
                    raise StartupError(f"MariaDB did not come up: {log}", exit_code=EXIT_NOT_UP) from error
                time.sleep(0.2)


def _unpacked() -> Path:
    """Return the folder with the packages' files; the first call downloads 8 MB. Raises StartupError."""
    folder = cache_directory() / "mariadb"
    with exclusive(folder.with_suffix(".lock")):
        if not (folder / "done").exists():
            folder.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(
                ["apt-get", "download", *PACKAGES], cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise StartupError(f"no MariaDB from apt: {done.stderr[-500:]}", exit_code=EXIT_NOT_UP)
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
            (folder / "done").touch()
    root = Path(tempfile.gettempdir()) / f"connectrt-mariadb-{os.getuid()}"
    if not root.exists():
        shutil.copytree(folder / "root", root, symlinks=True)  # where a user without rights to the cache can read it
    return root
