"""Starts Spark's JVM, and opens pyspark's gateway into it.

The command is that of an earlier start if it would be the same, else ``spark-submit`` runs. With the earlier command
the JVM can start before pyspark is imported (``start_before_imports``). ``open_gateway`` takes that JVM later, if it
has the settings that are wanted then.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from spark_connect_rt.engine.startup.java_home import first_java
from spark_connect_rt.engine.startup.process_python import starter_serves
from spark_connect_rt.engine.startup.session_conf import (
    DEFAULT_CONF,
    JAVA_OPTIONS,
    LOCAL_CONF,
    archive_path,
    connect_session_of,
    engine_conf,
    is_local,
    make_importable,
    of_session,
    session_conf,
)
from spark_connect_rt.engine.startup.spark_version import folder_of
from spark_connect_rt.engine.startup.zygote_socket import close_door, open_door

# The command that ``spark-submit`` made last time starts the JVM without its shells, Python and launcher.
#
# ``spark-submit`` runs two shells, a Python and a JVM to write the JVM's command line, and the class ``SparkSubmit``
# reads it again. A start would wait for all of them. The command is the same each time as long as Spark has no
# configuration elsewhere, so it is kept next to the archive of classes, with the same key. With such a configuration,
# ``spark-submit`` runs.


STARTER = Path(__file__).with_name("from_record.sh")
RECORD, HOME = "CONNECTRT_JVM_COMMAND", "CONNECTRT_SPARK_HOME"  # for the starter
MAIN = "org.apache.spark.deploy.SparkSubmit"
_FILES = ("spark-defaults.conf", "spark-env.sh", "java-opts")
_ENVIRONMENT = ("SPARK_", "PYSPARK_SUBMIT", "HADOOP_", "YARN_")
_SESSION = ("spark.sql.", "spark.ui.", "spark.executorEnv.", "spark.app.name", "spark.master")


def is_plain(
    conf: Mapping[str, str], known: Mapping[str, str], environment: Mapping[str, str], spark_home: Path
) -> bool:
    """Return whether the command of ``spark-submit`` depends on this installation alone.

    Args:
        conf: the settings that the JVM would start with.
        known: our own settings with our values. JAVA_OPTIONS may have more words.
        environment: of this process.
        spark_home: pyspark's folder.
    """
    if any((spark_home / "conf" / name).exists() for name in _FILES) or "'" in conf[JAVA_OPTIONS]:
        return False
    for name, value in environment.items():
        if name == "SPARK_HOME":
            if Path(value).resolve() != spark_home.resolve():
                return False
        elif name.startswith(_ENVIRONMENT):
            return False
    if '"' in conf[JAVA_OPTIONS] or not conf[JAVA_OPTIONS].startswith(known[JAVA_OPTIONS]):
        return False
    return all(name in known or name.startswith(_SESSION) for name in conf)


def record_path(environment: Mapping[str, str]) -> Path | None:
    """Return the file of the command for this environment, Spark and Java. None: no Java is set."""
    home = environment.get("JAVA_HOME")
    return archive_path(Path(home)).with_suffix(".args") if home else None


def options_of(command: Sequence[str], conf: Mapping[str, str]) -> list[str] | None:
    """Return the JVM's options in its command line without those of ``conf``. None: another program's command."""
    if MAIN not in command:
        return None
    ours = set(conf[JAVA_OPTIONS].split())
    return [word for word in command[1 : command.index(MAIN)] if word not in ours]


def as_argument_file(words: Sequence[str]) -> str:
    """Return words in the form of a file for ``java @FILE``."""
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for word in words)
    return "".join(f'"{word}"\n' for word in quoted)


def keep_command(pid: int, conf: Mapping[str, str], record: Path) -> None:
    """Keep the command of a JVM that ``spark-submit`` started for the next start. Ignores OSError."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        options = options_of(words, conf)
        if options is not None:
            record.parent.mkdir(parents=True, exist_ok=True)
            half = record.with_suffix(f".{pid}")
            half.write_text(as_argument_file(options), encoding="utf-8", errors="surrogateescape")
            half.replace(record)


def use_record(environment: MutableMapping[str, str], record: Path, spark_home: Path) -> bool:
    """Set the variables by which ``STARTER`` runs the kept command.

    Returns False if there is no command for this Spark's folder.
    """
    try:
        kept = record.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    if f"{spark_home}/jars" not in kept or not os.access(STARTER, os.X_OK):
        return False
    environment[RECORD], environment[HOME] = str(record), str(spark_home)
    return True


JOB = "connectrt.job"
CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"  # the JVM writes its port and secret there
LOOK_S = 0.005
END_LIMIT_S = 5.0
START_LIMIT_S = 180.0  # until Spark's JVM reports its port. It takes some seconds on an idle machine
log = logging.getLogger(__name__)


class _Patience:
    """Replaces the module ``time`` while pyspark waits for a JVM, so that the wait ends at a limit."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + START_LIMIT_S

    def sleep(self, seconds: float) -> None:
        """Sleep as ``time.sleep`` does. Raises TimeoutError after the limit."""
        if time.monotonic() >= self._until_s:
            raise TimeoutError(
                f"Spark's JVM was started but did not report its port within {START_LIMIT_S:g} s. Check its output "
                "above, and whether the machine has free memory and processor time"
            )
        time.sleep(seconds)


@dataclass(frozen=True, eq=False)
class StartingJvm:
    """A JVM that was started with the kept command, and the settings that it has."""

    process: subprocess.Popen[bytes]
    folder: Path  # holds the file with its port and secret
    record: Path  # the file of the command
    conf: Mapping[str, str]
    java_home: str | None

    def connection(self) -> tuple[int, str]:
        """Wait for the JVM, and return its port and secret. Raises OSError if it ended before, or hangs."""
        said, patience = self.folder / "connection", _Patience()
        while not said.is_file():
            if self.process.poll() is not None:
                raise ChildProcessError(f"it ended with code {self.process.returncode}")
            patience.sleep(LOOK_S)
        data = said.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + length].decode()

    def end(self) -> None:
        """End the JVM, in which nothing runs yet. Waits for some seconds."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Remove the file with its port and secret."""
        shutil.rmtree(self.folder, ignore_errors=True)


_EARLY: list[StartingJvm] = []  # at most one JVM


def start_before_imports(settings: Mapping[str, str]) -> bool:
    """Start the JVM of a worker with these settings before anything of Spark is imported.

    Changes JAVA_HOME, PYTHONPATH and PYSPARK_PYTHON of this process as the worker itself would. Returns False if no JVM
    was started. That is so without a kept command, without a local master, with unresolved settings, and for the
    quickstart. Raises OSError.
    """
    asked, given, home = of_session(settings), os.environ.get("JAVA_HOME"), first_java(os.environ)
    # The JVM of the quickstart writes to a separate file.
    if connect_session_of(settings, os.environ):
        return False  # the worker rejects it
    if asked is None or home is None or settings.get(JOB, "worker") == "quickstart":
        return False
    os.environ["JAVA_HOME"] = str(home)
    conf = session_conf(*asked)
    if is_local(conf["spark.master"]):
        make_importable(conf)
        if starter_serves(os.environ, local=True) and open_door():  # the JVM passes the socket on to Python
            atexit.register(close_door)
        atexit.register(end_early)
        if start_early(conf):
            return True
    if given is None:  # it is not checked yet whether this Java is usable
        del os.environ["JAVA_HOME"]
    return False


def start_early(conf: Mapping[str, str]) -> bool:
    """Start the JVM that ``open_gateway`` takes for the same settings. Raises OSError.

    Returns False if no command is kept.
    """
    started = _start_kept(conf)
    if started is not None:
        _EARLY.append(started)
    return started is not None


def early_descriptors() -> list[int]:
    """Return the descriptors that a fork of this process must close. Else the JVM would outlive this process."""
    return [starting_jvm.process.stdin.fileno() for starting_jvm in _EARLY if starting_jvm.process.stdin is not None]


def end_early() -> None:
    """End a JVM that was started early and is still unused. Waits for some seconds."""
    while _EARLY:
        _EARLY.pop().end()


def open_gateway(conf: Mapping[str, str]) -> Any:
    """Start the JVM, or take the one that was started early, and return pyspark's gateway. Blocks for a second."""
    from pyspark import SparkConf  # a JVM that was started early comes up during this import
    from pyspark.errors import PySparkException

    if started := _early_of(conf) or _start_kept(conf):
        try:
            return _connected(started)
        except (OSError, struct.error, PySparkException):
            log.warning("Spark's JVM did not start with its cached command, using spark-submit", exc_info=True)
            started.end()
            started.record.unlink(missing_ok=True)
    gateway = _launched(SparkConf().setAll(list(conf.items())))
    if (record := record_of(conf)) is not None:
        keep_command(gateway.proc.pid, conf, record)
    return gateway


def _early_of(conf: Mapping[str, str]) -> StartingJvm | None:
    """Return the JVM that was started early, once. None: there is none, or it has other settings."""
    if not _EARLY:
        return None
    early = _EARLY.pop()
    if early.conf == dict(conf) and early.java_home == os.environ.get("JAVA_HOME"):
        return early
    early.end()
    return None


def record_of(conf: Mapping[str, str]) -> Path | None:
    """Return the file of the command for these settings. None: ``spark-submit`` has to run each time."""
    home, record = folder_of("pyspark"), record_path(os.environ)
    known = {**DEFAULT_CONF, **LOCAL_CONF, **engine_conf()}
    plain = home is not None and is_local(conf["spark.master"]) and is_plain(conf, known, os.environ, home)
    return record if plain and "PYSPARK_GATEWAY_PORT" not in os.environ else None


def _start_kept(conf: Mapping[str, str]) -> StartingJvm | None:
    """Start a JVM with the kept command in a separate session. None: there is no such command."""
    home, record = folder_of("pyspark"), record_of(conf)
    if record is None or home is None or not use_record(os.environ, record, home):
        return None
    command = [str(STARTER), *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}"))]
    folder = Path(tempfile.mkdtemp(prefix="connectrt-"))  # 0700: other users cannot read it
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", CONNECTION: str(folder / "connection")}
    process = subprocess.Popen(
        [*command, "pyspark-shell"], stdin=subprocess.PIPE, env=environment, start_new_session=True
    )
    return StartingJvm(process, folder, record, dict(conf), os.environ.get("JAVA_HOME"))


class _Surroundings:
    """The module ``os`` with a separate environment, because other threads use that of the process."""

    def __init__(self, more: Mapping[str, str]) -> None:
        self.environ = {**os.environ, **more}

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def _connected(started: StartingJvm) -> Any:
    """Wait for the JVM, and return pyspark's gateway to it. Raises OSError if it ended, and errors of pyspark."""
    port, secret = started.connection()
    started.forget()
    # pyspark connects to a running JVM by two variables of the environment. To the rest of this process, and to its
    # child processes, they would mean that spark-submit made the JVM. So pyspark alone sees them.
    surroundings = _Surroundings({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret})
    gateway = _pyspark_launch(os=surroundings)()
    gateway.proc = started.process
    return gateway


def _launched(conf: Any) -> Any:
    """Have pyspark start the JVM, and return its gateway. Raises TimeoutError, where pyspark would wait without end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*arguments, **more))
        return started[-1]

    try:
        return _pyspark_launch(Popen=start, time=_Patience())(conf, {"start_new_session": True})
    except TimeoutError:
        for process in started:
            process.kill()
            process.wait(END_LIMIT_S)
        raise


def _pyspark_launch(**names: Any) -> FunctionType:
    """Return pyspark's ``launch_gateway`` with other values for these names of its module."""
    from pyspark.java_gateway import launch_gateway

    return FunctionType(
        launch_gateway.__code__, {**launch_gateway.__globals__, **names}, argdefs=launch_gateway.__defaults__
    )
