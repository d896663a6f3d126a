"""A worker submitted to a Spark standalone cluster; executors, a node and the Master go; every line is counted.

The stories run in order and share one cluster and one worker. The user's conf asks for speculation and for dynamic
allocation from the start. The node goes last: tasks whose processes are lost twice in a minute are hosted apart for a
while. Who runs a task is asked of the kernel: the process that holds the source's file open.
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import get_json, until, worker_file
from tests.e2e.conftest import Times
from tests.e2e.file_holders import FileHolders
from tests.e2e.java_stories import HOST, ON_JAVA
from tests.e2e.line_flow import FlowStory, LineFlow
from tests.e2e.spark_cluster import SparkCluster
from tests.e2e.submitted import killed_at_the_end, named, session_of, submitted
from tests.support.connect_rest import ConnectRest
from tests.support.java_connect import COORDINATES
from tests.support.numbered_lines import offsets_that_went_back, read_all
from tests.support.worker_process import worker_properties
from tests.topics import count_records

pytestmark = pytest.mark.timeout(600)
GROUP = "clustered"
ALONE = 2  # this source has a slot, so an executor, of its own; the other two and the sink's tasks share one
START_S = 240.0
FLOW_S = 120.0
# The page on delivery guarantees, times ten and three for a machine that does other things: 50 lines a second and file.
REPEATED_BY_A_SOURCE = 100  # 0.2 s
REPEATED_BY_THE_SINK = 450  # 1 s of three files
# Range, the default, would give the one partition of every topic to the first task.
SPREAD = {"consumer.override.partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor"}
USER_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.speculation": "true",
    "spark.speculation.task.duration.threshold": "2s",  # without one a stage of one task is never copied
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}


class Clustered(LineFlow):
    """The cluster, the worker whose driver runs beside it, the lines."""

    def __init__(self, folder: Path, broker: EmbeddedKafka, cluster: SparkCluster, rest: ConnectRest) -> None:
        super().__init__(folder, broker.bootstrap_servers, 3, "clustered")
        self.bootstrap_servers = broker.bootstrap_servers
        self.cluster = cluster
        self.rest = rest
        self.log = folder / "submit.log"
        self.holders = FileHolders(self.feeder.files)

    def stories(self) -> str:
        """Return the worker's status and the ends of all logs."""
        status = get_json(f"{self.rest.url}/connectors?expand=status")
        return f"{status}\n{self.log.read_text(errors='replace')[-3000:]}\n{self.cluster.said()}"

    def await_executors(self, count: int, what: str) -> None:
        """Wait until there are so many: one for each slot, once the idle ones went away."""

        def so_many() -> bool:
            return len(self.cluster.executors()) == count

        until(so_many, FLOW_S, f"{what}: {count} executors", self.stories, every_s=0.5)  # a look costs 30 ms of CPU

    def reader(self, number: int) -> psutil.Process:
        """Return the process that reads a file; waits until there is one."""
        found: list[int | None] = []

        def read() -> bool:
            found.append(self.holders.holder(number))
            return found[-1] is not None

        until(read, FLOW_S, f"file {number} is read", self.stories, every_s=0.3)
        return psutil.Process(found[-1])

    def executor(self, number: int) -> psutil.Process:
        """Return the executor whose Python process reads a file."""
        above = {parent.pid for parent in self.reader(number).parents()}
        return next(executor for executor in self.cluster.executors() if executor.pid in above)

    def check(self) -> None:
        """What must hold after every story: no line lost, no offset back, no source read by two processes at once."""
        assert self.gaps() == {}
        assert offsets_that_went_back(read_all(self.bootstrap_servers, f"{GROUP}-offsets")) == []
        assert self.holders.twice == []

    def check_killed(self, story: FlowStory, sources: int) -> None:
        """After a kill -9 that so many sources and the sink's tasks lost their processes by."""
        repeated, in_sink, replayed = story.counted()
        assert replayed <= sources, "each source that was lost began again once; two at once repeat nearly every line"
        assert repeated <= sources * REPEATED_BY_A_SOURCE
        assert in_sink <= REPEATED_BY_THE_SINK
        self.check()

    def close(self) -> None:
        """Close what this process has open."""
        with contextlib.suppress(RuntimeError):  # never begun
            self.feeder.stop()
        self.holders.close()
        self.topics.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[SparkCluster]:
    spark_cluster = SparkCluster(tmp_path_factory.mktemp("spark"), java)
    try:
        spark_cluster.start()
        yield spark_cluster
    finally:
        spark_cluster.stop()


@pytest.fixture(scope="module")
def flow(
    tmp_path_factory: pytest.TempPathFactory,
    broker: EmbeddedKafka,
    java: Java,
    cluster: SparkCluster,
    wheel: Path,
    python_without_the_package: Path,
) -> Iterator[Clustered]:
    folder = tmp_path_factory.mktemp("clustered")
    (port,) = free_ports(1)
    plugins = {"connectrt.plugins.directory": str(folder / "plugins"), "connectrt.plugins.install": "allow"}
    file = worker_file(folder, worker_properties(broker.bootstrap_servers, GROUP, port) | plugins)
    conf = [word for name, value in USER_CONF.items() for word in ("--conf", f"{name}={value}")]
    where = ["--master", cluster.url, "--deploy-mode", "client", *conf]
    environment = {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}
    log = folder / "submit.log"
    with (
        contextlib.closing(ConnectRest(f"http://127.0.0.1:{port}")) as rest,
        killed_at_the_end(submitted("connect_distributed.py", [file], wheel, where, environment, log)) as driver,
        contextlib.closing(Clustered(folder, broker, cluster, rest)) as clustered,
    ):
        until(
            lambda: rest.probe("/health") or driver.poll() is not None,
            START_S,
            "the worker is healthy",
            clustered.stories,
            every_s=0.5,
        )
        assert driver.poll() is None, clustered.stories()
        clustered.deploy_to(rest, sink_tasks=2, alone=frozenset({ALONE}), more_of_sink=SPREAD)
        yield clustered
        clustered.feeder.stop()
        driver.terminate()
        driver.wait(60)
        below = session_of(driver.pid)
        _, alive = psutil.wait_procs(below, timeout=30)
        assert named(alive) == [], clustered.stories()
        clustered.await_executors(0, "the application ended")


def test_a_slot_is_an_executor_and_nothing_is_repeated(flow: Clustered, times: Times) -> None:
    story = FlowStory(flow, times, "standalone cluster")
    story.note("first lines in the sink's file", f"{flow.await_flow(START_S, 'the first lines'):.1f} s after deploying")
    flow.await_executors(2, "two slots")  # speculation would have copied them to executors of their own
    assert flow.executor(0) == flow.executor(1) != flow.executor(ALONE)
    assert story.counted() == (0, 0, 0)
    flow.check()


def test_an_executor_killed_costs_what_the_table_says(flow: Clustered, times: Times) -> None:
    victim, other = flow.executor(0), flow.reader(ALONE)
    below = victim.children(recursive=True)
    story = FlowStory(flow, times, "kill -9 of an executor")
    victim.kill()
    story.note("lines flow", f"{flow.await_flow(FLOW_S, 'an executor was killed'):.1f} s after")
    story.note_outage()
    _, alive = psutil.wait_procs([victim, *below], timeout=20)
    assert named(alive) == [], "its Python processes ended by themselves"
    assert flow.reader(ALONE) == other, "the other slot went on"
    flow.check_killed(story, sources=2)


def test_the_master_stopped_and_started_loses_no_slot(flow: Clustered, times: Times) -> None:
    # Processes may change all the same: tasks that the killed executor had parted share one again after a minute.
    before, retries = len(flow.log.read_text(errors="replace")), flow.cluster.retries()
    story = FlowStory(flow, times, "the Master stopped and started")
    flow.cluster.master.stop()
    flow.await_flow(FLOW_S, "without a Master")
    # A Worker that registers while the Master recovers may be told to end its executors: the Master answers with what
    # it knows of that Worker, and the Worker has not reported its executors yet. What that costs is the story of a
    # killed executor. Here no Worker has a try left for that moment.
    flow.cluster.await_retries(retries)
    flow.cluster.master.start()
    flow.cluster.await_master()
    flow.cluster.await_workers(2)
    flow.await_flow(FLOW_S, "the Master is back")
    assert " was lost" not in flow.log.read_text(errors="replace")[before:]
    assert story.counted() == (0, 0, 0)
    flow.check()


def test_an_idle_executor_ends_and_returns_with_its_task(flow: Clustered, times: Times) -> None:
    flow.await_executors(2, "before one is idle")
    stays, goes, reader = flow.executor(0), flow.executor(ALONE), flow.reader(0)
    story = FlowStory(flow, times, "dynamic allocation")
    assert flow.rest.settled("PUT", f"/connectors/in-{ALONE}/stop").status == 204
    flow.await_executors(1, "one is idle")
    assert flow.cluster.executors() == [stays]
    flow.await_flow(FLOW_S, "an executor went", without=frozenset({ALONE}))
    assert flow.reader(0) == reader, "the others' process went on"
    assert flow.rest.settled("PUT", f"/connectors/in-{ALONE}/resume").status == 202
    story.note("lines flow", f"{flow.await_flow(FLOW_S, 'an executor came'):.1f} s after the task was wanted again")
    assert flow.executor(ALONE) not in (stays, goes)
    assert story.counted() == (0, 0, 0)
    flow.check()


def test_a_java_plugin_that_is_installed_meanwhile_runs_on_an_executor(flow: Clustered, tmp_path: Path) -> None:
    """The session began without Java plug-ins: the jars that host one come from the driver when it is needed.

    So does the plug-in itself where its folder is not at the same place; here it is.
    """
    archive, lines = tmp_path / "connect-file-1.zip", tmp_path / "lines.txt"
    jar = next(path for path in resolve_jars(COORDINATES) if path.name.startswith("connect-file-"))
    with zipfile.ZipFile(archive, "w") as made:
        made.write(jar, f"connect-file/{jar.name}")
    lines.write_text("one\ntwo\nthree\n")
    installed = flow.rest.request("POST", "/admin/plugins", {"source": str(archive)})
    assert installed.status == 201, installed.json()
    flow.rest.create("late", {"connector.class": "FileStreamSource", "file": str(lines), "topic": "late"} | ON_JAVA)
    until(lambda: count_records(flow.bootstrap_servers, "late") == 3, FLOW_S, "lines of the late plug-in", flow.stories)
    (jvm,) = {
        child.pid: child
        for executor in flow.cluster.executors()
        for child in executor.children(recursive=True)
        if HOST in child.cmdline()
    }.values()
    assert jar.name in {Path(file.path).name for file in jvm.open_files()}
    assert {Path(path).parent.name for path in jvm.cmdline()[jvm.cmdline().index("-cp") + 1].split(":")} == {
        "connectrt-java-host"
    }
    assert flow.rest.settled("DELETE", "/connectors/late").status == 204


def test_a_node_killed_costs_the_same_and_the_other_node_takes_over(flow: Clustered, times: Times) -> None:
    node = flow.cluster.node_of(flow.executor(0))
    sources = sum(flow.cluster.node_of(flow.executor(number)) is node for number in range(3))
    story = FlowStory(flow, times, "kill -9 of a node")
    (other,) = [worker for worker in flow.cluster.workers if worker is not node]
    node.kill()
    story.note("lines flow", f"{flow.await_flow(FLOW_S, 'a node was killed'):.1f} s after")
    story.note_outage()
    assert {flow.cluster.node_of(flow.executor(number)).name for number in range(3)} == {other.name}
    flow.check_killed(story, sources)
