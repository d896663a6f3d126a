"""Waits for a table sink in the harness."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.testing.sink_harness import SinkHarness


def settle(sink: SinkHarness) -> None:
    """Deliver everything, and put nothing until the commit interval of 1 ms is over and no row waits."""
    task: Any = sink.task
    for _ in range(10_000):
        assert sink.deliver()
        if not any(table.writer.waiting_rows for table in task._tables.values()):
            return
    raise AssertionError("rows wait for their commit")
