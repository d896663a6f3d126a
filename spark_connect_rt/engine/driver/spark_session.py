"""Makes the SparkSession in the background, tuned for slices (docs/explanation/spark_costs.md).

Read it downward: the start ahead of the worker, the session, the plug-ins that executors get, the session as a future,
and the watch of its JVM. REST and membership must not wait for Spark. The settings come from ``session_conf.py``, and
``gateway.py`` starts the JVM.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import socket
import subprocess
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.sql import SparkSession

from spark_connect_rt.base.pandas_on_demand import import_without_pandas, load_pandas_on_demand
from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere
from spark_connect_rt.config.connectrt_config import ENGINE
from spark_connect_rt.engine.driver.slot_session import make_active
from spark_connect_rt.engine.executor.daemon import prepare_zygote
from spark_connect_rt.engine.executor.shipped_plugins import JAVA_HOST, shipped_name
from spark_connect_rt.engine.startup.gateway import early_descriptors, open_gateway, record_of
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.engine.startup.ml_functions import NOT_READY, registered_later
from spark_connect_rt.engine.startup.process_python import starter_serves
from spark_connect_rt.engine.startup.session_conf import (
    connect_session_of,
    import_paths,
    is_local,
    make_importable,
    of_session,
    session_conf,
)
from spark_connect_rt.engine.startup.spark_version import what_is_off
from spark_connect_rt.engine.startup.zygote import run_daemon, start_zygote

log = logging.getLogger(__name__)
_LAUNCH_LOCK = threading.Lock()
_BEGUN = threading.Event()
_AHEAD: list[tuple[dict[str, str], Future[SparkSession]]] = []  # at most one session

SQL_CLASSES = tuple(
    f"org.apache.spark.sql.{name}"
    for name in (
        "internal.SQLConf$",
        "catalyst.parser.CatalystSqlParser$",
        "catalyst.analysis.FunctionRegistry$",
        "catalyst.analysis.TableFunctionRegistry$",
    )
)
SQL_LIMIT_S = 30.0
END_LIMIT_S = 5.0


# Ahead of the worker: the JVM, then the session, while the rest of the worker is imported.


def start_jvm_ahead(settings: Mapping[str, str]) -> None:
    """Begin to start the JVM and the session on a separate thread, and return at once.

    Does nothing below spark-submit, which has started the JVM, or with unresolved settings. An error is not raised,
    because ``build_session`` meets it again and reports it.

    Args:
        settings: those of a worker file. ``spark.*`` and ``group.id`` count.
    """
    asked = of_session(settings)
    if asked is None or "PYSPARK_GATEWAY_PORT" in os.environ or connect_session_of(settings, os.environ):
        return
    spark, group = asked
    load_pandas_on_demand()
    import_bridge()  # here: two threads that import the same circle of modules would see only half of it
    start_zygote_for(spark)  # before there are threads. It inherits the imports so far, and continues in parallel
    launched = threading.Event()
    threading.Thread(target=_start_ahead, args=(spark, group, launched), name="spark-jvm", daemon=True).start()
    atexit.register(_end_unused, launched)


def _start_ahead(spark: Mapping[str, str], group: str, launched: threading.Event) -> None:
    try:
        os.environ["JAVA_HOME"] = str(find_java().home)
        launch_ahead(spark, group)
        launched.set()
        session_ahead(spark, group)
    except Exception:
        log.debug("Spark was not prestarted", exc_info=True)
    finally:
        launched.set()


def _end_unused(launched: threading.Event) -> None:
    """End a JVM that this process has not used when it ends, so that nothing of a worker is left."""
    if session_begun():
        return
    launched.wait(END_LIMIT_S)
    process = getattr(SparkContext._gateway, "proc", None)
    logging.disable()  # calls of the session's thread break off. The log must end with the reason of the failed start
    if process is not None and process.stdin is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.stdin.close()
            process.wait(END_LIMIT_S)


def import_bridge() -> None:
    """Import the modules that the first call into the JVM would import, but without pandas."""
    import_without_pandas("pyspark.testing.utils")


def runs_here(properties: Mapping[str, str]) -> bool:
    """Return whether tasks of a worker with these properties run on this machine alone."""
    return is_local(properties.get("spark.master") or _submitted_master() or "local[*]")


def start_zygote_for(properties: Mapping[str, str]) -> bool:
    """Fork the process that forks a local Spark's Python processes. Returns False if they import by themselves.

    Call it while this process has one thread, and before ``launch_ahead``.
    """
    local = runs_here(properties)
    if not local or not starter_serves(os.environ, local):
        return False
    return start_zygote(prepare_zygote, run_daemon, import_paths(), early_descriptors())


def _submitted_master() -> str | None:
    """Return the master that spark-submit was given. None: this process starts its JVM itself."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()  # type: ignore[attr-defined]
    master: str | None = SparkConf().get("spark.master")
    return master


def launch_ahead(properties: Mapping[str, str], group: str) -> None:
    """Start the JVM that ``build_session`` will use for the same properties. Blocks for a second."""
    conf = session_conf(properties, group)
    make_importable(conf)
    _launch_jvm(conf)


def _launch_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM, unless there is one, in a separate session.

    A terminal that is closed sends SIGHUP to its processes. This process stops in order then, and needs Spark for that.
    The JVM ends with this process in any case, because it reads the end of its standard input.
    """
    with _LAUNCH_LOCK:
        if SparkContext._gateway is None:
            import_bridge()
            gateway = open_gateway(conf)
            SparkContext._ensure_initialized(gateway=gateway)  # type: ignore[attr-defined]


def session_ahead(properties: Mapping[str, str], group: str) -> None:
    """Build the session that ``build_session`` will return for the same properties, unless that has begun.

    Blocks for seconds. Does nothing without a local master, so that a worker with invalid settings leaves nothing on a
    cluster.
    """
    conf, future = session_conf(properties, group), Future[SparkSession]()
    if not is_local(conf["spark.master"]):
        return
    make_importable(conf)
    with _LAUNCH_LOCK:
        if _BEGUN.is_set():
            return
        _AHEAD.append((conf, future))
    try:
        future.set_result(_session_of(conf))
    except BaseException as error:
        future.set_exception(error)
        raise


def session_begun() -> bool:
    """Return whether this process has begun to build a session. Then the JVM belongs to that session."""
    return _BEGUN.is_set()


# The session: the one that was begun ahead if its settings are the same, else a new one.


def build_session(
    properties: Mapping[str, str],
    group: str = "worker",
    log_level: str = ENGINE["connectrt.spark.log.level"].default,
    shipped: Sequence[str] = (),
    java_jars: Callable[[], Sequence[Path]] = tuple,
) -> SparkSession:
    """Build the session, or complete it under spark-submit. Blocks for seconds.

    Args:
        properties: ``spark.*`` counts. The master is the worker file's, else spark-submit's, else local[*].
        group: names the application unless the properties do.
        log_level: of Spark itself.
        shipped: folders of plug-ins for executors on other machines.
        java_jars: finds the jars that host Java plug-ins for these executors. Empty without such plug-ins.
    """
    with _LAUNCH_LOCK:
        _BEGUN.set()
    submitted = _submitted_master() if "spark.master" not in properties else None
    conf = session_conf({**properties, "spark.master": submitted} if submitted else properties, group)
    make_importable(conf)
    _launch_jvm(conf)
    session = _built_ahead(conf) or _session_of(conf)
    session.sparkContext.setLogLevel(log_level)
    if what_is_off():
        log.info(what_is_off())
    if not is_local(conf["spark.master"]):
        ship_plugins(session.sparkContext, shipped, java_jars())
    return session


def _built_ahead(conf: Mapping[str, str]) -> SparkSession | None:
    """Wait for the session that was begun ahead, once. None: there is none, it failed, or it has other settings."""
    if not _AHEAD:
        return None
    settings, future = _AHEAD.pop()
    try:
        session = future.result()
    except Exception:  # the caller's attempt fails again and reports it
        log.debug("the Spark session was not built in advance", exc_info=True)
        return None
    if settings == dict(conf):
        return session
    session.stop()
    return None


def _session_of(conf: Mapping[str, str]) -> SparkSession:
    plain = record_of(conf) is not None  # before pyspark's context adds to the environment
    if SparkContext._jvm is not None:
        _begin_context(conf)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    with registered_later(SparkContext._gateway, plain):
        session: SparkSession = builder.getOrCreate()
    return session


def _begin_context(conf: Mapping[str, str]) -> None:
    """Start Spark's context, which takes one core, and load the classes that only SQL uses in parallel.

    SQL runs only after both. Two threads that initialize the same classes from two ends could wait for each other
    without end.
    """
    loading = threading.Thread(target=_load_sql, args=(SparkContext._jvm,), name="spark-sql-classes", daemon=True)
    loading.start()
    try:
        SparkContext.getOrCreate(SparkConf().setAll(list(conf.items())))
    finally:
        loading.join(SQL_LIMIT_S)


def _load_sql(jvm: Any) -> None:
    """Load the classes of the first plan in the JVM. Skips classes that this Spark has elsewhere. Blocks."""
    for name in SQL_CLASSES:
        with contextlib.suppress(*NOT_READY):
            jvm.java.lang.Class.forName(name)


# Executors on other machines get the folders of ``plugin.path`` as archives, which Spark unpacks there.
#
# With ``local[*]`` nothing is sent, because driver and executors share a machine. With ``connectrt.plugins.ship=false``
# every machine has the folders at the same paths, by an image or a shared disk.


def ship_plugins(context: SparkContext, folders: Sequence[str], jars: Sequence[Path] = ()) -> list[str]:
    """Give every executor a copy of each existing folder or single jar, and return the names of the copies.

    ``jars`` host Java plug-ins. They are sent, too.
    """
    sent: list[str] = []
    # Executors fetch the archives when they start, at any time: these must live as long as the session, whose own
    # folder this is.
    made = Path(SparkFiles.getRootDirectory()) / "connectrt-plugin-archives"
    for number, folder in enumerate(map(Path, folders)):
        if not folder.exists():
            continue
        name = shipped_name(number)
        if folder.is_dir():
            archive = shutil.make_archive(str(made / name), "zip", root_dir=folder)
        else:
            archive = _archive_of(made / name, [folder])
        context.addArchive(f"{archive}#{name}")
        log.info("plug-ins of %s are sent to executors: %d bytes", folder, Path(archive).stat().st_size)
        sent.append(name)
    if jars:
        archive = _archive_of(made / JAVA_HOST, jars)
        context.addArchive(f"{archive}#{JAVA_HOST}")
        log.info("the Java host is sent to executors: %d bytes", Path(archive).stat().st_size)
        sent.append(JAVA_HOST)
    return sent


def _archive_of(name: Path, files: Sequence[Path]) -> str:
    """Write an archive of single files without folders, and return its path."""
    archive = name.with_suffix(".zip")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as content:
        for file in files:
            content.write(file, file.name)
    return str(archive)


# The session that a worker uses while it is built, and until its JVM ends.


SessionFactory = Callable[[], SparkSession]


class BackgroundSession:
    """A session that a separate thread builds. ``get`` also makes it the session of the calling thread."""

    def __init__(self, factory: SessionFactory, report: Report = report_nowhere) -> None:
        """``report`` is called if the session cannot be made, or if its JVM ends. It is never made again."""
        self._future: Future[SparkSession] = Future()
        self._factory = factory
        self._report = report
        self._watch: JvmWatch | None = None
        self._gone = self._closed = False
        threading.Thread(target=self._build, name="spark-session", daemon=True).start()

    def _build(self) -> None:
        try:
            session = self._factory()
            self._watch = watch_jvm(session, self._on_gone)
            self._future.set_result(session)
        except BaseException as error:
            self._future.set_exception(error)
            if not self._closed:
                self._report(SupervisedPart.SPARK, f"the session cannot be created: {type(error).__name__}: {error}")
            if not isinstance(error, Exception):
                raise

    def _on_gone(self, why: str) -> None:
        self._gone = True
        self._report(SupervisedPart.SPARK, why)

    def close(self, stops: bool) -> None:
        """End the watch of the JVM. With ``stops`` also end Spark, if it runs. Never waits for a JVM that is gone."""
        self._closed = True
        if self._watch is not None:
            self._watch.stop()
        up = self._future.done() and self._future.exception() is None
        if stops and up and not self._gone:
            self.get().stop()

    def ready(self) -> bool:
        """Return whether the session is built, or has failed."""
        return self._future.done()

    def get(self, timeout_s: float | None = None) -> SparkSession:
        """Wait for the session, and make it the calling thread's. Raises the error of the build."""
        session = self._future.result(timeout_s)
        make_active(session)
        return session


# The watch notices that the JVM of a session is gone, or that its SparkContext was stopped.
#
# It holds an idle connection to the JVM's gateway. It ends with the JVM, whether by kill -9, System.exit or
# out of memory. The JVM may be a child of this process or its parent. Calls into a dead JVM only fail one by one.


LOOK_EVERY_S = 5.0
CONNECT_LIMIT_S = 10.0
JVM_ENDED = "its JVM ended"
CONTEXT_STOPPED = "its SparkContext was stopped"


class JvmWatch:
    """Watches a JVM on a separate thread until ``stop``."""

    def __init__(self, address: tuple[str, int], is_stopped: Callable[[], bool], gone: Callable[[str], None]) -> None:
        """Watch the gateway at ``address``.

        ``is_stopped`` asks the JVM whether the context was stopped, and may raise. ``gone`` gets the reason, once.
        """
        self._address = address
        self._is_stopped = is_stopped
        self._gone = gone
        self._stopped = False
        threading.Thread(target=self._run, name="jvm-watch", daemon=True).start()

    def stop(self) -> None:
        """End the watch without a report, because Spark is being stopped."""
        self._stopped = True

    def _run(self) -> None:
        why = self._await_end()
        if not self._stopped:
            self._gone(why)

    def _await_end(self) -> str:
        try:
            with socket.create_connection(self._address, CONNECT_LIMIT_S) as line:
                line.settimeout(LOOK_EVERY_S)
                while not self._stopped and not self._ended(line):
                    if self._context_stopped():
                        return CONTEXT_STOPPED
        except OSError as error:
            log.debug("the gateway's connection broke: %s", error)
        return JVM_ENDED

    @staticmethod
    def _ended(line: socket.socket) -> bool:
        try:
            return not line.recv(1)
        except TimeoutError:
            return False

    def _context_stopped(self) -> bool:
        try:
            return self._is_stopped()
        except Exception as error:  # noqa: BLE001 - any error of py4j: only the connection shows whether the JVM lives
            log.debug("the SparkContext does not answer: %s", error)
            return False


def watch_jvm(session: Any, gone: Callable[[str], None]) -> JvmWatch | None:
    """Watch the JVM of a session. None: the session has no JVM in reach, as with Spark Connect."""
    context = getattr(session, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if context is None or gateway is None:
        return None
    parameters = gateway.gateway_parameters
    return JvmWatch((parameters.address, parameters.port), lambda: bool(context._jsc.sc().isStopped()), gone)
