"""A dedicated MirrorMaker as an operating-system process, ours or Java's, from the same properties.

Owns: the command lines. It has no public REST API: whether it works shows in its clusters. Everything else is
WorkerProcess's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.support.java_connect import COORDINATES as CONNECT
from tests.support.java_connect import LOG_CONFIG
from tests.support.worker_process import START_LIMIT_S, SparkWorkerProcess, WorkerProcess

COORDINATES = (f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}", *CONNECT)
MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"


class _MirrorMaker(WorkerProcess):
    def __init__(self, directory: Path, properties: Mapping[str, str], targets: Sequence[str] = ()) -> None:
        """Take the file's settings, and the target clusters of ``--clusters``: none means all."""
        super().__init__(directory, "", "mirror-maker")
        self.properties = dict(properties)
        self.targets = tuple(targets)

    def start(self, limit_s: float = START_LIMIT_S) -> Self:
        """Start the process; returns at once, for there is nothing to ask."""
        self.launch()
        return self

    def _words(self, properties_file: Path) -> list[str]:
        return [str(properties_file), *(word for target in self.targets for word in ("--clusters", target))]


class JavaMirrorMaker(_MirrorMaker):
    """Runs Apache Kafka's MirrorMaker 2 as a process: the oracle.

    ``with JavaMirrorMaker(path, {"clusters": "A,B", ...}): ...``.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str], targets: Sequence[str] = ()) -> None:
        super().__init__(directory, properties, targets)
        # Otherwise every flow searches every class of the class path, ten seconds long.
        aliases = [part.strip() for part in properties["clusters"].split(",")]
        self.properties |= {f"{prefix}plugin.discovery": "service_load" for prefix in ("", *(f"{a}." for a in aliases))}

    def command(self, properties_file: Path) -> list[str]:
        """Return the java command line; writes the log set-up first."""
        log_config = self.directory / "log4j2.properties"
        log_config.write_text(LOG_CONFIG, encoding="utf-8")
        class_path = os.pathsep.join(map(str, resolve_jars(COORDINATES)))
        logging = f"-Dlog4j2.configurationFile={log_config}"
        return [
            *(str(find_java().executable), "-Xms256m", "-Xmx512m", logging, "-cp", class_path, MAIN_CLASS),
            *self._words(properties_file),
        ]


class SparkMirrorMaker(_MirrorMaker, SparkWorkerProcess):
    """Runs our MirrorMaker as a process.

    ``with SparkMirrorMaker(path, {"clusters": "A,B", ...}): ...``.
    """

    def command(self, properties_file: Path) -> list[str]:
        """Return the command line of ``python -m spark_connect_rt mirror run FILE``."""
        return [sys.executable, "-m", "spark_connect_rt", "mirror", "run", *self._words(properties_file)]
