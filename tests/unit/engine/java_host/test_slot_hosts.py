"""Which JVM hosts what, and who is given its frames and its end."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from spark_connect_rt.engine.java_host.jvm_pool import (
    APART_MAX,
    LOSSES_PART,
    PARTED_S,
    HostedNumber,
    JvmPool,
    Listening,
)
from spark_connect_rt.engine.java_host.plugin_folders import with_plugins
from spark_connect_rt.engine.java_host.process import JavaHostGoneError, JavaProcess
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.errors import NotFoundError, ShuttingDownError
from spark_connect_rt.testing.memory_executor_clients import wait_until

CODE = JavaCode(())


class FakeJvm:
    def __init__(self, config: Mapping[str, str], listening: Listening) -> None:
        self.config = config
        self.listening = listening
        self.sent: list[tuple[ToJava, int, Any]] = []
        self.closed = threading.Event()
        self.pid = 1

    def send(self, kind: ToJava, host: int, head: Any = None, data: Sequence[Any] = ()) -> None:
        self.sent.append((kind, host, head))
        if kind is ToJava.STACKS:
            self.listening.on_frame(Frame(FromJava.STACKS, 0, [{"thread": head, "stack": []}], memoryview(b"")))

    def close(self) -> None:
        self.closed.set()

    def says(self, host: int, head: Any) -> None:
        self.listening.on_frame(Frame(FromJava.BATCH, host, head, memoryview(b"")))


class Task:
    def __init__(self, take: Callable[[Any], None] = lambda head: None) -> None:
        self.heads: list[Any] = []
        self.gone: list[str] = []
        self._take = take

    def on_frame(self, frame: Frame) -> None:
        self._take(frame.head)
        self.heads.append(frame.head)

    def on_gone(self, reason: str) -> None:
        self.gone.append(reason)


class Machine:
    """JvmPool whose JVMs are recorded."""

    def __init__(self, warm_s: float = 60.0) -> None:
        self.jvms: list[FakeJvm] = []
        self.slot = JvmPool(self._start, warm_s)

    def _start(self, code: JavaCode, config: Mapping[str, str], listening: Listening) -> JavaProcess:
        self.jvms.append(FakeJvm(config, listening))
        return cast(JavaProcess, self.jvms[-1])

    def host(self, task: Task, code: JavaCode = CODE, **config: str) -> HostedNumber:
        return self.slot.acquire(code, config, lambda path: path, task)


def test_equal_code_shares_a_jvm_and_each_task_gets_its_own_frames() -> None:
    machine, task, two = Machine(), Task(), Task()
    first, second = machine.host(task), machine.host(two)
    assert len(machine.jvms) == 1
    assert first.number != second.number
    machine.jvms[0].says(first.number, "a")
    machine.jvms[0].says(second.number, "b")
    machine.jvms[0].says(99, "nobody's")
    assert (task.heads, two.heads) == (["a"], ["b"])
    second.send(ToJava.STOP)
    assert machine.jvms[0].sent == [(ToJava.STOP, second.number, None)]


def test_other_code_other_worker_settings_and_alone_get_separate_jvms() -> None:
    machine = Machine()
    machine.host(Task())
    machine.host(Task(), JavaCode((), heap="1g"))
    machine.host(Task(), CODE, **{"value.converter": "x"})
    for _ in range(2):
        machine.host(Task(), JavaCode((), alone=True))
    assert len(machine.jvms) == 5


def test_the_end_of_a_jvm_loses_its_tasks_and_the_next_task_gets_another() -> None:
    machine, task, two, neighbour = Machine(), Task(), Task(), Task()
    machine.host(task)
    gone = machine.host(two)
    machine.host(neighbour, JavaCode((), heap="1g"))
    machine.jvms[0].listening.on_gone("exit code 3")
    assert (task.gone, two.gone, neighbour.gone) == (["exit code 3"], ["exit code 3"], [])
    gone.release()
    machine.host(Task())
    assert len(machine.jvms) == 3


def test_a_shared_jvm_that_ends_again_is_not_shared_until_none_has_ended_for_a_while() -> None:
    """Who ends it cannot be known: alone it fails alone."""
    machine = Machine()
    now_s = [0.0]
    machine.slot.now_s = lambda: now_s[0]
    for _ in range(LOSSES_PART):
        machine.host(Task())
        machine.host(Task())
        machine.jvms[-1].listening.on_gone("exit code 3")
    assert len(machine.jvms) == LOSSES_PART
    bad, good = Task(), Task()
    machine.host(bad)
    machine.host(good)
    machine.jvms[LOSSES_PART].listening.on_gone("exit code 3")
    assert (bad.gone, good.gone) == (["exit code 3"], [])
    for _ in range(APART_MAX + 2):
        machine.host(Task())
    assert len(machine.jvms) == LOSSES_PART + 1 + APART_MAX  # more join these
    now_s[0] += PARTED_S
    machine.host(Task())
    machine.host(Task())
    assert len(machine.jvms) == LOSSES_PART + 2 + APART_MAX


def test_end_of_a_killed_jvm_is_reported_to_its_other_tasks_only() -> None:
    machine, hangs, other = Machine(), Task(), Task()
    handle = machine.host(hangs)
    machine.host(other)
    handle.kill_jvm("its neighbour hangs")
    assert (hangs.gone, other.gone) == ([], ["its neighbour hangs"])
    assert machine.jvms[0].closed.is_set()


def test_a_jvm_stays_warm_for_a_while_and_ends_then() -> None:
    machine = Machine(warm_s=0.3)
    machine.host(Task()).release()
    again = machine.host(Task())
    time.sleep(0.4)
    assert len(machine.jvms) == 1
    assert not machine.jvms[0].closed.is_set()
    again.release()
    again.release()
    assert machine.jvms[0].closed.wait(5)
    machine.host(Task())
    assert len(machine.jvms) == 2


def test_a_task_that_cannot_take_a_frame_is_lost_and_its_neighbour_is_not() -> None:
    def refuse(head: Any) -> None:
        raise ValueError(head)

    machine, bad, good = Machine(), Task(refuse), Task()
    first, second = machine.host(bad), machine.host(good)
    for number in (first.number, second.number):
        machine.jvms[0].says(number, "x")
    assert "ValueError('x')" in bad.gone[0]
    assert (good.heads, good.gone) == (["x"], [])


def test_threads_are_asked_for_by_the_beginning_of_their_names() -> None:
    assert Machine().host(Task()).stacks("task-c-0", 5) == [{"thread": "task-c-0", "stack": []}]


def test_jvm_that_does_not_start_fails_its_waiter_and_the_next_task_retries() -> None:
    starts = iter([JavaHostGoneError("no such option")])

    def start(code: JavaCode, config: Mapping[str, str], listening: Listening) -> JavaProcess:
        for error in starts:
            raise error
        return cast(JavaProcess, FakeJvm(config, listening))

    slot = JvmPool(start)
    with pytest.raises(JavaHostGoneError, match="no such option"):
        slot.acquire(CODE, {}, str, Task())
    slot.acquire(CODE, {}, str, Task())


def test_stopping_task_does_not_wait_for_a_start() -> None:
    going = threading.Event()

    def start(code: JavaCode, config: Mapping[str, str], listening: Listening) -> JavaProcess:
        going.wait(30)
        return cast(JavaProcess, FakeJvm(config, listening))

    with pytest.raises(ShuttingDownError):
        JvmPool(start).acquire(CODE, {}, str, Task(), wanted=lambda: False)
    going.set()


def test_a_jvm_sees_its_own_plugins_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECTRT_CACHE", str(tmp_path / "cache"))
    for name in ("mine", "neighbour", "old"):
        (tmp_path / "plugins" / name).mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "plugins/mine/a.jar", "w") as jar:
        jar.writestr("META-INF/services/org.apache.kafka.connect.source.SourceConnector", "a.B")
    worker = {"plugin.path": str(tmp_path / "plugins"), "plugin.discovery": "hybrid_fail", "a": "b"}
    settings = with_plugins(worker, [str(tmp_path / "plugins/mine")])
    links = list(Path(settings["plugin.path"]).iterdir())
    assert [link.resolve() for link in links] == [tmp_path / "plugins/mine"]
    assert settings["plugin.discovery"] == "service_load"
    assert with_plugins(worker, [str(tmp_path / "plugins/old")])["plugin.discovery"] == "hybrid_fail"
    mine, hybrid = str(tmp_path / "plugins/mine"), worker | {"plugin.discovery": "hybrid_warn"}
    assert with_plugins(hybrid, [mine], "a.B")["plugin.discovery"] == "service_load"
    assert with_plugins(hybrid, [mine], "a.Unlisted")["plugin.discovery"] == "hybrid_warn"
    assert with_plugins(worker, []) == {"plugin.discovery": "service_load", "a": "b"}
    with pytest.raises(NotFoundError, match="not on this executor"):
        with_plugins(worker, [str(tmp_path / "gone")])


NAMED = JavaCode((), connector_class="a.B")


def test_warm_jvm_loads_the_classes_of_its_task_and_hosts_it() -> None:
    machine, task = Machine(), Task()
    machine.slot.warm_up(NAMED, {"a": "b"}, str)
    (jvm,) = machine.jvms
    question = {"op": "describe", "id": 0, "config": {"connector.class": "a.B"}}
    assert jvm.sent == [(ToJava.QUESTION, 0, question)]
    jvm.listening.on_frame(Frame(FromJava.ANSWER, 0, {"id": 0, "ok": {}}, memoryview(b"")))  # nobody's
    handle = machine.host(task, NAMED, a="b")
    machine.slot.warm_up(NAMED, {"a": "b"}, str)
    jvm.says(handle.number, "x")
    assert (len(machine.jvms), len(jvm.sent), task.heads) == (1, 1, ["x"])


def test_a_warm_jvm_that_no_task_comes_to_ends_by_itself() -> None:
    machine = Machine(warm_s=0.1)
    machine.slot.warm_up(NAMED, {}, str)
    assert machine.jvms[0].closed.wait(5)
    machine.host(Task(), NAMED)
    assert len(machine.jvms) == 2


def test_one_jvm_at_most_waits_for_a_first_task_and_none_for_a_task_that_has_its_own() -> None:
    machine = Machine()
    machine.slot.warm_up(JavaCode((), alone=True), {}, str)
    assert machine.jvms == []
    machine.slot.warm_up(NAMED, {}, str)
    machine.slot.warm_up(JavaCode((), heap="1g"), {}, str)
    assert len(machine.jvms) == 1
    machine.host(Task(), NAMED)
    machine.slot.warm_up(JavaCode((), heap="1g"), {}, str)
    assert len(machine.jvms) == 2


def test_end_of_an_empty_jvm_is_not_a_loss_and_the_next_task_gets_another() -> None:
    machine = Machine()
    for _ in range(LOSSES_PART):
        machine.slot.warm_up(NAMED, {}, str)
        machine.jvms[-1].listening.on_gone("exit code 3")
    task = Task()
    machine.host(task, NAMED)
    machine.host(Task(), NAMED)
    assert (len(machine.jvms), task.gone) == (LOSSES_PART + 1, [])


def test_a_jvm_that_starts_after_its_tasks_ended_ends() -> None:
    going, jvms = threading.Event(), list[FakeJvm]()

    def start(code: JavaCode, config: Mapping[str, str], listening: Listening) -> JavaProcess:
        going.wait(30)
        jvms.append(FakeJvm(config, listening))
        return cast(JavaProcess, jvms[-1])

    slot = JvmPool(start, warm_s=0.0)
    with pytest.raises(ShuttingDownError):
        slot.acquire(CODE, {}, str, Task(), wanted=lambda: False)
    wait_until(lambda: all(jvm.gone for jvm in slot._shared.values()))
    going.set()
    wait_until(lambda: bool(jvms) and jvms[0].closed.is_set())
