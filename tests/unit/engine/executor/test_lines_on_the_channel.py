"""Log lines on a real control channel: a driver that reads nothing is not waited for, and nothing is lost by it."""

from __future__ import annotations

import threading
import time

from spark_connect_rt.engine.driver.control_channel import ControlChannel, SlotConnection
from spark_connect_rt.engine.executor.control_client import ControlClient
from spark_connect_rt.engine.executor.control_wire import Message, encode_message
from spark_connect_rt.engine.executor.task_logs import MESSAGE_BYTES
from spark_connect_rt.testing.memory_executor_clients import wait_until
from tests.unit.engine.driver.test_control_channel import Owner, channel, owner, ticket

__all__ = ["channel", "owner"]  # fixtures


def test_a_driver_that_reads_nothing_is_not_waited_for(channel: ControlChannel, owner: Owner) -> None:
    reads = threading.Event()

    class Busy(Owner):
        def on_message(self, connection: SlotConnection, message: Message) -> None:
            reads.wait(1.0)
            super().on_message(connection, message)

    busy = Busy()
    channel.expect(1, busy)
    lost: list[str] = []
    client = ControlClient(ticket(channel), "writer", lost.append)
    turns: list[int] = []
    client.listen(lambda message: None, lambda: turns.append(1))
    data = encode_message({"op": "lines", "text": "x" * (MESSAGE_BYTES - 100)})
    longest_s, sent = 0.0, 0
    for _ in range(2_000):
        began_s = time.monotonic()
        taken = client.send_now(data)
        longest_s = max(longest_s, time.monotonic() - began_s)
        sent += taken
        if not taken:
            break
    assert not taken
    assert longest_s < 0.5
    reads.set()
    wait_until(lambda: len(busy.messages) == sent)
    wait_until(lambda: client.send_now(data))
    wait_until(lambda: len(turns) >= 2)
    assert lost == []
    client.close()
    assert client.send_now(data) is False
