"""Starts Spark's JVM and opens pyspark's gateway into it.

Owns by which command: that of an earlier start where it would be the same (``command.py``), else ``spark-submit``.
By the former it can be started before pyspark is imported (``start_early``): who opens the gateway takes it then, if it
is the one that would be started now.
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

# Starts Spark's JVM by the command that ``spark-submit`` made last time: without its shells, Python and launcher.
#
# Owns when that is the same and where the command is kept. ``spark-submit`` runs two shells, a Python and a JVM to
# write the JVM's command line, and the class ``SparkSubmit`` reads it again: 0.7 CPU s that a start waits for. What
# comes out is the same each time as long as nobody configured anything for it, so it is kept beside the archive of
# classes, with the same key. Where anything was configured, ``spark-submit`` runs.


STARTER = Path(__file__).with_name("from_record.sh")
RECORD, HOME = "CONNECTRT_JVM_COMMAND", "CONNECTRT_SPARK_HOME"  # for the starter
MAIN = "org.apache.spark.deploy.SparkSubmit"
_FILES = ("spark-defaults.conf", "spark-env.sh", "java-opts")
_ENVIRONMENT = ("SPARK_", "PYSPARK_SUBMIT", "HADOOP_", "YARN_")
_SESSION = ("spark.sql.", "spark.ui.", "spark.executorEnv.", "spark.app.name", "spark.master")


def is_plain(
    conf: Mapping[str, str], known: Mapping[str, str], environment: Mapping[str, str], spark_home: Path
) -> bool:
    """Tell whether ``spark-submit`` has nothing to look at but this installation.

    Args:
        conf: what the JVM is to be started with.
        known: settings that are ours, with our values; JAVA_OPTIONS may have more words.
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
    """Return where the command of this environment, Spark and Java is kept; None: no Java was chosen."""
    home = environment.get("JAVA_HOME")
    return archive_path(Path(home)).with_suffix(".args") if home else None


def options_of(command: Sequence[str], conf: Mapping[str, str]) -> list[str] | None:
    """Return the JVM's options in its command line, less those of ``conf``; None: it is another program's."""
    if MAIN not in command:
        return None
    ours = set(conf[JAVA_OPTIONS].split())
    return [word for word in command[1 : command.index(MAIN)] if word not in ours]


def as_argument_file(words: Sequence[str]) -> str:
    """Return words as a file that ``java @FILE`` reads."""
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for word in words)
    return "".join(f'"{word}"\n' for word in quoted)


def keep_command(pid: int, conf: Mapping[str, str], record: Path) -> None:
    """Keep the command of a JVM that ``spark-submit`` started, for the next start. Never raises."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
        options = options_of(words, conf)
        if options is not None:
            record.parent.mkdir(parents=True, exist_ok=True)
            half = record.with_suffix(f".{pid}")
            half.write_text(as_argument_file(options), encoding="utf-8", errors="surrogateescape")
            half.replace(record)


def use_record(environment: MutableMapping[str, str], record: Path, spark_home: Path) -> bool:
    """Make ``STARTER`` run the kept command, in this environment; False: there is none of this Spark's folder."""
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
START_LIMIT_S = 180.0  # for Spark's JVM to say where it listens: some seconds, on a machine that has room
log = logging.getLogger(__name__)


class _Patience:
    """In place of the module ``time``, where a JVM is waited for: its sleeps end at a limit."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + START_LIMIT_S

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises TimeoutError: the limit has passed."""
        if time.monotonic() >= self._until_s:
            raise TimeoutError(
                f"Spark's JVM was started but did not report its port within {START_LIMIT_S:g} s. Check its output "
                "above, and whether the machine has free memory and processor time"
            )
        time.sleep(seconds)


@dataclass(frozen=True, eq=False)
class StartingJvm:
    """A JVM that was started by the kept command, and by what."""

    process: subprocess.Popen[bytes]
    folder: Path  # of the file that it writes its port and secret to
    record: Path  # of the command
    conf: Mapping[str, str]
    java_home: str | None

    def connection(self) -> tuple[int, str]:
        """Wait until it can be connected to; return its port and secret. Raises OSError: it ended before, or hangs."""
        said, patience = self.folder / "connection", _Patience()
        while not said.is_file():
            if self.process.poll() is not None:
                raise ChildProcessError(f"it ended with code {self.process.returncode}")
            patience.sleep(LOOK_S)
        data = said.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + length].decode()

    def end(self) -> None:
        """End it; nothing runs in it yet. Waits for some seconds."""
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
        """Remove what it said how to connect to it."""
        shutil.rmtree(self.folder, ignore_errors=True)


_EARLY: list[StartingJvm] = []  # one at most


def start_before_imports(settings: Mapping[str, str]) -> bool:
    """Start the JVM of a worker with these settings before anything of Spark is imported.

    Changes JAVA_HOME, PYTHONPATH and PYSPARK_PYTHON of this process as the worker itself would. Returns False if no JVM
    was started: no command is kept, the master is not local, a provider has to resolve a setting, or the worker is the
    quickstart or would be refused. Raises OSError.
    """
    asked, given, home = of_session(settings), os.environ.get("JAVA_HOME"), first_java(os.environ)
    # The quickstart's JVM writes to a file of its own.
    if connect_session_of(settings, os.environ):
        return False  # the worker refuses it
    if asked is None or home is None or settings.get(JOB, "worker") == "quickstart":
        return False
    os.environ["JAVA_HOME"] = str(home)
    conf = session_conf(*asked)
    if is_local(conf["spark.master"]):
        make_importable(conf)
        if starter_serves(os.environ, local=True) and open_door():  # the JVM hands its place on
            atexit.register(close_door)
        atexit.register(end_early)
        if start_early(conf):
            return True
    if given is None:  # nobody has asked this Java yet whether it serves
        del os.environ["JAVA_HOME"]
    return False


def start_early(conf: Mapping[str, str]) -> bool:
    """Start the JVM that ``open_gateway`` takes for the same settings; False: no command is kept. Raises OSError."""
    started = _start_kept(conf)
    if started is not None:
        _EARLY.append(started)
    return started is not None


def early_descriptors() -> list[int]:
    """Return what a fork of this process must close, or the JVM would outlive this one."""
    return [starting_jvm.process.stdin.fileno() for starting_jvm in _EARLY if starting_jvm.process.stdin is not None]


def end_early() -> None:
    """End a JVM that was started early and that nobody took. Waits for some seconds."""
    while _EARLY:
        _EARLY.pop().end()


def open_gateway(conf: Mapping[str, str]) -> Any:
    """Start the JVM, unless that was done early; return pyspark's gateway. Blocks for a second."""
    from pyspark import SparkConf  # where the JVM is started early, it comes up while this is imported
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
    """Return the JVM that was started early, once; None: there is none, or it is another than would be started now."""
    if not _EARLY:
        return None
    early = _EARLY.pop()
    if early.conf == dict(conf) and early.java_home == os.environ.get("JAVA_HOME"):
        return early
    early.end()
    return None


def record_of(conf: Mapping[str, str]) -> Path | None:
    """Return where the command for these settings is kept; None: ``spark-submit`` has to be asked each time."""
    home, record = folder_of("pyspark"), record_path(os.environ)
    known = {**DEFAULT_CONF, **LOCAL_CONF, **engine_conf()}
    plain = home is not None and is_local(conf["spark.master"]) and is_plain(conf, known, os.environ, home)
    return record if plain and "PYSPARK_GATEWAY_PORT" not in os.environ else None


def _start_kept(conf: Mapping[str, str]) -> StartingJvm | None:
    """Start a JVM by the kept command, out of the terminal's reach; None: there is no such command."""
    home, record = folder_of("pyspark"), record_of(conf)
    if record is None or home is None or not use_record(os.environ, record, home):
        return None
    command = [str(STARTER), *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}"))]
    folder = Path(tempfile.mkdtemp(prefix="connectrt-"))  # 0700: keeps others out
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", CONNECTION: str(folder / "connection")}
    process = subprocess.Popen(
        [*command, "pyspark-shell"], stdin=subprocess.PIPE, env=environment, start_new_session=True
    )
    return StartingJvm(process, folder, record, dict(conf), os.environ.get("JAVA_HOME"))


class _Surroundings:
    """The module ``os`` with an environment of its own: other threads look at this process's."""

    def __init__(self, more: Mapping[str, str]) -> None:
        self.environ = {**os.environ, **more}

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def _connected(started: StartingJvm) -> Any:
    """Wait for the JVM; return pyspark's gateway to it. Raises OSError: it ended; what pyspark raises."""
    port, secret = started.connection()
    started.forget()
    # pyspark connects to a JVM that is there by two variables of the environment. They would tell the rest of this
    # process, and what it starts meanwhile, that spark-submit made the JVM: so pyspark alone sees them.
    surroundings = _Surroundings({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret})
    gateway = _pyspark_launch(os=surroundings)()
    gateway.proc = started.process
    return gateway


def _launched(conf: Any) -> Any:
    """Have pyspark start the JVM and return its gateway. Raises TimeoutError: pyspark itself would wait for ever."""
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
    """Return pyspark's ``launch_gateway``, for which these names of its module mean something else."""
    from pyspark.java_gateway import launch_gateway

    return FunctionType(
        launch_gateway.__code__, {**launch_gateway.__globals__, **names}, argdefs=launch_gateway.__defaults__
    )
