"""Java's own file connectors on a worker of ours: a plugin.path in Java's layout, and where their JVMs are."""

from __future__ import annotations

from pathlib import Path

import psutil

from spark_connect_rt.base.cache import resolve_jars
from tests.support.java_connect import COORDINATES
from tests.support.worker_process import WorkerProcess

HOST = "org.sparkconnectrt.host.Host"
ON_JAVA = {
    "connectrt.runtime": "java",
    "connectrt.java.heap": "64m",
    "connectrt.java.options": "-XX:TieredStopAtLevel=1",
}


def java_plugin_path(folder: Path) -> Path:
    """Make a folder with Kafka's file connectors, in a folder of jars, and a jar that is none; return it."""
    (folder / "connect-file" / "lib").mkdir(parents=True)
    for jar in resolve_jars(COORDINATES):
        if jar.name.startswith("connect-file-"):
            (folder / "connect-file" / "lib" / jar.name).symlink_to(jar)
    (folder / "broken.jar").write_bytes(b"not a jar")
    return folder


def task_jvms(worker: WorkerProcess) -> list[psutil.Process]:
    """Return the JVMs that host tasks of connectors with the settings ON_JAVA."""
    below = psutil.Process(worker.pid).children(recursive=True)
    return [
        process for process in below if {HOST, f"-Xmx{ON_JAVA['connectrt.java.heap']}"} <= set(_command_of(process))
    ]


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it is gone by now
        return []


def drivers_jvm(worker: WorkerProcess) -> psutil.Process | None:
    """Return the JVM beside the driver, None while there is none."""
    children = psutil.Process(worker.pid).children()
    return next((child for child in children if HOST in _command_of(child)), None)
