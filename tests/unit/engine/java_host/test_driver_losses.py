"""The JVM of Java connectors is lost, or cannot be started for a while: its connectors come back, or fail at last."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.engine.java_host.driver_host import DriverHost, Limits
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.testing.memory_executor_clients import wait_until


class Jvm:
    """A JVM that answers every question with yes."""

    pid = 1

    def __init__(self, on_frame: Any, on_gone: Any) -> None:
        self._on_frame = on_frame
        self.die = on_gone

    def send(self, kind: ToJava, host: int, head: Any = None) -> None:
        if kind is ToJava.QUESTION:
            answer = Frame(FromJava.ANSWER, 0, {"id": head["id"], "answer": True}, memoryview(b""))
            threading.Thread(target=self._on_frame, args=(answer,), daemon=True).start()

    def close(self) -> None: ...


class Connector:
    """A running connector."""

    def __init__(self) -> None:
        self.starts = 0
        self.errors: list[ConnectError] = []

    def question(self) -> Mapping[str, Any]:
        return {}

    def started_again(self) -> None:
        self.starts += 1

    def failed(self, error: ConnectError) -> None:
        self.errors.append(error)


class Machine:
    """Where JVMs are started, as long as there is room."""

    def __init__(self, **limits: int) -> None:
        self.jvms: list[Jvm] = []
        self.short = 0  # starts that fail yet
        self.refused = 0
        self.host = DriverHost(self._start, Limits(losses=LossLimits(backoff_ms=1, backoff_max_ms=2, **limits)))  # type: ignore[arg-type]
        self.connectors = {name: Connector() for name in ("a", "b")}
        for name, connector in self.connectors.items():
            self.host.keep(name, connector)  # type: ignore[arg-type]
        self.host.ask("describe")

    def _start(self, on_frame: Any, on_gone: Any, place: str) -> Jvm:
        if self.short:
            self.short -= 1
            self.refused += 1
            raise JavaHostGoneError("the Java host cannot be started: Cannot allocate memory")
        self.jvms.append(Jvm(on_frame, on_gone))
        return self.jvms[-1]


def test_a_shortage_that_passes_fails_no_connector() -> None:
    machine = Machine()
    machine.short = 20
    machine.jvms[0].die("killed")
    wait_until(lambda: all(connector.starts == 1 for connector in machine.connectors.values()))
    assert machine.refused == 20
    assert not any(connector.errors for connector in machine.connectors.values())
    assert machine.host.trouble() == ""
    machine.host.close()


def test_losses_over_a_long_time_fail_the_connectors() -> None:
    machine = Machine(guilty_after_ms=0, guilty_losses=5)
    for number in range(4):
        machine.jvms[-1].die(f"killed {number}")
        wait_until(
            lambda number=number: all(connector.starts == number + 1 for connector in machine.connectors.values())
        )  # type: ignore[misc]
    machine.jvms[-1].die("killed for good")
    wait_until(lambda: all(connector.errors for connector in machine.connectors.values()))
    assert "killed for good" in str(machine.connectors["a"].errors[0])
    machine.host.close()


def test_a_connector_that_ended_the_jvm_fails_alone() -> None:
    machine = Machine()
    machine.jvms[0].die("exit code 1, thread connector-a called System.exit")
    wait_until(lambda: machine.connectors["b"].starts == 1 and bool(machine.connectors["a"].errors))
    assert machine.connectors["a"].starts == 0
    assert not machine.connectors["b"].errors
    machine.host.close()
