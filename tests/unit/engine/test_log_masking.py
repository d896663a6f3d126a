"""A task that quotes its password shows it neither in its trace nor in what its process writes to standard error."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

# A process of its own: what hides and what writes is global to one.
PROCESS = """
import threading
from spark_connect_rt.engine.process_plugins import plugins_in
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.control_wire import encode_launch
from spark_connect_rt.engine.executor.frames import RowKind
from spark_connect_rt.engine.executor.task_logs import mask_logs
from spark_connect_rt.engine.executor.reader_side import ReaderSide
from spark_connect_rt.engine.executor.writer_side import WriterSide
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients


class Quoting(SourceTask, SinkTask):
    def start(self, config):
        threading.Thread(target=self.refuse, args=(config,), name="plug-in").start()
        self.refuse(config)

    def refuse(self, config):
        raise ValueError(f"no way in as me:{config['door.key']}, {config['producer.override.ssl.key.password']}")

    def poll(self):
        return None

    def put(self, records):
        pass

    def stop(self):
        pass


mask_logs()
config = {"door.key": "plain-text", "producer.override.ssl.key.password": "the-other"}
string = "org.apache.kafka.connect.storage.StringConverter"
worker = {f"{part}.converter": string for part in ("key", "value", "header")}
launch = TaskLaunch(
    ConnectorTaskId("a", 0), 1, 1, TaskKind.KIND, "__main__:Quoting", config, {}, worker, secret_settings=("door.key",)
)
clients, told = MemoryExecutorClients(find_plugin=plugins_in(()).class_of), []
reader, writer = ReaderSide(clients, told.append, 0.05), WriterSide(clients, told.append)
reader.handle({"op": "start", "host": 1, "launch": encode_launch(launch)})
if launch.kind is TaskKind.SINK:
    reader.handle({"op": "stop", "host": 1, "within_ms": 1_000})
rows = []
for row in reader.rows():
    rows.append(row)
    if row.kind is RowKind.ENDED:
        reader.handle({"op": "end"})
writer.run(iter(rows))
print(*(one["trace"] for one in told if one["op"] == "failed"))
"""


@pytest.mark.parametrize("kind", ["SOURCE", "SINK"])
def test_no_secret_in_the_trace_nor_on_standard_error(kind: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS.replace("KIND", kind)], capture_output=True, text=True, timeout=60, check=False
    )
    wanted = "ValueError: no way in as me:[hidden], [hidden]"
    assert wanted in ended.stdout, ended.stderr
    assert ended.stderr.count(wanted) == 2, ended.stderr  # of the task, and of its own thread
    line = re.compile(r"^\d{4}-\d\d-\d\d \S+ ERROR plug-in spark_connect_rt\.\S+ thread plug-in ended", re.MULTILINE)
    assert line.search(ended.stderr), "when, how bad, which thread, which logger"
    assert "plain-text" not in ended.stdout + ended.stderr
    assert "the-other" not in ended.stdout + ended.stderr
