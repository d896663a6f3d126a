"""Java tasks on executors of a real standalone cluster: an executor, then a node, is killed in mid-flow. Counted.

Debezium's executor is killed; Kafka's file source shares it, unless dynamic allocation had another one free by then; a
second file source has one of its own, which must not notice. Java Connect captures the same changes and is left alone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import get_json, until, worker_file
from tests.e2e.spark_cluster import SparkCluster
from tests.e2e.submitted import killed_at_the_end, named, submitted
from tests.e2e.test_spark_cluster import USER_CONF
from tests.support.captured_database import CapturedDatabase, postgres_source
from tests.support.changes_meanwhile import ChangesMeanwhile
from tests.support.connect_rest import ConnectRest
from tests.support.java_beside_ours import FAST, HOST_CLASS, SIDES, whole
from tests.support.java_connect import JavaConnect
from tests.support.java_plugins import DEBEZIUM_POSTGRES, FILES, plugin_folder
from tests.support.numbered_lines import Feeder, Topics, create_topics, duplicates, missing, replays
from tests.support.postgres_server import PostgresServer
from tests.support.topic_content import TopicReader, differences, digests
from tests.support.worker_process import worker_properties

GROUP = "java-on-executors"
PREFIX = "killed"  # other tests of the broker fill topics of the usual prefix
ITEMS = f"{PREFIX}.public.items"
ROWS, CHANGES = (20_000, 10_000) if whole() else (500, 1_000)
CAPTURED, SHARED, ALONE = "-Xmx192m", "-Xmx72m", "-Xmx80m"  # how a task's JVM is known
LIMIT_S = 900.0
pytestmark = pytest.mark.timeout(3600)


class OnExecutors:
    """The cluster, the worker whose driver runs beside it, the three sources, Java Connect."""

    def __init__(self, folder: Path, servers: str, cluster: SparkCluster, rest: ConnectRest, log: Path) -> None:
        self.cluster, self.rest, self._log = cluster, rest, log
        self.reader = TopicReader(servers)
        self.feeder = Feeder(folder, 2, every_s=0.02)
        names = ["executors-shared", "executors-alone"]
        create_topics(servers, names)
        self.lines = Topics(servers, names)
        self.shared, self.alone = (self.lines.arrivals[name] for name in names)

    def stories(self) -> str:
        status = get_json(f"{self.rest.url}/connectors?expand=status")
        return f"{status}\n{self._log.read_text(errors='replace')[-3000:]}\n{self.cluster.said()}"

    def deploy(self, database: CapturedDatabase) -> None:
        for file in self.feeder.files:
            file.touch()
        source = {"connector.class": "FileStreamSource", "connectrt.runtime": "java"}
        for heap, file, topic in zip((SHARED, ALONE), self.feeder.files, self.lines.arrivals, strict=True):
            own = {"connectrt.isolation": "process"} if heap == ALONE else {}
            place = {"file": str(file), "topic": topic, "connectrt.java.heap": heap.removeprefix("-Xmx")}
            self.rest.create(topic, source | place | own)
        heap = {"connectrt.java.heap": CAPTURED.removeprefix("-Xmx")}
        captured = postgres_source(database, "ours", topic_prefix=PREFIX) | heap
        self.rest.create("captured", captured)
        self.feeder.start()

    def host(self, heap: str) -> psutil.Process:
        """Return the JVM of that heap on the cluster; waits until there is one."""
        found: list[psutil.Process] = []

        def there() -> bool:
            found.extend(
                process for node in self.cluster.workers for process in node.processes() if _is_host(process, heap)
            )
            return bool(found)

        until(there, LIMIT_S, f"a JVM with {heap}", self.stories, every_s=0.3)
        return found[-1]

    def executor(self, heap: str) -> psutil.Process:
        """Return the executor whose Python process has that JVM."""
        above = {parent.pid for parent in self.host(heap).parents()}
        return next(executor for executor in self.cluster.executors() if executor.pid in above)

    def await_flow(self) -> None:
        """Wait until lines that are written from now on have arrived from both files."""
        line = self.feeder.written

        def arrived() -> bool:
            self.lines.refresh()
            return all(max(arrivals.numbers, default=-1) >= line for arrivals in (self.shared, self.alone))

        until(arrived, LIMIT_S, f"line {line}", self.stories, every_s=0.2)

    def await_key(self, key: bytes) -> None:
        for side in SIDES:
            until(
                lambda side=side: key in self.reader.last_keys(f"{side}.{ITEMS}"),  # type: ignore[misc]
                LIMIT_S,
                f"{key!r} of {side}",
                self.stories,
                every_s=0.2,
            )

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # never begun
            self.feeder.stop()
        self.lines.close()
        self.reader.close()


def _is_host(process: psutil.Process, heap: str) -> bool:
    try:
        return {HOST_CLASS, heap} <= set(process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[SparkCluster]:
    spark_cluster = SparkCluster(tmp_path_factory.mktemp("spark"), java)
    try:
        spark_cluster.start()
        yield spark_cluster
    finally:
        spark_cluster.stop()


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[CapturedDatabase]:
    made = CapturedDatabase(postgres)
    made.fill(ROWS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def flow(
    tmp_path_factory: pytest.TempPathFactory,
    broker: EmbeddedKafka,
    java: Java,
    cluster: SparkCluster,
    database: CapturedDatabase,
    wheel: Path,
    python_without_the_package: Path,
) -> Iterator[OnExecutors]:
    folder = tmp_path_factory.mktemp("on-executors")
    plugins = folder / "plugins"
    for name, coordinate in (("file", FILES), ("postgres", DEBEZIUM_POSTGRES)):
        plugin_folder(plugins, name, coordinate)
    (port,) = free_ports(1)
    properties = {"plugin.path": str(plugins), **FAST}
    file = worker_file(folder, worker_properties(broker.bootstrap_servers, GROUP, port) | properties)
    conf = [word for name, value in USER_CONF.items() for word in ("--conf", f"{name}={value}")]
    where = ["--master", cluster.url, "--deploy-mode", "client", *conf]
    environment = {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}
    log = folder / "submit.log"
    javas = JavaConnect(folder / "java", broker.bootstrap_servers, f"{GROUP}-java", properties=properties)
    with (
        contextlib.ExitStack() as ends,
        contextlib.closing(ConnectRest(f"http://127.0.0.1:{port}")) as rest,
        killed_at_the_end(submitted("connect_distributed.py", [file], wheel, where, environment, log)) as driver,
        contextlib.closing(OnExecutors(folder, broker.bootstrap_servers, cluster, rest, log)) as made,
    ):
        ends.callback(javas.rest.close)
        ends.callback(javas.stop)
        javas.start(LIMIT_S)
        until(lambda: rest.probe("/health") or driver.poll() is not None, LIMIT_S, "healthy", made.stories, every_s=0.5)
        assert driver.poll() is None, made.stories()
        made.deploy(database)
        javas.rest.create("captured", postgres_source(database, "java", topic_prefix=PREFIX))
        made.await_key(b'{"id":%d}' % ROWS)  # before a snapshot has ended, it would be taken again
        made.await_flow()
        yield made
        driver.terminate()
        driver.wait(60)


def _executor(flow: OnExecutors) -> None:
    victim = flow.executor(CAPTURED)
    assert victim != flow.executor(ALONE)
    print(f"the other file source {'shares' if victim == flow.executor(SHARED) else 'does not share'} the executor")
    below = victim.children(recursive=True)
    victim.kill()
    _, alive = psutil.wait_procs([victim, *below], timeout=30)
    assert named(alive) == [], "its Python processes and their JVMs ended by themselves"


def _node(flow: OnExecutors) -> None:
    flow.cluster.node_of(flow.executor(CAPTURED)).kill()


@pytest.mark.parametrize("kill", [_executor, _node])
def test_an_executor_with_java_tasks_is_killed(
    kill: Callable[[OnExecutors], None], flow: OnExecutors, database: CapturedDatabase
) -> None:
    neighbour, same_node = flow.host(ALONE), flow.cluster.node_of(flow.host(ALONE))
    before, again = flow.reader.count(f"ours.{ITEMS}"), replays(flow.shared.numbers)
    with ChangesMeanwhile(database, CHANGES) as changes:
        until(lambda: flow.reader.count(f"ours.{ITEMS}") > before, LIMIT_S, "a change arrives", flow.stories)
        spared = kill is _executor or flow.cluster.node_of(flow.executor(CAPTURED)) is not same_node
        assert changes.go_on(), "killed in mid-flow"
        kill(flow)
    flow.await_key(database.mark())
    flow.await_flow()
    java, ours = (flow.reader.read(f"{side}.{ITEMS}") for side in SIDES)
    assert digests(java) == digests(ours), differences(java, ours)
    for arrivals in (flow.shared, flow.alone):
        assert missing(arrivals.numbers, max(arrivals.numbers)) == []
    assert replays(flow.shared.numbers) <= again + 1, "hosted again once"
    if spared:
        assert flow.host(ALONE) == neighbour, "the neighbour's JVM went on"
        assert duplicates(flow.alone.numbers) == 0
    print(f"{kill.__name__}: {duplicates(flow.shared.numbers)} lines twice, at {time.strftime('%X')}")
