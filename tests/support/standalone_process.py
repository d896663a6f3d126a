"""Standalone workers as processes, Java's and ours, with the connector files they are started with."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.engine.startup.java_home import Java
from tests.support.java_connect import MAIN_CLASS, JavaConnect
from tests.support.worker_process import SparkWorkerProcess

OFFSETS = "offsets.file"  # in the worker's directory
STANDALONE_CLASS = "org.apache.kafka.connect.cli.ConnectStandalone"


def standalone_settings(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a standalone worker's settings beyond a distributed one's properties (it ignores the rest of those)."""
    return {"offset.storage.file.filename": OFFSETS, "offset.flush.interval.ms": "500", **(extra or {})}


class JavaStandalone(JavaConnect):
    """Runs ``ConnectStandalone worker.properties [connector files]`` as a process."""

    def __init__(
        self,
        directory: Path,
        bootstrap_servers: str,
        *,
        connectors: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
        java: Java | None = None,
    ) -> None:
        settings = standalone_settings(properties)
        super().__init__(directory, bootstrap_servers, "standalone", properties=settings, java=java)
        self.connectors = list(connectors)

    def command(self, properties_file: Path) -> list[str]:
        """Return the java command line."""
        command = super().command(properties_file)
        command[command.index(MAIN_CLASS)] = STANDALONE_CLASS
        return [*command, *map(str, self.connectors)]


class SparkStandalone(SparkWorkerProcess):
    """Runs ``connectrt standalone worker.properties [connector files]`` as a process."""

    def __init__(
        self,
        directory: Path,
        bootstrap_servers: str,
        *,
        connectors: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        settings = standalone_settings(properties)
        super().__init__(directory, bootstrap_servers, "standalone", properties=settings)
        self.connectors = list(connectors)

    def command(self, properties_file: Path) -> list[str]:
        """Return the command line of ``python -m spark_connect_rt standalone FILE ...``."""
        files = [str(properties_file), *map(str, self.connectors)]
        return [sys.executable, "-m", "spark_connect_rt", "standalone", *files]
