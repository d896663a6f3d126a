"""Java's standalone worker and ours: the same answers, and one offset file that moves both ways."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.topics.offset_file import decode_byte_map
from tests.parity.conversation import Append, Ask, AwaitBody, AwaitStates, Heard, Step, listen
from tests.parity.live.comparison import comparable
from tests.support.standalone_process import OFFSETS, JavaStandalone, SparkStandalone
from tests.support.worker_process import WorkerProcess

pytestmark = pytest.mark.timeout(900)  # the first test's set-up is both whole conversations
SETTINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
SOURCE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "standalone-lines"}
OTHER = {"connector.class": "FileStreamSource", "file": "other.txt", "topic": "standalone-other"}
SINK = {"connector.class": "FileStreamSink", "file": "out.txt", "topics": "standalone-lines"}


def _position(position: int) -> dict[str, object]:
    return {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": position}}]}


CONVERSATION: tuple[Step, ...] = (
    Append("in.txt", "one\ntwo\n"),
    AwaitStates("src", "RUNNING", ("RUNNING",)),
    AwaitStates("snk", "PAUSED"),
    AwaitBody("/connectors/src/offsets", _position(8)),
    AwaitBody("/connectors/src/topics", {"src": {"topics": ["standalone-lines"]}}),
    Ask("root", "GET", "/"),
    Ask("health", "GET", "/health"),
    Ask("names", "GET", "/connectors"),
    Ask("expanded", "GET", "/connectors?expand=info&expand=status"),
    Ask("info", "GET", "/connectors/src"),
    Ask("tasks", "GET", "/connectors/src/tasks"),
    Ask("create", "POST", "/connectors", {"name": "b", "config": OTHER}),
    Ask("create again", "POST", "/connectors", {"name": "b", "config": OTHER}),
    AwaitStates("b", "RUNNING", ("RUNNING",)),
    Ask("change", "PUT", "/connectors/b/config", OTHER | {"batch.size": "5"}),
    Ask("create by PUT", "PUT", "/connectors/c/config", OTHER),
    Ask("create stopped", "POST", "/connectors", {"name": "d", "config": OTHER, "initial_state": "STOPPED"}),
    Ask("create paused", "POST", "/connectors", {"name": "e", "config": OTHER, "initial_state": "PAUSED"}),
    Ask("create without class", "POST", "/connectors", {"name": "f", "config": {}}),
    AwaitStates("b", "RUNNING", ("RUNNING",)),
    Ask("restart the connector", "POST", "/connectors/b/restart"),
    AwaitStates("b", "RUNNING", ("RUNNING",)),
    Ask("restart all", "POST", "/connectors/b/restart?includeTasks=true"),
    AwaitStates("b", "RUNNING", ("RUNNING",)),
    Ask("restart what failed", "POST", "/connectors/b/restart?includeTasks=true&onlyFailed=true"),
    Ask("restart a task", "POST", "/connectors/b/tasks/0/restart"),
    AwaitStates("b", "RUNNING", ("RUNNING",)),
    Ask("restart none", "POST", "/connectors/none/restart"),
    Ask("restart all of none", "POST", "/connectors/none/restart?includeTasks=true"),
    Ask("restart a task of none", "POST", "/connectors/none/tasks/0/restart"),
    Ask("task configurations from outside", "POST", "/connectors/b/tasks", []),
    Ask("task configurations of none", "POST", "/connectors/none/tasks", []),
    Ask("fence", "PUT", "/connectors/b/fence"),
    Ask("fence none", "PUT", "/connectors/none/fence"),
    Ask("pause", "PUT", "/connectors/b/pause"),
    AwaitStates("b", "PAUSED", ("PAUSED",)),
    Ask("resume", "PUT", "/connectors/b/resume"),
    AwaitStates("b", "RUNNING", ("RUNNING",)),
    Ask("stop", "PUT", "/connectors/b/stop"),
    AwaitStates("b", "STOPPED"),
    Ask("info stopped", "GET", "/connectors/b"),
    Ask("tasks stopped", "GET", "/connectors/b/tasks"),
    Ask("restart a task that is not there", "POST", "/connectors/b/tasks/7/restart"),
    Ask("pause none", "PUT", "/connectors/none/pause"),
    Ask("stop none", "PUT", "/connectors/none/stop"),
    Ask("info of none", "GET", "/connectors/none"),
    Ask("status of none", "GET", "/connectors/none/status"),
    Ask("offsets of none", "GET", "/connectors/none/offsets"),
    Ask("delete none", "DELETE", "/connectors/none"),
    Ask("delete", "DELETE", "/connectors/b"),
    Ask("names at the end", "GET", "/connectors"),
)
WANTED = {  # docs/reference/differences.md, "Standalone: unknown connector"
    "restart none": (500, 404),
    "restart a task of none": (500, 404),
    "stop none": (500, 404),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Connector files in two of the shapes."""
    folder = tmp_path_factory.mktemp("connectors")
    source = "".join(f"{key}={value}\n" for key, value in {"name": "src", **SOURCE}.items())
    (folder / "src.properties").write_text(source)
    sink = {"name": "snk", "config": SINK, "initial_state": "PAUSED"}
    (folder / "snk.json").write_text(json.dumps(sink))
    return [folder / "src.properties", folder / "snk.json"]


class Workers:
    """Makes workers, any number of times in the same two folders."""

    def __init__(self, servers: str, files: list[Path], java: Java, folder: Path) -> None:
        self._servers, self._files, self._java = servers, files, java
        self.folders = {"java": folder / "java", "ours": folder / "ours"}

    def make(self, whose: str) -> WorkerProcess:
        if whose == "java":
            return JavaStandalone(
                self.folders[whose], self._servers, connectors=self._files, properties=SETTINGS, java=self._java
            )
        return SparkStandalone(self.folders[whose], self._servers, connectors=self._files, properties=SETTINGS)


@pytest.fixture(scope="module")
def workers(broker: EmbeddedKafka, java: Java, files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Workers:
    return Workers(broker.bootstrap_servers, files, java, tmp_path_factory.mktemp("standalone"))


def _heard(worker: WorkerProcess) -> Heard:
    with worker:
        return listen(worker.rest, worker.directory, CONVERSATION)


@pytest.fixture(scope="module")
def from_java(workers: Workers) -> Heard:
    return _heard(workers.make("java"))


@pytest.fixture(scope="module")
def from_ours(workers: Workers) -> Heard:
    return _heard(workers.make("ours"))


@pytest.mark.parametrize("name", [step.name for step in CONVERSATION if isinstance(step, Ask)])
def test_ours_answers_as_java_does(from_java: Heard, from_ours: Heard, name: str) -> None:
    assert name in from_java.answers, f"the oracle never came to {name!r}: {from_java.broke}"
    assert name in from_ours.answers, f"ours never came to {name!r}: {from_ours.broke}"
    theirs, ours = from_java.answers[name], from_ours.answers[name]
    if name in WANTED:
        assert (theirs.status, ours.status) == WANTED[name]
        return
    assert _unordered(comparable(ours)) == _unordered(comparable(theirs))


def _unordered(said: dict[str, Any]) -> dict[str, Any]:
    """Standalone, Java shows configurations and names in whatever order its maps have: only the content counts."""
    body = json.loads(said["body"]) if said["body"].startswith(("{", "[")) else said["body"]
    if isinstance(body, list) and all(isinstance(item, str) for item in body):
        body = sorted(body)
    return {**said, "body": body}


def await_position(worker: WorkerProcess, position: int) -> None:
    path = "/connectors/src/offsets"
    worker.rest.until(lambda: worker.rest.request("GET", path).json(), _position(position), 240.0, path)


def test_one_offset_file_moves_to_ours_and_back(workers: Workers, from_java: Heard, from_ours: Heard) -> None:
    """Each goes on where the other stopped; neither reads a line twice."""
    assert not from_java.broke
    assert not from_ours.broke
    for whose, before, position in (("ours", "java", 14), ("java", "ours", 19)):
        folder = workers.folders[whose]
        for name in ("in.txt", OFFSETS):
            shutil.copy(workers.folders[before] / name, folder / name)
        with (folder / "in.txt").open("a") as lines:
            lines.write("x" * (position - lines.tell() - 1) + "\n")
        with workers.make(whose) as worker:
            await_position(worker, position)
        offset = decode_byte_map((folder / OFFSETS).read_bytes())[b'["src",{"filename":"in.txt"}]']
        assert offset == b'{"position":%d}' % position
