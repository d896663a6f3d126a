"""Real JVMs of one slot process: shared, and lost with what they host."""

from __future__ import annotations

import os
import queue
import signal
from pathlib import Path

import psutil

from spark_connect_rt.engine.java_host.jvm_pool import HostedNumber, JvmPool
from spark_connect_rt.engine.java_host.process import MAIN_CLASS
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.task_runner import JavaCode

STRING = "org.apache.kafka.connect.storage.StringConverter"
LIMIT_S = 60


class Task:
    def __init__(self) -> None:
        self.frames: queue.Queue[Frame] = queue.Queue()
        self.gone: queue.Queue[str] = queue.Queue()
        self.on_frame = self.frames.put
        self.on_gone = self.gone.put

    def start(self, handle: HostedNumber, file: Path, name: str) -> None:
        connector = {"name": name, "connector.class": "FileStreamSource", "file": str(file), "topic": name}
        task = connector | {"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
        head = {"name": name, "number": 0, "sink": False, "connector": connector, "task": task}
        handle.send(ToJava.START, head)
        handle.send(ToJava.ROOM, 1)

    def topic_of_batch(self, handle: HostedNumber) -> str:
        while (frame := self.frames.get(timeout=LIMIT_S)).kind is not FromJava.BATCH:
            if frame.kind is FromJava.OFFSETS:
                handle.send(ToJava.OFFSETS, {"question": frame.head["question"], "offsets": [None]})
        return str(frame.head["sections"][0]["topic"])


def test_two_tasks_share_a_jvm_and_its_death_is_theirs_alone(file_plugin: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n", encoding="utf-8")
    worker = {"key.converter": STRING, "value.converter": STRING, "plugin.path": str(file_plugin.parent)}
    code = JavaCode((str(file_plugin),), heap="96m", options=("-XX:TieredStopAtLevel=1",))
    slot, tasks = JvmPool(), [Task(), Task(), Task()]
    codes = [code, code, JavaCode(code.plugins, "96m", code.options, alone=True)]
    handles = [slot.acquire(java_code, worker, str, task) for java_code, task in zip(codes, tasks, strict=True)]
    assert handles[0].pid == handles[1].pid != handles[2].pid
    for number, (task, handle) in enumerate(zip(tasks, handles, strict=True)):
        task.start(handle, file, f"t{number}")
    found = [task.topic_of_batch(handle) for task, handle in zip(tasks, handles, strict=True)]
    assert found == ["t0", "t1", "t2"]
    threads = [stack["thread"] for stack in handles[0].stacks("task-t1", LIMIT_S)]
    assert threads == ["task-t1-0"]
    os.kill(handles[0].pid, signal.SIGKILL)
    for task in tasks[:2]:
        assert "exit code -9, killed" in task.gone.get(timeout=LIMIT_S)
    assert handles[2].stacks("task-t2", LIMIT_S)
    again = slot.acquire(code, worker, str, Task())
    assert again.pid != handles[0].pid
    for handle in (again, handles[2]):
        handle.kill_jvm("the test is over")
    assert tasks[2].gone.empty()


def _jvms() -> set[psutil.Process]:
    return {child for child in psutil.Process().children() if MAIN_CLASS in child.cmdline()}


def test_a_jvm_is_warm_before_its_task_arrives_and_an_unused_one_ends(file_plugin: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\n", encoding="utf-8")
    worker = {"key.converter": STRING, "value.converter": STRING, "plugin.path": str(file_plugin.parent)}
    options = ("-XX:TieredStopAtLevel=1",)
    connector = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    code = JavaCode((str(file_plugin),), heap="96m", options=options, connector_class=connector)
    slot, task = JvmPool(warm_s=2.0), Task()
    before = _jvms()
    slot.warm_up(code, worker, str)
    (warm,) = _jvms() - before
    handle = slot.acquire(code, worker, str, task)
    assert handle.pid == warm.pid
    task.start(handle, file, "warm")
    assert task.topic_of_batch(handle) == "warm"
    handle.release()
    warm.wait(LIMIT_S)
    slot.warm_up(code, worker, str)
    (unused,) = _jvms() - before
    unused.wait(LIMIT_S)
    assert task.gone.empty()
