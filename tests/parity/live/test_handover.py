"""Java's worker and ours take over from each other on the same topics: nothing is lost, nothing read twice."""

from __future__ import annotations

import contextlib
from pathlib import Path

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.java_stories import ON_JAVA, java_plugin_path
from tests.parity.conversation import AwaitBody, AwaitStates, AwaitText, converse
from tests.parity.topic_dump import dump
from tests.parity.worker_settings import SETTINGS
from tests.support.java_connect import JavaConnect
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

GROUP = "handover"


class Relay:
    """One file source and one file sink, run by one worker after the other.

    ``plugins``: a plugin.path whose Java connectors ours runs; None: it runs its own, in Python.
    """

    def __init__(self, folder: Path, broker: EmbeddedKafka, java: Java, name: str, plugins: Path | None = None) -> None:
        self._plugins = plugins
        self._folder, self._broker, self._java = folder, broker, java
        self._group, self._topic = f"{GROUP}-{name}", f"{GROUP}-{name}-lines"
        self.source, self.sink = f"{name}-src", f"{name}-snk"
        self._file, self._copy = folder / "in.txt", folder / "out.txt"
        self._position = 0

    def run(self, kind: str, lines: list[str], first: bool = False) -> None:
        """Start a worker, append the lines, see them at the far end, stop the worker in order."""
        with self._worker(kind, kind) as worker:
            if first:
                self._create(worker)
            self._flow(worker, lines)

    def pass_on(self, kinds: tuple[str, ...]) -> list[str]:
        """Start each worker beside the one before, which then stops; return the lines that went through meanwhile."""
        sent: list[str] = []
        with contextlib.ExitStack() as stack:
            workers: list[WorkerProcess] = []
            for turn, kind in enumerate(kinds):
                workers.append(stack.enter_context(self._worker(kind, f"{kind}-{turn}")))
                if turn == 0:
                    self._create(workers[0])
                for moment in ("alone",) if turn == 0 else ("beside", "alone"):
                    if moment == "alone" and turn:
                        workers[-2].stop()
                    lines = [f"turn {turn} {moment} line {number}" for number in range(3)]
                    self._flow(workers[-1], lines)
                    sent += lines
        return sent

    def _flow(self, worker: WorkerProcess, lines: list[str]) -> None:
        steps = [AwaitStates(name, "RUNNING", ("RUNNING",)) for name in (self.source, self.sink)]
        converse(worker.rest, self._folder, steps)
        self._append(lines)
        offset = {"partition": {"filename": str(self._file)}, "offset": {"position": self._position}}
        expected = AwaitBody(f"/connectors/{self.source}/offsets", {"offsets": [offset]})
        converse(worker.rest, self._folder, [AwaitText("out.txt", self._text()), expected])

    def values(self) -> list[str | None]:
        """Return every value in the topic, in order."""
        return [record["value"] for record in dump(self._broker.bootstrap_servers, self._topic)]

    def copied(self) -> list[str]:
        """Return the lines that the sink wrote."""
        return self._copy.read_text().splitlines()

    def _worker(self, kind: str, name: str) -> WorkerProcess:
        place = self._folder / name, self._broker.bootstrap_servers, self._group
        settings = {**SETTINGS, "scheduled.rebalance.max.delay.ms": "1000"}  # what leaves does not come again
        if kind == "java":
            return JavaConnect(*place, properties=settings, java=self._java)
        more = {"plugin.path": str(self._plugins)} if self._plugins else {}
        return SparkWorkerProcess(*place, properties={**settings, **more})

    def _create(self, worker: WorkerProcess) -> None:
        source = {"connector.class": "FileStreamSource", "file": str(self._file), "topic": self._topic}
        sink = {"connector.class": "FileStreamSink", "file": str(self._copy), "topics": self._topic}
        more = ON_JAVA if self._plugins else {}
        worker.rest.create(self.source, source | more)
        worker.rest.create(self.sink, sink | more)

    def _append(self, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        with self._file.open("a", encoding="utf-8") as handle:
            handle.write(text)
        self._position += len(text.encode())

    def _text(self) -> str:
        return self._file.read_text(encoding="utf-8")


def test_java_connectors_pass_through_a_mixed_group(tmp_path: Path, broker: EmbeddedKafka, java: Java) -> None:
    """The same Java connectors run on workers of both kinds, whose tasks the config topic names alike."""
    relay = Relay(tmp_path, broker, java, "mixed", java_plugin_path(tmp_path / "plugins"))
    expected = relay.pass_on(("ours", "java", "ours"))
    assert relay.values() == expected
    assert relay.copied() == expected


def test_each_resumes_at_the_others_offsets(tmp_path: Path, broker: EmbeddedKafka, java: Java) -> None:
    order = ("java", "ours", "java")
    relay = Relay(tmp_path, broker, java, "-".join(order))
    expected: list[str] = []
    for turn, kind in enumerate(order):
        lines = [f"turn {turn} line {number}" for number in range(3)]
        expected += lines
        relay.run(kind, lines, first=turn == 0)
        assert relay.values() == expected
    assert relay.copied() == expected
