"""Makes the SparkSession, in the background, tuned for slices (docs/explanation/spark_costs.md).

Owns every Spark setting the engine depends on. REST and membership must not wait for Spark, so the session is a
future.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_connect_rt.config.jvm_memory import ARCHIVES_IN_PLACE, FREED_GIVEN_BACK
from spark_connect_rt.config.worker.own_settings import ENGINE
from spark_connect_rt.pandas_on_demand import import_without_pandas
from spark_connect_rt.ports.supervision import Part, Report, report_nowhere
from spark_connect_rt.spark.driver.class_archive import JAVA_OPTIONS, archive_option
from spark_connect_rt.spark.driver.jvm_command import is_plain, keep_command, record_path, use_record
from spark_connect_rt.spark.driver.jvm_watch import JvmWatch, watch_jvm
from spark_connect_rt.spark.driver.plugin_shipping import ship_plugins
from spark_connect_rt.spark.driver.process_python import starter_serves, use_this_python
from spark_connect_rt.spark.executor.daemon import prepare_zygote
from spark_connect_rt.spark.spark_version import UNIX_SOCKETS, VERSION, has, what_is_off
from spark_connect_rt.spark.zygote.serving import paths_of, run_daemon, start_zygote

log = logging.getLogger(__name__)
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
        "catalyst.expressions.codegen.CodeGenerator$",
    )
)
A_CLASS = "public class Any { public int one(int a) { return a + 1; } }"  # for the compiler of plans
SQL_LIMIT_S = 30.0
_NOT_READY = (Py4JError, OSError)  # OSError: the JVM has ended, as who waits for its context will say
LOCAL_SLOTS = 64  # threads of local[*]: slots idle in them, so this has nothing to do with cores
ENGINE_CONF = {  # what slices need; a worker property of the same name does not override these
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "64",
    "spark.python.daemon.module": "spark_connect_rt.spark.executor.daemon",
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
    # Measured: 2.5 CPU s less to the first slice, the same speed warm (C1 alone writes Parquet three times slower).
    # The heap starts small: a 64th of the machine otherwise, all of its young part used before the first collection.
    # It grows when that is not enough.
    JAVA_OPTIONS: (
        "-XX:+UseSerialGC -XX:InitialHeapSize=128m "
        "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=10000 "
        "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=200000 "
        # jstat's counters are renewed each second, not twenty times
        f"-XX:PerfDataSamplingInterval=1000 {' '.join((*ARCHIVES_IN_PLACE, *FREED_GIVEN_BACK))}"
    ),
}

LOCAL_CONF = {  # Spark would have a thread for each of the LOCAL_SLOTS, and they have next to nothing to do
    "spark.rpc.netty.dispatcher.numThreads": "4",
    "spark.shuffle.mapOutput.dispatcher.numThreads": "1",
}


def engine_conf(version: str = VERSION) -> dict[str, str]:
    """Return what slices need of Spark of this version."""
    sockets = {"spark.python.unix.domain.socket.enabled": "true"} if has(UNIX_SOCKETS, version) else {}
    return {**ENGINE_CONF, **sockets}


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
    return {**conf, **engine_conf()}


def _master(master: str) -> str:
    return f"local[{LOCAL_SLOTS}]" if master in ("local", "local[*]") else master


def is_local(master: str) -> bool:
    """Tell whether driver and executors are one JVM."""
    return master == "local" or master.startswith("local[")


def _package_root() -> str:
    """Return the folder (or zip) that holds the package."""
    return str(Path(__file__).resolve().parents[3])


def runs_here(properties: Mapping[str, str]) -> bool:
    """Return whether tasks of a worker with these properties run on this machine alone."""
    return is_local(properties.get("spark.master") or _submitted_master() or "local[*]")


def executor_python_path(master: str, paths: Sequence[str], given: str | None) -> str | None:
    """Return the PYTHONPATH of Python processes below executors and of planners beside the driver, None: none.

    Args:
        master: of the session.
        paths: the driver's, the package's folder or archive first.
        given: what the user set.
    """
    if is_local(master) or master.startswith("local-cluster"):
        return given or os.pathsep.join(paths)
    package = Path(paths[0])
    if not package.is_file():  # a folder: executors have one of their own
        return given
    # Spark copies what --py-files names into the working directory of each executor, but puts only .zip, .egg and .jar
    # on the path, and that too late for the daemon's module. The whole path is for planners, on the driver's machine.
    return os.pathsep.join([*filter(None, [given]), package.name, str(package)])


def _make_importable(conf: dict[str, str]) -> None:
    """Have Python processes that Spark starts import the package, and those on this machine use this interpreter.

    A JVM that spark-submit started got its environment there; the settings below then only name the same.
    """
    paths = _import_paths()
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    use_this_python(os.environ, is_local(conf["spark.master"]))
    name = "spark.executorEnv.PYTHONPATH"
    found = executor_python_path(conf["spark.master"], paths, conf.get(name))
    if found:
        conf[name] = found


def _import_paths() -> list[str]:
    return list(dict.fromkeys([_package_root(), *paths_of(os.environ)]))


def start_zygote_for(properties: Mapping[str, str]) -> bool:
    """Fork the process that a local Spark's Python processes are forked from; False: they import for themselves.

    Call it while this process has one thread, and before ``launch_ahead``.
    """
    local = runs_here(properties)
    return local and starter_serves(os.environ, local) and start_zygote(prepare_zygote, run_daemon, _import_paths())


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
    _make_importable(conf)
    _launch_jvm(conf)
    session = _built_ahead(conf) or _session_of(conf)
    session.sparkContext.setLogLevel(log_level)
    if what_is_off():
        log.info(what_is_off())
    if not is_local(conf["spark.master"]):
        ship_plugins(session.sparkContext, shipped, java_jars())
    return session


def import_bridge() -> None:
    """Import what the first call into the JVM would import, pandas and all, without pandas."""
    import_without_pandas("pyspark.testing.utils")


def session_begun() -> bool:
    """Return whether a session was built in this process, or is being built: then it belongs to who builds it."""
    return _BEGUN.is_set()


def launch_ahead(properties: Mapping[str, str], group: str) -> None:
    """Start the JVM that ``build_session`` will use for the same properties. Blocks for a second."""
    conf = session_conf(properties, group)
    _make_importable(conf)
    _launch_jvm(conf)


def session_ahead(properties: Mapping[str, str], group: str) -> None:
    """Build what ``build_session`` will return for the same properties, unless that has begun. Blocks for seconds.

    Only with a local master: a worker whose settings are refused after all leaves nothing on a cluster.
    """
    conf, future = session_conf(properties, group), Future[SparkSession]()
    if not is_local(conf["spark.master"]):
        return
    _make_importable(conf)
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
        log.debug("the session was not built ahead", exc_info=True)
        return None
    if settings == dict(conf):
        return session
    session.stop()
    return None


def _load_sql(jvm: Any) -> None:
    """Have the JVM get ready what the first plan needs; what another Spark has elsewhere is passed over. Blocks."""
    for name in SQL_CLASSES:
        with contextlib.suppress(*_NOT_READY):
            jvm.java.lang.Class.forName(name)
    with contextlib.suppress(*_NOT_READY):
        jvm.org.codehaus.janino.SimpleCompiler().cook(A_CLASS)


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
    if SparkContext._jvm is not None:
        _begin_context(conf)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
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
            gateway = _gateway(conf)
            SparkContext._ensure_initialized(gateway=gateway)  # type: ignore[attr-defined]


def _gateway(conf: Mapping[str, str]) -> Any:
    """Start the JVM by the command of an earlier start where that would be the same, else by ``spark-submit``."""
    home, record = Path(pyspark.__file__).parent, record_path(os.environ)
    settings, detached = SparkConf().setAll(list(conf.items())), {"start_new_session": True}
    plain = is_local(conf["spark.master"]) and is_plain(
        conf, {**DEFAULT_CONF, **LOCAL_CONF, **engine_conf()}, os.environ, home
    )
    if record is None or not plain or "PYSPARK_GATEWAY_PORT" in os.environ:
        return launch_gateway(settings, detached)
    if kept := use_record(os.environ, record, home):
        try:
            return launch_gateway(settings, {**detached, **kept})
        except PySparkException:
            log.warning("Spark's JVM did not start by the command in %s: spark-submit is asked", record, exc_info=True)
            record.unlink(missing_ok=True)
    gateway = launch_gateway(settings, detached)
    keep_command(gateway.proc.pid, conf, record)
    return gateway


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
                self._report(Part.SPARK, f"the session could not be made: {type(error).__name__}: {error}")
            if not isinstance(error, Exception):
                raise

    def _on_gone(self, why: str) -> None:
        self._gone = True
        self._report(Part.SPARK, why)

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
        # A thread of py4j has no active session, and the look-up of a Python writer needs one.
        jvm = session._jvm
        assert jvm is not None
        jvm.SparkSession.setActiveSession(session._jsparkSession)
        return session
