"""The settings of a worker's session and the environment of its JVM (docs/explanation/spark_costs.md).

Owns every Spark setting the engine depends on, and where Spark's Python processes find the package. Imports nothing of
Spark: the JVM is started before pyspark is imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from spark_connect_rt.engine.startup.process_python import ARCHIVES_IN_PLACE, FREED_GIVEN_BACK, use_this_python
from spark_connect_rt.engine.startup.spark_version import UNIX_SOCKETS, VERSION, has
from spark_connect_rt.engine.startup.zygote import paths_of

# Where the archive of Spark's classes lies: it belongs to one environment, one Java and one Spark.
#
# Imports nothing of Spark: a JVM is started before pyspark is imported.


JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def archive_path(java_home: Path) -> Path:
    """Return where the archive of this environment and Java lies, or would lie."""
    home = java_home.resolve()
    release = home / "release"
    release_bytes = release.read_bytes() if release.is_file() else b""
    key = hashlib.sha256(os.fsencode(home) + release_bytes).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "connectrt" / f"spark-{VERSION}-{key}.jsa"


def archive_option() -> str:
    """Return the JVM's option that maps the archive; empty when there is none."""
    path = _chosen()
    return f"-XX:SharedArchiveFile={path}" if path is not None and path.is_file() else ""


def classes_path() -> Path | None:
    """Return the folder of classes that were compiled with the archive, or would be; None: no Java was chosen."""
    path = _chosen()
    return None if path is None else classes_of(path)


def classes_of(archive: Path) -> Path:
    """Return the folder of classes that are compiled with an archive."""
    return archive.with_suffix("")


def _chosen() -> Path | None:
    home = _java_home()
    return None if home is None else archive_path(home)


def _java_home() -> Path | None:
    given = os.environ.get("JAVA_HOME")
    if given:
        return Path(given)
    found = shutil.which("java")
    return Path(found).resolve().parent.parent if found else None


LOCAL_SLOTS = 64  # threads of local[*]: slots idle in them, so this has nothing to do with cores
ENGINE_CONF = {  # required by slices. A worker property of the same name does not override them
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "64",
    "spark.python.daemon.module": "spark_connect_rt.engine.executor.daemon",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
}
DEFAULT_CONF = {
    "spark.python.task.killTimeout": "500ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A third of the CPU of the first half minute is C2 compiling what runs once: let it wait for what stays hot.
    # Measured: 3.7 CPU s less to the first slice, the same speed warm (C1 alone writes Parquet three times slower).
    # The heap starts small: a 64th of the machine otherwise, all of its young part used before the first collection.
    # It grows when that is not enough. A third of it would be young, and all of that is used before it is collected.
    JAVA_OPTIONS: (
        "-XX:+UseSerialGC -XX:InitialHeapSize=128m -XX:NewSize=16m "
        "-XX:Tier4InvocationThreshold=300000 -XX:Tier4MinInvocationThreshold=100000 "
        "-XX:Tier4CompileThreshold=600000 -XX:Tier4BackEdgeThreshold=2000000 "
        # jstat's counters are renewed each second, not twenty times
        f"-XX:PerfDataSamplingInterval=1000 {' '.join((*ARCHIVES_IN_PLACE, *FREED_GIVEN_BACK))}"
    ),
}

NOTHING_GIVEN: Mapping[str, str] = MappingProxyType({})
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"

LOCAL_CONF = {  # Spark would have a thread for each of the LOCAL_SLOTS, and they have next to nothing to do
    "spark.rpc.netty.dispatcher.numThreads": "4",
    "spark.shuffle.mapOutput.dispatcher.numThreads": "1",
}


def of_session(settings: Mapping[str, str]) -> tuple[dict[str, str], str] | None:
    """Return what of a worker file the session is made by: ``spark.*`` and the group.

    None: a provider of configuration is still to say a value.
    """
    spark = {name: value for name, value in settings.items() if name.startswith("spark.")}
    unresolved = any("${" in value for value in spark.values())
    return None if unresolved else (spark, settings.get("group.id") or "worker")


def connect_session_of(settings: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (setting or variable, its value) by which Spark would make a session of Spark Connect; None: none does.

    pyspark reads the variables whatever a session's builder is given, and ``spark-submit --remote`` sets them.
    """
    if settings.get("spark.remote"):
        return "spark.remote", settings["spark.remote"]
    if settings.get("spark.api.mode", "").strip().lower() == "connect":
        return "spark.api.mode", settings["spark.api.mode"]
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if environment.get(name):
            return name, environment[name]
    return None


def engine_conf(given: Mapping[str, str] = NOTHING_GIVEN, version: str = VERSION) -> dict[str, str]:
    """Return what slices need of Spark of this version; ``given``: the session's other settings, with its master."""
    if not has(UNIX_SOCKETS, version):
        return dict(ENGINE_CONF)
    return {**ENGINE_CONF, "spark.python.unix.domain.socket.enabled": str(_socket_paths_fit(given)).lower()}


def _socket_paths_fit(given: Mapping[str, str]) -> bool:
    """Return whether paths of Unix sockets fit into the 107 characters that Linux allows. Otherwise Spark uses TCP.

    Spark makes them in ``java.io.tmpdir``. On YARN that is the container's folder, whose path alone has 100 characters
    and more. Each Python process of executors would end at its start, and in cluster mode the driver's, too.
    """
    return given.get("spark.master") != "yarn" or SOCKET_FOLDER in given


def session_conf(properties: Mapping[str, str], group: str = "worker") -> dict[str, str]:
    """Return the settings of the session: ours, then every ``spark.*`` worker property, then what slices need.

    ``group`` names the application unless the properties do.
    """
    given = {name: value for name, value in properties.items() if name.startswith("spark.")}
    conf = {**DEFAULT_CONF, **given}
    conf["spark.master"] = _master(given.get("spark.master", "local[*]"))
    local = is_local(conf["spark.master"])
    if local:
        conf = {**LOCAL_CONF, **conf}
        if JAVA_OPTIONS not in given:
            conf[JAVA_OPTIONS] = f"{conf[JAVA_OPTIONS]} {archive_option()}".rstrip()
    one_machine = local or conf["spark.master"].startswith("local-cluster")
    if not one_machine:  # executors elsewhere must reach the driver: Spark or the user knows its address
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            if name not in given:
                del conf[name]
    conf.setdefault("spark.app.name", f"connectrt-{group or 'worker'}")
    return {**conf, **engine_conf(conf)}


def _master(master: str) -> str:
    return f"local[{LOCAL_SLOTS}]" if master in ("local", "local[*]") else master


def is_local(master: str) -> bool:
    """Return whether driver and executors are one JVM."""
    return master == "local" or master.startswith("local[")


def _package_root() -> str:
    """Return the folder (or zip) that holds the package."""
    return str(Path(__file__).resolve().parents[3])


def executor_python_path(master: str, paths: Sequence[str], given: str | None) -> str | None:
    """Return the PYTHONPATH of Python processes of executors, and of planners on the driver's machine. None: not set.

    Args:
        master: of the session.
        paths: the driver's, the package's folder or archive first.
        given: the user's own setting, None if there is none.
    """
    if is_local(master) or master.startswith("local-cluster"):
        return given or os.pathsep.join(paths)
    package = Path(paths[0])
    if not package.is_file():  # a folder: executors have their own copy
        return given
    # Spark copies what --py-files names into the working directory of each executor, but puts only .zip, .egg and .jar
    # on the path, and that too late for the daemon's module. The whole path is for planners, on the driver's machine.
    return os.pathsep.join([*filter(None, [given]), package.name, str(package)])


def make_importable(conf: dict[str, str]) -> None:
    """Have Python processes that Spark starts import the package, and those on this machine use this interpreter.

    A JVM that spark-submit started got its environment there; the settings below then only name the same.
    """
    paths = import_paths()
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    use_this_python(os.environ, is_local(conf["spark.master"]))
    name = "spark.executorEnv.PYTHONPATH"
    found = executor_python_path(conf["spark.master"], paths, conf.get(name))
    if found:
        conf[name] = found


def import_paths() -> list[str]:
    """Return the PYTHONPATH of Python processes on this machine, each entry once."""
    return list(dict.fromkeys([_package_root(), *paths_of(os.environ)]))
