"""Workers on YARN, one in client and one in cluster deploy mode; an executor is killed; every line is counted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import get_json, until, worker_file
from tests.e2e.conftest import Times
from tests.e2e.file_holders import FileHolders
from tests.e2e.line_flow import FlowStory, LineFlow
from tests.e2e.submitted import killed_at_the_end, submitted
from tests.e2e.yarn_cluster import YarnCluster
from tests.support.connect_rest import ConnectRest
from tests.support.numbered_lines import offsets_that_went_back, read_all
from tests.support.worker_process import worker_properties

pytestmark = pytest.mark.timeout(600)
MODES = ("client", "cluster")
START_S = 300.0
FLOW_S = 120.0
REPEATED = 450  # docs/explanation/delivery_guarantees.md, as tests/e2e/test_spark_cluster.py has it for three files


class OnYarn(LineFlow):
    """A worker on YARN, a source and a sink, a file of lines."""

    def __init__(self, folder: Path, broker: EmbeddedKafka, yarn: YarnCluster, mode: str, port: int) -> None:
        self.group = f"yarn-{mode}"
        super().__init__(folder, broker.bootstrap_servers, 1, self.group)
        self.bootstrap_servers = broker.bootstrap_servers
        self.rest = ConnectRest(f"http://127.0.0.1:{port}")
        self.holders = FileHolders(self.feeder.files)
        self._yarn = yarn
        self._log = folder / "submit.log"

    def stories(self) -> str:
        """Return the worker's status and the ends of all logs."""
        status = get_json(f"{self.rest.url}/connectors?expand=status")
        return f"{status}\n{self._log.read_text(errors='replace')[-3000:]}\n{self._yarn.said()}"

    def deploy(self) -> None:
        """Create the connectors once the worker answers, and begin to write lines."""
        until(lambda: self.rest.probe("/health"), START_S, f"{self.group} is healthy", self.stories, every_s=0.5)
        self.deploy_to(self.rest, sink_tasks=1)

    def executor(self) -> psutil.Process:
        """Return the executor whose Python process reads the file."""
        reader = self.holders.holder(0)
        assert reader is not None, self.stories()
        above = {parent.pid for parent in psutil.Process(reader).parents()}
        return next(executor for executor in self._yarn.executors() if executor.pid in above)

    def check(self) -> None:
        """No line is lost, no offset went back, no file was read by two processes at once."""
        assert self.gaps() == {}
        assert offsets_that_went_back(read_all(self.bootstrap_servers, f"{self.group}-offsets")) == []
        assert self.holders.twice == []

    def close(self) -> None:
        """Close what this process has open."""
        with contextlib.suppress(RuntimeError):  # never begun
            self.feeder.stop()
        self.holders.close()
        self.topics.close()
        self.rest.close()


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[YarnCluster]:
    cluster = YarnCluster(tmp_path_factory.mktemp("yarn"), java)
    try:
        cluster.launch()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture(scope="module")
def flows(
    tmp_path_factory: pytest.TempPathFactory,
    yarn: YarnCluster,
    broker: EmbeddedKafka,
    java: Java,
    wheel: Path,
    python_without_the_package: Path,
) -> Iterator[dict[str, OnYarn]]:
    """Both workers start beside each other, for most of a start is waiting for containers."""
    python = str(python_without_the_package)
    yarn.await_ready()
    found: dict[str, OnYarn] = {}
    with contextlib.ExitStack() as stack:
        for mode, port in zip(MODES, free_ports(len(MODES)), strict=True):
            folder = tmp_path_factory.mktemp(mode)
            plugins = {"connectrt.plugins.directory": str(folder / "plugins")}
            file = worker_file(folder, worker_properties(broker.bootstrap_servers, f"yarn-{mode}", port) | plugins)
            where = [*yarn.arguments(mode), "--conf", "spark.driver.host=127.0.0.1"]
            if mode == "cluster":
                own = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
                master = [f"spark.yarn.appMasterEnv.{name}={value}" for name, value in own.items()]
                where += ["--files", str(file), *(word for line in master for word in ("--conf", line))]
                file = Path(file.name)  # YARN puts it into the driver's working directory
            environment = {"PYSPARK_PYTHON": python, "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": "127.0.0.1"}
            log = folder / "submit.log"
            worker = submitted("connect_distributed.py", [file], wheel, where, environment | yarn.environment(), log)
            stack.enter_context(killed_at_the_end(worker))
            found[mode] = stack.enter_context(contextlib.closing(OnYarn(folder, broker, yarn, mode, port)))
        for flow in found.values():
            flow.deploy()
        yield found


@pytest.mark.parametrize("mode", MODES)
def test_lines_flow_through_a_worker_on_yarn(flows: dict[str, OnYarn], times: Times, mode: str) -> None:
    flow = flows[mode]
    story = FlowStory(flow, times, f"YARN, {mode} mode")
    story.note("first lines in the sink's file", f"{flow.await_flow(START_S, 'the first lines'):.1f} s after deploying")
    assert story.counted() == (0, 0, 0)
    flow.check()


def test_an_executor_killed_on_yarn_loses_no_line(flows: dict[str, OnYarn], times: Times) -> None:
    flow, other = flows["cluster"], flows["client"]
    story, untouched = FlowStory(flow, times, "YARN, kill -9 of an executor"), FlowStory(other, times, "YARN, beside")
    flow.executor().kill()
    story.note("lines flow", f"{flow.await_flow(FLOW_S, 'an executor was killed'):.1f} s after")
    story.note_outage()
    repeated, in_sink, replayed = story.counted()
    assert replayed <= 1
    assert repeated <= REPEATED
    assert in_sink <= REPEATED
    flow.check()
    other.await_flow(FLOW_S, "the other application lost nothing")
    assert untouched.counted() == (0, 0, 0)
    other.check()
