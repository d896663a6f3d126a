"""Clients of the Connect REST API from PyPI, each run as its users run it, in a folder of packages of their own.

They are not among the test requirements: kafka-connect-watcher needs python-dateutil < 3, pandas brings 4. Versions are
those of rest_clients.lock, made by ``uv pip compile`` from the three names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_name("rest_clients.lock")
RUN_LIMIT_S = 120.0


class RestClients:
    """The packages of rest_clients.lock in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # An environment made by uv has no pip, and there is uv then.
        pip = ["uv", "pip", "install"] if shutil.which("uv") else [sys.executable, "-m", "pip", "install"]
        python = ["--python", sys.executable] if pip[0] == "uv" else ["--disable-pip-version-check", "--no-compile"]
        command = [*pip, *python, "--quiet", "--no-deps", "--target", str(folder), "-r", str(LOCK)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=RUN_LIMIT_S)

    def begin(self, code: str, *arguments: str, log: Path | None = None, **environment: str) -> subprocess.Popen[str]:
        """Start ``python -c code arguments``; what it prints goes to ``log`` or to its pipes."""
        # Not the proxies of the environment: the worker is on loopback.
        clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        clean |= {"PYTHONPATH": str(self._folder), "PYTHONUNBUFFERED": "1", **environment}
        command = [sys.executable, "-c", code, *arguments]
        if log is None:
            return subprocess.Popen(command, env=clean, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with log.open("w") as output:
            return subprocess.Popen(command, env=clean, text=True, stdout=output, stderr=output)

    def kc(self, url: str, *arguments: str) -> Any:
        """Run a command of kafka-connect-py; return the JSON it prints, None for nothing."""
        code = "from kafka_connect.cli import cli; cli()"
        process = self.begin(code, *arguments, KAFKA_CONNECT_URL=url)
        printed, errors = process.communicate(timeout=RUN_LIMIT_S)
        assert process.returncode == 0, errors
        assert not printed.startswith("Oops"), printed
        return json.loads(printed) if printed.strip() else None

    def healthcheck(self, url: str, port: int, log: Path) -> subprocess.Popen[str]:
        """Start kafka-connect-healthcheck; it answers on ``port``."""
        code = "from kafka_connect_healthcheck.main import main; main()"
        return self.begin(code, "--port", str(port), "--connect-url", url, log=log)

    def watcher(self, config: Path, log: Path) -> subprocess.Popen[str]:
        """Start kafka-connect-watcher, with no cloud around it."""
        code = "from kafka_connect_watcher.cli import start_watcher; start_watcher()"
        return self.begin(code, "-c", str(config), log=log, AWS_EMF_ENVIRONMENT="local", AWS_REGION="none")
