"""Apache Kafka's own Connect worker, the oracle: jars from Maven Central, one JVM, a folder of plug-ins.

Owns: class path, plug-in folder and log set-up of the Java worker. Everything else is WorkerProcess's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.class_archives import ArchiveAtEnd
from spark_connect_rt.engine.startup.java_home import Java, find_java
from tests.support.worker_process import WorkerProcess

COORDINATES = (
    f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-json:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-transforms:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-file:{KAFKA_VERSION}",
    # The worker sets its loggers through log4j2 itself, which connect-runtime does not bring. "!": without
    # their dependency management, which would put an older kafka-clients on the class path.
    "org.apache.logging.log4j:log4j-core:2.24.3!",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3!",
)
LOG_CONFIG = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"


class JavaConnect(WorkerProcess):
    """Runs Apache Kafka's Connect worker in distributed mode as a process.

    ``with JavaConnect(path, kafka.bootstrap_servers, "java-group") as java: java.rest.create(...)``.
    """

    def __init__(
        self,
        directory: Path,
        bootstrap_servers: str,
        group_id: str = "java-connect",
        *,
        properties: Mapping[str, str] | None = None,
        rest_port: int | None = None,
        heap_mb: int = 512,
        java: Java | None = None,
        jars: Sequence[Path] | None = None,
        archived: bool = True,
    ) -> None:
        """``archived``: starts with an archive of its classes, at half the CPU.

        False for measurements: users have no archive.
        """
        super().__init__(directory, bootstrap_servers, group_id, properties=properties, rest_port=rest_port)
        self._heap_mb = heap_mb
        self._java = java
        self._jars = jars
        self._archived = archived
        self._archive: ArchiveAtEnd | None = None

    def command(self, properties_file: Path) -> list[str]:
        """Return the java command line; writes the plug-in folder and the log set-up first."""
        java = self._java or find_java()
        jars = list(self._jars or resolve_jars(COORDINATES))
        if "plugin.path" not in self.properties:
            plugins = self._plugin_folder(jars)
            with properties_file.open("a", encoding="utf-8") as file:
                file.write(f"plugin.path={plugins}\n")
        log_config = self.directory / "log4j2.properties"
        log_config.write_text(LOG_CONFIG, encoding="utf-8")
        on_path = [jar for jar in jars if not _is_plugin(jar)]
        self._archive = ArchiveAtEnd("java-connect", java, on_path) if self._archived else None
        return [
            str(java.executable),
            *(self._archive.options_to_write() if self._archive else ()),
            "-Xms256m",
            f"-Xmx{self._heap_mb}m",
            f"-Dlog4j2.configurationFile={log_config}",
            "-cp",
            os.pathsep.join(map(str, on_path)),
            MAIN_CLASS,
            str(properties_file),
        ]

    def stop(self, timeout_s: float = 30.0) -> int | None:
        """As any worker's; the first one that stops in order writes the archive."""
        code = super().stop(self._archive.limit_s(timeout_s) if self._archive else timeout_s)
        if self._archive is not None:
            self._archive.keep()
        return code

    def _plugin_folder(self, jars: Sequence[Path]) -> Path:
        folder = self.directory / "plugins" / "connect-file"
        folder.mkdir(parents=True, exist_ok=True)
        for jar in filter(_is_plugin, jars):
            link = folder / jar.name
            if not link.exists():
                link.symlink_to(jar)
        return folder.parent


def _is_plugin(jar: Path) -> bool:
    return jar.name.startswith("connect-file")
