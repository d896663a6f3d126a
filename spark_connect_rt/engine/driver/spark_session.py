"""Makes the SparkSession, in the background, tuned for slices (docs/explanation/spark_costs.md).

REST and membership must not wait for Spark, so the session is a future. Its settings are ``session_conf.py``'s, its JVM
is ``gateway.py``'s.
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

# Sends the folders of ``plugin.path`` to executors on other machines, as archives that Spark unpacks there.
#
# Nothing is sent where driver and executors are one machine's processes with ``local[*]``, or with
# ``connectrt.plugins.ship=false`` (the folders are at the same paths on every machine: an image, a shared disk).


log = logging.getLogger(__name__)


def ship_plugins(context: SparkContext, folders: Sequence[str], jars: Sequence[Path] = ()) -> list[str]:
    """Give every executor a copy of each folder (or single jar) that is there; return the names of the copies.

    ``jars``: those that host Java plug-ins; sent where there are some.
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
    """Write an archive of single files, side by side; return its path."""
    archive = name.with_suffix(".zip")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as content:
        for file in files:
            content.write(file, file.name)
    return str(archive)


# Notices that the JVM behind a session is gone, or that its SparkContext was stopped.
#
# A connection to the JVM's gateway that no one speaks on ends when the JVM does, however it ends (kill -9, out of
# memory, System.exit), whether it is a child of this process or its parent. Calls into a dead JVM only fail one by
# one.


LOOK_EVERY_S = 5.0
CONNECT_LIMIT_S = 10.0
JVM_ENDED = "its JVM ended"
CONTEXT_STOPPED = "its SparkContext was stopped"


class JvmWatch:
    """Watches from a thread of its own until ``stop``."""

    def __init__(self, address: tuple[str, int], is_stopped: Callable[[], bool], gone: Callable[[str], None]) -> None:
        """Watch the gateway at ``address``; ``gone`` gets the reason, once. ``is_stopped`` asks the JVM; may raise."""
        self._address = address
        self._is_stopped = is_stopped
        self._gone = gone
        self._stopped = False
        threading.Thread(target=self._run, name="jvm-watch", daemon=True).start()

    def stop(self) -> None:
        """Say nothing any more: Spark is being stopped."""
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
        except Exception as error:  # noqa: BLE001 - whatever py4j says: the connection tells whether the JVM lives
            log.debug("the SparkContext does not answer: %s", error)
            return False


def watch_jvm(session: Any, gone: Callable[[str], None]) -> JvmWatch | None:
    """Watch the JVM of a session; None: it has none of its own in reach (Spark Connect)."""
    context = getattr(session, "_sc", None)
    gateway = getattr(context, "_gateway", None)
    if context is None or gateway is None:
        return None
    parameters = gateway.gateway_parameters
    return JvmWatch((parameters.address, parameters.port), lambda: bool(context._jsc.sc().isStopped()), gone)


_LAUNCH_LOCK = threading.Lock()
_BEGUN = threading.Event()
_AHEAD: list[tuple[dict[str, str], Future[SparkSession]]] = []  # one at most

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


def runs_here(properties: Mapping[str, str]) -> bool:
    """Return whether tasks of a worker with these properties run on this machine alone."""
    return is_local(properties.get("spark.master") or _submitted_master() or "local[*]")


def start_zygote_for(properties: Mapping[str, str]) -> bool:
    """Fork the process that a local Spark's Python processes are forked from; False: they import for themselves.

    Call it while this process has one thread, and before ``launch_ahead``.
    """
    local = runs_here(properties)
    if not local or not starter_serves(os.environ, local):
        return False
    return start_zygote(prepare_zygote, run_daemon, import_paths(), early_descriptors())


def _submitted_master() -> str | None:
    """Return the master that spark-submit was given, None when this process made its own JVM."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()  # type: ignore[attr-defined]
    master: str | None = SparkConf().get("spark.master")
    return master


def build_session(
    properties: Mapping[str, str],
    group: str = "worker",
    log_level: str = ENGINE["connectrt.spark.log.level"].default,
    shipped: Sequence[str] = (),
    java_jars: Callable[[], Sequence[Path]] = tuple,
) -> SparkSession:
    """Build (or, under spark-submit, complete) the session. Blocks for seconds.

    Args:
        properties: ``spark.*`` counts. The master is the worker file's, else spark-submit's, else local[*].
        group: names the application unless the properties do.
        log_level: of Spark itself.
        shipped: folders of plug-ins for executors on other machines.
        java_jars: finds the jars that host Java plug-ins, for these executors; none: there are no such plug-ins.
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


def start_jvm_ahead(settings: Mapping[str, str]) -> None:
    """Begin to start the JVM and return; not below spark-submit, which made one, and not by unresolved settings.

    Args:
        settings: a worker file's; ``spark.*`` and ``group.id`` count.
    """
    asked = of_session(settings)
    if asked is None or "PYSPARK_GATEWAY_PORT" in os.environ or connect_session_of(settings, os.environ):
        return
    spark, group = asked
    load_pandas_on_demand()
    import_bridge()  # here: two threads that import the same circle of modules would see half of it
    start_zygote_for(spark)  # before there are threads; it has what was imported so far, and imports the rest beside us
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
    """End a JVM that nobody came to use before this process has ended: nothing of a worker is left."""
    if session_begun():
        return
    launched.wait(END_LIMIT_S)
    process = getattr(SparkContext._gateway, "proc", None)
    logging.disable()  # what the session's thread was asking of the JVM breaks off; a user is to read why the start did
    if process is not None and process.stdin is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.stdin.close()
            process.wait(END_LIMIT_S)


def import_bridge() -> None:
    """Import what the first call into the JVM would import, pandas and all, without pandas."""
    import_without_pandas("pyspark.testing.utils")


def session_begun() -> bool:
    """Return whether a session was built in this process, or is being built: then it belongs to who builds it."""
    return _BEGUN.is_set()


def launch_ahead(properties: Mapping[str, str], group: str) -> None:
    """Start the JVM that ``build_session`` will use for the same properties. Blocks for a second."""
    conf = session_conf(properties, group)
    make_importable(conf)
    _launch_jvm(conf)


def session_ahead(properties: Mapping[str, str], group: str) -> None:
    """Build what ``build_session`` will return for the same properties, unless that has begun. Blocks for seconds.

    Only with a local master: a worker whose settings are refused after all leaves nothing on a cluster.
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


def _built_ahead(conf: Mapping[str, str]) -> SparkSession | None:
    """Wait for the session that was begun ahead, once; None: there is none, it failed, or has other settings."""
    if not _AHEAD:
        return None
    settings, future = _AHEAD.pop()
    try:
        session = future.result()
    except Exception:  # the caller's own attempt says what is wrong
        log.debug("the Spark session was not built in advance", exc_info=True)
        return None
    if settings == dict(conf):
        return session
    session.stop()
    return None


def _load_sql(jvm: Any) -> None:
    """Have the JVM get ready what the first plan needs; what another Spark has elsewhere is passed over. Blocks."""
    for name in SQL_CLASSES:
        with contextlib.suppress(*NOT_READY):
            jvm.java.lang.Class.forName(name)


def _begin_context(conf: Mapping[str, str]) -> None:
    """Start Spark's context, which takes one core, and beside it what only SQL will use, before anything of SQL runs.

    After it no class is initialized by two threads from two ends: they could wait for each other for ever.
    """
    loading = threading.Thread(target=_load_sql, args=(SparkContext._jvm,), name="spark-sql-classes", daemon=True)
    loading.start()
    try:
        SparkContext.getOrCreate(SparkConf().setAll(list(conf.items())))
    finally:
        loading.join(SQL_LIMIT_S)


def _session_of(conf: Mapping[str, str]) -> SparkSession:
    plain = record_of(conf) is not None  # asked before pyspark's context adds to the environment
    if SparkContext._jvm is not None:
        _begin_context(conf)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    with registered_later(SparkContext._gateway, plain):
        session: SparkSession = builder.getOrCreate()
    return session


def _launch_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM, unless there is one, out of the terminal's reach.

    A terminal that is closed sends SIGHUP to all that belong to it: this process stops in order then, and needs Spark
    for that. The JVM ends with this process in any case: it reads the end of its standard input.
    """
    with _LAUNCH_LOCK:
        if SparkContext._gateway is None:
            import_bridge()
            gateway = open_gateway(conf)
            SparkContext._ensure_initialized(gateway=gateway)  # type: ignore[attr-defined]


SessionFactory = Callable[[], SparkSession]


class BackgroundSession:
    """A session being built by a thread of its own; also the place of what each thread must do to use it."""

    def __init__(self, factory: SessionFactory, report: Report = report_nowhere) -> None:
        """``report`` is called when the session cannot be made, or that its JVM ended: it is never made again."""
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
        """Watch the JVM no more; ``stops``: end Spark as well, if it is up. Waits for no JVM that is gone."""
        self._closed = True
        if self._watch is not None:
            self._watch.stop()
        up = self._future.done() and self._future.exception() is None
        if stops and up and not self._gone:
            self.get().stop()

    def ready(self) -> bool:
        """Tell whether the session is built (or failed)."""
        return self._future.done()

    def get(self, timeout_s: float | None = None) -> SparkSession:
        """Wait for the session and make it the calling thread's. Raises what building it raised."""
        session = self._future.result(timeout_s)
        make_active(session)
        return session
